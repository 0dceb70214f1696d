"""Products of all rows of a matrix by column, in C: the same bits as row by row, for every target of this machine."""

import numpy as np
import pytest

DTYPES = {"f4": 0, "f8": 1, "f2": 2, "i1": 3, "u1": 4, "i2": 5, "u2": 6, "i4": 7, "u4": 8, "i8": 9}
"""Places in `enum bm_dtype`."""


def products(kernels, atoms, query, objective=0):
    """By column; the room is full of what was there before."""
    n, d = atoms.shape
    matrix = np.array([atoms.ctypes.data, *atoms.strides, n, d, DTYPES[atoms.dtype.str[1:]]], dtype=np.int64)
    queries = np.atleast_2d(query)
    room = np.full(max(24 * min(n * len(queries), 8192), 2 * 2048), np.nan)
    sums = np.full((len(queries), n), np.nan)
    kernels.columns_exact(matrix, objective, np.ascontiguousarray(queries.T), len(queries), room, sums)
    return sums.reshape((*query.shape[:-1], n))


def row_by_row(kernels, atoms, query, objective=0):
    found = []
    for row in np.ascontiguousarray(atoms, dtype=np.float64):
        out = np.empty(4)
        kernels.sums_exact_f64(objective, np.full(4, row.ctypes.data, dtype=np.uintp), 1, query, query.size, out)
        found.append(out[0])
    return found


def made(dtype, shape):
    values = 50 * np.random.default_rng(shape).normal(size=shape)
    return np.asfortranarray((np.abs(values) if dtype[0] == "u" else values).astype(dtype))


@pytest.mark.parametrize("objective", [0, 1])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("d", [0, 1, 2, 7, 16, 17, 100, 519, 2_047, 2_048, 2_049, 4_500])
def test_columns_give_the_bits_of_rows(kernels, dtype, d, objective):
    query = np.random.default_rng(0).normal(size=d)
    for n in (1, 3, 8, 17, 47):
        atoms = made(dtype, (n, d))
        expected = row_by_row(kernels, atoms, query, objective)
        np.testing.assert_array_equal(products(kernels, atoms, query, objective), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m", range(1, 9))
def test_several_queries_share_what_is_read(kernels, dtype, m):
    for n, d in ((1, 5), (17, 300), (47, 2_200), (2_100, 33)):
        atoms, queries = made(dtype, (n, d)), np.random.default_rng(m).normal(size=(m, d))
        for objective in (0, 1):
            found = products(kernels, atoms, queries, objective)
            expected = [products(kernels, atoms, query, objective) for query in queries]
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_more_rows_than_are_held_at_a_time(kernels, dtype):
    atoms, query = made(dtype, (8_195, 21)), np.random.default_rng(0).normal(size=21)
    np.testing.assert_array_equal(products(kernels, atoms, query), row_by_row(kernels, atoms, query))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("apart", [(2, 1), (1, 3), (-1, 1), (1, -1)])
def test_columns_with_strides(kernels, dtype, apart):
    wide, query = made(dtype, (40, 300)), np.random.default_rng(0).normal(size=300)
    atoms = wide[:: apart[0], :: apart[1]]
    query = query[: atoms.shape[1]].copy()
    np.testing.assert_array_equal(products(kernels, atoms, query), row_by_row(kernels, atoms, query))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_columns_that_begin_anywhere(kernels, dtype):
    atoms, query = made(dtype, (37, 90)), np.random.default_rng(0).normal(size=90)
    room = np.empty(atoms.nbytes + 9, dtype=np.uint8)
    shifted = room[9 - room.ctypes.data % 8 :][: atoms.nbytes].view(dtype).reshape(90, 37).T
    shifted[:] = atoms
    assert not shifted.flags.aligned
    np.testing.assert_array_equal(products(kernels, shifted, query), row_by_row(kernels, atoms, query))


ROUGH = ["f4", "f2", "i1", "u1", "i2", "u2"]


def rough_products(kernels, atoms, queries, with_squares=False):
    """The room is full of what was there before."""
    (n, d), m = atoms.shape, len(queries)
    matrix = np.array([atoms.ctypes.data, *atoms.strides, n, d, DTYPES[atoms.dtype.str[1:]]], dtype=np.int64)
    out = np.full((m, n), np.nan, dtype=np.float32)
    room, squares = np.full(3 * m * (min(n, 32_768 // m) + 16), np.nan), np.full(n, np.nan, dtype=np.float32)
    kernels.columns_rough(matrix, np.ascontiguousarray(queries.T), m, room, out, squares if with_squares else None)
    if with_squares:
        exact = np.square(atoms.astype(np.float64)).sum(axis=1)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(squares, exact.astype(np.float32), rtol=1e-5)
    return out


@pytest.mark.parametrize("dtype", ROUGH)
@pytest.mark.parametrize("m", [1, 2, 4, 8])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (16, 8), (47, 65), (33, 4_500), (4_100, 37), (32_769, 21)])
def test_rough_products_of_columns_are_those_of_blas_but_for_rounding(kernels, dtype, m, shape):
    # Of positive numbers a float alone would lose what is added last.
    atoms, queries = np.asfortranarray(np.abs(made(dtype, shape))), np.abs(made("f4", (m, shape[1])))
    exact = queries.astype(np.float64) @ atoms.astype(np.float64).T
    norms = np.linalg.norm(atoms.astype(np.float64), axis=1) * np.linalg.norm(queries, axis=1, keepdims=True)
    for with_squares in (False, True):
        found = rough_products(kernels, atoms, queries, with_squares)
        assert (np.abs(found - exact) <= 4 * np.finfo("f4").eps * norms).all()


@pytest.mark.parametrize("dtype", ROUGH)
def test_rough_products_of_some_columns_and_rows(kernels, dtype):
    """Columns that are further apart than they are long, which end before the next begin."""
    wide, queries = made(dtype, (61, 90)), made("f4", (4, 45))
    atoms = wide[5:42, ::2]
    exact = queries.astype(np.float64) @ atoms.astype(np.float64).T
    np.testing.assert_allclose(rough_products(kernels, atoms, queries), exact, atol=0.02, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (47, 65), (33, 4_500), (1_025, 130)])
def test_moments_of_columns(kernels, dtype, shape):
    n, d = shape
    wide = np.abs(made(dtype, (n + 3, d)))  # of which some rows are taken
    atoms = wide[1 : n + 1]
    totals, squares = np.full(n, np.nan), np.full(n, np.nan)
    moments = getattr(kernels, f"columns_moments_{dtype.replace('f4', 'f32').replace('f8', 'f64')}")
    moments(atoms, atoms.strides[1], n, d, totals, squares)
    exact = atoms.astype(np.float64)
    most = (70 if dtype == "f4" else 70 + d // 64) * np.finfo(dtype).eps
    assert (np.abs(totals - exact.sum(axis=1)) <= most * exact.sum(axis=1)).all()
    assert (np.abs(squares - np.square(exact).sum(axis=1)) <= most * np.square(exact).sum(axis=1)).all()


def test_rough_products_of_columns_that_overflow_say_so(kernels):
    atoms = np.asfortranarray(np.full((20, 9), 1e30, dtype=np.float32))
    for with_squares in (False, True):
        assert np.isinf(rough_products(kernels, atoms, np.full((2, 9), 1e30, dtype=np.float32), with_squares)).all()


@pytest.mark.parametrize("n", [3, 50])
def test_not_a_number_and_infinity_stay_in_their_rows(kernels, n):
    atoms = made("f4", (n, 130))
    atoms[0, 129], atoms[1, 5] = np.nan, np.inf
    found = products(kernels, atoms, np.ones(130))
    assert np.isnan(found[0])
    assert found[1] == np.inf
    assert np.isfinite(found[2:]).all()
