"""Rough sums of four rows with one query or several, against NumPy in long double, for every target of this machine."""

import numpy as np
import pytest

SIZES = [0, 1, 7, 15, 16, 17, 65, 1000, 1023, 1025, 4097, 20_000]
DTYPES = {np.float32: 0, np.float64: 1, np.float16: 2, np.int8: 3, np.uint8: 4, np.int16: 5, np.uint16: 6}
DTYPES |= {np.int32: 7, np.uint32: 8, np.int64: 9, np.uint64: 10}
PRODUCTS, SQUARES, SIZES_OF_DIFFERENCES, MOMENTS = range(4)


def unaligned(array):
    """A copy of the array that begins one byte behind any multiple of eight."""
    buffer = np.empty(array.nbytes + 17, np.uint8)
    start = 8 - buffer.ctypes.data % 8 + 1
    copy = buffer[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[:] = array
    return copy


def four_rows(d, dtype):
    return (40 + 30 * np.random.default_rng(d).normal(size=(4, d))).clip(0, 120).astype(dtype)


def addresses(rows):
    return np.array([row.ctypes.data for row in rows], dtype=np.uintp)


def terms(rows, query):
    x, y = rows.astype(np.longdouble), query.astype(np.longdouble)
    return [x * y, (x - y) ** 2, np.abs(x - y)]


def assert_within_rounding(got, terms, precision):
    """A lane adds 64 terms in its own precision; beside them come a few roundings, and in double the sums of lanes."""
    n_added = 72 + (terms.shape[-1] // 64 if precision == np.float64 else 0)
    allowed = n_added * np.finfo(precision).eps / 2 * np.abs(terms).sum(axis=-1)
    assert (np.abs(got - terms.sum(axis=-1)) <= allowed).all()


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("place", [np.asarray, unaligned])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: dtype.__name__)
def test_sums_with_one_query(kernels, dtype, d, place):
    precision = np.float64 if DTYPES[dtype] in (1, 7, 8, 9, 10) else np.float32
    rows = place(four_rows(d, dtype))
    query = place(np.random.default_rng(d + 1).normal(size=d).astype(precision) * 40)
    sums_of = kernels.rough_sums_f64 if precision == np.float64 else kernels.rough_sums_f32
    out = np.full(12, np.nan)
    for objective, expected in enumerate(terms(rows, query)):
        sums_of(objective, DTYPES[dtype], addresses(rows), query, d, out)
        assert_within_rounding(out[:4], expected, precision)
    sums_of(MOMENTS, DTYPES[dtype], addresses(rows), query, d, out)
    wide = rows.astype(np.longdouble)
    for got, expected in zip(out.reshape(3, 4), [wide * query, wide, wide**2], strict=True):
        assert_within_rounding(got, expected, precision)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("n_queries", [1, 2, 3, 6])
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_sums_with_several_queries_are_added(kernels, precision, d, n_queries):
    rows = unaligned(four_rows(d, precision))
    queries = unaligned(np.random.default_rng(d).normal(size=(n_queries, d + 3)).astype(precision))
    tiles_of = kernels.rough_tiles_f64 if precision == np.float64 else kernels.rough_tiles_f32
    for objective in (PRODUCTS, SQUARES, SIZES_OF_DIFFERENCES):
        once, twice = np.zeros((2, n_queries, 5))
        for sums in (once, twice, twice):
            tiles_of(objective, addresses(rows), queries, d + 3, n_queries, d, sums, 5)
        for got, query in zip(once, queries, strict=True):
            assert_within_rounding(got[:4], terms(rows, query[:d])[objective], precision)
        assert not once[:, 4].any()
        np.testing.assert_allclose(twice, 2.0 * once, rtol=1e-12)


def test_what_is_not_finite_comes_through(kernels):
    rows = np.ones((4, 100), dtype=np.float32)
    rows[1, 3], rows[2, 99], rows[3] = np.nan, np.inf, 1e30
    out = np.zeros(12)
    kernels.rough_sums_f32(MOMENTS, 0, addresses(rows), np.ones(100, dtype=np.float32), 100, out)
    assert np.isfinite(out.reshape(3, 4)).tolist() == [[True, False, False, True]] * 2 + [[True, False, False, False]]
