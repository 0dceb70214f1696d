"""What goes to and fro between the shards and whoever started the search. None of it grows with d or with n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._result import StopReason
from banditmips._validate import Options

__all__ = ["Batch", "Exact", "Order", "Play", "Report", "Work"]


@dataclass(frozen=True, eq=False)
class Batch:
    """What every worker is told about a batch of queries, once.

    Attributes
    ----------
    queries : shape (m, d)
    n_candidates : int64, shape (m,)
        Atoms that take part, over all shards: delta and a budget are split over them.
    """

    queries: NDArray[Any]
    n_candidates: NDArray[np.int64]
    k: int
    options: Options

    def __sizeof__(self) -> int:
        """Let Dask know what it would move."""
        return int(self.queries.nbytes)


@dataclass(frozen=True)
class Play:
    """Let the shard's survivors play on.

    Attributes
    ----------
    bar : float
        What k atoms of all shards reach: atoms below it are out.
    until : int, or None
        Cells after which to pause and report; None for none.
    finish : bool
        Whether to end the race here, with the exact scores of those that can still win.
    leads : bool
        Whether to compute the exact scores of the shard's own k leaders before it reports.
    waits : bool
        Whether to report at once if certain bounds leave few: what other shards know may leave fewer.
    """

    bar: float = -np.inf
    until: int | None = None
    finish: bool = False
    leads: bool = False
    waits: bool = False


@dataclass(frozen=True)
class Exact:
    """Compute the exact scores of these (global) rows."""

    rows: NDArray[np.int64]


Order = Play | Exact


@dataclass(frozen=True)
class Report:
    """What a shard says of one query: its best atoms, and how many are left.

    Attributes
    ----------
    rows, scores, radius, exact
        Global indices of the best atoms, their scores, radii, and whether the scores are exact.
    reach
        The part of its radius by which one of the best k may exceed its estimate (`core.survivors.Survivors`).
    n_left
        Atoms that are left, reported or not.
    n_rounds
        Rounds played here.
    waiting, reading, over
        Whether the shard has bounds alone; paused where there was more to read; or has ended its race.
    trusted
        Whether delta covers every interval, so that atoms may be left out by theirs.
    certain
        Whether nothing was left out on a sample's word.
    rounded
        Whether atoms were left out by products of bytes, which are entitled to all of delta.
    stop_reason
        Why the race ended here, if it did.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64]
    exact: NDArray[np.bool_]
    reach: float
    n_left: int
    n_rounds: int
    waiting: bool
    reading: bool
    over: bool
    trusted: bool
    certain: bool
    rounded: bool
    stop_reason: StopReason | None

    @property
    def is_complete(self) -> bool:
        """Whether all atoms that are left are reported."""
        return self.rows.size == self.n_left

    def part(self, chosen: NDArray[np.bool_]) -> Report:
        """The report as if only these of its atoms were left."""
        fields = {name: getattr(self, name)[chosen] for name in ("rows", "scores", "radius", "exact")}
        return replace(self, **fields, n_left=int(chosen.sum()))


@dataclass(frozen=True)
class Work:
    """What a task took: where it ran, for how long, its multiplies and bytes read for each query, and its messages.

    `bytes_exchanged` are the orders that it was handed and the reports that it sent.
    """

    worker: str
    seconds: float
    n_multiplies: Mapping[int, int]
    bytes_read: Mapping[int, int]
    bytes_exchanged: int = 0
