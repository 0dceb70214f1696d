"""The radii against their formulas, written out again here, and how delta is divided.

A bound that is wrong by a factor passes every test of answers; these would not let it pass.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t as student

from banditmips.race import kernels
from banditmips.race.bounds import BernsteinBound, HoeffdingBound, PairedBound, RoundView
from banditmips.race.sampling import ReplacementSampler, UniformSampler

N_ATOMS, D, SIZE = 7, 400, 60


def make_view(number=3, replacement=False, absolute=False, size=SIZE, seed=0):
    rng = np.random.default_rng(seed)
    atoms, query = rng.normal(size=(N_ATOMS, D)) + np.arange(N_ATOMS)[:, np.newaxis], rng.normal(size=D)
    sampler = ReplacementSampler(np.arange(D), np.ones(D), 1) if replacement else UniformSampler(D, 1, None)
    sample = sampler.prefix(size)
    values, q = atoms[:, sample.coordinates], query[sample.coordinates]
    ones, nothing = np.ones(N_ATOMS), np.full(N_ATOMS, np.nan)
    estimates, variances, scatters = kernels.sample_estimates(
        values, ones, q, sample.scale, sample.unit, sample.spread, sample.total_unit, kernels.PRODUCT, np.zeros(N_ATOMS)
    )
    view = RoundView(
        number, sample, D, values, q, ones, kernels.PRODUCT, absolute, estimates, variances, scatters, nothing
    )
    return view, q * values


def share(delta, number):
    """One atom's share of delta in a round."""
    return delta * 6.0 / (np.pi * number) ** 2 / N_ATOMS


@pytest.mark.parametrize("number", [1, 3, 8])
def test_hoeffding(number):
    view, _ = make_view(number)
    radius = HoeffdingBound(0.05, N_ATOMS, False, 3.0 * D, per_row=False, serfling=False).score_radius(view)
    # P(|mean - mu| > r) <= 2 exp(-N r^2 / (2 sigma^2)), set equal to the share, for the sum over D coordinates.
    expected = D * 3.0 * np.sqrt(2.0 / SIZE * np.log(2.0 / share(0.05, number)))
    np.testing.assert_allclose(radius, expected)


@pytest.mark.parametrize(
    ("size", "rho"), [(60, 1 - 59 / 400), (200, 1 - 199 / 400), (300, (1 - 300 / 400) * (1 + 1 / 300))]
)
def test_hoeffding_serfling(size, rho):
    view, _ = make_view(size=size)
    low, high = -2.0, 4.0  # of one term; (high - low)/2 is its sub-Gaussian parameter
    bound = HoeffdingBound(0.05, N_ATOMS, False, D * (high - low) / 2, per_row=False, serfling=True)
    one_side = share(0.05, 3) / 2.0
    expected = D * (high - low) * np.sqrt(rho * np.log(1.0 / one_side) / (2.0 * size))
    np.testing.assert_allclose(bound.score_radius(view), expected)


def test_bernstein_with_replacement():
    view, terms = make_view(replacement=True)
    radius = BernsteinBound(0.05, N_ATOMS, True, width=5.0 * D).score_radius(view)
    log_term = np.log(3.0 / share(0.05, 3))
    expected = D * (np.sqrt(2.0 * terms.var(axis=1) * log_term / SIZE) + 3.0 * 5.0 * log_term / SIZE)
    np.testing.assert_allclose(radius, expected)


def test_bernstein_without_replacement():
    view, terms = make_view()
    radius = BernsteinBound(0.05, N_ATOMS, False, width=5.0 * D).score_radius(view)
    log_term = np.log(5.0 / (share(0.05, 3) / 2.0))
    rho, kappa = 1.0 - (SIZE - 1) / D, 7.0 / 3.0 + 3.0 / np.sqrt(2.0)
    expected = D * (terms.std(axis=1) * np.sqrt(2.0 * rho * log_term / SIZE) + kappa * 5.0 * log_term / SIZE)
    np.testing.assert_allclose(radius, expected)


def test_paired_score_radius():
    view, terms = make_view()
    radius = PairedBound(0.05, N_ATOMS, 2, absolute=False).score_radius(view)
    z = student.isf(share(0.05, 3) / 2.0, SIZE - 1)
    expected = z * D * terms.std(axis=1, ddof=1) * np.sqrt((1.0 - SIZE / D) / SIZE)
    np.testing.assert_allclose(radius, expected, rtol=1e-6)


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_paired_drops_what_loses_to_all_k_leaders(k, absolute):
    for seed in range(20):
        view, terms = make_view(absolute=absolute, seed=seed, size=40)
        scores = np.abs(view.estimates) if absolute else view.estimates
        leaders = np.argsort(-scores)[:k]
        pairs = k * (N_ATOMS - k) * (2 if absolute else 1)
        z = student.isf(0.05 * 6.0 / (np.pi * 3) ** 2 / pairs, 39)
        expected = np.zeros(N_ATOMS, dtype=bool)
        for i in set(range(N_ATOMS)) - set(leaders.tolist()):
            expected[i] = True
            for leader in leaders:
                turned = np.sign(view.estimates[leader]) if absolute else 1.0
                for sign in (1.0, -1.0) if absolute else (1.0,):
                    difference = turned * terms[leader] - sign * terms[i]
                    error = difference.std(ddof=1) * np.sqrt((1.0 - 40 / D) / 40)
                    expected[i] &= difference.mean() > z * error
        beaten = PairedBound(0.05, N_ATOMS, k, absolute).beaten(view, leaders, 0.0)
        np.testing.assert_array_equal(beaten, expected)


def test_paired_with_a_part_of_the_scores_known():
    """What is known moves the estimates and not the variances, and a difference varies at least as it is told."""
    view, terms = make_view(seed=34)
    leader = int(np.argmax(view.estimates))
    bound = PairedBound(0.05, N_ATOMS, 1, absolute=False)
    plain = bound.beaten(view, np.array([leader]), 0.0)
    assert plain.sum() == N_ATOMS - 2
    spared = next(i for i in range(N_ATOMS) if i != leader and not plain[i])
    # What is known of the leader alone: enough to beat the one that is spared, or not quite.
    z = student.isf(0.05 / (N_ATOMS - 1) * 6.0 / (np.pi * 3) ** 2, SIZE - 1)
    difference = terms[leader] - terms[spared]
    error = D * difference.std(ddof=1) * np.sqrt((1.0 - SIZE / D) / SIZE)
    missing = z * error - D * difference.mean()
    for factor in (0.999, 1.001):
        known = np.where(np.arange(N_ATOMS) == leader, factor * missing, 0.0)
        ahead = replace(view, estimates=view.estimates + known, offsets=known, least_variances=np.zeros(N_ATOMS))
        assert bound.beaten(ahead, np.array([leader]), 0.0)[spared] == (factor > 1.0)
    # And if the difference is told to vary more than it does.
    gap = ahead.estimates[leader] - ahead.estimates[spared]
    for factor in (0.999, 1.001):
        least = np.where(np.isin(np.arange(N_ATOMS), [leader, spared]), factor * (gap / z) ** 2 / 2.0, 0.0)
        floored = replace(ahead, least_variances=least)
        assert bound.beaten(floored, np.array([leader]), 0.0)[spared] == (factor < 1.0)
