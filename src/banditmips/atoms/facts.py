"""What `fit` learns about the atoms in its one pass over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.parts import Part, all_parts
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.sparse import SparseStore
from banditmips.race.kernels import row_facts

__all__ = ["CONVERTED_ENTRIES", "AtomFacts", "FactsCollector", "collect_facts"]

_BLOCK_ENTRIES = 1 << 20
"""Entries looked at together: at most 8 MB, so that a matrix on disk is never held whole."""
_SPARSE_ENTRIES = 1 << 16
"""Stored entries looked at together: they take 4 MB while their rows, columns and squares are written down."""
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

    @cached_property
    def scatter(self) -> NDArray[np.float64]:
        """Sum of squares of each atom's entries about their mean: what a sample of it has to show its share of."""
        with np.errstate(over="ignore", invalid="ignore"):
            scatter = self.squared_norms - self.column_squares.size * self.means**2
        # Entries too large to be squared: no sample of such an atom can be trusted.
        return np.maximum(np.where(np.isfinite(scatter), scatter, np.inf), 0.0)

    @property
    def nbytes(self) -> int:
        """Memory taken, with the scatter once it has been asked for."""
        return 2 * self.squared_norms.nbytes + self.means.nbytes + self.column_squares.nbytes

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
    """Gathers the facts from parts of the matrix, in any order.

    Parameters
    ----------
    argument : str
        What an error calls the atoms.

    Attributes
    ----------
    squared_norms, sums : float64, shape (n,)
    column_squares : float64, shape (d,)
    low, high : float
        Of what was seen so far.
    """

    def __init__(self, n: int, d: int, argument: str = "atoms") -> None:
        self._argument = argument
        self.squared_norms, self.sums = np.zeros(n), np.zeros(n)
        self.column_squares = np.zeros(d)
        self.low, self.high = np.inf, -np.inf

    def add(self, first_row: int, values: NDArray[Any], first_column: int = 0) -> None:
        """Look at entries, the first of which is at this row and column."""
        # Single and double precision are summed as they are; anything else is converted a few rows at a time.
        plain = values.dtype in (np.float32, np.float64) and values.dtype.isnative
        step = len(values) if plain else max(1, CONVERTED_ENTRIES // values.shape[1])
        for start in range(0, len(values), step):
            part = values[start : start + step]
            floats = np.ascontiguousarray(part) if plain else part.astype(np.float64)
            self._add(first_row + start, first_column, floats)

    def _add(self, first_row: int, first_column: int, values: NDArray[Any]) -> None:
        norms, sums = np.empty(len(values)), np.empty(len(values))
        columns = self.column_squares[first_column : first_column + values.shape[1]]
        low, high = row_facts(values, norms, sums, columns)
        # A NaN or an infinity carries over into the sums; so does what is merely too large to be squared.
        if not (np.isfinite(norms).all() or np.isfinite(values).all()):
            i, j = np.argwhere(~np.isfinite(values))[0]
            where = f"row {{row}}, column {first_column + j}"
            text = f"{self._argument} has {values[i, j]} at {where} (argument {self._argument!r})"
            raise BadAtomError(text, first_row + i)
        rows = slice(first_row, first_row + len(values))
        self.squared_norms[rows] += norms
        self.sums[rows] += sums
        self.low, self.high = min(self.low, low), max(self.high, high)

    def facts(self) -> AtomFacts:
        """Facts about all atoms, once all of them has been added."""
        # Single precision is enough for weights.
        column_squares = np.minimum(self.column_squares, 1e38).astype(np.float32)
        means = self.sums / self.column_squares.size
        return AtomFacts(self.squared_norms, means, self.low, self.high, column_squares)


def collect_facts(store: AtomStore, also: Callable[[Part], None] | None = None) -> AtomFacts:
    """Read every entry once; a NaN or an infinity is an error that names its row and column.

    `also` is shown everything that is read on the way. What was recorded of packed atoms is believed.
    """
    from banditmips.atoms.packed import PackedStore

    if isinstance(store, PackedStore) and also is None:
        return store.facts
    if isinstance(store, SparseStore) and also is None:
        return _sparse_facts(store)
    collector = FactsCollector(*store.shape)
    for part in all_parts(store, _BLOCK_ENTRIES):
        collector.add(part.rows.start, part.values, part.first_column)
        if also is not None:
            also(part)
    return collector.facts()


def _sparse_facts(store: SparseStore) -> AtomFacts:
    """Do the same from the stored entries alone."""
    n, d = store.shape
    norms, sums, column_squares = np.zeros(n), np.zeros(n), np.zeros(d)
    low, high = (0.0, 0.0) if store.n_stored < n * d else (np.inf, -np.inf)
    for rows, columns, values in store.pieces(_SPARSE_ENTRIES):
        if not np.isfinite(values).all():
            at = int(np.flatnonzero(~np.isfinite(values))[0])
            text = f"atoms has {values[at]} at row {{row}}, column {columns[at]} (argument 'atoms')"
            raise BadAtomError(text, rows[at])
        low, high = min(low, values.min(initial=low)), max(high, values.max(initial=high))
        with np.errstate(over="ignore"):
            squares = values**2
        np.add.at(norms, rows, squares)
        np.add.at(sums, rows, values)
        np.add.at(column_squares, columns, squares)
    return AtomFacts(norms, sums / d, float(low), float(high), np.minimum(column_squares, 1e38).astype(np.float32))
