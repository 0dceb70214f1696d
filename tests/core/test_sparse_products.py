"""Products of sparse matrices: what SciPy gives, and never a step outside the arrays."""

import numpy as np
import pytest
import scipy.sparse

from banditmips.core.sparse_batch import (
    WIDTH,
    best_rows,
    column_products_of_many,
    roundings,
    row_products_of_many,
)
from banditmips.core.sparse_products import PlaceError, SparseProducts, can_be_read

DTYPES = ["f4", "f8", "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]
N, D = 40, 1500  # a row of this length, stored whole, takes more than one stretch


def matrix_of(form, dtype="f8", index_dtype=np.int32, seed=0):
    """Sparse rows of all lengths, the first two empty and the last full, whose order and parts are as they come."""
    rng = np.random.default_rng(seed)
    keep = rng.random((N, D)) < np.linspace(-0.05, 1.0, N)[:, np.newaxis]
    values = rng.integers(0 if np.dtype(dtype).kind in "ub" else -4, 5, (N, D))
    matrix = scipy.sparse.coo_array(np.where(keep, values, 0).astype(dtype))
    order = rng.permutation(matrix.nnz)
    parts = [np.append(part[order], part[order[:50]]) for part in (matrix.data, *matrix.coords)]
    matrix = scipy.sparse.coo_array((parts[0], (parts[1], parts[2])), shape=(N, D))
    # Put together by hand: SciPy would add up what is stored in parts.
    majors, minors = matrix.coords if form == "csr" else matrix.coords[::-1]
    order = np.argsort(majors, kind="stable")
    made = (scipy.sparse.csr_array if form == "csr" else scipy.sparse.csc_array)((N, D), dtype=dtype)
    made.data, made.indices = matrix.data[order], minors[order].astype(index_dtype)
    made.indptr = np.searchsorted(majors[order], np.arange((N if form == "csr" else D) + 1)).astype(index_dtype)
    return made


def whole_numbers(*shape, seed=1):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(float)


def side_by_side(sums, m):
    """One row of products for each query."""
    return sums.transpose(0, 2, 1).reshape(-1, N)[:m]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_products_are_those_of_scipy(dtype, index_dtype):
    query = whole_numbers(D)
    rows = np.array([39, 0, 3, 3, 20])
    by_row, by_column = matrix_of("csr", dtype, index_dtype), matrix_of("csc", dtype, index_dtype)
    truth = by_row.astype(float).toarray() @ query
    products, n_stored = SparseProducts(by_row).row_products(query, np.arange(N))
    np.testing.assert_array_equal(products, truth)
    assert n_stored == by_row.nnz
    np.testing.assert_array_equal(SparseProducts(by_row).row_products(query, rows)[0], truth[rows])
    uneven = np.random.default_rng(9).normal(size=D).astype(np.float32)
    alike = [SparseProducts(by_row).row_products(q, np.arange(N))[0] for q in (uneven, uneven.astype(np.float64))]
    np.testing.assert_array_equal(*alike)  # to the bit
    columns = np.flatnonzero(query)
    for chosen in (None, columns):
        products, n_stored = SparseProducts(by_column).column_products(query, chosen)
        np.testing.assert_array_equal(products, truth)
        assert n_stored == (by_column.nnz if chosen is None else np.diff(by_column.indptr)[columns].sum())


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("m", [1, WIDTH, 2 * WIDTH + 3])
def test_products_with_many_queries_are_those_with_each(dtype, index_dtype, m):
    queries = np.random.default_rng(2).normal(size=(m, D))
    queries[:, ::3] = 0.0
    by_row, by_column = matrix_of("csr", dtype, index_dtype), matrix_of("csc", dtype, index_dtype)
    truth = (by_row.astype(float) @ queries.T).T
    columns = np.flatnonzero(queries.any(axis=0))
    for chosen in (None, columns):
        sums = row_products_of_many(SparseProducts(by_row), queries, chosen)
        np.testing.assert_allclose(side_by_side(sums, m), truth, atol=1e-10)
    for chosen in (None, np.arange(D), columns):
        sums = side_by_side(column_products_of_many(SparseProducts(by_column), queries, chosen), m)
        alone = [SparseProducts(by_column).column_products(query, None)[0] for query in queries]
        np.testing.assert_array_equal(sums, alone)  # to the bit


@pytest.mark.parametrize("columns", [None, np.arange(0, D, 2)])
def test_queries_in_single_precision_or_of_both_kinds_give_the_same(columns):
    queries = np.random.default_rng(5).normal(size=(WIDTH + 2, D)).astype(np.float32)
    if columns is not None:
        queries[:, 1::2] = 0.0
    wide = queries.astype(np.float64)
    for multiply, kind in ((row_products_of_many, "csr"), (column_products_of_many, "csc")):
        products = SparseProducts(matrix_of(kind))
        expected = multiply(products, wide, columns)
        for some in (queries, [*queries[:3], *wide[3:]]):
            np.testing.assert_array_equal(multiply(products, some, columns), expected)


def test_entries_that_come_in_several_pieces(monkeypatch):
    from banditmips.core import sparse_batch

    monkeypatch.setattr(sparse_batch, "_CHUNK", 10)
    monkeypatch.setattr(sparse_batch, "_COLUMNS", 7)
    queries = whole_numbers(3, D)
    sums = row_products_of_many(SparseProducts(matrix_of("csr")), queries, np.arange(D))
    np.testing.assert_array_equal(side_by_side(sums, 3), queries @ matrix_of("csr").toarray().T)
    sums = column_products_of_many(SparseProducts(matrix_of("csc")), queries, np.arange(D))
    np.testing.assert_array_equal(side_by_side(sums, 3), queries @ matrix_of("csc").toarray().T)


def test_roundings_hold_what_the_order_of_a_sum_changes():
    rng = np.random.default_rng(3)
    matrix = matrix_of("csr")
    matrix.data = rng.normal(size=matrix.nnz) * 10.0 ** rng.integers(-8, 9, matrix.nnz)
    products = SparseProducts(matrix)
    width = roundings(products)
    for _ in range(20):
        query = rng.normal(size=D)
        alone, _ = products.row_products(query, np.arange(N))
        together = side_by_side(row_products_of_many(products, query[np.newaxis], None), 1)[0]
        assert (np.abs(alone - together) <= width * np.linalg.norm(query)).all()


def test_counts():
    by_row, by_column = matrix_of("csr"), matrix_of("csc")
    rows, columns = np.array([39, 5, 17]), np.array([3, 1400, 77])
    chosen = np.zeros(D, dtype=np.uint8)
    chosen[columns] = 1
    stored = scipy.sparse.coo_array((np.ones(by_row.nnz), by_row.tocoo().coords), shape=(N, D)).toarray()
    assert SparseProducts(by_row).count_of_rows(rows, chosen) == stored[np.ix_(rows, columns)].sum()
    chosen = np.zeros(N, dtype=np.uint8)
    chosen[rows] = 1
    assert SparseProducts(by_column).count_of_columns(columns, chosen) == stored[np.ix_(rows, columns)].sum()
    for matrix in (by_row, by_column):
        np.testing.assert_array_equal(SparseProducts(matrix).stored_by_column(), stored.sum(axis=0))
        assert SparseProducts(matrix).stores_twice()
        once = matrix.copy()
        once.sum_duplicates()
        assert not SparseProducts(once).stores_twice()
    assert SparseProducts(by_column).n_stored_of(columns) == stored[:, columns].sum()


CALLS = {
    "csr": [
        lambda m: m.row_products(np.ones(D), np.arange(N)),
        lambda m: row_products_of_many(m, np.ones((2, D)), None),
        lambda m: row_products_of_many(m, np.ones((2, D)), np.arange(10)),
        lambda m: m.count_of_rows(np.arange(N), np.ones(D, dtype=np.uint8)),
        lambda m: m.stored_by_column(),
        lambda m: m.stores_twice(),
        roundings,
    ],
    "csc": [
        lambda m: m.column_products(np.ones(D), None),
        lambda m: m.column_products(np.ones(D), np.arange(D)),
        lambda m: column_products_of_many(m, np.ones((2, D)), np.arange(D)),
        lambda m: m.count_of_columns(np.arange(D), np.ones(N, dtype=np.uint8)),
        lambda m: m.stores_twice(),
    ],
}


@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("place", [10**9, -1, -(10**9)])
def test_a_place_outside_is_an_error_and_not_a_crash(form, dtype, index_dtype, place):
    for at in (0, 777, -1):
        matrix = matrix_of(form, dtype, index_dtype)
        matrix.indices[at] = place
        for call in CALLS[form]:
            with pytest.raises(PlaceError, match="outside the matrix"):
                call(SparseProducts(matrix))


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("pointer", [10**9, -5])
def test_a_pointer_outside_is_an_error_and_not_a_crash(form, index_dtype, pointer):
    for at in (5, -1):
        matrix = matrix_of(form, "f4", index_dtype)
        matrix.indptr[at] = pointer
        for call in CALLS[form]:
            with pytest.raises(PlaceError, match="outside the matrix"):
                call(SparseProducts(matrix))


def test_what_does_not_suit_the_matrix_is_refused():
    by_row, by_column = SparseProducts(matrix_of("csr")), SparseProducts(matrix_of("csc"))
    for call in (
        lambda: by_row.row_products(np.ones(D - 1), np.arange(N)),
        lambda: by_column.column_products(np.ones(D + 1), None),
        lambda: by_row.column_products(np.ones(D), None),
        lambda: by_column.row_products(np.ones(D), np.arange(N)),
        lambda: row_products_of_many(by_row, np.ones((2, D + 1)), None),
        lambda: column_products_of_many(by_row, np.ones((2, D)), np.arange(D)),
        lambda: by_row.count_of_rows(np.arange(N), np.ones(N, dtype=np.uint8)),
    ):
        with pytest.raises(ValueError, match=r"suit a matrix|must have"):
            call()
    with pytest.raises(IndexError, match=r"must lie in 0\.\.39"):
        by_row.row_products(np.ones(D), np.array([N]))
    with pytest.raises(IndexError, match=r"must lie in 0\.\.1499"):
        by_column.column_products(np.ones(D), np.array([-1]))


def test_what_cannot_be_read_as_it_is():
    matrix = matrix_of("csr")
    assert can_be_read(matrix)
    for name, array in {
        "data": matrix.data.astype(np.longdouble),
        "indices": matrix.indices[::-1],
        "indptr": matrix.indptr[:-1],
        "indptr ": matrix.indptr.astype(np.int64),
        "indices ": matrix.indices.astype(">i4"),
        "data ": np.repeat(matrix.data, 2)[::2],
    }.items():
        other = matrix.copy()
        setattr(other, name.strip(), array)
        assert not can_be_read(other), name
    other = matrix.copy()
    other.indptr[0] = 1
    assert not can_be_read(other)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 2, 7, 30, 60])
def test_best_rows(k, absolute):
    scores = np.random.default_rng(0).integers(-4, 4, 50).astype(float)
    ranked = np.abs(scores) if absolute else scores
    truth = np.lexsort((np.arange(50), -ranked))[:k]
    np.testing.assert_array_equal(best_rows(scores, k, absolute), truth)
    for bad in (np.nan, np.inf, -np.inf):
        scores[13] = bad
        assert best_rows(scores, k, absolute) is None
    assert best_rows(np.empty(0), k, absolute).size == 0
