"""Signs and the Hadamard transform in C, against SciPy's matrix and NumPy."""

import numpy as np
import pytest
from scipy.linalg import hadamard


def transform(kernels, x):
    out = np.array(x, np.float32)
    kernels.hadamard(out, out.size)
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


@pytest.mark.parametrize("n", [0, 1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 1000, 4097])
def test_flip_signs(kernels, n):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n).astype(np.float32)
    x[: n // 3] = rng.choice(np.float32([0, -0.0, np.inf, -np.inf, np.nan]), n // 3)
    words = rng.integers(0, 1 << 32, -(-n // 32), dtype=np.uint32)
    flip = np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(bool)
    got = x.copy()
    kernels.flip_signs(got, words, n, 0.75)
    np.testing.assert_array_equal(got, np.where(flip, -x, x) * np.float32(0.75))


@pytest.mark.parametrize("n", [0, 2, 14, 16, 34, 64, 66, 1000, 4098])
def test_exchange_halves(kernels, n):
    x = np.random.default_rng(n).normal(size=n).astype(np.float32)
    first, last = x[: n // 2].astype(np.float64), x[n // 2 :].astype(np.float64)
    kernels.exchange_halves(x, n)
    np.testing.assert_allclose(x, np.concatenate([first + last, first - last]) * np.sqrt(0.5), atol=2e-6)
