"""Races on cached coordinates alone: they take the same for any d, and say the same as longer ways."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import banditmips as bm
from banditmips import datasets

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


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int8])
def test_atoms_and_queries_of_any_type(dtype):
    atoms, query = problem(100_000)
    atoms, query = np.round(8 * atoms).astype(dtype), np.round(8 * query)
    index = bm.BanditMIPS(**OPTIONS).fit(atoms)
    results = [index.search(given, trace=True) for given in (query, query.astype(np.int64), np.repeat(query, 2)[::2])]
    for result in results:
        assert "cached coordinates alone" in result.trace.plan
        assert result.indices[0] == N - 1
        assert result.scores[0] == results[0].scores[0]
        assert result.lower[0] <= atoms[N - 1].astype(np.float64) @ query <= result.upper[0]


def test_a_race_that_is_handed_over_is_counted_once():
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(N, 100_000)).astype(np.float32)
    queries = rng.normal(size=(2, 100_000)).astype(np.float32)
    index = bm.BanditMIPS(**OPTIONS).fit(atoms)
    together = index.search(queries)
    for query, counted in zip(queries, together.n_multiplies, strict=True):
        assert index.search(query).n_multiplies == counted > atoms.size


def test_threads_do_not_share_what_a_query_leaves():
    atoms, _ = problem(100_000)
    queries = [problem(100_000, seed)[1] for seed in range(8)]
    index = bm.BanditMIPS(**OPTIONS).fit(atoms)
    alone = [index.search(query).scores[0] for query in queries]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            assert list(pool.map(lambda query: index.search(query).scores[0], queries)) == alone


def test_uneven_queries_are_planned_as_without_a_cache():
    """What cannot be read from the cache would have to be gathered: only where that takes less than all products."""
    data = datasets.load("heavy_tailed", n=200, d=20_000)
    index = bm.BanditMIPS(layout="coordinates").fit(data.atoms)
    result = index.search(data.queries[0], trace=True)
    assert "all products" in result.trace.plan
    assert result.n_rounds == 0
    assert result.indices[0] == np.argmax(data.atoms @ data.queries[0])


def test_even_queries_sample_the_cache_for_a_part_of_the_product():
    """With exact scores wanted, rounds on cached coordinates end where they would take more than they can save."""
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(1_000, 20_000)).astype(np.float32), rng.normal(size=20_000).astype(np.float32)
    result = bm.BanditMIPS(layout="coordinates").fit(atoms).search(query)
    assert result.indices[0] == np.argmax(atoms @ query)
    assert result.n_multiplies < 1.1 * atoms.size
