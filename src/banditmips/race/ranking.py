"""How what is ranked follows from inner products: by a factor and an offset of each atom, known or found on the way."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.facts import lengths_of_rows, means_of_rows
from banditmips.core.byte_products import OF_SQUARES
from banditmips.core.factors import rough_factors
from banditmips.core.near_best import ROUNDING_OF_DIFFERENCES, rounding_units
from banditmips.core.passes import SQUARE_TERMS
from banditmips.race.known import inverse, norms_of, spreads_of
from banditmips.race.passes import rounding_of_sums

if TYPE_CHECKING:
    from banditmips.core.rows import Rows
    from banditmips.race.atom_set import AtomSet
    from banditmips.race.rounded import Scores

__all__ = ["WIDER", "Factors", "Ranking", "Widths", "lengths_of"]

WIDER = 2.0
"""How many times as wrong as products may be what is made of them: they are multiplied, and something is added."""
_OF_OFFSETS = 4.0
"""Error of half of an atom's square, in units of the last place of that: of itself, and of what it is taken from."""
_OF_DOUBLES = 1e-12
"""Error of what is made of products in double precision, as a part of them: far more than their rounding."""


class Widths(NamedTuple):
    """How wrong what is ranked may be, beside products.

    Attributes
    ----------
    wider
        So many times as wrong.
    of_longest
        What a query's norm has more for each unit of the longest atom's, where half of the squares of norms is taken
        from products: that is a number that is rounded, and no sum.
    of_centre
        What a query's norm has more for each unit of its mean.
    of_part
        What an atom's norm has more where factors are wrong: so many times the part of its score that it is wrong by,
        and the largest score beside the query's norm. (Scores are far smaller than the product of two norms.)
    """

    wider: float
    of_longest: float
    of_centre: float
    of_part: float


@dataclass(frozen=True)
class Factors:
    """What is ranked are products times the atoms' factors, less their offsets times a number of a query.

    Attributes
    ----------
    factors, offsets : float64 arrays of shape (n,), or None
    squares : float64 array of shape (n,), or None
        Of the atoms times their factors.
    error : float
        Of factors and offsets, as a part of them.
    relative : float64 array of shape (n,), or None
        Of scores, as a part of them, where only that is what factors are wrong by.
    longest : float
        Norm of the longest atom.
    """

    factors: NDArray[np.float64] | None = None
    offsets: NDArray[np.float64] | None = None
    squares: NDArray[np.float64] | None = None
    error: float = 0.0
    longest: float = 0.0
    relative: NDArray[np.float64] | None = None

    def widths(self, dtype: np.dtype[Any], d: int) -> Widths:
        """How wrong what follows from products of this type may be."""
        unit = rounding_units(dtype == np.float32, d) * float(np.finfo(dtype).eps)
        rounded = _OF_OFFSETS * float(np.finfo(dtype).eps) / unit
        if self.relative is None:
            return Widths(WIDER + self.error / unit, WIDER * rounded + self.error / unit, 0.0, 0.0)
        # Offsets are wrong by as much as sums of the atoms are, times the queries' means.
        of_centre = 0.0 if self.offsets is None else self.error / unit * sqrt(d)
        return Widths(WIDER, WIDER * rounded, of_centre, 2.0 / (WIDER * unit))

    def widened(
        self,
        products: NDArray[Any],
        norms: NDArray[np.float64],
        centres: NDArray[np.float64],
        d: int,
        longest: float = 0.0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Norms of queries and the atoms' squares, larger by what else makes wrong what was made of products."""
        assert self.squares is not None
        widths, squares = self.widths(products.dtype, d), self.squares
        if self.relative is not None:
            largest = (np.abs(products).max(axis=1) / np.maximum(norms, np.finfo(np.float64).tiny)).max()
            squares = np.square(np.sqrt(squares) + widths.of_part * float(largest) * self.relative)
        norms = widths.wider * norms + widths.of_longest * longest + widths.of_centre * np.abs(centres)
        return norms, squares

    @classmethod
    def of(
        cls,
        factors: NDArray[np.float64] | None,
        offsets: NDArray[np.float64] | None,
        squares: NDArray[np.float64],
        error: float = 0.0,
        relative: NDArray[np.float64] | None = None,
    ) -> Factors:
        """Factors with the norm of the longest atom."""
        return cls(factors, offsets, squares, error, float(np.sqrt(squares.max())), relative)


class Ranking:
    """How an objective's scores follow from products with these atoms.

    Parameters
    ----------
    atoms
        None for bare arrays, of which nothing is known.
    dtype
        Of the products.
    """

    def __init__(self, atoms: AtomSet | None, rows: Rows, objective: str, dtype: np.dtype[Any]) -> None:
        self._atoms, self._rows, self._objective, self._dtype = atoms, rows, objective, dtype
        # No square of an integer or of a short float is too small for single precision.
        self._has_no_tiny_numbers = all(array.dtype.itemsize <= 2 or array.dtype.kind in "iu" for array in rows.arrays)

    @property
    def fine_norms(self) -> tuple[float, float]:
        """Norms of vectors whose products, and what is made of them, are normal numbers."""
        limits = np.finfo(self._dtype)
        return float(limits.tiny) ** 0.4, float(limits.max) ** 0.4

    def are_fine(self, norms: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether products of vectors of such norms, and what is made of them, are normal numbers."""
        low, high = self.fine_norms
        return np.asarray(((norms > low) & (norms < high)) | (norms == 0.0))

    def centres(self, queries: NDArray[Any]) -> NDArray[np.float64]:
        """By what offsets are multiplied for each query."""
        if self._objective != "correlation":
            return np.ones(len(queries))
        return means_of_rows(queries)

    def lost(self, norms: NDArray[np.float64], longest: float) -> NDArray[np.float64]:
        """By how much what is ranked may be wrong in double precision, for queries of such norms."""
        if self._objective != "neg_sqeuclidean":
            return np.zeros(norms.size)
        # Exact scores are sums of squared differences, which are not rounded as products are.
        return ROUNDING_OF_DIFFERENCES * float(np.finfo(np.float64).eps) * np.square(norms + longest)

    def by_products(self, moments: tuple[NDArray[Any] | None, NDArray[Any]] | None) -> Factors | None:
        """Factors by what is known, or else by the atoms' rough sums (for correlations) and sums of squares.

        None where norms are too large or too small for it.
        """
        if moments is None:
            assert self._atoms is not None
            return self._atoms.once(f"scores of {self._objective}", self._known)
        # Whoever has added them up.
        return self._rough(moments[0], moments[1], rounding_of_sums(self._dtype, self._rows.d, SQUARE_TERMS))

    def by_bytes(
        self,
        squares: NDArray[np.float64],
        atoms: NDArray[np.int64],
        centres: NDArray[np.float64],
        norms: NDArray[np.float64],
    ) -> Scores | None:
        """How scores of some atoms and queries follow from products of bytes, which give the atoms' rough squares."""
        if self._atoms is None or self._atoms.facts is None:
            found = self._rough(None, squares, OF_SQUARES)
            atoms = np.arange(squares.size)
        else:
            found = self.by_products(None)
        return None if found is None else self.of_bytes(found, centres, norms, atoms)

    def of_bytes(
        self,
        known: Factors,
        centres: NDArray[np.float64],
        norms: NDArray[np.float64],
        atoms: NDArray[np.int64],
    ) -> Scores:
        """The same by factors of all atoms."""
        assert known.squares is not None
        n = known.squares[atoms].size
        return (
            np.ones(n) if known.factors is None else np.ascontiguousarray(known.factors[atoms]),
            np.zeros(n) if known.offsets is None else np.ascontiguousarray(known.offsets[atoms]),
            centres,
            max(known.error, _OF_DOUBLES),
            self.lost(norms, known.longest),
        )

    def _known(self) -> Factors | None:
        atoms, objective = self._atoms, self._objective
        assert atoms is not None
        facts = atoms.facts
        if facts is None:
            return Factors()
        squared = facts.squared_norms
        if objective == "inner_product":
            return Factors.of(None, None, squared)
        if not self.are_fine(norms_of(atoms)).all():
            return None
        if objective == "neg_sqeuclidean":
            return Factors.of(None, 0.5 * squared, squared)
        if objective == "cosine":
            factors = inverse(norms_of(atoms))
            return Factors.of(factors, None, squared * factors**2)
        factors = inverse(spreads_of(atoms))
        return Factors.of(factors, self._rows.d * facts.means * factors, squared * factors**2)

    def _rough(self, totals: NDArray[Any] | None, squared: NDArray[Any], error: float) -> Factors | None:
        """The same by rough moments of the atoms; `error` is that of a sum of squares, as a part of it."""
        totals = None if totals is None else np.ascontiguousarray(totals, dtype=np.float64)
        squared = np.ascontiguousarray(squared, dtype=np.float64)
        found = rough_factors(
            self._objective, totals, squared, self._rows.d, error, self.fine_norms, not self._has_no_tiny_numbers
        )
        if found is None:
            return None
        factors, offsets, squares, relative = found
        return Factors.of(factors, offsets, squares, error, relative)


def lengths_of(
    queries: NDArray[Any], objective: str, means: NDArray[np.float64] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Means and norms of queries, for a correlation of what their means leave of them; None where one is no number."""
    if objective == "cosine":
        means, sizes = np.zeros(len(queries)), lengths_of_rows(queries)
    else:
        means = means_of_rows(queries) if means is None else means
        sizes = lengths_of_rows(queries, means)
    return None if sizes is None else (means, sizes)
