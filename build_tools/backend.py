"""setuptools as pip and others call it, except that a machine without a C compiler gets one for the build."""

import shutil
import sys
from pathlib import Path
from typing import Any

import c_compiler
from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  (every hook that is not below)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return what setuptools wants, and ziglang where there is no C compiler."""
    return build_meta.get_requires_for_build_wheel(config_settings) + _compiler()


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return what setuptools wants, and ziglang where there is no C compiler."""
    return build_meta.get_requires_for_build_editable(config_settings) + _compiler()


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """Build the wheel from what the checkout holds now: setuptools would also pack what older builds left."""
    for folder in Path("build").glob("lib*"):
        shutil.rmtree(folder)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def _compiler() -> list[str]:
    if not c_compiler.needs_ziglang():
        return []
    names = ", ".join(c_compiler.NAMES)
    print(f"No C compiler (CC, {names}): the build takes the one in the package ziglang.", file=sys.stderr)
    return ["ziglang"]
