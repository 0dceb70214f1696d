"""What sampled cells say, in C, against plain NumPy, for every target of this machine."""

import ctypes

import numpy as np
import pytest

TERMS = [lambda q, v: q * v, lambda q, v: -((q - v) ** 2), lambda q, v: -np.abs(q - v)]
every_size = pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 15, 16, 17, 24, 63, 1000])
either_precision = pytest.mark.parametrize("dtype", [np.float32, np.float64])


class Weighed(ctypes.Structure):
    """`struct bm_weighed`."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("terms", "unit", "spread")] + [("size", ctypes.c_int64)]


def spread_of(kernels, terms, unit, spread, leading, sign, ratio):
    cells = np.frombuffer(Weighed(terms.ctypes.data, unit.ctypes.data, spread.ctypes.data, terms.size), np.uint8)
    share = np.zeros(1)
    return kernels.cell_spread(cells, leading, sign, ratio, share), share[0]


@every_size
@either_precision
@pytest.mark.parametrize("objective", [0, 1, 2])
def test_terms(kernels, size, dtype, objective):
    rng = np.random.default_rng(size)
    values, query, terms = rng.normal(size=size).astype(dtype), rng.normal(size=size), np.full(size + 1, 7.0)
    call = getattr(kernels, f"cell_terms_f{8 * values.itemsize}")
    call(values, query, size, objective, 0.5, terms)
    np.testing.assert_allclose(terms[:size], 0.5 * TERMS[objective](query, values.astype(np.float64)), rtol=1e-15)
    assert terms[size] == 7.0


@every_size
@either_precision
def test_scatter(kernels, size, dtype):
    rng = np.random.default_rng(size)
    values, scale = rng.normal(size=size).astype(dtype), rng.uniform(1.0, 2.0, size)
    found = getattr(kernels, f"cell_scatter_f{8 * values.itemsize}")(values, scale, size, 0.3)
    assert found == pytest.approx(scale @ (values.astype(np.float64) - 0.3) ** 2, rel=1e-13)


@every_size
@pytest.mark.parametrize("sign", [None, 1.0, -1.0])
def test_spread(kernels, size, sign):
    rng = np.random.default_rng(size)
    terms, leading, unit, spread = rng.normal(size=(4, size))
    x = terms if sign is None else leading + sign * terms
    variance, share = spread_of(kernels, terms, unit, spread, None if sign is None else leading, sign or 1.0, 0.7)
    about_ratio, about_zero = (spread * (x - 0.7 * unit)) ** 2, (spread * x) ** 2
    assert variance == pytest.approx(about_ratio.sum(), rel=1e-12)
    largest = max(about_ratio.max() / about_ratio.sum(), about_zero.max() / about_zero.sum())
    assert share == pytest.approx(largest, rel=1e-12)


def test_spread_of_nothing_and_of_what_is_no_number(kernels):
    ones, zeros = np.ones(19), np.zeros(19)
    assert spread_of(kernels, zeros, ones, ones, None, 1.0, 0.0) == (0.0, 1.0)
    assert spread_of(kernels, ones, ones, ones, ones, -1.0, 0.0) == (0.0, 1.0)
    assert np.isnan(spread_of(kernels, np.where(np.arange(19) == 17, np.nan, 1.0), ones, ones, None, 1.0, 0.0)[0])
