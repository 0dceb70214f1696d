"""What `fit` learns about the atoms in its one pass over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.protocol import AtomStore
from banditmips.race.kernels import row_facts

__all__ = ["CONVERTED_ENTRIES", "AtomFacts", "FactsCollector", "collect_facts"]

_BLOCK_ENTRIES = 1 << 20
"""Entries looked at together: at most 8 MB, so that a matrix on disk is never held whole."""
CONVERTED_ENTRIES = 1 << 17
"""Entries that are converted to double precision together (a whole row in any case)."""


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


class FactsCollector:
    """Gathers the facts from blocks of rows, which may come in several runs of a program.

    Parameters
    ----------
    argument : str
        What an error calls the atoms.

    Attributes
    ----------
    squared_norms, sums : float64, shape (n,)
    column_squares : float64, shape (d,)
    low, high : float
        Of the rows seen so far; whoever goes on where another run stopped sets them to what they were.
    """

    def __init__(self, n: int, d: int, argument: str = "atoms") -> None:
        self._argument = argument
        self.squared_norms, self.sums = np.zeros(n), np.zeros(n)
        self.column_squares = np.zeros(d)
        self.low, self.high = np.inf, -np.inf

    def add(self, start: int, block: NDArray[Any]) -> None:
        """Look at some rows, the first of which is row `start`."""
        # Single and double precision are summed as they are; anything else is converted a few rows at a time.
        plain = block.dtype in (np.float32, np.float64) and block.dtype.isnative
        step = len(block) if plain else max(1, CONVERTED_ENTRIES // block.shape[1])
        for first in range(0, len(block), step):
            part = block[first : first + step]
            self._add(start + first, np.ascontiguousarray(part) if plain else part.astype(np.float64))

    def _add(self, start: int, values: NDArray[Any]) -> None:
        part = slice(start, start + len(values))
        low, high = row_facts(values, self.squared_norms[part], self.sums[part], self.column_squares)
        # A NaN or an infinity carries over into the sums; so does what is merely too large to be squared.
        if not (np.isfinite(self.squared_norms[part]).all() or np.isfinite(values).all()):
            i, j = np.argwhere(~np.isfinite(values))[0]
            what = self._argument
            raise ValueError(f"{what} has {values[i, j]} at row {start + i}, column {j} (argument {what!r})")
        self.low, self.high = min(self.low, low), max(self.high, high)

    def facts(self) -> AtomFacts:
        """Facts about all atoms, once all have been added."""
        # Single precision is enough for weights.
        column_squares = np.minimum(self.column_squares, 1e38).astype(np.float32)
        means = self.sums / self.column_squares.size
        return AtomFacts(self.squared_norms, means, self.low, self.high, column_squares)


def collect_facts(store: AtomStore) -> AtomFacts:
    """Read every atom once; a NaN or an infinity is an error that names its row and column.

    A store that knows its facts is believed.
    """
    known: AtomFacts | None = getattr(store, "facts", None)
    if known is not None:
        return known
    collector = FactsCollector(*store.shape)
    for start, block in store.blocks(_BLOCK_ENTRIES):
        collector.add(start, block)
    return collector.facts()
