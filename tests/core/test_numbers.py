"""Random numbers that belong to seeds and coordinates. Fixed seeds decide once for all whether a test passes."""

import numpy as np
import pytest
from scipy.stats import kstest

from banditmips.core.numbers import exponential_keys, random_words, uniforms, weight_profile


def test_uniform_numbers_are_uniform_and_belong_to_their_positions():
    numbers = uniforms(3, 0, 20_000)
    assert kstest(numbers, "uniform").pvalue > 1e-4
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    np.testing.assert_array_equal(uniforms(3, 700, 950), numbers[700:950])
    # Neighbours and other seeds are not correlated (standard error 0.007).
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(numbers, uniforms(4, 0, 20_000))[0, 1]) < 0.03


def test_the_bits_of_random_words_are_even_and_streams_are_unrelated():
    words = random_words(3, 1, 20_000)
    bits = np.unpackbits(words.view(np.uint8)).reshape(20_000, 32)
    # A mean of 20,000 bits has a standard error of 0.0035.
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 0.018
    np.testing.assert_array_equal(random_words(3, 1, 50), words[:50])
    for other in (random_words(3, 2, 20_000), random_words(4, 1, 20_000)):
        agreeing = np.unpackbits((words ^ other).view(np.uint8)).mean()
        assert abs(agreeing - 0.5) < 0.004  # of 640,000 bits


def test_exponential_keys_are_exponential_over_weight():
    coordinates, weights = np.arange(20_000) * 11, np.linspace(0.5, 3.0, 20_000)
    keys = exponential_keys(3, coordinates, weights)
    assert kstest(keys * weights, "expon").pvalue > 1e-4
    np.testing.assert_array_equal(exponential_keys(3, coordinates[5:9], weights[5:9]), keys[5:9])
    others = exponential_keys(4, coordinates, weights)
    assert abs(np.corrcoef(keys * weights, others * weights)[0, 1]) < 0.03


@pytest.mark.parametrize(
    "weights",
    [
        np.array([1.0]),
        np.full(1000, 3.0),
        np.random.default_rng(0).exponential(size=10_000),
        np.abs(np.random.default_rng(1).standard_t(1, 10_000)),
        np.geomspace(1e-100, 1e100, 5000),
    ],
    ids=["one", "equal", "exponential", "Cauchy", "all magnitudes"],
)
def test_a_weight_profile_keeps_count_and_sum(weights):
    means, counts = weight_profile(weights)
    assert counts.sum() == weights.size
    np.testing.assert_allclose((means * counts).sum(), weights.sum(), rtol=1e-12)
    assert (np.diff(means) > 0).all()
    assert means.size <= weights.size
    # What it is for: inclusion probabilities sum to what they should within 0.1 %.
    for tau in 1.0 / np.quantile(weights, [0.1, 0.5, 0.9]):
        expected = -np.expm1(-weights * tau).sum()
        np.testing.assert_allclose(-(counts * np.expm1(-means * tau)).sum(), expected, rtol=1e-3)
