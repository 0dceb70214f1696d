"""What the contract suites share: the ways to search, and the answers that need no cleverness.

By the clock, the full product of matrices as small as these wins, and nothing of a race would be tested. So every way
comes twice: as a user has it by default, and racing, with the full product forbidden.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.typing import NDArray

import banditmips as bm
from banditmips.race.query import Query
from banditmips.race.situation import Situation

Find = Callable[..., bm.SearchResult]


def _fitted(layout: str = "auto", bucket_size: int | None = None) -> Find:
    def find(atoms: Any, queries: Any, k: int = 1, *, mask: Any = None, **options: Any) -> bm.SearchResult:
        kept = "auto" if scipy.sparse.issparse(atoms) else layout  # no coordinates are kept of a sparse matrix
        return bm.BanditMIPS(layout=kept, bucket_size=bucket_size, **options).fit(atoms).search(queries, k, mask=mask)

    return find


def _racing(find: Find) -> Find:
    def find_racing(atoms: Any, queries: Any, k: int = 1, **options: Any) -> bm.SearchResult:
        return find(atoms, queries, k, **{"minimise": "multiplies", **options})

    return find_racing


FLAT: dict[str, Find] = {"search": bm.search, "index": _fitted()}
RACING_FLAT: dict[str, Find] = {
    "search, racing": _racing(bm.search),
    "codes, racing": _racing(_fitted()),
    "coordinates, racing": _racing(_fitted(layout="coordinates")),
}
BUCKETS: dict[str, Find] = {"buckets": _fitted(bucket_size=5)}
RACING_BUCKETS: dict[str, Find] = {"buckets, racing": _racing(_fitted(bucket_size=5))}
WAYS = FLAT | BUCKETS | RACING_FLAT | RACING_BUCKETS


def _forbid_the_full_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every search race, unless there is nothing to race for: delta is 0, or all candidates are returned."""
    finish = Query.finish

    def refuse(query: Query, *arguments: Any) -> Any:
        assert query._options.delta == 0.0 or query.candidates.size <= query._k, "the full product was asked for"
        return finish(query, *arguments)

    monkeypatch.setattr(Query, "finish", refuse)
    # Of files in few lines, less is read without sampling: here they have to be sampled all the same.
    monkeypatch.setattr(Situation, "why_exactly", lambda situation: None)


def _way(request: pytest.FixtureRequest) -> Find:
    if request.param.endswith("racing"):
        _forbid_the_full_product(request.getfixturevalue("monkeypatch"))
    return WAYS[request.param]


@pytest.fixture(params=WAYS)
def find(request: pytest.FixtureRequest) -> Find:
    """Every way to search: ``find(atoms, queries, k, mask=..., **options)``."""
    return _way(request)


@pytest.fixture(params=FLAT | RACING_FLAT)
def find_flat(request: pytest.FixtureRequest) -> Find:
    """The ways that race all atoms at once, and so know every objective."""
    return _way(request)


@pytest.fixture(params=RACING_FLAT | RACING_BUCKETS)
def find_racing(request: pytest.FixtureRequest) -> Find:
    """The ways that race whatever the full product would take."""
    return _way(request)


@pytest.fixture(params=RACING_FLAT)
def find_racing_flat(request: pytest.FixtureRequest) -> Find:
    """Those of them that race all atoms at once."""
    return _way(request)


@pytest.fixture
def codes_spend(request: pytest.FixtureRequest) -> float:
    """Most multiplies over those of all products: what codes did not decide has to be multiplied all the same."""
    return 1.5 if "codes, racing" in request.node.callspec.params.values() else 1.0


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
