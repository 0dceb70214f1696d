"""Rows whose norms differ so much that rounding of the longest is larger than what the best is ahead."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.race.costs import Costs


def _long_rows_across_the_query(seed, n, d):
    """Atoms up to a million times as long as the query, nearly orthogonal to it, with scores close to each other."""
    rng = np.random.default_rng(seed)
    query = rng.normal(size=d)
    atoms = rng.normal(size=(n, d))
    atoms -= np.outer(atoms @ query / (query @ query), query)
    atoms *= 10.0 ** rng.uniform(0, 6, size=(n, 1))
    atoms += rng.uniform(0.9, 1.0, size=(n, 1)) * query
    return atoms.astype(np.float32), query.astype(np.float32)


@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("way", ["index", "index, batch", "no index"])
def test_long_rows_that_float_products_misjudge_are_found(monkeypatch, way, order, k):
    monkeypatch.setattr(Costs, "sweeps", lambda *_: True)  # BLAS does not say how long rows are
    # Without an index, norms come with the products of atoms that no cache holds.
    d = 30_000 if way == "no index" else 3_000
    for seed in range(3 if way == "no index" else 6):
        atoms, query = _long_rows_across_the_query(seed, 300, d)
        best = np.argsort(-(atoms.astype(np.float64) @ query.astype(np.float64)), kind="stable")[:k]
        atoms = np.asarray(atoms, order=order)
        queries = np.stack([query] * 3) if "batch" in way else query
        search = bm.search if way == "no index" else bm.BanditMIPS().fit(atoms).search
        for _ in range(2):  # the second of a kind takes a shorter way
            found = search(atoms, queries, k) if way == "no index" else search(queries, k)
            np.testing.assert_array_equal(
                np.atleast_2d(found.indices), np.tile(best, (np.atleast_2d(queries).shape[0], 1))
            )


@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_queries", [1, 3, 24])
@pytest.mark.parametrize("fitted", [True, False])
def test_positive_numbers_whose_scores_are_nearly_equal(order, n_queries, fitted, k):
    """Sums of them that are added up in a row in single precision are wrong by more than the best is ahead."""
    rng = np.random.default_rng(n_queries)
    d = 40_000
    atoms = (rng.random(d) * (1.0 + 1e-3 * rng.normal(size=(150, d)))).astype(np.float32)
    queries = rng.random((n_queries, d)).astype(np.float32)
    scores = queries.astype(np.float64) @ atoms.astype(np.float64).T
    atoms = np.asarray(atoms, order=order)
    index = bm.BanditMIPS(delta=1e-9).fit(atoms)
    asked = queries if n_queries > 1 else queries[0]
    for _ in range(2):  # the second of a kind takes a shorter way
        found = index.search(asked, k) if fitted else bm.search(atoms, asked, k, delta=1e-9)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(np.atleast_2d(found.indices), best)
