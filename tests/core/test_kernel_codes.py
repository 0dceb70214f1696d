"""Codes of coordinates and quantised queries in C, against NumPy."""

import numpy as np
import pytest

SIZES = [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 1000, 4097]
EXTREMES = np.float32([0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, 3e38, -3e38, np.inf, -np.inf])


def coordinates(n, seed=0):
    rng = np.random.default_rng((n, seed))
    x = rng.normal(size=n).astype(np.float32)
    few = rng.random(n) < 0.2
    x[few] = rng.choice(EXTREMES, few.sum())
    return x


def bits_of(words, n):
    return np.unpackbits(words.view(np.uint8), bitorder="little", axis=-1)[..., :n]


def tail_is_clear(words, n):
    return not np.unpackbits(words.view(np.uint8), bitorder="little", axis=-1)[..., n:].any()


def n_words(n):
    return -(-n // 64)


@pytest.mark.parametrize("n", SIZES)
def test_pack_signs(kernels, n):
    x = coordinates(n)
    x[n // 2 : n // 2 + 1] = np.nan
    words = np.full(n_words(n) + 1, 99, np.uint64)
    kernels.pack_signs(x, n, words)
    np.testing.assert_array_equal(bits_of(words[:-1], n), x >= 0)
    assert tail_is_clear(words[:-1], n)
    assert words[-1] == 99


@pytest.mark.parametrize("n_bits", range(1, 9))
def test_quantise(kernels, n_bits):
    for n in SIZES:
        check_quantise(kernels, n, n_bits)


def check_quantise(kernels, n, n_bits):
    rng = np.random.default_rng(n)
    p, dither, step = coordinates(n), rng.integers(0, 256, n, dtype=np.uint8), np.float32(0.37)
    stride, ends = n_words(n) + 2, np.array([e for e in (64, 256, 1024) if e < n] + [n])
    planes, totals = np.full((n_bits, stride), 99, np.uint64), np.full(ends.size, -1)
    kernels.quantise(p, dither, n, step, n_bits, planes, stride, ends, ends.size, totals)
    assert (planes[:, n_words(n) :] == 99).all()
    words = np.ascontiguousarray(planes[:, : n_words(n)])
    assert tail_is_clear(words, n)
    half = 1 << (n_bits - 1)
    weights = 1 << np.arange(n_bits)
    weights[-1] *= -1
    u = weights @ bits_of(words, n)
    # The quotient may be rounded, so that a value beside a whole number may fall on its other side.
    with np.errstate(over="ignore"):
        exact = p.astype(np.float64) / float(step) + (dither + 0.5) / 256
    lowest, highest = (np.clip(np.floor(exact + off), -half, half - 1) for off in (-1e-4, 1e-4))
    assert ((lowest <= u) & (u <= highest)).all()
    if n > 100:
        assert (lowest == highest).mean() > 0.9
    np.testing.assert_array_equal(totals, [u[:end].sum() for end in ends])


def test_quantise_takes_nan_as_the_lowest(kernels):
    p, planes, totals = np.full(64, np.nan, np.float32), np.zeros((4, 1), np.uint64), np.zeros(1, np.int64)
    kernels.quantise(p, np.zeros(64, np.uint8), 64, 1.0, 4, planes, 1, np.array([64]), 1, totals)
    assert totals.tolist() == [-8 * 64]


def test_quantise_is_unbiased(kernels):
    """The mean of floor(p / step + dither) over the dither is p / step."""
    n = 1 << 16
    rng = np.random.default_rng(0)
    p, dither = np.full(n, -1.3, np.float32), rng.integers(0, 256, n, dtype=np.uint8)
    planes, totals = np.zeros((4, n // 64), np.uint64), np.zeros(1, np.int64)
    kernels.quantise(p, dither, n, 0.5, 4, planes, n // 64, np.array([n]), 1, totals)
    assert totals[0] / n == pytest.approx(-2.6, abs=6 * 0.5 / np.sqrt(n))


@pytest.mark.parametrize("n_bits", range(1, 9))
@pytest.mark.parametrize("step", [0.25, 1e-30, 1e30])
def test_pack_grid(kernels, n_bits, step):
    for n in SIZES:
        check_pack_grid(kernels, n, n_bits, step)


def check_pack_grid(kernels, n, n_bits, step):
    x = coordinates(n)
    x[np.abs(x) > 1e30] = 1e30  # beyond, sums of floats may overflow
    stride = n_words(n) + 1
    planes, out = np.full((n_bits, stride), 99, np.uint64), np.full(2, -1.0)
    kernels.pack_grid(x, n, step, n_bits, planes, stride, out)
    assert (planes[:, -1] == 99).all()
    words = np.ascontiguousarray(planes[:, :-1])
    assert tail_is_clear(words, n)
    half = 1 << (n_bits - 1)
    u = (1 << np.arange(n_bits)) @ bits_of(words, n)
    quotient = x.astype(np.float64) / float(np.float32(step))
    lowest, highest = (np.clip(np.floor(quotient * by) + half, 0, 2 * half - 1) for by in (1 - 1e-6, 1 + 1e-6))
    assert ((np.minimum(lowest, highest) <= u) & (u <= np.maximum(lowest, highest))).all()
    signs = np.zeros(n_words(n), np.uint64)
    kernels.pack_signs(x, n, signs)
    np.testing.assert_array_equal(words[-1], signs)
    c = 2 * u + 1.0 - 2 * half
    assert abs(out[0] - c @ x) <= 1e-5 * (np.abs(c) @ np.abs(x.astype(np.float64)))
    assert out[1] == c @ c


@pytest.mark.parametrize("n", SIZES)
def test_prefix_sizes(kernels, n):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    ends = np.unique([0, n // 3, n // 2, max(n - 1, 0), n])
    sums = np.full(ends.size, -1.0)
    kernels.prefix_sizes(x, ends, ends.size, sums)
    np.testing.assert_allclose(sums, [np.abs(x[:end].astype(np.float64)).sum() for end in ends], rtol=1e-6)
