"""Intervals of many atoms' scores, and who is beaten by them, against NumPy."""

import ctypes

import numpy as np
import pytest

SIZES = [0, 1, 7, 8, 9, 63, 255, 256, 257, 1_000]


def rows_of(rng, n):
    """All of n atoms, some of them in order, and some in any order, as a kernel is told of them and as NumPy is."""
    some = np.flatnonzero(rng.random(n) < 0.4)
    return [(None, np.arange(n)), (some, some), (rng.permutation(n), None)]


@pytest.mark.parametrize("n_axes", [0, 3, 8])
@pytest.mark.parametrize("n", SIZES)
def test_certain_intervals(kernels, n, n_axes):
    rng = np.random.default_rng((n, n_axes))
    means, norms, spreads = rng.normal(size=n), rng.exponential(size=n), rng.exponential(size=n)
    along, of_query = rng.normal(size=(8, n)).astype(np.float32), rng.normal(size=8)
    known = kernels.Certain(means.ctypes.data, norms.ctypes.data, spreads.ctypes.data, along.ctypes.data, n)
    query = kernels.CertainQuery(2.5, 1.5, 1e-3, (ctypes.c_double * 8)(*of_query), n_axes)
    middle = 2.5 * means + of_query[:n_axes] @ along[:n_axes].astype(np.float64)
    radius = 1.5 * spreads + 1e-3 * norms
    for given, rows in rows_of(rng, n):
        rows = given if rows is None else rows
        found = np.full((2, rows.size), np.nan)
        kernels.certain_intervals(
            ctypes.addressof(known), ctypes.addressof(query), given, 0, rows.size, found[0], found[1]
        )
        np.testing.assert_allclose(found, [middle[rows], radius[rows]], rtol=1e-12, atol=1e-12)
    first = n // 3
    found = np.full((2, n - first), np.nan)
    kernels.certain_intervals(
        ctypes.addressof(known), ctypes.addressof(query), None, first, n - first, found[0], found[1]
    )
    np.testing.assert_allclose(found, [middle[first:], radius[first:]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("quantile", [5.0, np.inf])
@pytest.mark.parametrize("all_bits", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_rounds_on_codes(kernels, n, all_bits, quantile):
    rng = np.random.default_rng(n)
    scales, errors, sign_scales, sign_errors = rng.exponential(size=(4, n)).astype(np.float32)
    along, sums = rng.normal(size=n), rng.integers(-1_000, 1_000, n)
    # Of some atoms nothing is known, and of some everything.
    odd = np.arange(n) % 5
    scales[odd == 1], errors[odd == 1], errors[odd == 2], scales[odd == 2] = 0.0, np.inf, 0.0, 0.0
    sign_scales[odd == 2], sign_errors[odd == 2] = 0.0, 0.0
    signs = [sign_scales, sign_errors] if all_bits else [None, None]
    pointers = [array if array is None else array.ctypes.data for array in (scales, errors, *signs, along)]
    described = kernels.CodeRound(*pointers, 2, 17, 2_048, 0.25, 4.0, 0.5, -1.5, 3.0, 4_095.0, quantile, 1e-3)
    with np.errstate(invalid="ignore"):
        estimates = 0.25 * (2.0 * sums - 17.0) * scales * 4.0 + 0.5 * along - 1.5
        wide = [array.astype(np.float64) for array in (scales, errors, sign_scales, sign_errors)]
        sizes = np.sqrt(2_048.0) * wide[0]
        if all_bits:
            rest = 2_048.0 * wide[2] ** 2 - wide[3] ** 2 * 4_095.0
            sizes = np.sqrt(wide[1] ** 2 * 4_095.0 + np.maximum(rest, 0.0))
        deviations = np.sqrt((3.0 * wide[1]) ** 2 + (0.125 * sizes) ** 2)
        radii = 4.0 * (np.where(deviations > 0.0, quantile * deviations, 0.0) + 1e-3 * sizes)
        radii[np.isinf(errors)] = np.inf
    for given, rows in rows_of(rng, n):
        rows = given if rows is None else rows
        found = np.full((2, rows.size), np.nan)
        kernels.code_estimates(ctypes.addressof(described), given, rows.size, sums[rows].copy(), found[0])
        kernels.code_radii(ctypes.addressof(described), given, rows.size, found[1])
        np.testing.assert_allclose(found[0], estimates[rows], rtol=1e-12, atol=1e-9)
        np.testing.assert_allclose(found[1], radii[rows], rtol=1e-12)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_who_is_beaten(kernels, n, absolute):
    rng = np.random.default_rng(n)
    middle, radius = rng.normal(size=n), rng.exponential(size=n)
    middle[::7], radius[::11], radius[::13] = np.nan, np.inf, np.nan
    ranked = np.abs(middle) if absolute else middle
    lower, beaten = np.full(n, 7.0), np.full(n, 7, dtype=np.uint8)
    kernels.lower_ends(middle, radius, n, absolute, lower)
    np.testing.assert_array_equal(lower, ranked - radius)
    for bar in (-np.inf, 0.5, np.inf):
        count = kernels.mark_beaten(middle, radius, n, absolute, 0.5, bar, beaten)
        np.testing.assert_array_equal(beaten, ranked + 0.5 * radius < bar)
        assert count == beaten.sum()


@pytest.mark.parametrize("n", SIZES)
def test_what_overflows_says_nothing(kernels, n):
    rng = np.random.default_rng(n)
    middle = rng.choice([1.0, -2.0, 1.7e308, np.inf, -np.inf, np.nan], n)
    radius = rng.choice([1.0, 1.7e308, np.inf, np.nan], n)
    with np.errstate(over="ignore", invalid="ignore"):
        fine = np.isfinite(middle + radius)
    expected = np.where(np.isfinite(middle), middle, 0.0), np.where(fine, radius, np.inf)
    kernels.give_up_overflowed(middle, radius, n)
    np.testing.assert_array_equal((middle, radius), expected)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("n_rows", [1, 2, 20])
def test_roots_of_weighted_sums(kernels, n, n_rows):
    rng = np.random.default_rng((n, n_rows))
    weights, rows, found = rng.random((3, n_rows)), rng.random((n_rows, n)), np.full((3, n), 7.0)
    kernels.root_sums(weights, 3, rows, n_rows, n, found)
    np.testing.assert_allclose(found, np.sqrt(weights @ rows), rtol=1e-13)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_ends_of_scores(kernels, n, scaled, absolute):
    rng = np.random.default_rng(n)
    products, deviations = rng.normal(size=n), rng.exponential(size=n)
    factors, offsets, found = rng.exponential(size=n), rng.normal(size=n), np.full((2, n), 7.0)
    ranked = kernels.Ranked(
        factors.ctypes.data if scaled else None,
        offsets.ctypes.data if scaled else None,
        **{"centre": 1.5, "part": 0.1, "besides": 0.2, "below": 3.0, "above": 4.0, "absolute": absolute},
    )
    kernels.score_ends(products, deviations, n, ctypes.addressof(ranked), *found)
    scores, slack, widths = products, 0.0, deviations
    if scaled:
        products, offsets, widths = products * factors, 1.5 * offsets, factors * deviations
        scores, slack = products - offsets, 0.1 * (np.abs(products) + np.abs(offsets)) + 0.2
    scores = np.abs(scores) if absolute else scores
    expected = scores - slack - 3.0 * widths, scores + slack + 4.0 * widths
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
