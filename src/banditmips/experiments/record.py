"""``run.json``: what a run's rows were made with, and where."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from banditmips._padding import memory_bytes
from banditmips._result_files import replacing
from banditmips._version import __version__
from banditmips.experiments.entries import DATASETS
from banditmips.experiments.origins import origin_of
from banditmips.experiments.plan import SIZES_BY_FIGURE
from banditmips.experiments.rows import FIGURES, ROWS_FILE, RUN_FILE, read_rows
from banditmips.experiments.runner import Failure

__all__ = ["RunRecord"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "faiss-cpu")


class RunRecord:
    """The record of all runs whose rows are in one folder; written when a run begins and when it ends.

    Parameters
    ----------
    out
        The folder.
    figures
        Which figures this run makes.
    quick
        Whether it makes them in little.
    jobs
        Processes.

    Raises
    ------
    ValueError
        If the folder holds rows of the other kind, quick or full: a report of both would mean nothing.
    """

    def __init__(self, out: Path, figures: Sequence[str], *, quick: bool, jobs: int) -> None:
        self._path = out / RUN_FILE
        self._rows_path = out / ROWS_FILE
        before = self._read()
        self._n_rows_before = len(read_rows(self._rows_path))
        if before and before["quick"] != quick and self._n_rows_before:
            kinds = ("a full", "a quick") if quick else ("a quick", "a full")
            raise ValueError(f"{out} holds the rows of {kinds[0]} run; give {kinds[1]} one another folder with --out")
        known = before.get("figures", []) if before.get("quick") == quick else []
        effort = "quick" if quick else "full"
        self._this_run: dict[str, Any] = {
            "version": __version__,
            "started": _now(),
            "finished": None,
            "figures": list(figures),
            "jobs": jobs,
            "load_average": _load_average(),
        }
        everything = [figure for figure in FIGURES if figure in {*known, *figures}]
        self._record: dict[str, Any] = {
            "quick": quick,
            "figures": everything,
            "seeds": "the number of the trial, from 0",
            "settings": {
                "paper": "hoeffding bound, sigma as below, uniform coordinates (BanditMIPS-alpha: sorted)",
                "variance": "the same, with the square root of that sigma",
                "ours": "the defaults of banditmips without an index, nothing tuned for a dataset",
                "fitted": "the defaults of banditmips after fit, nothing tuned for a dataset",
                "sigma": {name: dataset.sigma for name, dataset in DATASETS.items()},
                "sizes": {figure: asdict(SIZES_BY_FIGURE[figure][effort]) for figure in everything},
            },
            "origins": {name: origin for name in DATASETS if (origin := origin_of(name)) is not None},
            "machine": _machine(),
            "versions": {"banditmips": __version__, "python": platform.python_version(), **_versions()},
            "runs": [*before.get("runs", []), self._this_run] if before.get("quick") == quick else [self._this_run],
        }
        self._write()

    def finish(self, seconds: float, failures: Sequence[Failure], *, interrupted: bool = False) -> None:
        """Write down how the run ended."""
        self._this_run |= {
            "interrupted" if interrupted else "finished": _now(),
            "rows_written": len(read_rows(self._rows_path)) - self._n_rows_before,
            "seconds": round(seconds, 1),
            "cpu_seconds": round(sum(os.times()[:4]), 1),  # of this process and of those that it has waited for
            "failures": [failure._asdict() for failure in failures],
        }
        self._write()

    def _read(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ValueError(f"{self._path} is not the record of a run: {error}") from error
        return record

    def _write(self) -> None:
        with replacing(self._path) as file:
            file.write(json.dumps(self._record, indent=2).encode() + b"\n")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _machine() -> dict[str, Any]:
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def _load_average() -> list[float] | None:
    """Return the load, or None where the system does not say."""
    try:
        return [round(load, 2) for load in os.getloadavg()]
    except (AttributeError, OSError):
        return None


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
