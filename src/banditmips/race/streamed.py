"""The best atoms of a file for a batch of queries, in one reading of it: by products of bytes, and exact scores of few.

Rows are at hand for a moment. While they are, products of bytes say which of them can be among the best, by what is
known so far, and these are scored exactly. So nothing has to be read again but the rows that are returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import PartStore
from banditmips.core.byte_products import BLOCK, ByteProducts, can_round, reaching_best
from banditmips.core.rows import Rows
from banditmips.core.rule import deviations_of_ends
from banditmips.core.statistics import PRODUCT
from banditmips.race.costs import costs
from banditmips.race.full import exact_sums, rows_held
from banditmips.race.rounded import time_by_blas

__all__ = ["best_in_file"]


_HEIGHT = 2 * BLOCK
"""Rows of a group, at most: so many are still in the processor's last cache when they are scored exactly."""
_RISK = 0.1
"""Part of the time of BLAS that exact scores may take before products of bytes have saved it."""
_OTHERS = 1.5
"""Rows that are scored, over those that come to be among the best: bytes do not tell all of them apart."""


class BestSoFar(NamedTuple):
    """The rows that are best so far for a query, with their exact scores, and how many rows were scored for that."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    n_scored: int

    def with_others(self, rows: NDArray[np.int64], scores: NDArray[np.float64], k: int, absolute: bool) -> BestSoFar:
        """The best k of these and others, with whoever equals the last of them."""
        if rows.size == 0:
            return self
        n_scored = self.n_scored + rows.size
        rows, scores = np.append(self.rows, rows), np.append(self.scores, scores)
        if rows.size > k:
            ranked = np.abs(scores) if absolute else scores
            best = ranked >= np.partition(ranked, rows.size - k)[rows.size - k]
            rows, scores = rows[best], scores[best]
        return BestSoFar(rows, scores, n_scored)


def best_in_file(
    store: PartStore, queries: Sequence[NDArray[Any]], k: int, absolute: bool, delta: float, seed: int
) -> list[BestSoFar] | None:
    """The best k rows for each query, up to delta; None where BLAS would take less time, or a score is not finite."""
    n, itemsize, here, m = store.shape[0], store.dtype.itemsize, costs(), len(queries)
    by_blas = time_by_blas(here, itemsize, m)
    saved = by_blas - here.bytes_of(itemsize, m)
    edges = store.row_groups(max(min(rows_held(store), _HEIGHT), 1))
    if delta <= 0.0 or edges[1] <= k or store.by_column or _expected(n, k) * m * here.row > n * saved:
        return None
    ends, together = deviations_of_ends(delta, n, k, absolute), np.stack(queries)
    best = [BestSoFar(np.empty(0, dtype=np.int64), np.empty(0), 0)] * m
    by_bytes: ByteProducts | None = None
    for first, block in store.read_groups(edges):
        rows = Rows([block])
        if by_bytes is None:
            if not can_round(rows):
                return None
            by_bytes = ByteProducts(rows, queries, seed)
        close = _close_in(rows, by_bytes, best, ends, k, absolute)
        if close is None:
            return None
        begins = np.cumsum([0, *(some.size for some in close)])
        sums = exact_sums(rows, together, None, np.concatenate(close), begins, PRODUCT)
        scores = np.split(sums, begins[1:-1])
        if not all(np.isfinite(some).all() for some in scores):
            return None
        best = [
            one.with_others(first + some, exact, k, absolute)
            for one, some, exact in zip(best, close, scores, strict=True)
        ]
        # Most are scored in the beginning, where nobody knows who is best.
        n_scored = sum(one.n_scored for one in best)
        if n_scored * here.row > (first + len(block)) * saved + _RISK * n * by_blas:
            return None
    return best


def _expected(n: int, k: int) -> float:
    """Rows that are expected to be scored for a query: those that are among the best k for a while, and others."""
    return _OTHERS * k * (1.0 + log(max(n / k, 1.0)))


def _close_in(
    rows: Rows,
    by_bytes: ByteProducts,
    best: Sequence[BestSoFar],
    ends: tuple[float, float],
    k: int,
    absolute: bool,
) -> list[NDArray[np.int64]] | None:
    """Rows of a group that can be among the best of each query, by those that are best so far; None if nobody knows."""
    by_bytes.turn_to(rows)
    by_bytes.fill(np.arange(by_bytes.n_blocks))
    radii = by_bytes.radii(ends)
    close = []
    with np.errstate(over="ignore", invalid="ignore"):
        for one, products, deviations in zip(best, by_bytes.products, by_bytes.deviations(), strict=True):
            n_before = one.rows.size
            known, radius = np.append(one.scores, products), np.append(np.zeros(n_before), deviations)
            places, _, unknown = reaching_best(known[np.newaxis], radius[np.newaxis], radii, k, absolute)
            if unknown.any():
                return None
            close.append(places[places >= n_before] - n_before)
    return close
