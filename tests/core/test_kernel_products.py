"""All products of a matrix with a query, and the largest of some numbers, beside NumPy's."""

import numpy as np
import pytest

SIZES = [1, 2, 7, 8, 15, 16, 17, 31, 33, 100, 255, 256, 257, 2_049, 5_000]


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("n", [1, 3, 4, 5, 9, 18])
@pytest.mark.parametrize("d", SIZES)
def test_products_of_rows_with_a_gap_between_them(kernels, n, d, precision):
    rng = np.random.default_rng(n * d)
    dtype = np.float32 if precision == "f32" else np.float64
    wide = rng.normal(size=(n, d + 3)).astype(dtype)
    query = rng.normal(size=d).astype(dtype)
    found = np.full(n + 1, -7.0, dtype=dtype)
    squares = found.copy()
    getattr(kernels, f"products_{precision}")(wide, wide.strides[0], n, query, d, found, squares)
    alone = found.copy()
    getattr(kernels, f"products_{precision}")(wide, wide.strides[0], n, query, d, alone, None)
    np.testing.assert_array_equal(alone, found)
    np.testing.assert_allclose(squares[:n], (wide[:, :d].astype(np.float64) ** 2).sum(1), rtol=8 * np.finfo(dtype).eps)
    assert squares[n] == -7.0
    exact = wide[:, :d].astype(np.float64) @ query.astype(np.float64)
    unit = np.finfo(dtype).eps * np.linalg.norm(wide.astype(np.float64), axis=1) * np.linalg.norm(query)
    assert (np.abs(found[:n] - exact) <= 2.0 * unit).all()
    assert found[n] == -7.0


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("d", [130, 987, 8_192, 70_001])
@pytest.mark.parametrize("begin", [0, 3])
def test_rows_of_more_than_a_cache_holds_that_begin_anywhere_in_a_line(kernels, precision, d, begin):
    rng = np.random.default_rng(0)
    dtype = np.float32 if precision == "f32" else np.float64
    n = 2**25 // (d * dtype().itemsize) + 1
    numbers = rng.standard_normal(begin + n * d, dtype=dtype)
    rows, query = numbers[begin:].reshape(n, d), rng.normal(size=d).astype(dtype)
    found, squares = np.empty(n, dtype=dtype), np.empty(n, dtype=dtype)
    getattr(kernels, f"products_{precision}")(rows, rows.strides[0], n, query, d, found, squares)
    unit = np.finfo(dtype).eps
    exact, norms = rows.astype(np.float64) @ query.astype(np.float64), np.linalg.norm(rows.astype(np.float64), axis=1)
    assert (np.abs(found - exact) <= 2.0 * unit * norms * np.linalg.norm(query)).all()
    np.testing.assert_allclose(squares, norms**2, rtol=8 * unit)


def test_products_of_floats_that_overflow_on_the_way_are_right(kernels):
    rows = np.tile(np.array([1e20, -1e20, 1.0], dtype=np.float32), (6, 50))
    query = np.tile(np.array([1e20, 1e20, 2.0], dtype=np.float32), 50)
    found = np.empty(6, dtype=np.float32)
    kernels.products_f32(rows, rows.strides[0], 6, query, query.size, found, None)
    assert (np.abs(found) < 1e-10 * 1e40).all()


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_the_largest(kernels, n, absolute, precision):
    values = np.random.default_rng(n).normal(size=n).astype(np.float32 if precision == "f32" else np.float64) - 3.0
    largest = getattr(kernels, f"largest_{precision}")
    assert largest(values, n, absolute) == (np.abs(values) if absolute else values).max()
    for odd in (np.nan, np.inf, -np.inf):
        spoilt = values.copy()
        spoilt[n // 2] = odd
        assert np.isnan(largest(spoilt, n, absolute))
