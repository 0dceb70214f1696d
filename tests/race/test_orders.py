"""Atoms in every order and of every type: the same answers, alone and together, to the bit."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import banditmips as bm
from banditmips.core.passes import products_of_columns
from banditmips.core.rows import Rows
from banditmips.race import passes
from banditmips.race.costs import Costs
from banditmips.race.together import Together

DTYPES = ("f4", "f8", "f2", "i1", "u1", "i2", "?", "i4")
OBJECTIVES = ("inner_product", "cosine", "neg_sqeuclidean", "correlation", "neg_l1")


def laid_out(atoms, order):
    """The same numbers by row, by column, or with others between them."""
    if order != "apart":
        return np.asarray(atoms, order=order)
    room = np.zeros((2 * atoms.shape[0], 2 * atoms.shape[1]), dtype=atoms.dtype)
    room[::2, ::2] = atoms
    return room[::2, ::2]


def numbers(n, d, dtype, seed=0):
    return np.random.default_rng(seed).uniform(0 if dtype in "u1?" else -40, 40, size=(n, d)).astype(dtype)


def truth(atoms, query, objective):
    atoms, query = atoms.astype(np.float64), query.astype(np.float64)
    if objective in ("neg_sqeuclidean", "neg_l1"):
        apart = np.abs(atoms - query)
        return -(apart**2 if objective == "neg_sqeuclidean" else apart).sum(axis=1)
    if objective == "correlation":
        atoms, query = atoms - atoms.mean(axis=1, keepdims=True), query - query.mean()
    norms = np.linalg.norm(atoms, axis=1) * np.linalg.norm(query)
    return atoms @ query / (1.0 if objective == "inner_product" else norms)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", ["C", "F", "apart"])
def test_every_order_and_type_gives_the_same(order, dtype, objective):
    atoms = numbers(90, 2_500, dtype)
    if dtype == "?":
        atoms[np.random.default_rng(1).random(atoms.shape) < 0.5] = False
    queries = np.random.default_rng(2).normal(size=(24, 2_500)).astype(np.float32)
    given, plain = laid_out(atoms, order), np.ascontiguousarray(atoms)
    expected = bm.search(plain, queries, k=6, objective=objective)
    index = bm.BanditMIPS(objective=objective).fit(given)
    for search in (partial(bm.search, given, objective=objective), index.search):
        found = search(queries, k=6)
        np.testing.assert_array_equal(found.indices, expected.indices)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-13)
        for query, scores in zip(queries[:4], found.scores[:4], strict=True):
            np.testing.assert_array_equal(search(query, k=6).scores, scores)
    for query, indices in zip(queries, expected.indices, strict=True):
        np.testing.assert_array_equal(indices, np.argsort(-truth(atoms, query, objective), kind="stable")[:6])


@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
@pytest.mark.parametrize("order", ["F", "apart"])
@pytest.mark.parametrize("m", [1, 40])
def test_products_and_moments_of_atoms_that_do_not_lie_by_row(m, order, dtype, monkeypatch):
    monkeypatch.setattr(passes, "_BLOCK", 4_096)  # several blocks
    monkeypatch.setattr(passes, "_MOST_ROWS", 50)
    atoms = numbers(130, 301, dtype)
    queries = np.random.default_rng(3).normal(size=(m, 301)).astype(np.float32)
    moments = np.full((2, 130), np.nan)
    products = passes.pass_products(Rows([laid_out(atoms, order)]), queries, moments)
    wide = atoms.astype(np.float64)
    np.testing.assert_allclose(products, queries.astype(np.float64) @ wide.T, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(moments[0], wide.sum(axis=1), rtol=1e-5, atol=1e-2)
    np.testing.assert_allclose(moments[1], np.square(wide).sum(axis=1), rtol=1e-5)


@pytest.mark.parametrize("level", [0.0, 0.55, 0.7, 50.0])
@pytest.mark.parametrize("fitted", [False, True])
def test_correlations_of_queries_with_a_level_share_their_products(level, fitted):
    """Those that are mostly mean are taken less their means, alone and together."""
    rng = np.random.default_rng(4)
    atoms = (level + rng.uniform(-0.5, 0.5, size=(300, 1_100))).astype(np.float32)
    queries = (level + rng.uniform(-0.5, 0.5, size=(40, 1_100))).astype(np.float32)
    queries[3] -= np.float32(level)
    index = bm.BanditMIPS(objective="correlation").fit(atoms)
    search = index.search if fitted else partial(bm.search, atoms, objective="correlation")
    found = search(queries, k=5)
    assert (found.n_rounds == 0).all()
    for query, indices, scores in zip(queries, *found, strict=True):
        np.testing.assert_array_equal(indices, np.argsort(-truth(atoms, query, "correlation"), kind="stable")[:5])
        np.testing.assert_array_equal(scores, search(query, k=5).scores)


def test_queries_with_epsilon_share_products_where_no_race_pays(monkeypatch):
    atoms, queries = (np.random.default_rng(5).normal(size=(size, 500)).astype(np.float32) for size in (2_000, 80))
    n_together, best = [], Together.best

    def counted(self, some, *given):
        n_together.append(len(some))
        return best(self, some, *given)

    monkeypatch.setattr(Together, "best", counted)
    # Up to 64, and more of them if they are small, do so in one compiled call, which is tested in test_scored.py.
    found = bm.BanditMIPS(objective="cosine", epsilon=1e-3).fit(np.asfortranarray(atoms)).search(queries, k=3)
    assert n_together == [80]
    for query, indices in zip(queries, found.indices, strict=True):
        np.testing.assert_array_equal(indices, np.argsort(-truth(atoms, query, "cosine"), kind="stable")[:3])


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "g"])
@pytest.mark.parametrize("objective", ["cosine", "correlation"])
def test_squares_that_are_too_small_for_numbers_are_no_zeros(objective, dtype):
    """In whatever order their bytes lie, and however many there are."""
    rng = np.random.default_rng(6)
    atoms, query = (1e-170 * rng.normal(size=(6, 50))).astype(dtype), rng.normal(size=50)
    scores = truth(1e170 * atoms, query, objective)
    for search in (
        partial(bm.search, atoms, objective=objective),
        bm.BanditMIPS(objective=objective).fit(atoms).search,
    ):
        found = search(query, k=3)
        np.testing.assert_array_equal(found.indices, np.argsort(-scores)[:3])
        np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][:3], rtol=1e-12)


@pytest.mark.parametrize("turned", [0.5, 2.0])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_products_either_way_round(turned, dtype, order, monkeypatch):
    """Whichever way round BLAS is faster, for small matrices in one call and for others: the same answers."""
    names = ("turned", "turned_columns", "wide_turned", "wide_turned_columns")
    told = replace(Costs(), **dict.fromkeys(names, turned))
    for module in ("banditmips.race.full", "banditmips._direct"):
        monkeypatch.setattr(f"{module}.costs", lambda: told)
    assert told.turns(4, by_column=False) == told.turns(8, by_column=True) == (turned < 1.0)
    for n, d in ((20, 60), (700, 1_500)):
        atoms, queries = laid_out(numbers(n, d, dtype), order), numbers(5, d, "f8", seed=1)
        queries = queries.astype(dtype if dtype != "f2" else "f4")
        best = [np.argsort(-truth(atoms, query, "inner_product"))[:3] for query in queries]
        for found in (bm.search(atoms, queries, k=3), bm.BanditMIPS().fit(atoms).search(queries, k=3)):
            assert np.array_equal(found.indices, best)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "correlation"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "f2"])
@pytest.mark.parametrize("columns", [1e-6, 1e6])
def test_a_few_queries_column_by_column_or_by_blas(objective, dtype, columns, monkeypatch):
    """Exact sums of all columns, of those of some queries after rough products, or row by row: the same to the bit."""
    told = replace(Costs(), columns=columns, near_columns=columns, more_columns=columns, convert=columns)
    for module in ("full", "together"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: told)
    atoms, queries = numbers(150, 900, dtype), numbers(4, 900, "f8", seed=1)
    mask, expected = np.arange(150) % 3 == 0, bm.BanditMIPS(objective=objective).fit(atoms)
    index = bm.BanditMIPS(objective=objective).fit(np.asfortranarray(atoms))
    assert Together(index._atom_set, 3, index._parameters.options).exact_by_columns(4) == (columns < 1.0)
    for taken in (None, mask):
        found, other = index.search(queries, k=3, mask=taken), expected.search(queries, k=3, mask=taken)
        assert np.array_equal(found.indices, other.indices)
        assert np.array_equal(found.scores, other.scores)
        assert np.array_equal(found.n_multiplies, other.n_multiplies)
    bare = bm.search(np.asfortranarray(atoms), queries, k=3, objective=objective)
    assert np.array_equal(bare.scores, expected.search(queries, k=3).scores)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean", "correlation"])
@pytest.mark.parametrize("dtype", ["f4", "i1", "f2", "u1"])
@pytest.mark.parametrize("sweep", [1e-6, 1e6])
def test_rough_products_of_columns_by_our_own_loop_or_by_blas(objective, dtype, sweep, monkeypatch):
    """Whoever says which rows are close, exact scores are the same to the bit, with and without an index."""
    dear = dict.fromkeys(("columns", "near_columns", "more_columns"), 1e6)  # exact sums of all
    swept = dict.fromkeys(("column_sweep", "near_column_sweep", "more_column_sweep"), sweep)
    told, counts = replace(Costs(), **dear, **swept), []
    for module in ("full", "together", "passes", "scored", "direct"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: told)

    def counted(rows, queries, squares=None):
        counts.append(len(queries))
        return products_of_columns(rows, queries, squares)

    for module in ("full", "passes"):
        monkeypatch.setattr(f"banditmips.race.{module}.products_of_columns", counted)
    atoms, mask = np.abs(numbers(150, 900, dtype)), np.arange(150) % 3 == 0
    by_column, queries = np.asfortranarray(atoms), numbers(11, 900, "f8", seed=1).astype("f4")
    expected = bm.BanditMIPS(objective=objective).fit(atoms)
    index = bm.BanditMIPS(objective=objective).fit(by_column)
    for some in (queries, queries[:3], queries[0]):
        for taken in (None, mask):
            other = expected.search(some, k=3, mask=taken)
            for found in (
                index.search(some, k=3, mask=taken),
                bm.search(by_column, some, k=3, mask=taken, objective=objective),
            ):
                np.testing.assert_array_equal(found.indices, other.indices)
                np.testing.assert_array_equal(found.scores, other.scores)
    assert bool(counts) == (sweep < 1.0)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean"])
def test_rows_that_are_too_many_to_be_held_are_summed_up_a_few_queries_at_a_time(order, objective, monkeypatch):
    rng = np.random.default_rng(0)
    atoms = np.asarray(rng.normal(size=(300, 700)).astype(np.float32), order=order)
    queries = rng.normal(size=(200, 700)).astype(np.float32)
    expected = bm.search(atoms, queries, 20, objective=objective)
    monkeypatch.setattr("banditmips.race.together._MOST_PRODUCTS", 1_000)
    found = bm.search(atoms, queries, 20, objective=objective)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.scores, expected.scores)
