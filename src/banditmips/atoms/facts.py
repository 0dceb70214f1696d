"""What `fit` learns about the atoms in its one pass over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.protocol import AtomStore

__all__ = ["AtomFacts", "collect_facts"]

_BLOCK_ENTRIES = 1 << 20
"""Entries converted at a time: 8 MB as float64, so that a matrix on disk is never held whole."""


@dataclass(frozen=True)
class AtomFacts:
    """Facts about all atoms.

    Attributes
    ----------
    squared_norms : float64, shape (n,)
        Squared Euclidean norm of each atom.
    low, high : float
        Smallest and largest entry.
    column_squares : float64, shape (d,)
        Sum of squares over the atoms of each coordinate (Theorem 2's optimal weights need it).
    """

    squared_norms: NDArray[np.float64]
    low: float
    high: float
    column_squares: NDArray[np.float64]

    def joined(self, other: AtomFacts) -> AtomFacts:
        """Facts about these atoms followed by those of `other`."""
        return AtomFacts(
            np.concatenate([self.squared_norms, other.squared_norms]),
            min(self.low, other.low),
            max(self.high, other.high),
            self.column_squares + other.column_squares,
        )


def collect_facts(store: AtomStore) -> AtomFacts:
    """Read every atom once; a NaN or an infinity is an error that names its row and column."""
    n, d = store.shape
    norms = np.empty(n)
    column_squares = np.zeros(d)
    low, high = np.inf, -np.inf
    for start, block in store.blocks(_BLOCK_ENTRIES):
        values = block.astype(np.float64)
        block_low, block_high = float(values.min()), float(values.max())
        # Minimum and maximum carry any NaN or infinity along, so one look at them checks the block.
        if not (np.isfinite(block_low) and np.isfinite(block_high)):
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise ValueError(f"atoms has {values[i, j]} at row {start + i}, column {j} (argument 'atoms')")
        low, high = min(low, block_low), max(high, block_high)
        np.square(values, out=values)
        norms[start : start + len(values)] = values.sum(axis=1)
        column_squares += values.sum(axis=0)
    return AtomFacts(norms, low, high, column_squares)
