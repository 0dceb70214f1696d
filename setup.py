"""What pyproject.toml cannot say: the compiled modules, one for each .pyx file; most of them are banditmips.core."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "build_tools"))  # a build in isolation does not look beside setup.py

from build_core import BuildCore

SOURCES = sorted(Path("src/banditmips").rglob("*.pyx"))

setup(
    # The sources are named from the root of the checkout, as setuptools wants them.
    ext_modules=[Extension(".".join(file.with_suffix("").parts[1:]), [file.as_posix()]) for file in SOURCES],
    cmdclass={"build_ext": BuildCore},
)
