"""The rotation: orthonormal up to its stated rounding, linear, and belonging to its seed."""

import pickle

import numpy as np
import pytest

from banditmips.core.rotation import Rotation

LARGE = [255, 256, 257, 1_000, 1_024, 4_095, 10_000, 16_384, 65_000]


@pytest.mark.parametrize("sizes", [range(1, 201), LARGE], ids=["1 to 200", "large"])
def test_norms_and_inner_products_stay_within_the_stated_rounding(sizes):
    for d in sizes:
        rotation = Rotation(d, 7)
        assert rotation.d == d
        assert rotation.width % 64 == 0
        assert 0 <= rotation.width - d < 64
        vectors = np.random.default_rng(d).normal(size=(4, d)).astype(np.float32)
        vectors[3] = 0.0
        vectors[3, d // 2] = 1e3
        before, after = vectors.astype(np.float64), rotation.rotated(vectors).astype(np.float64)
        assert after.shape == (4, rotation.width)
        norms = np.linalg.norm(before, axis=1)
        # Each vector strays by `rounding` of its norm at most, so a product by that of either, and of both.
        allowed = rotation.rounding * (2.0 + rotation.rounding) * np.outer(norms, norms)
        assert (np.abs(after @ after.T - before @ before.T) <= allowed).all(), d


@pytest.mark.parametrize("d", [1, 3, 64, 65, 130, 192])
def test_unit_vectors_become_an_orthonormal_basis(d):
    rotation = Rotation(d, 1)
    matrix = rotation.rotated(np.eye(d)).astype(np.float64)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(d), atol=2.1 * rotation.rounding)


def test_the_stated_rounding_is_small_and_not_far_from_what_happens():
    for d in LARGE:
        rotation = Rotation(d, 3)
        vector = np.random.default_rng(d).normal(size=d).astype(np.float32)
        exact = slow_rotation(rotation, vector.astype(np.float64))
        error = np.linalg.norm(rotation.rotated(vector)[0] - exact) / np.linalg.norm(exact)
        assert error <= rotation.rounding < 1e-5


def slow_rotation(rotation, vector):
    """The rotation step by step in double precision: signs, transforms of windows, an exchange of halves, twice."""
    from banditmips.core.numbers import random_words

    x = np.zeros(rotation.width)
    x[: vector.size] = vector
    window = 1 << (rotation.width.bit_length() - 1)
    starts = [0, 0] if window == rotation.width else 2 * [0, rotation.width - window]
    words = random_words(rotation.seed, 1, len(starts) * rotation.width // 32).reshape(len(starts), -1)
    for start, row in zip(starts, words, strict=True):
        bits = (row[:, np.newaxis] >> np.arange(32, dtype=np.uint32)) & 1
        x *= 1.0 - 2.0 * bits.ravel()
        part, step = x[start : start + window], 1
        while step < window:
            pairs = part.reshape(-1, 2, step)
            part = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
            step *= 2
        x[start : start + window] = part / np.sqrt(window)
        if start:  # both windows are done: the halves exchange what they hold
            a, b = x[: x.size // 2].copy(), x[x.size // 2 :].copy()
            x = np.concatenate([a + b, a - b]) / np.sqrt(2.0)
    return x


@pytest.mark.parametrize("d", [1, 64, 100, 784, 5_000])
def test_rotating_is_linear(d):
    rotation, rng = Rotation(d, 2), np.random.default_rng(d)
    a, b = rng.normal(size=(2, d)).astype(np.float32)
    together = rotation.rotated(3.0 * a - 0.5 * b)[0]
    apart = 3.0 * rotation.rotated(a)[0] - 0.5 * rotation.rotated(b)[0]
    assert np.linalg.norm(together - apart) <= 4.0 * rotation.rounding * (3 * np.linalg.norm(a) + np.linalg.norm(b))
    np.testing.assert_array_equal(rotation.rotated(np.zeros(d)), 0.0)


@pytest.mark.parametrize("d", [10, 64, 1_000])
def test_a_rotation_belongs_to_its_seed(d):
    vector = np.random.default_rng(0).normal(size=d).astype(np.float32)
    first = Rotation(d, 5).rotated(vector)
    np.testing.assert_array_equal(Rotation(d, 5).rotated(vector), first)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(Rotation(d, 5))).rotated(vector), first)
    for seed in (0, 4, 6, 2**62):
        other = Rotation(d, seed).rotated(vector)
        assert not np.array_equal(other, first)
        # Unrelated: the cosine of two random directions has a deviation of 1/8 for 64 coordinates.
        assert abs(other @ first.T)[0, 0] < 0.6 * np.linalg.norm(vector) ** 2


@pytest.mark.parametrize("d", [64, 100, 4_096, 5_000])
def test_every_entry_is_spread_over_all_coordinates(d):
    """After two passes a single entry has about the same weight everywhere."""
    shown = Rotation(d, 9).rotated(np.eye(1, d, d // 3))[0].astype(np.float64)
    width = shown.size
    assert np.abs(shown).max() * np.sqrt(width) < 6.0
    assert np.count_nonzero(shown) > width / 4
