"""What goes to and fro between the shards and whoever started the search. None of it grows with d or with n."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.distributed._plan import AtHand

__all__ = ["Batch", "Duel", "Exact", "Guests", "Order", "Play", "Report", "Screen", "Work"]


@dataclass(frozen=True)
class Batch:
    """What every shard is told about a batch of queries, once.

    Attributes
    ----------
    queries : shape (m, d)
    n_candidates : int64, shape (m,)
        Atoms that take part, over all shards: delta is split over them.
    known_range : (low, high), or None
        Smallest and largest entry of all atoms, if `fit` looked.
    at_hand : AtHand
        What all shards have at hand, so that they sample the same.
    """

    queries: NDArray[Any]
    n_candidates: NDArray[np.int64]
    known_range: tuple[float, float] | None
    at_hand: AtHand


@dataclass(frozen=True)
class Screen:
    """Leave out what cannot win by what `fit` knows, and report the candidates with the best lower bounds."""


@dataclass(frozen=True)
class Play:
    """Let the shard's survivors play on, up to and with this round.

    `leaders` are the (global) rows that lead, none at first; those that live elsewhere come as guests. Atoms that
    cannot reach `bar`, by what `fit` knows, do not play.
    """

    last_round: int
    leaders: NDArray[np.int64]
    bar: float = -np.inf


@dataclass(frozen=True)
class Duel:
    """Let all survivors of all shards, who come as guests, play on here up to and with this round.

    `n_played` rounds are behind all of them; `leaders` are the (global) rows that lead.
    """

    last_round: int
    n_played: int
    leaders: NDArray[np.int64]


@dataclass(frozen=True)
class Exact:
    """Compute exact scores: of the shard's survivors, or of the given (global) rows.

    What the survivors' rounds have seen is not counted again, nor are `n_seen` multiplies of the given rows.
    """

    rows: NDArray[np.int64] | None = None
    n_seen: int = 0


Order = Screen | Play | Duel | Exact


@dataclass(frozen=True)
class Guests:
    """Atoms of one query's race, as other shards need them to compare atoms with.

    Attributes
    ----------
    rows : int64, shape (g,)
        Global indices.
    values : shape (g, N)
        Their entries at the first N coordinates of the query's order, in the atoms' own precision.
    row_scale, centers, needed_scatter, offsets, unrelated : float64, shape (g,)
        As in `core.sample_source.PerAtom`.
    """

    rows: NDArray[np.int64]
    values: NDArray[Any]
    row_scale: NDArray[np.float64]
    centers: NDArray[np.float64]
    needed_scatter: NDArray[np.float64]
    offsets: NDArray[np.float64]
    unrelated: NDArray[np.float64]

    @property
    def nbytes(self) -> int:
        """What they weigh on their way."""
        return sum(getattr(self, name).nbytes for name in self.__dataclass_fields__)

    @classmethod
    def joined(cls, parts: list[Guests]) -> Guests:
        """Guests from several shards together."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__dataclass_fields__))

    def part(self, chosen: NDArray[np.bool_]) -> Guests:
        """Some of them."""
        return Guests(*(getattr(self, name)[chosen] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Report:
    """What a shard says of one query: its best atoms (best first), and how many are left.

    Attributes
    ----------
    rows, scores, radius, seen, exact
        Global indices of the best atoms, their scores, radii, multiplies so far, and whether the scores are exact.
    within_epsilon
        Whether no survivor here can beat one of the leaders by more than epsilon.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64]
    seen: NDArray[np.int64]
    exact: NDArray[np.bool_]
    n_survivors: int
    n_rounds: int
    within_epsilon: bool

    def part(self, chosen: NDArray[np.bool_]) -> Report:
        """The report as if only these of its atoms were left."""
        fields = {name: getattr(self, name)[chosen] for name in ("rows", "scores", "radius", "seen", "exact")}
        return replace(self, **fields, n_survivors=int(chosen.sum()))


@dataclass(frozen=True)
class Work:
    """What a task took: where it ran, for how long, its multiplies and bytes read for each query, and its messages.

    `bytes_exchanged` are the values of guests that it was handed and the reports that it sent.
    """

    worker: str
    seconds: float
    n_multiplies: Mapping[int, int]
    bytes_read: Mapping[int, int]
    bytes_exchanged: int = 0
