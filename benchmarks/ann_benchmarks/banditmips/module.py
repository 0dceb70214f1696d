"""banditmips for ann-benchmarks: copy this folder to ``ann_benchmarks/algorithms/`` of a checkout of that project."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from ann_benchmarks.algorithms.base.module import BaseANN
from numpy.typing import NDArray

import banditmips as bm

OBJECTIVES: dict[str, Literal["cosine", "neg_sqeuclidean"]] = {"angular": "cosine", "euclidean": "neg_sqeuclidean"}
"""Our objective for each of the benchmark's distances: whatever is nearest there has the largest score here."""


class BanditMIPS(BaseANN):  # type: ignore[misc]  # the project's base class carries no types here
    """A fitted index, searched at the failure probability that is the only thing to choose.

    Parameters
    ----------
    metric : {"angular", "euclidean"}
    """

    def __init__(self, metric: str) -> None:
        if metric not in OBJECTIVES:
            raise NotImplementedError(f"metric must be one of {', '.join(OBJECTIVES)}, got {metric!r}")
        self._metric = metric
        self._delta = 1e-3
        self._n_multiplies = 0
        self._n_queries = 0

    def fit(self, X: NDArray[Any]) -> None:
        """Read the atoms once."""
        # Only who is nearest is asked for: the benchmark computes every distance itself.
        self._index = bm.BanditMIPS(objective=OBJECTIVES[self._metric], rescore=False).fit(X)
        self._n_products = X.size

    def set_query_arguments(self, delta: float) -> None:
        """Take the failure probability of the queries that follow, and forget the work of those before."""
        self._delta = delta
        self._n_multiplies = self._n_queries = 0

    def query(self, q: NDArray[Any], n: int) -> NDArray[np.int64]:
        """Return the n nearest atoms, nearest first."""
        return self._answer(q, n)

    def batch_query(self, X: NDArray[Any], n: int) -> None:
        """Answer all queries in one call; `get_batch_results` returns the answers."""
        self.res = list(self._answer(X, n))

    def _answer(self, queries: NDArray[Any], n: int) -> NDArray[np.int64]:
        result = self._index.search(queries, k=n, delta=self._delta)
        self._n_multiplies += int(np.sum(result.n_multiplies))
        self._n_queries += len(np.atleast_2d(queries))
        return result.indices

    def get_additional(self) -> dict[str, Any]:
        """Return the multiplies of a query as a part of the full product's, to be kept with the results."""
        return {"share_of_multiplies": self._n_multiplies / (max(self._n_queries, 1) * self._n_products)}

    def __str__(self) -> str:
        return f"BanditMIPS(delta={self._delta:g})"
