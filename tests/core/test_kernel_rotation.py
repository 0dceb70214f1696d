"""Signs and the Hadamard transform in C, against SciPy's matrix and NumPy."""

import numpy as np
import pytest
from scipy.linalg import hadamard


def transform(kernels, x):
    out = np.array(x, np.float32)
    kernels.hadamard(out, out.size, 1.0, None)
    return out


def transform_in_double(x):
    """The transform stage by stage."""
    x = np.array(x, np.float64)
    h = 1
    while h < x.size:
        pairs = x.reshape(-1, 2, h)
        x = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        h *= 2
    return x


@pytest.mark.parametrize("bits", range(12))
def test_hadamard_is_the_matrix(kernels, bits):
    x = np.random.default_rng(bits).integers(-100, 101, 1 << bits)
    np.testing.assert_array_equal(transform(kernels, x), hadamard(1 << bits) @ x)


@pytest.mark.parametrize("bits", range(21))
def test_hadamard_of_any_size(kernels, bits):
    x = np.random.default_rng(bits).normal(size=1 << bits).astype(np.float32)
    tolerance = 1e-6 * np.sqrt(x.size) * (bits + 1)
    np.testing.assert_allclose(transform(kernels, x), transform_in_double(x), rtol=0, atol=tolerance)


def test_hadamard_of_the_largest_size(kernels):
    x = np.zeros(1 << 24, np.float32)
    x[0b101100111000111100001111] = 3
    x[1] = -1
    place = np.arange(x.size)
    signs = [1 - 2.0 * (np.bitwise_count(place & j) % 2) for j in (0b101100111000111100001111, 1)]
    np.testing.assert_array_equal(transform(kernels, x), 3 * signs[0] - signs[1])


def random_signs(rng, n):
    """Words of bits, and -1 for every bit that is 1."""
    words = rng.integers(0, 1 << 32, -(-n // 32), dtype=np.uint32)
    return words, 1 - 2 * np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(np.float32)


@pytest.mark.parametrize("bits", [*range(14), 15, 17])
def test_scale_and_signs_come_after_the_transform(kernels, bits):
    rng = np.random.default_rng(bits)
    x = rng.normal(size=1 << bits).astype(np.float32)
    words, signs = random_signs(rng, x.size)
    for scale in (0.75, 1 / np.sqrt(x.size)):
        expected = transform_in_double(x) * scale
        tolerance = 1e-6 * np.sqrt(x.size) * (bits + 1) * scale
        got = x.copy()
        kernels.hadamard(got, got.size, scale, None)
        np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)
        got = x.copy()
        kernels.hadamard(got, got.size, scale, words)
        np.testing.assert_allclose(got, expected * signs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 4097])
def test_flip_signs(kernels, n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n).astype(np.float32)
    x[: n // 3] = rng.choice(np.float32([0, -0.0, np.inf, -np.inf, np.nan]), n // 3)
    words, signs = random_signs(rng, n)
    got = x.copy()
    kernels.flip_signs(got, words, n)
    np.testing.assert_array_equal(got, x * signs)


@pytest.mark.parametrize("n", [0, 2, 14, 16, 34, 64, 66, 128, 1000, 4098, 4160])
def test_exchange_halves(kernels, n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n).astype(np.float32)
    first, last = x[: n // 2].astype(np.float64), x[n // 2 :].astype(np.float64)
    expected = np.concatenate([first + last, first - last]) * np.sqrt(0.5)
    got = x.copy()
    kernels.exchange_halves(got, n, None)
    np.testing.assert_allclose(got, expected, atol=2e-6)
    if n % 64 == 0:
        words, signs = random_signs(rng, n)
        kernels.exchange_halves(x, n, words)
        np.testing.assert_array_equal(x, got * signs)
