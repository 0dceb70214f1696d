"""Which answers are right: recomputed from the returned atoms, in float64, whatever score a peer reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom

__all__ = ["TIE", "exact_scores", "first_ids", "plausible", "right_answers"]

TIE = 1e-6
"""An answer is right if its score falls short of the best by at most this part: float32 cannot tell them apart."""
_BLOCK_ENTRIES = 1 << 23


def exact_scores(atoms: NDArray[Any], queries: NDArray[Any]) -> NDArray[np.float64]:
    """Return the inner products in float64, shape (queries, atoms), without a float64 copy of all atoms."""
    columns = np.ascontiguousarray(queries.T, dtype=np.float64)
    scores = np.empty((len(queries), len(atoms)))
    step = max(1, _BLOCK_ENTRIES // atoms.shape[1])
    for start in range(0, len(atoms), step):
        block = atoms[start : start + step].astype(np.float64)
        scores[:, start : start + step] = (block @ columns).T
    return scores


def first_ids(found: Any) -> NDArray[np.int64]:
    """Return what a search returned as a flat array: the best atom of each query of the request."""
    return np.asarray(found).ravel().astype(np.int64)


def right_answers(ids: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether each atom found is the best for its query, or ties with it. `scores` has a row for each query."""
    if ids.shape != (len(scores),):
        raise ValueError(f"ids must hold one atom for each of the {len(scores)} queries, got shape {ids.shape}")
    known = (ids >= 0) & (ids < scores.shape[1])
    best = scores.max(axis=1)
    reached = scores[np.arange(len(ids)), np.where(known, ids, 0)]
    return np.asarray(known & (best - reached <= TIE * np.abs(best)))


def plausible(right: Sequence[bool], delta: float) -> bool:
    """Whether as many wrong answers as these could come from a failure probability of `delta`, at a level of 1 %."""
    n_wrong = len(right) - sum(right)
    return n_wrong == 0 or float(binom.sf(n_wrong - 1, len(right), delta)) > 0.01
