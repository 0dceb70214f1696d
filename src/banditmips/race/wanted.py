"""Rows that are wanted for each of several queries: those of one after those of another, and where each begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import facts_of
from banditmips.atoms.facts import AtomFacts, lengths
from banditmips.core.passes import learns_of_some, look_at_some
from banditmips.core.rows import Rows
from banditmips.race.full import can_use_blas

__all__ = ["Wanted", "WantedFacts", "facts_of_wanted", "joined", "replaced", "without"]

_MOST_WANTED = 0.5
"""Part of the atoms whose norms are wanted, from which on those of all take less than copying them together."""

Wanted = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The rows, and where those of each query begin, with the end of all (as `close_to_each` gives them)."""


def joined(parts: Sequence[Wanted]) -> Wanted:
    """Rows of queries that come one part after another."""
    if len(parts) == 1:
        return parts[0]
    counts = np.concatenate([np.diff(begins) for _, begins in parts])
    return np.concatenate([rows for rows, _ in parts]), np.concatenate(([0], np.cumsum(counts)))


def replaced(
    close: Wanted,
    places: NDArray[np.int64],
    others: Wanted,
) -> Wanted:
    """Rows that are close, those of the queries at some places replaced by others."""
    lists = np.split(close[0], close[1][1:-1])
    for place, some in zip(places, np.split(others[0], others[1][1:-1]), strict=True):
        lists[place] = some
    return np.concatenate(lists), np.cumsum([0, *(some.size for some in lists)])


def without(close: Wanted | None, excluded: NDArray[np.bool_] | None) -> Wanted | None:
    """Rows that are close, less those that take no part."""
    if close is None or excluded is None:
        return close
    rows, begins = close
    place = np.repeat(np.arange(begins.size - 1), np.diff(begins))
    kept = ~(excluded[rows] if excluded.ndim == 1 else excluded[place, rows])
    return rows[kept], np.searchsorted(place[kept], np.arange(begins.size))


class WantedFacts(NamedTuple):
    """Facts about atoms that some queries want.

    Attributes
    ----------
    rows, close
        Where these can be read, and which of them are wanted, one after another.
    facts, places
        What is known of some of the atoms as if they were all, and where those that are wanted are among these.
    store, chosen
        Atoms, and which of them these are.
    """

    rows: Rows
    close: NDArray[np.int64]
    facts: AtomFacts
    places: NDArray[np.int64]
    store: DenseStore
    chosen: NDArray[np.int64]

    def norms(self, objective: str) -> NDArray[np.float64]:
        """Norms of those that are wanted, one after another: for a correlation, of what their means leave of them."""
        facts, is_cosine = self.facts, objective == "cosine"
        squares, centres = facts.squared_norms if is_cosine else facts.scatter, None if is_cosine else facts.means
        return lengths(self.store, squares, centres, self.chosen)[self.places]


def facts_of_wanted(rows: Rows, close: NDArray[np.int64]) -> WantedFacts:
    """Find facts about atoms of one matrix of which nothing is known, and which some queries want."""
    n, (array,) = rows.n, rows.arrays
    if close.size == 1:
        chosen, places = close, np.zeros(1, dtype=np.int64)
    else:
        are_wanted = np.zeros(n, dtype=np.bool_)
        are_wanted[close] = True
        chosen, places = np.flatnonzero(are_wanted), (np.cumsum(are_wanted) - 1)[close]
    store = DenseStore(array)
    if (rows.are_contiguous or chosen.size == 1) and learns_of_some(rows):
        squares, means, scatter, low, high = look_at_some(rows, chosen)
        if np.isfinite(squares).all():
            facts = AtomFacts(squares, means, scatter, low, high, np.empty(0, dtype=np.float32))
            return WantedFacts(rows, close, facts, places, store, chosen)
    if (rows.are_contiguous or can_use_blas(array)) and chosen.size >= _MOST_WANTED * n:
        chosen, places = np.arange(n), close
    store, facts = facts_of(store, chosen)
    assert store.rows is not None
    return WantedFacts(store.rows, places, facts, places, store, np.arange(chosen.size))
