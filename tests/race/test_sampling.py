"""Which coordinates are drawn, how often, and what estimates make of them. Seeds serve as repetitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from banditmips.core.numbers import permuted_coordinates
from banditmips.race.sampling import (
    LEAST_SHARE,
    BottomKSampler,
    ReplacementSampler,
    SortedSampler,
    UniformSampler,
    power_weights,
    seen_enough,
    unevenness,
)

# A fixed seed decides once for all whether a test of uniformity passes; true randomness fails one in ten thousand.
SIGNIFICANCE = 1e-4

D = 200
RNG = np.random.default_rng(0)
WEIGHTS = RNG.exponential(size=D) + 0.05
TERMS = RNG.normal(size=(6, D)) * np.sqrt(WEIGHTS) + 0.5 * WEIGHTS
COORDINATES = np.arange(D) * 3 + 1

SAMPLERS = {
    "uniform": lambda seed: UniformSampler(D, seed, None),
    "bottom-k": lambda seed: BottomKSampler(np.arange(D), WEIGHTS, seed),
    "replacement": lambda seed: ReplacementSampler(np.arange(D), WEIGHTS, seed),
    "uniform replacement": lambda seed: ReplacementSampler(np.arange(D), np.ones(D), seed),
}
every_sampler = pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS.keys())


def estimate(prefix, terms):
    """Return the estimates of the rows' totals, and the variances that the prefix claims for them."""
    seen = terms[:, prefix.coordinates]
    totals = seen @ prefix.scale
    residuals = seen - np.outer(totals / prefix.total_unit, prefix.unit)
    return totals, (residuals**2) @ prefix.spread**2


def inclusion(prefix):
    """Return the inclusion probabilities that a prefix goes by: its spreads tell."""
    size = prefix.coordinates.size
    return 1.0 - (prefix.spread / prefix.scale) ** 2 * (size - 1) / size


# --- the uniform order ------------------------------------------------------------------------------------------------


def test_the_uniform_order_is_a_permutation():
    for d in [*range(1, 301), 1023, 1024, 1025, 4097, 65_537, 1_000_000]:
        order = permuted_coordinates(d, d, 0, d)
        assert (np.bincount(order, minlength=d) == 1).all()
        assert order.size == d


@pytest.mark.parametrize("d", [1, 2, 3, 16, 17, 1000, 100_000])
def test_the_uniform_order_does_not_depend_on_how_it_is_asked_for(d):
    whole = permuted_coordinates(5, d, 0, d)
    cuts = np.unique(np.concatenate([[0, d], np.random.default_rng(0).integers(0, d + 1, 20)]))
    pieces = [permuted_coordinates(5, d, start, stop) for start, stop in pairwise(cuts)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_the_order_needs_no_room_for_all_coordinates():
    d = 2**40 + 12_345
    order = permuted_coordinates(1, d, d - 1000, d)
    assert np.unique(order).size == 1000
    assert (order >= 0).all()
    assert (order < d).all()
    # Uniform over the whole range: the mean of 1,000 has a standard error of 0.0091 d.
    assert abs(order.mean() / d - 0.5) < 0.04


@pytest.mark.parametrize("d", [2, 3, 5, 10, 16, 37, 100])
@pytest.mark.parametrize("position", [0, 1, -1])
def test_every_coordinate_is_equally_likely_at_every_position(d, position):
    position = min(position % d, d - 1)
    drawn = [permuted_coordinates(seed, d, position, position + 1)[0] for seed in range(100 * d)]
    assert chisquare(np.bincount(drawn, minlength=d)).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("d", [5, 9, 20])
def test_every_pair_is_equally_likely_at_the_start(d):
    pairs = np.array([permuted_coordinates(seed, d, 0, 2) for seed in range(40 * d * (d - 1))])
    counts = np.bincount(pairs[:, 0] * d + pairs[:, 1], minlength=d * d).reshape(d, d)
    assert chisquare(counts[~np.eye(d, dtype=bool)]).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("d", [3, 4])
def test_every_order_of_a_few_coordinates_is_equally_likely(d):
    orders = np.array([permuted_coordinates(seed, d, 0, d) for seed in range(6000)])
    _, counts = np.unique(orders @ d ** np.arange(d), return_counts=True)
    assert counts.size == {3: 6, 4: 24}[d]
    assert chisquare(counts).pvalue > SIGNIFICANCE


def test_seeds_give_orders_that_have_nothing_in_common():
    first, second, far = (permuted_coordinates(seed, 10_000, 0, 500) for seed in (0, 1, 2**63 - 1))
    for a, b in [(first, second), (first, far), (second, far)]:
        # 25 are expected in common, with a standard deviation of 4.8.
        assert np.intersect1d(a, b).size < 50
        assert np.count_nonzero(a == b) < 4


# --- every sampler ----------------------------------------------------------------------------------------------------


@every_sampler
def test_prefixes_nest_and_do_not_depend_on_earlier_questions(make):
    asked_often, asked_once = make(4), make(4)
    for size in (1, 2, 3, 16, 17, 60, 61, 150, 199, 200):
        prefix = asked_often.prefix(size)
        np.testing.assert_array_equal(prefix.coordinates, asked_once.prefix(200).coordinates[:size])
        fresh = make(4).prefix(size)
        np.testing.assert_array_equal(prefix.coordinates, fresh.coordinates)
        np.testing.assert_allclose(prefix.scale, fresh.scale, rtol=1e-6)
        assert prefix.scale.size == prefix.unit.size == prefix.spread.size == size


@pytest.mark.parametrize("name", ["uniform", "bottom-k"])
def test_without_replacement_no_coordinate_comes_twice_and_all_make_the_exact_total(name):
    sampler = SAMPLERS[name](9)
    prefix = sampler.prefix(D)
    np.testing.assert_array_equal(np.sort(prefix.coordinates), np.arange(D))
    totals, variances = estimate(prefix, TERMS)
    np.testing.assert_allclose(totals, TERMS.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(variances, 0.0, atol=1e-20)
    np.testing.assert_allclose(prefix.scale, 1.0, rtol=1e-12)


@every_sampler
@pytest.mark.parametrize("size", [16, 50, 140])
def test_estimates_are_unbiased_and_state_their_variance(make, size):
    repetitions = 1500
    totals, variances = np.empty((repetitions, 6)), np.empty((repetitions, 6))
    for seed in range(repetitions):
        totals[seed], variances[seed] = estimate(make(seed).prefix(size), TERMS)
    error = totals.mean(axis=0) - TERMS.sum(axis=1)
    empirical = totals.var(axis=0, ddof=1)
    assert (np.abs(error) < 4.5 * np.sqrt(empirical / repetitions)).all()
    # The empirical variance itself is known within about 4 % (one standard error).
    np.testing.assert_allclose(variances.mean(axis=0), empirical, rtol=0.16)


def test_paired_differences_state_their_variance_too():
    """A race compares atoms on the same coordinates: differences are rows like any other."""
    differences = TERMS[:3] - TERMS[3:]
    totals, variances = zip(
        *(estimate(SAMPLERS["bottom-k"](seed).prefix(40), differences) for seed in range(1500)), strict=True
    )
    np.testing.assert_allclose(np.mean(variances, axis=0), np.var(totals, axis=0, ddof=1), rtol=0.16)


@pytest.mark.parametrize("support", [[3], [0, 199], list(range(0, 200, 7)), list(range(190, 200))])
def test_a_uniform_sampler_keeps_to_the_support(support):
    inside = np.isin(np.arange(D), support)
    sampler = UniformSampler(D, 2, inside)
    assert sampler.population == len(support)
    order = permuted_coordinates(2, D, 0, D)
    np.testing.assert_array_equal(sampler.prefix(len(support)).coordinates, order[inside[order]])
    assert not sampler.follows_uniform_order
    assert UniformSampler(D, 2, None).follows_uniform_order


def test_samplers_speak_of_coordinates_and_not_of_positions():
    for sampler in (BottomKSampler(COORDINATES, WEIGHTS, 3), ReplacementSampler(COORDINATES, WEIGHTS, 3)):
        assert np.isin(sampler.prefix(100).coordinates, COORDINATES).all()
        assert sampler.population == D


def test_a_coordinate_keeps_its_random_number_whatever_else_is_there():
    """The numbers belong to coordinates: taking some away leaves the others in their order."""
    every_other = np.arange(0, D, 2)
    whole = BottomKSampler(np.arange(D), WEIGHTS, 3).prefix(D).coordinates
    part = BottomKSampler(every_other, WEIGHTS[::2].copy(), 3).prefix(every_other.size).coordinates
    np.testing.assert_array_equal(part, whole[whole % 2 == 0])


# --- bottom-k ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights",
    [
        WEIGHTS,
        np.ones(D),
        np.abs(np.random.default_rng(1).standard_t(2, D)),
        np.geomspace(1e-100, 1.0, D),
        np.where(np.arange(D) < 5, 1e6, 1.0),
        np.where(np.arange(D) < 100, 1.0, 1e-100),
    ],
    ids=["exponential", "equal", "Student-t", "geometric", "a few large", "two levels"],
)
def test_inclusion_probabilities_sum_to_the_size_of_the_sample(weights):
    weights = weights / weights.mean()
    for size in (2, 16, 50, 99, 101, 150, 199):
        prefix = BottomKSampler(np.arange(D), weights, 0).prefix(size)
        pi = inclusion(prefix)
        # All coordinates share one tau; the one whose pi is furthest from 0 and 1 tells it best.
        clearest = np.abs(pi - 0.5).argmin()
        tau = -np.log1p(-pi[clearest]) / weights[prefix.coordinates[clearest]]
        np.testing.assert_allclose(pi, -np.expm1(-weights[prefix.coordinates] * tau), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(-np.expm1(-weights * tau).sum(), size, rtol=2e-3)


@pytest.mark.parametrize("size", [10, 50, 150])
def test_inclusion_probabilities_are_the_frequencies_of_inclusion(size):
    repetitions = 2000
    count, stated = np.zeros(D), np.full(D, np.nan)
    for seed in range(repetitions):
        prefix = SAMPLERS["bottom-k"](seed).prefix(size)
        count[prefix.coordinates] += 1
        stated[prefix.coordinates] = inclusion(prefix)
    error = (count / repetitions - stated) / np.sqrt(stated * (1.0 - stated) / repetitions)
    # At a fixed size the stated ones are an approximation, a little too even; 200 normal errors stay below 4.
    assert np.nanmax(np.abs(error)) < 5.0
    assert abs(count.sum() - size * repetitions) < 1e-9


def test_large_weights_are_taken_for_certain():
    weights = np.where(np.arange(D) < 5, 1e9, 1.0)
    for seed in range(20):
        prefix = BottomKSampler(np.arange(D), weights, seed).prefix(16)
        np.testing.assert_array_equal(np.sort(prefix.coordinates[:5]), np.arange(5))


def test_equal_weights_give_uniform_sampling():
    prefix = BottomKSampler(np.arange(D), np.ones(D), 0).prefix(40)
    uniform = UniformSampler(D, 0, None).prefix(40)
    np.testing.assert_allclose(prefix.scale, uniform.scale)
    np.testing.assert_allclose(prefix.spread, uniform.spread)


# --- the others -------------------------------------------------------------------------------------------------------


def test_draws_with_replacement_follow_the_weights():
    drawn = ReplacementSampler(np.arange(D), WEIGHTS, 0).prefix(40_000).coordinates
    expected = WEIGHTS / WEIGHTS.sum() * drawn.size
    assert chisquare(np.bincount(drawn, minlength=D), expected).pvalue > SIGNIFICANCE


def test_the_range_of_a_draw_with_replacement():
    """One draw contributes total * (q/w) * v: the largest over all coordinates is what bounds must know."""
    sampler = ReplacementSampler(np.arange(D), WEIGHTS, 0)
    factors, total = sampler.range_factors(np.full(D, 2.0))
    np.testing.assert_allclose(total * factors, WEIGHTS.sum() * 2.0 / WEIGHTS)
    prefix = sampler.prefix(1)
    np.testing.assert_allclose(prefix.scale * 2.0, total * factors[prefix.coordinates])


def test_sorted_takes_the_largest_entries_first_and_of_equals_the_earlier():
    query = np.array([0.0, -3.0, 1.0, 3.0, 0.5, -1.0])
    sampler = SortedSampler(np.flatnonzero(query), query)
    assert sampler.population == 5
    np.testing.assert_array_equal(sampler.prefix(5).coordinates, [1, 3, 2, 5, 4])
    np.testing.assert_array_equal(sampler.prefix(2).coordinates, [1, 3])


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 1.0, 40.0])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_weights_are_powers_with_mean_one_and_never_zero(beta, scale):
    query = scale * np.array([1.0, -2.0, 0.25, 1e-6, 1e-9])
    weights = power_weights(query, beta)
    np.testing.assert_allclose(weights.mean(), 1.0)
    assert (weights > 0).all()
    assert np.isfinite(weights).all()
    ratio = np.abs(query[:3] / query[1]) ** (2 * beta)
    np.testing.assert_allclose(weights[:3] / weights[1], np.maximum(ratio, 1e-100), rtol=1e-9)


@pytest.mark.parametrize("beta", [0.6, 1.0, 3.0, 50.0])
def test_no_coordinate_is_drawn_much_more_seldom_than_by_its_size(beta):
    query = np.random.default_rng(0).normal(size=400)
    raised = seen_enough(power_weights(query, beta), query)
    assert raised.mean() == pytest.approx(1.0)
    assert (raised >= 0.9 * LEAST_SHARE / (1.0 + LEAST_SHARE) * power_weights(query, 0.5)).all()
    order = np.argsort(np.abs(query))
    assert (np.diff(raised[order]) >= 0.0).all()


def test_weights_of_a_zero_query_are_equal():
    np.testing.assert_array_equal(power_weights(np.zeros(3), 0.5), np.ones(3))


def test_unevenness_says_how_much_uniform_sampling_loses():
    assert unevenness(np.full(7, -2.0)) == pytest.approx(1.0)
    assert unevenness(np.random.default_rng(0).normal(size=100_000)) == pytest.approx(np.pi / 2, rel=0.02)
    assert unevenness(np.eye(50)[0] + 1e-9) == pytest.approx(50.0, rel=1e-3)
