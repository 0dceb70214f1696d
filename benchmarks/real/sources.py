"""Where the raw material comes from: Debian packages, unpacked into the cache and not installed."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import ModuleType

__all__ = ["SourceMissingError", "cache_folder", "debian_package", "require"]


class SourceMissingError(RuntimeError):
    """What a set is built from cannot be had on this machine."""


def cache_folder() -> Path:
    """Return where sets and packages are kept: BANDITMIPS_BENCH_CACHE, or a folder in the user's cache."""
    named = os.environ.get("BANDITMIPS_BENCH_CACHE")
    folder = Path(named) if named else Path.home() / ".cache" / "banditmips" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def require(module: str) -> ModuleType:
    """Import a module of the ``real`` extra."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SourceMissingError(f"{module} is not installed: pip install 'banditmips[real]'") from error


def debian_package(name: str) -> Path:
    """Return the folder that holds a Debian package's files, which is fetched and unpacked the first time.

    On machines without apt, unpack the package's data into ``debian/<name>`` of the cache folder by hand.
    """
    target = cache_folder() / "debian" / name
    if target.is_dir():
        return target
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise SourceMissingError(f"apt-get and dpkg-deb are needed for Debian's {name}, or its files in {target}")
    target.parent.mkdir(exist_ok=True)
    # Unpacked beside the target and moved there, so that a broken download is never taken for the package.
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        fetched = subprocess.run(["apt-get", "download", name], cwd=folder, capture_output=True, text=True)
        files = list(Path(folder).glob("*.deb"))
        if fetched.returncode or not files:
            raise SourceMissingError(f"apt-get download {name} failed: {fetched.stderr.strip()}")
        unpacked = Path(folder) / "files"
        subprocess.run(["dpkg-deb", "-x", files[0], unpacked], check=True)
        unpacked.rename(target)
    return target
