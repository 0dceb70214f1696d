"""Rows that are wanted for each of several queries: those of one after those of another, and where each begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["Wanted", "joined", "replaced", "without"]

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
