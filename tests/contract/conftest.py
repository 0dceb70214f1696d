"""What the contract suites share: the ways to search, and the answers that need no cleverness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import banditmips as bm

Find = Callable[..., bm.SearchResult]


def _fitted(bucket_size: int | None) -> Find:
    def find(atoms: Any, queries: Any, k: int = 1, *, mask: Any = None, **options: Any) -> bm.SearchResult:
        return bm.BanditMIPS(bucket_size=bucket_size, **options).fit(atoms).search(queries, k, mask=mask)

    return find


WAYS: dict[str, Find] = {"search": bm.search, "index": _fitted(None), "buckets": _fitted(5)}


@pytest.fixture(params=WAYS)
def find(request: pytest.FixtureRequest) -> Find:
    """Every way to search: ``find(atoms, queries, k, mask=..., **options)``."""
    return WAYS[request.param]


@pytest.fixture(params=["search", "index"])
def find_flat(request: pytest.FixtureRequest) -> Find:
    """The ways that race all atoms at once, and so know every objective."""
    return WAYS[request.param]


def _score(atoms: NDArray[Any], query: NDArray[Any], objective: str = "inner_product") -> NDArray[np.float64]:
    v, q = np.asarray(atoms, dtype=np.float64), np.asarray(query, dtype=np.float64)
    if objective == "neg_sqeuclidean":
        return -((v - q) ** 2).sum(axis=1)
    if objective == "neg_l1":
        return -np.abs(v - q).sum(axis=1)
    if objective == "cosine":
        norms = np.linalg.norm(v, axis=1) * np.linalg.norm(q)
        return np.divide(v @ q, norms, out=np.zeros(len(v)), where=norms > 0)
    return v @ q


@pytest.fixture(scope="session")
def score() -> Callable[..., NDArray[np.float64]]:
    """Brute force: ``score(atoms, query, objective)`` is the score of every atom."""
    return _score


@pytest.fixture(scope="session")
def best() -> Callable[..., NDArray[np.int64]]:
    """Brute force: ``best(scores, k)`` is the k best atoms, of equals the one with the smaller index."""
    return lambda scores, k=1: np.lexsort((np.arange(len(scores)), -np.asarray(scores)))[:k]
