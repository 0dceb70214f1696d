"""A wheel, built from the source distribution, in an environment that has no compiler and may not be written to."""

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE")
GENERATED = shutil.ignore_patterns("*.so", "*.pyd", "*.egg-info", "__pycache__")
DATA = {"py.typed", "experiments/published.csv", "experiments/report/page.css", "experiments/report/page.js"}

SEARCH_ONCE = Path(__file__).parent / "search_once.py"
# Without the checkout, which a PYTHONPATH may name: pip would find the package there and install nothing.
VARIABLES = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] = VARIABLES) -> str:
    """Run a command, and show all it said if it fails."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def build_sdist(folder: Path) -> Path:
    """Make the source distribution of a copy of the checkout, without what was ever generated in it."""
    copy = folder / "checkout"
    for name in ("src", "build_tools"):
        shutil.copytree(ROOT / name, copy / name, ignore=GENERATED)
    for name in SOURCES:
        shutil.copy(ROOT / name, copy / name)
    run(sys.executable, "setup.py", "-q", "sdist", "--dist-dir", folder, cwd=copy)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def build_wheel(sdist: Path, folder: Path) -> Path:
    """Build the wheel with the tools of this environment: nothing is downloaded."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    run(*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", folder, sdist)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Install the wheel in a new environment beside this one's NumPy and SciPy; return its Python."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python)
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    (site,) = folder.glob("**/site-packages")
    # Packages of this environment come after the new one's; its editable installations do not come at all.
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return python


def make_read_only(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))


def make_writable(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink() and path.is_dir():
            path.chmod(path.stat().st_mode | stat.S_IWUSR)


@pytest.mark.skipif(not (ROOT / "build_tools").is_dir(), reason="needs the checkout's build_tools")
@pytest.mark.skipif(
    sys.platform != "win32" and not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler"
)
def test_a_wheel_searches_without_a_compiler_in_read_only_folders(tmp_path):
    sdist = build_sdist(tmp_path)
    with tarfile.open(sdist) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    package = ROOT / "src/banditmips"
    compiled = [path.relative_to(package).with_suffix("").as_posix() for path in package.rglob("*.pyx")]
    by_hand = [*package.rglob("*.p[xy][xdi]"), *package.glob("core/c/*.[ch]")]
    assert {path.relative_to(ROOT).as_posix() for path in by_hand} <= packed

    wheel = build_wheel(sdist, tmp_path)
    installed = {name.removeprefix("banditmips/") for name in zipfile.ZipFile(wheel).namelist()}
    modules = {f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}" for name in compiled}
    stubs = {f"{name}.pyi" for name in compiled}
    assert modules | stubs | DATA <= installed
    assert not [name for name in installed if name.endswith((".pyx", ".c", ".h"))]

    home = tmp_path / "home"
    home.mkdir()
    environment = tmp_path / "environment"
    python = install(wheel, environment)
    before = {path: path.stat().st_mtime_ns for path in environment.rglob("*")}
    folders = (environment, home)
    try:
        for folder in folders:
            make_read_only(folder)
        # Costs that are given are not measured, nor written to the user's cache folder (which root could write to).
        variables = {"PATH": str(home), "HOME": str(home), "OPENBLAS_NUM_THREADS": "1", "BANDITMIPS_COSTS": "{}"}
        if sys.platform == "win32":
            variables["SYSTEMROOT"] = os.environ["SYSTEMROOT"]
        assert run(python, "-W", "error", SEARCH_ONCE, cwd=home, env=variables) == "found\n"
    finally:
        for folder in folders:
            make_writable(folder)
    # Where everything may be written (by root), nothing has been.
    assert {path: path.stat().st_mtime_ns for path in environment.rglob("*")} == before
    assert list(home.iterdir()) == []
