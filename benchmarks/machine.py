"""What a time depends on beside the code: the machine, its load, the versions and the threads."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from banditmips import __version__

__all__ = ["QUIET_LOAD", "describe_machine", "load_warning", "resident_bytes"]

QUIET_LOAD = 0.5
"""Above this load average others share the cores and the memory bus, and the times say little."""
_PACKAGES = ("banditmips", "numpy", "scipy", "faiss-cpu", "hnswlib", "usearch", "scann")
_ROOT = Path(__file__).parents[1]


def describe_machine(threads: int) -> dict[str, Any]:
    """Return the facts that are written beside every record. Call it before the work begins: it reads the load."""
    from banditmips.race.costs import costs

    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "versions": {name: found for name in _PACKAGES if (found := _version(name)) is not None},
        "blas": _blas_name(),
        "threads": threads,
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "planner_costs": asdict(costs()),
    }


def load_warning(facts: Mapping[str, Any]) -> str | None:
    """Return a warning if the machine was not quiet before the run, or None."""
    load = facts["load_average"][0]
    if load <= QUIET_LOAD:
        return None
    return (
        f"WARNING: the load average was {load} before the start (quiet is at most {QUIET_LOAD}): something else was "
        "running, and the times below cannot be trusted"
    )


def resident_bytes() -> int | None:
    """Return the memory that this process holds, or None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _commit() -> str:
    """The commit, with a plus sign if files differ from it."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*arguments: str) -> str:
    found = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or "unknown"


def _version(package: str) -> str | None:
    if package == "banditmips":
        return __version__  # what is installed may be older than the checkout that is measured
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _blas_name() -> str:
    import numpy as np

    config: Any = np.show_config(mode="dicts")
    blas = config["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas['version']}"
