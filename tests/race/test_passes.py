"""One pass over the atoms: whatever the objective, the type or the order, the best are those by exact scores."""

import numpy as np
import pytest

import banditmips as bm
from banditmips._search_options import Options
from banditmips._threads import helped_by
from banditmips.atoms import DenseStore
from banditmips.core.batch import best_of_each
from banditmips.core.passes import (
    SQUARE_TERMS,
    multiplies_columns,
    pass_dtype,
    products_and_squares,
    products_of_columns,
    rough_sums,
)
from banditmips.core.rows import Rows, fill_block
from banditmips.race.atom_set import AtomSet
from banditmips.race.passes import rounding_of_sums
from banditmips.race.together import Together

OBJECTIVES = ["inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1"]
DTYPES = ["f4", "f8", "f2", "i1", "u1", "?", "i2", "i4", "i8"]


def make(dtype, n=61, d=700, seed=0):
    rng = np.random.default_rng(seed)
    values = 20.0 * rng.normal(size=(n, d)) + (60.0 if dtype == "u1" else 0.0)
    atoms = values > 0.0 if dtype == "?" else values.clip(-120.0 if dtype != "u1" else 0.0, 120.0).astype(dtype)
    return atoms, rng.normal(size=(5, d)) * 20.0 + (60.0 if dtype == "u1" else 0.0)


def true_scores(atoms, query, objective):
    v, q = atoms.astype(np.longdouble), query.astype(np.longdouble)
    if objective == "correlation":
        v, q = v - v.mean(axis=1, keepdims=True), q - q.mean()
    if objective == "neg_sqeuclidean":
        return -((v - q) ** 2).sum(axis=1)
    if objective == "neg_l1":
        return -np.abs(v - q).sum(axis=1)
    products = v @ q
    if objective == "inner_product":
        return products
    norms = np.sqrt((v**2).sum(axis=1)) * np.sqrt((q**2).sum())
    return np.divide(products, norms, out=np.zeros_like(products), where=norms > 0.0)


def assert_best(result, atoms, query, objective, allowed, absolute=False):
    scores = true_scores(atoms, query, objective)
    rank = np.where(allowed, np.abs(scores) if absolute else scores, -np.inf)
    order = np.argsort(-rank, kind="stable")[: result.indices.size]
    np.testing.assert_array_equal(result.indices, order)
    np.testing.assert_allclose(result.scores, scores[order].astype(float), rtol=1e-12, atol=1e-14)
    assert result.exact.all()


@pytest.mark.parametrize("order", ["C", "F", "reversed"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_best_are_those_by_exact_scores(objective, dtype, order):
    atoms, queries = make(dtype)
    atoms = atoms[:, ::-1] if order == "reversed" else np.asarray(atoms, order=order)
    masked = np.random.default_rng(1).random(len(atoms)) < 0.3
    for k in (1, 7, len(atoms)):
        for absolute in (False,) if objective.startswith("neg_") else (False, True):
            together = bm.search(atoms, queries, k, objective=objective, delta=0.0, absolute=absolute)
            for i, query in enumerate(queries[:2]):
                alone = bm.search(atoms, query, k, objective=objective, delta=0.0, absolute=absolute)
                assert_best(alone, atoms, query, objective, np.ones(len(atoms), bool), absolute)
                np.testing.assert_array_equal(alone.scores, together.scores[i])
                np.testing.assert_array_equal(alone.indices, together.indices[i])
                assert alone.n_multiplies == atoms.size
    found = bm.search(atoms, queries[0], 3, objective=objective, delta=0.0, mask=masked)
    assert_best(found, atoms, queries[0], objective, ~masked)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_scores_closer_than_floats_can_tell(objective):
    rng = np.random.default_rng(2)
    base = rng.normal(size=5_000)
    query = base + 1e-3 * rng.normal(size=base.size)
    atoms = np.repeat(base[np.newaxis], 40, axis=0).astype(np.float32)
    atoms[np.arange(40), rng.integers(0, 5_000, 40)] *= np.float32(1.0 + 1e-5)
    atoms[30:] = atoms[5]  # equals, of which the first comes first
    found = bm.search(atoms, query, 5, objective=objective, delta=0.0)
    scores = true_scores(atoms, query, objective)
    best = np.lexsort((np.arange(40), -scores.astype(float)))[:5]
    np.testing.assert_allclose(found.scores, scores[best].astype(float), rtol=1e-13)
    for m in (2, 9):  # by our own loops and by BLAS, whose norms and products tell less of small differences
        together = bm.search(atoms, np.repeat(query[np.newaxis], m, axis=0), 5, objective=objective, delta=0.0)
        np.testing.assert_array_equal(together.indices, np.tile(found.indices, (m, 1)))
        np.testing.assert_array_equal(together.scores, np.tile(found.scores, (m, 1)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", [2, 3, 70])
def test_batches_are_answered_as_queries_alone(m, dtype):
    atoms, queries = make(dtype)
    queries = np.concatenate([queries + i for i in range(14)])[:m]
    for objective in OBJECTIVES:
        together = bm.search(atoms, queries, 2, objective=objective, delta=0.0)
        for i in (0, m - 1):
            alone = bm.search(atoms, queries[i], 2, objective=objective, delta=0.0)
            np.testing.assert_array_equal(together.indices[i], alone.indices)
            np.testing.assert_array_equal(together.scores[i], alone.scores)


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-20, 1e18, 1e30, 1e37])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_squares_that_are_no_floats(objective, scale):
    atoms, queries = make("f8")
    atoms, query = (atoms / 100.0 * scale).astype(np.float32), (queries[0] / 100.0 * scale).astype(np.float32)
    atoms[7] *= np.float32(1e-3)
    found = bm.search(atoms, query, 4, objective=objective, delta=0.0)
    scores = true_scores(atoms, query, objective)
    order = np.argsort(-scores, kind="stable")[:4]
    np.testing.assert_array_equal(found.indices, order)
    np.testing.assert_allclose(found.scores, scores[order].astype(float), rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_entry_that_is_not_finite_is_named(objective, dtype, bad):
    atoms, queries = make(dtype)
    atoms[33, 123] = bad
    for query in (queries[0], queries):
        with pytest.raises(ValueError, match="row 33, column 123"):
            bm.search(atoms, query, objective=objective, delta=0.0)


def test_a_large_mean_takes_no_digits_from_a_correlation():
    rng = np.random.default_rng(3)
    atoms = (1e4 + rng.normal(size=(50, 3_000))).astype(np.float32)
    query = 1.0 + rng.normal(size=3_000)
    found = bm.search(atoms, query, 5, objective="correlation")
    scores = true_scores(atoms, query, "correlation")
    np.testing.assert_array_equal(found.indices, np.argsort(-scores)[:5])
    np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][:5].astype(float), rtol=1e-8)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_threads_and_pieces_change_nothing(objective):
    atoms, queries = make("f2", n=300, d=9_000)
    alone = bm.search(atoms, queries, 3, objective=objective, delta=0.0)
    shared = bm.search(atoms, queries, 3, objective=objective, delta=0.0, n_jobs=2)
    np.testing.assert_array_equal(alone.indices, shared.indices)
    np.testing.assert_array_equal(alone.scores, shared.scores)
    one = bm.search(atoms, queries[1], 3, objective=objective, delta=0.0, n_jobs=2)
    np.testing.assert_array_equal(one.scores, alone.scores[1])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_few_rows_are_left_of_data_that_can_be_told_apart(objective):
    atoms, queries = make("f4", n=500, d=2_000)
    together = Together(AtomSet(DenseStore(atoms)), 3, Options(objective=objective))
    for query in queries:
        measured = together.measure(query[np.newaxis])
        with helped_by(2):
            found, _ = together._close(query[np.newaxis], measured, None)
        best = np.argsort(-true_scores(atoms, query, objective))[:3]
        assert set(best) <= set(found)
        assert found.size <= 6


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i4"])
@pytest.mark.parametrize("chosen", [[0, 1, 2, 40, 41, 60], [3, 59], range(61), [7], [5, 4, 60]])
def test_rows_of_a_matrix_by_column_are_copied(dtype, chosen):
    atoms, rows = make(dtype)[0], np.array(chosen)
    for kept in (np.float32, np.float64):
        block = np.empty((rows.size, atoms.shape[1]), dtype=kept)
        fill_block(Rows([np.asfortranarray(atoms)]), rows, block)
        np.testing.assert_array_equal(block, atoms[rows].astype(kept))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u1", "i2"])
@pytest.mark.parametrize("objective", [0, 1, 2])
@pytest.mark.parametrize(("n", "d", "m"), [(1, 1, 3), (3, 31, 2), (5, 2_049, 9), (37, 100, 7), (18, 21_000, 6)])
def test_sums_of_rows_with_several_queries(dtype, objective, n, d, m):
    """Whole numbers, of which every sum is exact: fours of rows and queries, what is left of both, and of columns."""
    rng = np.random.default_rng(n * d + m)
    atoms = rng.integers(0, 4, size=(n + 3, d)).astype(dtype)
    vectors = rng.integers(-3, 4, size=(m, d))
    rows, chosen = Rows([atoms]), rng.permutation(n + 3)[:n]
    queries = vectors.astype(pass_dtype(rows))
    terms = [lambda v, q: v * q, lambda v, q: (v - q) ** 2, lambda v, q: abs(v - q)][objective]
    expected = np.array([terms(atoms[chosen].astype(np.int64), query).sum(axis=1) for query in vectors])
    np.testing.assert_array_equal(rough_sums(rows, chosen, queries, objective), expected)
    if objective == 0:
        moments = np.empty((2, n))
        np.testing.assert_array_equal(rough_sums(rows, chosen, queries, objective, moments), expected)
        whole = atoms[chosen].astype(np.int64)
        np.testing.assert_array_equal(moments, [whole.sum(axis=1), (whole**2).sum(axis=1)])


def test_rows_of_several_matrices():
    atoms, queries = make("f4")
    rows = Rows([atoms[:20].astype(np.float16), atoms[20:]])
    assert pass_dtype(rows) == np.float32
    mixed = np.concatenate([atoms[:20].astype(np.float16).astype(np.float64), atoms[20:]])
    chosen = np.array([3, 19, 20, 60, 0])
    for vectors in (queries[:1].astype(np.float32), queries.astype(np.float32)):
        sums = rough_sums(rows, chosen, vectors, 2)
        true = np.abs(mixed[chosen] - vectors[:, np.newaxis].astype(np.float64)).sum(axis=2)
        np.testing.assert_allclose(sums, true, rtol=1e-5)
    with pytest.raises(ValueError, match="queries must have 700 entries of type float32"):
        rough_sums(rows, chosen, queries, 2)
    block = np.empty((5, 700), dtype=np.float32)
    fill_block(rows, chosen, block)
    np.testing.assert_array_equal(block, mixed[chosen])
    with pytest.raises(ValueError, match="room for 5 rows of 700"):
        fill_block(rows, chosen, block[:4])
    with pytest.raises(IndexError, match="row 61"):
        rough_sums(rows, np.array([61]), queries.astype(np.float32), 2)
    with pytest.raises(ValueError, match="moments"):
        rough_sums(rows, chosen, queries.astype(np.float32), 2, np.empty((2, 5)))


@pytest.mark.parametrize("scale", [1.0, 1e12, 1e-12])
@pytest.mark.parametrize("d", [1, 17, 300, 2_049, 4_096, 5_000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_squares_that_come_with_products_are_no_rougher_than_they_are_said_to_be(dtype, d, scale):
    """Of positive numbers, whose roundings add up."""
    rng = np.random.default_rng(d)
    for n in (1, 3, 4, 9, 12):
        atoms, query = (scale * rng.random((n, d))).astype(dtype), rng.random(d).astype(dtype)
        products, squares = products_and_squares(Rows([atoms]), query)
        true = (atoms.astype(np.longdouble) ** 2).sum(axis=1)
        limit = rounding_of_sums(atoms.dtype, d, SQUARE_TERMS)
        assert (np.abs(squares - true) <= limit * true).all()
        exact = atoms.astype(np.longdouble) @ query.astype(np.longdouble)
        assert (np.abs(products - exact) <= limit * exact).all()
    with pytest.raises(ValueError, match="must have"):
        products_and_squares(Rows([atoms]), query[1:])
    with pytest.raises(ValueError, match="floats in C order"):
        products_and_squares(Rows([np.ones((3, 5), order="F")]), np.ones(5))


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize("d", [2, 17, 64, 300, 5_000])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1", "u1", "?"])
def test_products_by_column_and_their_squares_are_no_rougher_than_they_are_said_to_be(dtype, d, scale):
    """Of positive numbers, whose roundings add up; for any number of queries."""
    rng = np.random.default_rng(d)
    for n, m in ((3, 1), (12, 2), (50, 3), (50, 7), (40, 8), (17, 9), (70, 21)):
        atoms = np.asfortranarray((scale * rng.random((n, d)) % 120).astype(dtype))
        queries, squares = rng.random((m, d)).astype(np.float32), np.empty(n, dtype=np.float32)
        products = products_of_columns(Rows([atoms]), queries, squares)
        limit = rounding_of_sums(np.dtype(np.float32), d, SQUARE_TERMS)
        true = (atoms.astype(np.longdouble) ** 2).sum(axis=1)
        assert (np.abs(squares - true) <= limit * true).all()
        exact = queries.astype(np.longdouble) @ atoms.astype(np.longdouble).T
        assert (np.abs(products - exact) <= limit * exact).all()
        np.testing.assert_array_equal(products_of_columns(Rows([atoms]), queries), products)


def test_products_by_column_that_cannot_be_asked_for():
    queries = np.ones((2, 5), dtype=np.float32)
    for atoms in (np.ones((3, 5), dtype=np.float32), np.ones((3, 5), order="F"), np.ones((3, 5), "i4", order="F")):
        assert not multiplies_columns(Rows([atoms]))
        with pytest.raises(ValueError, match="Fortran order"):
            products_of_columns(Rows([atoms]), queries)
    atoms = np.ones((3, 5), dtype=np.float16, order="F")
    assert multiplies_columns(Rows([atoms]))
    with pytest.raises(ValueError, match="must have 5 entries, and squares 3"):
        products_of_columns(Rows([atoms]), queries[:, 1:].copy())
    with pytest.raises(ValueError, match="must have 5 entries, and squares 3"):
        products_of_columns(Rows([atoms]), queries, np.empty(2, dtype=np.float32))


@pytest.mark.parametrize("k", [1, 2, 40, 61])
@pytest.mark.parametrize("absolute", [False, True])
def test_the_best_of_many_are_in_order_and_of_equals_the_first(k, absolute):
    rng = np.random.default_rng(k)
    for _ in range(20):
        scores, rows = rng.integers(-9, 9, 61).astype(float), np.sort(rng.choice(10_000, 61, replace=False))
        shuffled = rng.permutation(61)
        found, values = best_of_each(rows[shuffled], np.array([0, 61]), scores[shuffled], k, absolute)
        order = np.lexsort((rows, -np.abs(scores) if absolute else -scores))[:k]
        np.testing.assert_array_equal(found[0], rows[order])
        np.testing.assert_array_equal(values[0], scores[order])
