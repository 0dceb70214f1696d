"""Which C compiler builds the core: the machine's own, or the one that the package ziglang brings."""

import importlib.util
import os
import shlex
import shutil
import sys
import sysconfig

NAMES = ("cc", "gcc", "clang")


def own() -> str | None:
    """What CC should be for a compiler that this machine has, or None where it has none."""
    # CC decides where it is set; next comes the compiler that built Python, as setuptools would take it.
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), *NAMES):
        if command and shutil.which(shlex.split(command)[0]):
            return str(command)
    return None


def needs_ziglang() -> bool:
    """Whether the build has to bring its own compiler. On Windows setuptools looks for Microsoft's by itself."""
    return sys.platform != "win32" and own() is None


def choose() -> None:
    """Set CC (and the command that links) for setuptools.

    Raises
    ------
    RuntimeError
        Where there is neither a compiler nor ziglang.
    """
    if sys.platform == "win32":
        return
    command = own()
    if command is None:
        if importlib.util.find_spec("ziglang") is None:
            raise RuntimeError(
                f"banditmips.core needs a C compiler: CC is not set to one, and PATH has none of {', '.join(NAMES)}. "
                f"Install one, or the package ziglang, which brings one."
            )
        # Left to itself it compiles for the very processor it runs on, and the wheel would run on no older one.
        command = shlex.join([sys.executable, "-m", "ziglang", "cc", "-mcpu=baseline"])
        if sys.platform == "linux":
            # Python's own command may have options of GNU's linker that this one does not know.
            os.environ["LDSHARED"] = f"{command} -shared"
    print(f"banditmips.core is compiled by: {command}", file=sys.stderr)
    os.environ["CC"] = command
