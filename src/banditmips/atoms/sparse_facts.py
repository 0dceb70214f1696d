"""What `fit` learns about the atoms of a sparse matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.facts import AtomFacts
from banditmips.atoms.sparse import SparseStore

__all__ = ["collect_sparse_facts"]

_SPARSE_ENTRIES = 1 << 16
"""Stored entries looked at together: they take 4 MB while their rows, columns and squares are written down."""


def collect_sparse_facts(store: SparseStore) -> AtomFacts:
    """Learn from the stored entries alone, which are read twice: sums about the mean need the mean."""
    n, d = store.shape
    counts, sums, scatter, column_squares = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(d)
    low, high = (0.0, 0.0) if store.n_stored < n * d else (np.inf, -np.inf)
    for rows, columns, values in store.pieces(_SPARSE_ENTRIES):
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            raise BadAtomError.of_entry(values[at], rows[at], columns[at])
        low, high = min(low, values.min(initial=low)), max(high, values.max(initial=high))
        np.add.at(counts, rows, 1.0)
        with np.errstate(over="ignore"):
            np.add.at(sums, rows, values)
            np.add.at(column_squares, columns, values**2)
    means = _means(store, sums)
    with np.errstate(over="ignore"):
        for rows, _, values in store.pieces(_SPARSE_ENTRIES):
            np.add.at(scatter, rows, (values - means[rows]) ** 2)
        # In this order, because a square may be infinite where nothing is missing.
        scatter += (d - counts) * means * means
        squared_norms = scatter + d * means**2
    weights = np.minimum(column_squares, 1e38).astype(np.float32)
    return AtomFacts(squared_norms, means, scatter, float(low), float(high), weights)


def _means(store: SparseStore, sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of each row; where the sum is too large for a number, its entries are divided before they are added."""
    d = store.shape[1]
    large, means = ~np.isfinite(sums), sums / d
    if large.any():
        means[large] = 0.0
        for rows, _, values in store.pieces(_SPARSE_ENTRIES):
            some = large[rows]
            np.add.at(means, rows[some], values[some] / d)
    return means
