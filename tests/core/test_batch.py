"""What is asked of many queries at once."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.core.batch import add_exactly, best_of_each, measure_queries
from banditmips.core.entries import sums_of_rows, sums_of_squares
from banditmips.core.near_best import close_to_each
from banditmips.core.rows import Rows


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_queries_are_measured(dtype):
    queries = np.array([[3.0, 0.0, -4.0], [0.0, 0.0, 0.0], [np.nan, 1.0, 1.0], [1e30, 0.0, 0.0]], dtype=dtype)
    squares, largest, n_nonzero, fine = measure_queries(queries)
    assert squares[0] == 25.0
    assert largest[0] == 4.0
    assert n_nonzero[[0, 1]].tolist() == [2, 0]
    assert fine.tolist() == [True, True, False, True]


@pytest.mark.parametrize("n", [1, 5, 63, 64, 65, 700])
@pytest.mark.parametrize("k", [1, 3, 64])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_who_is_close_to_the_best(n, k, absolute, dtype):
    rng = np.random.default_rng(n)
    atoms, queries = rng.normal(size=(n, 50)).astype(dtype), rng.normal(size=(6, 50)).astype(dtype)
    atoms[n // 2 :] = atoms[: n - n // 2]  # equals, which are all close
    products, rows = queries @ atoms.T, Rows([atoms])
    norms = np.linalg.norm(queries, axis=1).astype(np.float64)
    exact = queries.astype(np.float64) @ atoms.astype(np.float64).T
    rank = np.abs(exact) if absolute else exact
    bars = np.sort(rank, axis=1)[:, -min(k, n)]
    for squares in (np.einsum("ij,ij->i", atoms, atoms), None):
        close, begins = close_to_each(products, squares, rows, norms, (k, absolute))
        assert begins[0] == 0
        assert begins[-1] == close.size
        for i in range(6):
            found = close[begins[i] : begins[i + 1]]
            assert set(np.flatnonzero(rank[i] >= bars[i] - 1e-12)) <= set(found)
            assert (rank[i, found] >= bars[i] - 1e-4).all()
        wide = close_to_each(products, squares, rows, norms, (k, absolute), np.full(6, 1e6))
        assert wide[0].size == 6 * n
    products[3, n - 1] = np.inf
    assert close_to_each(products, None, rows, norms, (k, absolute)) is None
    with pytest.raises(ValueError, match="squares must be"):
        close_to_each(products, None, rows, norms[:2], (k, absolute))


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1"])
@pytest.mark.parametrize("objective", [0, 1, 2])
def test_exact_sums_are_those_of_each_query(dtype, objective):
    rng = np.random.default_rng(0)
    atoms = (20.0 * rng.normal(size=(9, 3_000))).astype(dtype)
    rows, close, begins = Rows([atoms]), np.array([3, 1, 8, 0, 2, 4, 5]), np.array([0, 2, 2, 7])
    for queries in (rng.normal(size=(3, 3_000)).astype(np.float32), rng.normal(size=(3, 3_000))):
        for scales in (None, np.array([1.0, 4.0, 0.5])):
            sums = np.empty(7)
            add_exactly(rows, queries, scales, close, begins, objective, sums, (0, 3))
            for i in range(3):
                query = queries[i].astype(np.float64) * (1.0 if scales is None else scales[i])
                some = close[begins[i] : begins[i + 1]]
                np.testing.assert_array_equal(
                    sums[begins[i] : begins[i + 1]], rows.scores(some, None, query, objective)
                )
    with pytest.raises(IndexError, match="row 9"):
        add_exactly(rows, queries, None, np.array([9]), np.array([0, 1, 1, 1]), 0, np.empty(1), (0, 3))
    for wrong in ({"part": (0, 4)}, {"begins": np.array([0, 2, 2, 8])}, {"queries": queries[:, :5].copy()}):
        asked = {"queries": queries, "begins": begins, "part": (0, 3)} | wrong
        with pytest.raises(ValueError, match=r"queries|rows are wanted"):
            add_exactly(rows, asked["queries"], None, close, asked["begins"], 0, sums, asked["part"])


def test_the_best_of_each():
    close, begins = np.array([4, 7, 9, 2]), np.array([0, 3, 3, 4])
    indices, scores = best_of_each(close, begins, np.array([1.0, -5.0, 1.0, 3.0]), 2, False)
    assert indices.tolist() == [[4, 9], [-1, -1], [2, -1]]
    assert scores.tolist() == [[1.0, 1.0], [-np.inf, -np.inf], [3.0, -np.inf]]
    indices, _ = best_of_each(close, begins, np.array([1.0, -5.0, 1.0, 3.0]), 1, True)
    assert indices.ravel().tolist() == [7, -1, 2]
    assert best_of_each(close, begins, np.array([1.0, np.nan, 1.0, 3.0]), 1, True) is None
    assert best_of_each(close[:0], np.zeros(3, dtype=np.int64), np.empty(0), 1, False)[0].tolist() == [[-1], [-1]]


@pytest.mark.parametrize("d", [1, 9, 2_048, 5_001])
def test_sums_of_squares_are_the_same_in_any_company_and_precision(d):
    vectors = np.random.default_rng(0).normal(size=(5, d)).astype(np.float32)
    squares = sums_of_squares(vectors)
    np.testing.assert_allclose(squares, np.square(vectors.astype(np.float64)).sum(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(squares, sums_of_squares(vectors.astype(np.float64)))
    np.testing.assert_array_equal(squares, [sums_of_squares(vector[np.newaxis])[0] for vector in vectors])
    assert sums_of_squares(np.empty((2, 0))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("d", [1, 7, 2_048, 5_000])
def test_sums_of_rows_and_of_squares_about_their_means(d):
    vectors = (3.0 + np.random.default_rng(d).normal(size=(5, d))).astype(np.float32)
    totals = sums_of_rows(vectors)
    np.testing.assert_allclose(totals, vectors.astype(np.longdouble).sum(axis=1).astype(np.float64), rtol=1e-14)
    np.testing.assert_array_equal(totals, sums_of_rows(vectors.astype(np.float64)))
    np.testing.assert_array_equal(totals, [sums_of_rows(vector[np.newaxis])[0] for vector in vectors])
    squares, means = sums_of_squares(vectors, totals / d), totals / d
    np.testing.assert_array_equal(squares, sums_of_squares(vectors.astype(np.float64) - means[:, np.newaxis]))
    with pytest.raises(ValueError, match="means"):
        sums_of_squares(vectors, means[:2])
    assert sums_of_rows(np.empty((2, 0))).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("k", [9, 10, 11])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_plain_batch_that_wants_nearly_all_or_more(k, dtype):
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(10, 12)).astype(dtype), rng.normal(size=(6, 12)).astype(dtype)
    for _ in range(2):  # the second time in one compiled call
        result = bm.search(atoms, queries, k=k)
        alone = [bm.search(atoms, query, k=k) for query in queries]
        np.testing.assert_array_equal(result.indices, [one.indices for one in alone])
        np.testing.assert_array_equal(result.scores, [one.scores for one in alone])
        np.testing.assert_array_equal(result.n_survivors, [one.n_survivors for one in alone])


@pytest.mark.parametrize("n_queries", [2, 4, 24])
@pytest.mark.parametrize("k", [1, 3])
def test_products_that_are_too_large_for_floats_are_not_warned_of(n_queries, k):
    """Whichever loop multiplies so many queries: what overflows is scored in double precision."""
    rng = np.random.default_rng(0)
    atoms = (1e18 * rng.normal(size=(40, 3_000))).astype(np.float32)
    queries = (3e18 * rng.normal(size=(n_queries, 3_000))).astype(np.float32)
    scores = queries.astype(np.float64) @ atoms.astype(np.float64).T
    index = bm.BanditMIPS().fit(atoms)
    for _ in range(2):
        found = index.search(queries, k)
        np.testing.assert_array_equal(found.indices, np.argsort(-scores, axis=1)[:, :k])
