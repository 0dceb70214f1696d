"""What `fit` learns about the atoms in its one pass over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.protocol import AtomStore
from banditmips.race.kernels import row_facts

__all__ = ["AtomFacts", "collect_facts"]

_BLOCK_ENTRIES = 1 << 20
"""Entries looked at together: at most 8 MB, so that a matrix on disk is never held whole."""


@dataclass(frozen=True)
class AtomFacts:
    """Facts about all atoms.

    Attributes
    ----------
    squared_norms, means : float64, shape (n,)
        Squared Euclidean norm of each atom, and the mean of its entries.
    low, high : float
        Smallest and largest entry.
    column_squares : float32, shape (d,)
        Sum of squares over the atoms of each coordinate (Theorem 2's optimal weights need it).
    """

    squared_norms: NDArray[np.float64]
    means: NDArray[np.float64]
    low: float
    high: float
    column_squares: NDArray[np.float32]

    @property
    def scatter(self) -> NDArray[np.float64]:
        """Sum of squares of each atom's entries about their mean: what a sample of it has to show its share of."""
        with np.errstate(over="ignore", invalid="ignore"):
            scatter = self.squared_norms - self.column_squares.size * self.means**2
        # Entries too large to be squared: no sample of such an atom can be trusted.
        return np.maximum(np.where(np.isfinite(scatter), scatter, np.inf), 0.0)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self.squared_norms.nbytes + self.means.nbytes + self.column_squares.nbytes

    def joined(self, other: AtomFacts) -> AtomFacts:
        """Facts about these atoms followed by those of `other`."""
        return AtomFacts(
            np.concatenate([self.squared_norms, other.squared_norms]),
            np.concatenate([self.means, other.means]),
            min(self.low, other.low),
            max(self.high, other.high),
            self.column_squares + other.column_squares,
        )


def collect_facts(store: AtomStore) -> AtomFacts:
    """Read every atom once; a NaN or an infinity is an error that names its row and column."""
    n, d = store.shape
    norms, sums = np.empty(n), np.empty(n)
    column_squares = np.zeros(d)
    low, high = np.inf, -np.inf
    for start, block in store.blocks(_BLOCK_ENTRIES):
        # Single and double precision are summed as they are; anything else is converted block by block.
        plain = block.dtype in (np.float32, np.float64) and block.dtype.isnative
        values = np.ascontiguousarray(block) if plain else block.astype(np.float64)
        part = slice(start, start + len(values))
        block_low, block_high = row_facts(values, norms[part], sums[part], column_squares)
        # A NaN or an infinity carries over into the sums; so does what is merely too large to be squared.
        if not (np.isfinite(norms[part]).all() or np.isfinite(values).all()):
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise BadAtomError(f"atoms has {values[i, j]} at row {{row}}, column {j} (argument 'atoms')", start + i)
        low, high = min(low, block_low), max(high, block_high)
    # Single precision is enough for weights.
    return AtomFacts(norms, sums / d, low, high, np.minimum(column_squares, 1e38).astype(np.float32))
