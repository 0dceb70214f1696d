"""Batches whose queries are answered by products of bytes."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import banditmips as bm
from banditmips._search_options import Options
from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import collect_facts
from banditmips.core.byte_products import BLOCK, ByteProducts
from banditmips.core.rows import Rows
from banditmips.race import rounded
from banditmips.race.atom_set import AtomSet
from banditmips.race.costs import Costs
from banditmips.race.rounded import Settings
from banditmips.race.together import Together


@pytest.fixture(autouse=True)
def costs_of_a_server(monkeypatch):
    """Costs that do not depend on the machine: all others are slow, so that products of bytes pay for few atoms too."""
    here = Costs(product=0.06, own_product=0.06, more_columns=1.0, more_column_sweep=1.0)
    for module in ("batch", "direct", "full", "passes", "code_search", "query", "rounded", "together"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: here)


def normal(n=800, d=2_100, m=30, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)


def best(atoms, queries, k, absolute=False):
    scores = queries.astype(np.float64) @ atoms.astype(np.float64).T
    return np.argsort(-np.abs(scores) if absolute else -scores, axis=1, kind="stable")[:, :k]


@pytest.mark.parametrize("k", [1, 10, 100])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("absolute", [False, True])
def test_the_best_are_found_among_those_that_are_left(k, order, dtype, absolute):
    atoms, queries = normal(dtype=dtype)
    atoms = np.asarray(atoms, order=order)
    result = bm.search(atoms, queries, k=k, absolute=absolute)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, k, absolute))
    assert (result.delta_spent == 1e-3).all()
    assert (result.n_survivors < k + 80).all()
    assert (result.n_survivors >= k).all()
    np.testing.assert_array_equal(result.n_multiplies, atoms.size + result.n_survivors * atoms.shape[1])
    alone = [bm.search(atoms, query, k=k, absolute=absolute) for query in queries[:5]]
    np.testing.assert_array_equal(result.scores[:5], [one.scores for one in alone])
    assert result.exact.all()


def test_an_index_answers_as_a_bare_array_does():
    atoms, queries = normal(n=3_000, d=2_048, m=40)
    result = bm.BanditMIPS().fit(atoms).search(queries, k=10)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 10))
    assert (result.delta_spent[-8:] == 1e-3).all()
    assert (result.n_survivors[-8:] < 100).all()


def test_threads_and_seeds():
    atoms, queries = normal()
    one, two = (bm.search(atoms, queries, k=5, n_jobs=n_jobs) for n_jobs in (1, 2))
    for name in ("indices", "scores", "n_multiplies", "n_survivors", "delta_spent"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    other = bm.search(atoms, queries, k=5, seed=1)
    np.testing.assert_array_equal(one.scores, other.scores)
    assert (one.n_survivors != other.n_survivors).any()


def truth(atoms, queries, objective):
    """Scores in double precision."""
    atoms, queries = atoms.astype(np.float64), queries.astype(np.float64)
    if objective == "correlation":
        atoms, queries = (vectors - vectors.mean(axis=1, keepdims=True) for vectors in (atoms, queries))
    if objective in ("cosine", "correlation"):
        lengths = np.linalg.norm(atoms, axis=1)
        atoms = np.divide(atoms, lengths[:, np.newaxis], where=lengths[:, np.newaxis] > 0, out=np.zeros_like(atoms))
    if objective == "neg_sqeuclidean":
        return -np.square(queries[:, np.newaxis] - atoms).sum(axis=2)
    return queries @ atoms.T


KINDS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "lengths": lambda rng, shape: rng.normal(size=shape) * rng.lognormal(sigma=0.5, size=(shape[0], 1)),
    "level": lambda rng, shape: 1.0 + rng.normal(size=shape),
    "laplace": lambda rng, shape: rng.laplace(size=shape),
    "counts": lambda rng, shape: rng.poisson(2.0, size=shape),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean", "correlation"])
@pytest.mark.parametrize("kind", KINDS)
def test_wrong_answers_are_as_rare_as_promised(kind, objective, known, monkeypatch):
    """The two best differ by less than a radius at delta = 0.1, and the filter alone decides."""
    monkeypatch.setattr(rounded, "_most_rows", lambda *_: 200.0)
    n, d, m, delta, n_wrong, n_trials = 200, 1_024, 16, 0.1, 0, 0
    rng = np.random.default_rng(3)
    for seed in range(8):
        atoms, queries = (KINDS[kind](rng, (size, d)).astype(np.float32) for size in (n, m))
        atom_set = AtomSet(DenseStore(atoms), facts=collect_facts(DenseStore(atoms)) if known else None)
        together = Together(atom_set, 2, Options(delta=delta, seed=seed, objective=objective))
        found = together._close_by_bytes(queries, together.measure(queries))
        if objective == "correlation" and not known:
            assert found is None
            return
        rows, begins, unknown = found
        assert not unknown.any()
        assert rows.size < m * n / 4
        wanted = np.argsort(-truth(atoms, queries, objective), axis=1)[:, :2]
        kept = np.split(rows, begins[1:-1])
        n_wrong += sum(not set(best) <= set(close) for best, close in zip(wanted.tolist(), kept, strict=True))
        n_trials += m
    assert n_wrong <= binom.ppf(1 - 1e-6, n_trials, delta)


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("objective", ["cosine", "neg_sqeuclidean", "correlation"])
def test_other_objectives_are_answered_as_for_each_query_alone(objective, absolute, fitted):
    if absolute and objective == "neg_sqeuclidean":
        return
    atoms, queries = normal(n=900, d=2_100)
    atoms *= np.random.default_rng(1).lognormal(sigma=0.3, size=(len(atoms), 1)).astype(np.float32)
    atoms[7] = 0.0
    options = {"objective": objective, "absolute": absolute}
    search = bm.BanditMIPS(**options).fit(atoms).search if fitted else partial(bm.search, atoms, **options)
    result = search(queries, k=5)
    scores = truth(atoms, queries, objective)
    wanted = np.argsort(-np.abs(scores) if absolute else -scores, axis=1, kind="stable")[:, :5]
    np.testing.assert_array_equal(result.indices, wanted)
    if fitted or objective != "correlation":
        assert (result.delta_spent[-8:] == 1e-3).all()
        assert (result.n_survivors[-8:] < 100).all()
    for query, of_query in zip(queries[-3:], result.scores[-3:], strict=True):
        np.testing.assert_array_equal(of_query, search(query, k=5).scores)


def counted(monkeypatch):
    """Blocks that products of bytes are asked for."""
    n_filled = []
    fill = ByteProducts.fill

    class Counted(ByteProducts):
        def fill(self, blocks):
            n_filled.append(len(blocks))
            fill(self, blocks)

    monkeypatch.setattr(rounded, "ByteProducts", Counted)
    return n_filled


def test_products_of_bytes_that_cannot_tell_atoms_apart_end_after_a_few(monkeypatch):
    """Spikes of atoms make steps as large as everything else; one block of 32 shows it, and BLAS does the rest."""
    atoms, queries = normal(n=2_000, d=1_024)
    atoms[:, 5] = 1e4
    queries[:, 5] = 0.0
    n_filled = counted(monkeypatch)
    result = bm.search(atoms, queries, k=10)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 10))
    assert n_filled == [len(atoms) // (32 * BLOCK)]
    assert (result.delta_spent == 0.0).all()
    assert (result.n_survivors == len(atoms)).all()


def test_queries_with_spikes_are_not_tried_on_a_small_matrix(monkeypatch):
    atoms, queries = normal(n=900, d=8_192)
    queries[:, 9] = 1e4
    n_filled = counted(monkeypatch)
    result = bm.search(atoms, queries, k=30)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 30))
    assert n_filled == []
    assert (result.delta_spent == 0.0).all()


def test_atoms_with_spikes_are_not_tried_on_a_small_matrix(monkeypatch):
    atoms, queries = normal(n=300, d=8_192)
    atoms[:, 9], queries[:, 9] = 1e4, 0.0
    n_filled = counted(monkeypatch)
    result = bm.search(atoms, queries, k=30)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 30))
    assert n_filled == []
    assert (result.delta_spent == 0.0).all()


def test_what_is_tried_is_not_multiplied_again(monkeypatch):
    atoms, queries = normal(n=2_000)
    n_filled = counted(monkeypatch)
    assert (bm.search(atoms, queries, k=3).delta_spent == 1e-3).all()
    assert sum(n_filled) == -(-len(atoms) // BLOCK)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16, np.bool_, np.int16])
@pytest.mark.parametrize("shape", [(20, 30), (400, 2_100)])
def test_small_matrices_of_short_numbers_are_answered_as_for_each_query_alone(shape, dtype, objective):
    """They are converted as a whole: to numbers that are the same, so that scores are the same to the bit."""
    rng = np.random.default_rng(5)
    atoms = (
        (rng.random(shape) < 0.5)
        if dtype == np.bool_
        else (40 * rng.random(shape) - (dtype != np.uint8) * 20).astype(dtype)
    )
    queries = rng.normal(size=(40, shape[1])).astype(np.float32)
    for search in (
        partial(bm.search, atoms, objective=objective),
        bm.BanditMIPS(objective=objective).fit(atoms).search,
    ):
        result = search(queries, k=4)
        wanted = truth(atoms, queries, objective)
        np.testing.assert_array_equal(result.indices, np.argsort(-wanted, axis=1, kind="stable")[:, :4])
        for query, indices, scores in zip(queries[:5], *result, strict=False):
            alone = search(query, k=4)
            np.testing.assert_array_equal(indices, alone.indices)
            np.testing.assert_array_equal(scores, alone.scores)


def test_some_queries_may_still_need_blas():
    """An entry of theirs that is large, and meets nothing but zeros, makes their steps large."""
    atoms, queries = normal()
    atoms[:, [9, 1_500]] = 0.0
    queries[3, 9] = queries[20, 1_500] = 1e5
    result = bm.search(atoms, queries, k=3)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 3))
    spent = np.full(len(queries), 1e-3)
    spent[[3, 20]] = 0.0
    np.testing.assert_array_equal(result.delta_spent, spent)


def test_ties_come_by_index_and_zeros_are_atoms_too():
    atoms, queries = normal()
    atoms[1::2] = atoms[::2]
    atoms[100:200] = 0.0
    result = bm.search(atoms, queries, k=4)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 4))
    assert (result.delta_spent == 1e-3).all()
    nothing = bm.search(np.zeros_like(atoms), queries, k=4)
    np.testing.assert_array_equal(nothing.indices, np.tile(np.arange(4), (len(queries), 1)))
    assert (nothing.scores == 0.0).all()


@pytest.mark.parametrize("scale", [1e-30, 1e-18, 1e15, 1e18])
def test_scales(scale):
    atoms, queries = normal()
    atoms, queries = (atoms * np.float32(scale)).astype(np.float32), queries
    result = bm.search(atoms, queries, k=3)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 3))
    assert (result.delta_spent == 1e-3).all()


@pytest.mark.parametrize("change", [{"n": 16}, {"m": 3}, {"n": 384, "k": 384}])
def test_batches_that_are_left_to_blas(change):
    k = change.pop("k", 5)
    atoms, queries = normal(**change)
    result = bm.search(atoms, queries, k=k)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, k))
    assert (result.delta_spent == 0.0).all()


def test_delta_zero_needs_all_products():
    atoms, queries = normal()
    assert (bm.search(atoms, queries, delta=0.0).delta_spent == 0.0).all()
    assert rounded.close_by_bytes(Rows([atoms]), queries, Settings(1, False, 0.0, 0)) is None


def test_a_query_that_leaves_a_few_rows_more_than_the_others_does_not_make_blas_read_all(monkeypatch):
    """Products of bytes are there by then: what counts is what its rows take beside the products of that query."""
    atoms, queries = normal(n=2_000)
    rows, here = Rows([atoms]), replace(rounded.costs(), row=0.4)
    monkeypatch.setattr(rounded, "costs", lambda: here)
    most = rounded._most_rows(here, rows, len(queries), 1)
    n_alike = int(most) + 20
    assert n_alike < rounded._rows_for_blas(here, rows, 1) < 1_950
    atoms[:n_alike] = queries[3] + 1e-3 * atoms[:n_alike]
    _, begins, unknown = rounded.close_by_bytes(rows, queries, Settings(1, False, 1e-3, 0))
    assert begins[4] - begins[3] >= n_alike
    assert not unknown[3]
    np.testing.assert_array_equal(bm.search(atoms, queries).indices, best(atoms, queries, 1))
    atoms[:1_950] = queries[3] + 1e-3 * atoms[:1_950]  # far too many, and alike for all other queries, too
    assert rounded.close_by_bytes(rows, queries, Settings(1, False, 1e-3, 0)) is None
    np.testing.assert_array_equal(bm.search(atoms, queries).indices, best(atoms, queries, 1))


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
def test_columns_that_our_own_loop_multiplies_in_less_time_are_not_rounded(dtype, monkeypatch):
    atoms, queries = normal(n=600, d=400, m=16)
    atoms = np.asfortranarray((20.0 * atoms).astype(dtype))
    cheap = {"byte_batch": 0.0, "byte_row": 0.0, "byte_interval": 0.0, "product": 1.0, "convert": 1.0, "shared": 1.0}
    cheap["own_product"] = 1.0
    for sweep, are_rounded in ((0.001, False), (100.0, True)):
        here = Costs(column_sweep=sweep, near_column_sweep=sweep, more_column_sweep=sweep, **cheap)
        for module in ("full", "rounded"):
            monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda here=here: here)
        rows = Rows([atoms])
        assert (rounded._most_rows(here, rows, 16, 1) > 0.0) == are_rounded
        found = rounded.close_by_bytes(rows, queries, Settings(1, False, 1e-3, 0))
        assert (found is not None) == are_rounded
