"""One pass over atoms in memory: rough scores of all, and the rows that their rounding cannot tell from the best.

`core.passes` adds up terms of all atoms, in single precision where that holds the atoms' numbers. Here is by how much
each score that follows may be wrong: whoever is not beaten for certain gets an exact score afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.atoms.facts import length_of
from banditmips.core.passes import LANE_TERMS, fill_block, pass_dtype, rough_sums
from banditmips.core.rows import Rows
from banditmips.core.statistics import PRODUCT
from banditmips.race.full import can_use_blas, reaching_best
from banditmips.race.rules import OBJECTIVE_CODES

__all__ = ["close_rows", "pass_products"]

_LEAST_SUMMED = 1 << 20
"""Terms that are worth a thread of their own."""
_BEYOND_LANES = 8
"""Roundings of a term beside those of its lane: of a difference, its square, and between lanes."""
_FOR_BLAS, _BLOCK = 4, 1 << 22
"""Queries beyond which BLAS is taken instead of our own loops, also where rows have to be converted for it (a guess:
with 16 queries of 784 to 20,000 entries either was the faster one somewhere), and entries that are converted at a time:
the queries, which BLAS lays out anew each time, are to be few beside them."""
_MOST_CLOSE = 1 / 8
"""Part of the atoms that may be too close to tell by norms and products, where direct differences tell more."""
_EXACT_TERMS = 2048
"""Terms that an exact score adds in a row, at most."""


def pass_products(rows: Rows, queries: NDArray[Any]) -> NDArray[Any]:
    """Products of all atoms with queries of the `pass_dtype`, one row for each query."""
    return _sums(rows, np.arange(rows.n), queries, PRODUCT, None).astype(queries.dtype)


def close_rows(
    rows: Rows, candidates: NDArray[np.int64], queries: Sequence[NDArray[Any]], objective: str, k: int, absolute: bool
) -> list[NDArray[np.int64]]:
    """For each query, the candidates that are among the best k or too close to them to tell."""
    if k >= candidates.size:
        return [candidates] * len(queries)
    vectors = np.empty((len(queries), rows.d), dtype=pass_dtype(rows))
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        taken = [_Taken.of(*pair, objective) for pair in zip(queries, vectors, strict=True)]

        def found_by(code: int) -> list[NDArray[np.int64]]:
            moments = np.empty((2, candidates.size)) if code == PRODUCT else None
            found = []
            for one, sums in zip(taken, _sums(rows, candidates, vectors, code, moments), strict=True):
                if moments is None:
                    scores, width = one.of_differences(sums, squared=objective == "neg_sqeuclidean")
                else:
                    scores, width = one.of_products(sums, moments, objective)
                found.append(candidates[reaching_best(np.abs(scores) if absolute else scores, width, k)])
            return found

        if objective == "neg_sqeuclidean" and len(queries) > _FOR_BLAS:
            found = found_by(PRODUCT)
            if max(some.size for some in found) <= max(k, _MOST_CLOSE * candidates.size):
                return found
        return found_by(OBJECTIVE_CODES[objective])


def _sums(
    rows: Rows, chosen: NDArray[np.int64], queries: NDArray[Any], objective: int, moments: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Rough sums, and moments where there is room for them, divided by rows among the threads at hand."""
    by_blas = objective == PRODUCT and len(queries) > _FOR_BLAS

    def work(start: int, stop: int) -> NDArray[np.float64]:
        some, own = chosen[start:stop], None if moments is None else moments[:, start:stop]
        if not by_blas:
            return rough_sums(rows, some, queries, objective, own)
        if own is not None:
            rough_sums(rows, some, queries[:1], objective, own)
        return _products_by_blas(rows, some, queries)

    return np.concatenate(in_pieces(work, chosen.size, _LEAST_SUMMED // max(queries.size, 1)), axis=1)


def _products_by_blas(rows: Rows, chosen: NDArray[np.int64], queries: NDArray[Any]) -> NDArray[np.float64]:
    """Products of some rows with many queries; rows that BLAS cannot read are converted, some at a time."""
    array = rows.arrays[0]
    if len(rows.arrays) == 1 and chosen.size == rows.n and can_use_blas(array) and array.dtype == queries.dtype:
        return np.asarray((array @ queries.T).T, dtype=np.float64)
    step = min(max(1, _BLOCK // rows.d), chosen.size)
    block = np.empty((step, rows.d), dtype=queries.dtype)
    products = np.empty((len(queries), chosen.size))
    for start in range(0, chosen.size, step):
        some = chosen[start : start + step]
        fill_block(rows, some, block)
        products[:, start : start + step] = (block[: some.size] @ queries.T).T
    return products


@dataclass(frozen=True)
class _Taken:
    """A query as a pass takes it, and what that leaves of it.

    Attributes
    ----------
    d, norm
        Entries of the query, and its norm.
    left, left_size
        Norm of what its own precision holds and that of the pass does not, and the sum of its sizes.
    rounding
        Error of a sum of positive terms, as a part of it.
    lost
        What underflow may take from a sum.
    """

    d: int
    norm: float
    left: float
    left_size: float
    rounding: float
    lost: float

    @classmethod
    def of(cls, query: NDArray[Any], vector: NDArray[Any], objective: str) -> _Taken:
        """Put the query into `vector`: its size does not matter for products, nor its mean for a correlation."""
        if objective == "correlation":
            query = query - query.mean()
        if OBJECTIVE_CODES[objective] == PRODUCT:
            query = np.ldexp(query, -int(np.frexp(max(query.max(), -query.min()))[1]))
        vector[:] = query
        limits = np.finfo(vector.dtype)
        n_added = LANE_TERMS + _BEYOND_LANES
        if vector.dtype == np.float64:
            # Sums of lanes go on in the same precision, and exact scores are no more exact than theirs.
            n_added += _EXACT_TERMS + vector.size // LANE_TERMS
        left = left_size = 0.0
        if vector.dtype != np.float64 and not np.array_equal(vector, query):
            rest = query - vector
            left, left_size = length_of(rest), float(np.abs(rest).sum())
        rounding, lost = n_added * float(limits.eps), vector.size * float(limits.tiny)
        return cls(vector.size, length_of(query), left, left_size, rounding, lost)

    def of_differences(self, sums: NDArray[np.float64], squared: bool) -> tuple[NDArray[np.float64], ...]:
        """Scores by sums of differences or of their squares, and by how much they may be wrong."""
        if not squared:
            return -sums, self.rounding * sums + self.left_size
        return -sums, self.rounding * sums + self.left * (2.1 * np.sqrt(sums) + self.left) + self.lost

    def of_products(
        self, products: NDArray[np.float64], moments: NDArray[np.float64], objective: str
    ) -> tuple[NDArray[np.float64], ...]:
        """Scores (but for a factor) by products and the atoms' sums and squares, and by how much they may be wrong."""
        totals, squares = moments
        # Where squares underflow, nothing is known of the norm.
        norms = np.where(squares * self.rounding > self.lost, np.sqrt(squares), np.inf)
        width = 1.1 * norms * (self.rounding * self.norm + self.left) + self.lost
        if objective == "inner_product":
            return products, width
        if objective == "neg_sqeuclidean":
            slack = 2.0 * self.rounding * (squares + self.norm**2)
            return 2.0 * products - squares - self.norm**2, 2.0 * width + slack + self.lost
        scatter, slack = squares, 2.0 * self.rounding * squares
        if objective == "correlation":
            # The square of the sum is wrong by two parts of what sizes add up to, which is no more than the squares do.
            scatter, slack = squares - totals**2 / self.d, 5.0 * self.rounding * squares
        relative = np.where(2.0 * slack < scatter, slack / scatter, np.inf)
        scores = products / (np.sqrt(scatter) * self.norm)
        return scores, 2.0 * width / (np.sqrt(scatter) * self.norm) + np.abs(scores) * relative
