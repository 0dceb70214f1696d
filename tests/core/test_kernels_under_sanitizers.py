"""The kernels stay inside their arrays and the C language, and run where they are told to."""

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import pytest

CALL_EVERYTHING = Path(__file__).with_name("call_every_kernel.c")
SANITIZERS = ["-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]


@pytest.fixture(scope="session")
def sanitized_program(compile_kernels):
    return compile_kernels("call_every_kernel", *SANITIZERS, str(CALL_EVERYTHING))


@pytest.mark.parametrize("target", ["portable", "avx2", "avx512"])
def test_no_kernel_leaves_its_arrays(sanitized_program, library_path, target):
    if chosen(library_path, target) != target:
        pytest.skip(f"this machine has no {target}")
    done = subprocess.run([sanitized_program, target], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{target}: every kernel called\n"


def chosen(library_path, limit=None):
    """The kernels that a new process chooses."""
    code = (
        "import ctypes, sys; library = ctypes.CDLL(sys.argv[1]); library.bm_kernels.restype = ctypes.c_void_p; "
        "print(ctypes.c_char_p.from_address(library.bm_kernels()).value.decode())"
    )
    environment = {key: value for key, value in os.environ.items() if key != "BANDITMIPS_CPU"}
    if limit is not None:
        environment["BANDITMIPS_CPU"] = limit
    command = [sys.executable, "-c", code, str(library_path)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def test_the_environment_lowers_the_choice_and_never_raises_it(library_path):
    library = ctypes.CDLL(str(library_path))
    library.bm_kernels_named.restype = ctypes.c_void_p
    here = [name for name in ("portable", "avx2", "avx512") if library.bm_kernels_named(name.encode())]
    assert here[0] == "portable"
    assert chosen(library_path) == here[-1]
    assert chosen(library_path, "portable") == "portable"
    assert chosen(library_path, "avx2") == ("avx2" if "avx2" in here else "portable")
    assert chosen(library_path, "avx512") == here[-1]
    assert chosen(library_path, "no such processor") == here[-1]
    assert library.bm_kernels_named(b"no such processor") is None
