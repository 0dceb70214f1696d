"""What was measured of one way of answering one kind of request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from benchmarks.measure import Summary, summarise

__all__ = ["Record", "State", "best_flat", "merge"]

State = Literal["warm", "cold"]


@dataclass
class Record:
    """Raw times, answers and costs of one way of answering.

    Attributes
    ----------
    asked
        What a request was: its k, and its size where it is a batch.
    kind
        ``ours``, ``flat`` (every product, exactly), ``approximate`` or ``authors``.
    warm, cold
        Microseconds, a list of repeats for each request.
    shares
        Part of the k best atoms that each distinct query found, in the worst of its repeats.
    build_seconds
        Each build that was timed; empty where nothing is built.
    sum_seconds
        One ``sum`` over the atoms, with which a fit is compared.
    extra_bytes, atom_bytes
        Memory beside the atoms (what an index says of itself, or else what the process grew by), and that of the atoms.
    setting
        What was chosen for this peer, in words.
    """

    section: str
    shape: tuple[int, int]
    asked: str
    name: str
    kind: str
    warm: list[list[float]]
    cold: list[list[float]]
    shares: list[float]
    build_seconds: list[float] = field(default_factory=list)
    sum_seconds: float | None = None
    extra_bytes: int | None = None
    atom_bytes: int = 0
    setting: str = ""

    def summary(self, state: State = "warm") -> Summary:
        """Percentiles of all warm or cold times."""
        return summarise(self.warm if state == "warm" else self.cold)

    @property
    def right(self) -> list[bool]:
        """Whether each distinct query found all k atoms in every repeat."""
        return [share == 1.0 for share in self.shares]

    @property
    def recall(self) -> float:
        """Part of the wanted atoms that were found."""
        return float(np.mean(self.shares))

    @property
    def build_median(self) -> float | None:
        """Seconds of a build, or None where nothing is built."""
        return float(np.median(self.build_seconds)) if self.build_seconds else None

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values, the percentiles beside the raw times."""
        row = asdict(self)
        for state in ("warm", "cold"):
            row[state] = [[round(value, 3) for value in repeats] for repeats in row[state]]
        row["shares"] = [float(share) for share in self.shares]
        row["summaries"] = {"warm": asdict(self.summary("warm")), "cold": asdict(self.summary("cold"))}
        return row

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Record:
        """Return the record that was written."""
        values = {name: value for name, value in row.items() if name != "summaries"}
        return cls(**{**values, "shape": (row["shape"][0], row["shape"][1])})


def best_flat(records: Iterable[Record], state: State = "warm") -> Record:
    """Return the reference: the faster of those that compute every product."""
    return min((record for record in records if record.kind == "flat"), key=lambda record: record.summary(state).median)


def merge(parts: Sequence[Record]) -> Record:
    """Join the records of one way of answering on several datasets of a kind."""
    first = parts[0]
    known = [part.extra_bytes for part in parts if part.extra_bytes is not None]
    sums = [part.sum_seconds for part in parts if part.sum_seconds is not None]
    return Record(
        first.section,
        first.shape,
        first.asked,
        first.name,
        first.kind,
        warm=[repeats for part in parts for repeats in part.warm],
        cold=[repeats for part in parts for repeats in part.cold],
        shares=[share for part in parts for share in part.shares],
        build_seconds=[seconds for part in parts for seconds in part.build_seconds],
        sum_seconds=float(np.median(sums)) if sums else None,
        extra_bytes=max(known) if known else None,
        atom_bytes=first.atom_bytes,
        setting=first.setting,
    )
