"""Races on cached coordinates alone: they take the same for any d, and say the same as longer ways."""

import numpy as np
import pytest

import banditmips as bm

N = 40
OPTIONS = {"layout": "coordinates", "rescore": False, "max_extra_memory": 2_000_000}


def problem(d, seed=0):
    rng = np.random.default_rng(seed)
    levels = np.linspace(-2.0, 2.0, N)
    atoms = (levels[:, np.newaxis] + 0.2 * rng.normal(size=(N, d))).astype(np.float32)
    return atoms, (8.0 + 0.2 * rng.normal(size=d)).astype(np.float32)


@pytest.mark.parametrize("objective", ["inner_product", "neg_sqeuclidean", "neg_l1"])
def test_the_answer_does_not_depend_on_how_much_of_the_query_there_is(objective):
    counts = []
    for d in (100_000, 400_000):
        atoms, query = problem(d)
        index = bm.BanditMIPS(**OPTIONS, objective=objective).fit(atoms)
        result = index.search(query, trace=True)
        assert result.indices[0] == N - 1  # the highest level, and the one closest to the query's
        assert not result.exact[0]
        assert "cached coordinates alone" in result.trace.plan
        counts.append(result.n_multiplies)
    # A longer query changes the sample, not how much of it is needed.
    assert counts[1] < 2 * counts[0]
    assert counts[1] < 0.01 * N * 400_000


def test_nothing_of_the_query_is_read_that_the_cache_does_not_hold():
    atoms, query = problem(100_000)
    index = bm.BanditMIPS(**OPTIONS).fit(atoms)
    cached = index._known.cache.order
    elsewhere = np.delete(np.arange(100_000), cached)
    blind = query.copy()
    blind[elsewhere] = np.nan
    whole, part = index.search(query), index.search(blind)
    assert part.indices[0] == whole.indices[0]
    assert part.n_multiplies == whole.n_multiplies
    with pytest.raises(ValueError, match="nan"):
        index.search(blind, rescore=True)
    blind[cached[0]] = np.nan
    with pytest.raises(ValueError, match="nan"):
        index.search(blind)


def test_alone_and_in_a_batch_it_is_the_same():
    atoms, _ = problem(100_000)
    queries = np.stack([problem(100_000, seed)[1] for seed in range(5)])
    queries[3] = 0.0  # says nothing: another way has to answer
    queries[4, 17] = 1e6  # too uneven for uniform coordinates
    index = bm.BanditMIPS(**OPTIONS).fit(atoms)
    together = index.search(queries, k=2)
    for i, query in enumerate(queries):
        alone = index.search(query, k=2)
        np.testing.assert_array_equal(alone.indices, together.indices[i])
        np.testing.assert_array_equal(alone.scores, together.scores[i])
        assert alone.n_multiplies == together.n_multiplies[i]


@pytest.mark.parametrize(
    "changed", [{"rescore": True}, {"objective": "cosine"}, {"delta": 0.0}, {"sampling": "weighted"}]
)
def test_what_asks_for_more_goes_another_way(changed):
    atoms, query = problem(100_000)
    result = bm.BanditMIPS(**(OPTIONS | changed)).fit(atoms).search(query, trace=True)
    assert "cached coordinates alone" not in result.trace.plan
    assert result.indices[0] >= 0


def test_a_close_race_is_not_decided_by_the_cache():
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(N, 100_000)).astype(np.float32)
    query = rng.normal(size=100_000).astype(np.float32)
    result = bm.BanditMIPS(**OPTIONS).fit(atoms).search(query)
    assert result.indices[0] == np.argmax(atoms @ query)
