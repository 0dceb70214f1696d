"""What is known of all atoms, and norms that no square is too large or too small for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.protocol import AtomStore
from banditmips.core.entries import sums_of_rows, sums_of_squares

__all__ = [
    "AtomFacts",
    "derived_scatter",
    "facts_bytes",
    "length_of",
    "lengths",
    "lengths_of_rows",
    "longest",
    "means_of_rows",
]

_LEAST_SQUARES = 1e-280
"""Sums of squares below this may have lost digits to underflow."""


@dataclass(frozen=True)
class AtomFacts:
    """Facts about all atoms.

    Attributes
    ----------
    squared_norms, means, scatter : float64, shape (n,)
        Squared Euclidean norm of each atom, the mean of its entries, and their sum of squares about that mean: what a
        sample has to show its share of. All three are right to about 1e-15 (the mean: as a part of the root mean square
        of the entries), whatever the precision of the atoms, and also where entries are large beside their differences.
        The scatter is infinite where squares are too large to be summed.
    low, high : float
        Smallest and largest entry.
    column_squares : float32, shape (d,)
        Sum of squares over the atoms of each coordinate (Theorem 2's optimal weights need it).
    """

    squared_norms: NDArray[np.float64]
    means: NDArray[np.float64]
    scatter: NDArray[np.float64]
    low: float
    high: float
    column_squares: NDArray[np.float32]

    @property
    def scale(self) -> float:
        """Size of the largest entry."""
        return max(abs(self.low), abs(self.high))

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return facts_bytes(self.means.size, self.column_squares.size)

    def joined(self, other: AtomFacts) -> AtomFacts:
        """Facts about these atoms followed by those of `other`."""
        return AtomFacts(
            np.concatenate([self.squared_norms, other.squared_norms]),
            np.concatenate([self.means, other.means]),
            np.concatenate([self.scatter, other.scatter]),
            min(self.low, other.low),
            max(self.high, other.high),
            self.column_squares + other.column_squares,
        )

    def of_rows(self, start: int, stop: int) -> AtomFacts:
        """What is known of a range of these atoms; range and squares of the columns stay those of all."""
        rows = slice(start, stop)
        return replace(self, squared_norms=self.squared_norms[rows], means=self.means[rows], scatter=self.scatter[rows])


def facts_bytes(n: int, d: int) -> int:
    """Memory that facts about n atoms of d coordinates take."""
    return 24 * n + 4 * d


def longest(squares: NDArray[Any], d: int) -> NDArray[np.float64]:
    """Roots of sums of d squares, larger by what underflow may have taken from them."""
    return np.sqrt(squares + d * float(np.finfo(np.float64).tiny))


def length_of(vector: NDArray[Any]) -> float:
    """Norm of a vector, whose squares may be too large or too small for numbers."""
    plain = vector.dtype in (np.float32, np.float64) and vector.flags.c_contiguous
    numbers = vector if plain else np.ascontiguousarray(vector, dtype=np.float64)
    square = float(sums_of_squares(numbers[np.newaxis])[0])
    if _LEAST_SQUARES <= square < np.inf:
        return float(np.sqrt(square))
    # Of its parts of the largest entry.
    vector = np.asarray(vector, dtype=np.float64)
    largest = float(np.abs(vector).max(initial=0.0))
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    with np.errstate(over="ignore", under="ignore"):
        return float(largest * np.linalg.norm(vector / largest))


def means_of_rows(vectors: NDArray[Any]) -> NDArray[np.float64]:
    """Means of the rows of an array of floats in C order, each the same in whatever company."""
    return np.asarray(sums_of_rows(vectors) / max(vectors.shape[1], 1))


def lengths_of_rows(vectors: NDArray[Any], means: NDArray[np.float64] | None = None) -> NDArray[np.float64] | None:
    """What `length_of` gives for each row of an array of floats in C order, less its mean if given, to the bit.

    None where squares are too large or too small for numbers.
    """
    squares = sums_of_squares(vectors, means)
    return np.asarray(np.sqrt(squares)) if ((squares >= _LEAST_SQUARES) & (squares < np.inf)).all() else None


def lengths(
    store: AtomStore,
    squares: NDArray[np.float64],
    centres: NDArray[np.float64] | None,
    rows: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Roots of the sums of squares about their centres (None: 0) of some rows, or of all.

    Rows whose squares are too large or too small for sums are read again.
    """
    roots = np.asarray(np.sqrt(squares))
    known = (squares >= _LEAST_SQUARES) & np.isfinite(squares)
    if known.all():
        return roots
    columns = np.arange(store.shape[1])
    values = np.empty((1, columns.size))
    if store.dtype.kind != "f" or store.dtype.itemsize < 8:
        known |= squares == 0.0  # no square of an integer or of a shorter float is too small for sums
    for place in np.flatnonzero(~known):
        row = place if rows is None else rows[place]
        store.gather(np.array([row]), columns, values)
        with np.errstate(over="ignore", invalid="ignore"):
            roots[place] = length_of(values[0] if centres is None else values[0] - centres[place])
        if np.isposinf(roots[place]):
            raise BadAtomError("the norm of atom {row} overflows double precision (argument 'atoms')", int(row))
    return roots


def derived_scatter(squared_norms: NDArray[Any], means: NDArray[Any], d: int) -> NDArray[np.float64]:
    """Return the scatter as a difference of squares, where it was not recorded: rough where means are large."""
    with np.errstate(over="ignore", invalid="ignore"):
        scatter = squared_norms - d * means**2
    return np.maximum(np.where(np.isfinite(scatter), scatter, np.inf), 0.0)
