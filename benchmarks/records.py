"""What was measured of one way of answering on one workload."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.measure import Summary, summarise

__all__ = ["Record", "best_flat", "merge"]


@dataclass
class Record:
    """Raw times, answers and costs of one way of answering.

    Attributes
    ----------
    kind
        ``ours``, ``flat`` (every product, exactly), ``graph`` (an approximate index) or ``authors``.
    times
        Microseconds, a list of repeats for each request.
    right
        Whether each distinct query was answered rightly in every repeat.
    build_seconds
        Each build that was timed; empty where nothing is built.
    extra_bytes
        Memory beside the atoms: what an index says of itself, or else what the process grew by during the build.
    setting
        What was chosen for this peer, in words.
    """

    section: str
    shape: tuple[int, int]
    name: str
    kind: str
    times: list[list[float]]
    right: list[bool]
    build_seconds: list[float] = field(default_factory=list)
    extra_bytes: int | None = None
    setting: str = ""

    @property
    def summary(self) -> Summary:
        """Percentiles of all times."""
        return summarise(self.times)

    @property
    def recall(self) -> float:
        """Part of the distinct queries that were answered rightly."""
        return float(np.mean(self.right))

    @property
    def build_median(self) -> float | None:
        """Seconds of a build, or None where nothing is built."""
        return float(np.median(self.build_seconds)) if self.build_seconds else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, the percentiles beside the raw times."""
        row = asdict(self)
        row["shape"] = list(self.shape)
        row["times"] = [[round(value, 3) for value in repeats] for repeats in self.times]
        row["right"] = [bool(value) for value in self.right]
        summary = {f"{name}_us" if name != "n_times" else name: value for name, value in asdict(self.summary).items()}
        return {"record": "times", **row, **summary, "recall": self.recall}


def best_flat(records: Iterable[Record]) -> Record:
    """Return the reference: the faster of those that compute every product."""
    return min((record for record in records if record.kind == "flat"), key=lambda record: record.summary.median)


def merge(parts: Sequence[Record]) -> Record:
    """Join the records of one way of answering on several datasets of a kind."""
    first = parts[0]
    known = [part.extra_bytes for part in parts if part.extra_bytes is not None]
    return Record(
        first.section,
        first.shape,
        first.name,
        first.kind,
        times=[repeats for part in parts for repeats in part.times],
        right=[value for part in parts for value in part.right],
        build_seconds=[seconds for part in parts for seconds in part.build_seconds],
        extra_bytes=max(known) if known else None,
        setting=first.setting,
    )
