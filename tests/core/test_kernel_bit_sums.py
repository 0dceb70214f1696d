"""The sums of quantised queries over the ones of codes, against NumPy."""

import numpy as np
import pytest


def random_words(rng, *shape):
    return rng.integers(0, 1 << 64, shape, dtype=np.uint64)


def true_sums(codes, planes):
    """Sum of the query over the ones of each code."""
    weights = 1 << np.arange(len(planes), dtype=np.int64)
    weights[-1] *= -1
    return np.bitwise_count(codes[:, np.newaxis] & planes).astype(np.int64).sum(axis=2) @ weights


@pytest.mark.parametrize("n_planes", range(1, 9))
@pytest.mark.parametrize("size", ["short", "long"])
def test_bit_sums(kernels, n_planes, size):
    lengths = {"short": [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65], "long": [255, 256, 257, 1000, 4097]}
    for words in lengths[size]:
        check_bit_sums(kernels, words, n_planes)


def check_bit_sums(kernels, words, n_planes):
    rng = np.random.default_rng((words, n_planes))
    codes, planes = random_words(rng, 11, words + 3), random_words(rng, n_planes, words + 2)
    expected = true_sums(codes[:, :words], planes[:, :words])
    for n_rows in (0, 1, 3, 4, 5, 11):
        sums = np.arange(12)  # the kernel adds to what is there
        kernels.bit_sums(codes, words + 3, None, n_rows, planes, words + 2, n_planes, words, sums)
        np.testing.assert_array_equal(sums - np.arange(12), np.append(expected[:n_rows], np.zeros(12 - n_rows)))
    rows = np.array([10, 3, 3, 0, 7, 8, 1])
    sums = np.zeros(7, np.int64)
    kernels.bit_sums(codes, words + 3, rows, 7, planes, words + 2, n_planes, words, sums)
    np.testing.assert_array_equal(sums, expected[rows])


@pytest.mark.parametrize("n_planes", [1, 4, 8])
@pytest.mark.parametrize("words", [31, 32, 500, 1 << 15])
def test_codes_and_planes_full_of_ones(kernels, words, n_planes):
    """Where every count is as large as can be, nothing overflows."""
    codes, planes = (np.full((n, words), np.uint64(2**64 - 1)) for n in (5, n_planes))
    sums = np.zeros(5, np.int64)
    kernels.bit_sums(codes, words, None, 5, planes, words, n_planes, words, sums)
    assert (sums == -64 * words).all()  # two's complement of -1 in every coordinate
    planes[-1] = 0
    kernels.bit_sums(codes, words, None, 5, planes, words, n_planes, words, sums)
    assert (sums == -64 * words + 64 * words * (2 ** (n_planes - 1) - 1)).all()
