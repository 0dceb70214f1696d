"""Which answers are right: recomputed from the returned atoms, in float64, whatever score a peer reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

__all__ = ["TIE", "exact_scores", "found_ids", "plausible", "shares_found"]

TIE = 1e-6
"""An answer is right if its score falls short by at most this part of the best: float32 cannot tell them apart."""
_BLOCK_ENTRIES = 1 << 23


def exact_scores(atoms: Any, queries: NDArray[Any], objective: str = "inner_product") -> NDArray[np.float64]:
    """Return the scores in float64, shape (queries, atoms), without a float64 copy of all atoms."""
    columns = np.ascontiguousarray(queries.T, dtype=np.float64)
    n, d = atoms.shape
    scores = np.empty((len(queries), n))
    step = n if hasattr(atoms, "indptr") else max(1, _BLOCK_ENTRIES // d)  # what is sparse is small
    for start in range(0, n, step):
        block = atoms[start : start + step].astype(np.float64)
        scores[:, start : start + step] = _scores(block, columns, objective).T
    return scores


def _scores(block: Any, columns: NDArray[np.float64], objective: str) -> Any:
    """Scores of some atoms, a column for each query. The norm of the query is left out of the cosine."""
    if objective == "neg_l1":
        return np.stack([-np.abs(block - column).sum(axis=1) for column in columns.T], axis=1)
    products = block @ columns
    if objective == "cosine":
        norms = np.linalg.norm(block, axis=1)[:, np.newaxis]
        return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0.0)
    if objective == "neg_sqeuclidean":
        return 2.0 * products - np.square(block).sum(axis=1)[:, np.newaxis] - np.square(columns).sum(axis=0)
    return products


def found_ids(found: Any, n_queries: int) -> NDArray[np.int64]:
    """Return what a search returned in the shape (queries, k)."""
    return np.asarray(found).reshape(n_queries, -1).astype(np.int64)


def shares_found(
    ids: NDArray[np.int64], scores: NDArray[np.float64], k: int, shortfall: float = 0.0
) -> NDArray[np.float64]:
    """Which part of the k best atoms each query has found; one that ties with the k-th counts as one of them.

    `scores` has a row for each query; `shortfall` is what an answer may fall short in addition (`epsilon`).
    """
    k = min(k, scores.shape[1])
    if ids.ndim != 2 or len(ids) != len(scores) or ids.shape[1] < k:
        raise ValueError(f"ids must hold {k} atoms for each of the {len(scores)} queries, got shape {ids.shape}")
    shares = np.empty(len(ids))
    for row, (found, own) in enumerate(zip(ids[:, :k], scores, strict=True)):
        distinct = np.unique(found[(found >= 0) & (found < own.size)])
        best = np.partition(own, own.size - k)[own.size - k :]
        needed = best.min() - TIE * abs(best.max()) - shortfall
        shares[row] = np.count_nonzero(own[distinct] >= needed) / k
    return shares


def plausible(right: Sequence[bool], delta: float) -> bool:
    """Whether as many wrong answers as these could come from a failure probability of `delta`, at a level of 1 %."""
    n_wrong = len(right) - sum(right)
    return n_wrong == 0 or float(binom.sf(n_wrong - 1, len(right), delta)) > 0.01
