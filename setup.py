"""What pyproject.toml cannot say: the compiled modules of banditmips.core, one for each .pyx file there."""

import sys
from pathlib import Path

from setuptools import Extension, setup

sys.path.insert(0, str(Path(__file__).parent / "build_tools"))  # a build in isolation does not look beside setup.py

from build_core import BuildCore

CORE = Path("src/banditmips/core")

setup(
    # The sources are named from the root of the checkout, as setuptools wants them.
    ext_modules=[Extension(f"banditmips.core.{file.stem}", [file.as_posix()]) for file in sorted(CORE.glob("*.pyx"))],
    cmdclass={"build_ext": BuildCore},
)
