"""Who leads and who is dropped by intervals, against NumPy, ties and what is not a number included."""

import numpy as np
import pytest

from banditmips.core.rule import drop_certain
from banditmips.core.survivors import Survivors


def made(estimates, radius, k, absolute=False, candidates=None):
    alive = Survivors(candidates, len(estimates), k, absolute)
    alive.estimate_array[:] = estimates
    alive.radius_array[:] = radius
    return alive


def kept(estimates, radius, k, absolute, bar=-np.inf):
    """Drop the atoms whose upper ends are below the k-th largest lower end, or the bar, as it is defined."""
    ranking = np.abs(estimates) if absolute else estimates
    lower = np.where(np.isnan(ranking - radius), -np.inf, ranking - radius)
    if len(estimates) > k:
        bar = max(bar, np.sort(lower)[-k])
    return np.flatnonzero(~(ranking + radius < bar))


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 20])
def test_intervals_drop_what_numpy_drops(k, absolute):
    n_dropped = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        # Few values, so that many ends are equal.
        estimates = rng.integers(-4, 5, size=20).astype(float)
        radius = rng.integers(0, 3, size=20) * rng.choice([0.5, 1.0])
        alive = made(estimates, radius, k, absolute)
        expected = kept(estimates, radius, k, absolute)
        drop_certain(alive)
        np.testing.assert_array_equal(alive.row_array, expected)
        np.testing.assert_array_equal(alive.estimate_array, estimates[expected])
        np.testing.assert_array_equal(alive.radius_array, radius[expected])
        assert alive.n == expected.size >= k
        n_dropped += 20 - alive.n
    assert n_dropped > 0 or k == 20


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_drops_nobody_and_is_not_dropped(k, strange):
    """An atom of which nothing is known does not count as one that beats others, wherever it stands."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        estimates, radius = rng.normal(size=12), rng.uniform(0.0, 0.4, size=12)
        places = rng.choice(12, size=3, replace=False)
        if np.isnan(strange):
            estimates[places[:2]], radius[places[2]] = strange, np.nan
        else:
            estimates[places], radius[places] = strange, np.inf
        alive = made(estimates, radius, k)
        with np.errstate(invalid="ignore"):
            expected = kept(estimates, radius, k, False)
        drop_certain(alive)
        np.testing.assert_array_equal(alive.row_array, expected)
        assert np.isin(places, alive.row_array).all()


def test_a_bar_drops_what_ends_below_it():
    estimates, radius = np.array([1.0, 4.0, 2.0, 3.0]), np.full(4, 0.75)
    alive = made(estimates, radius, 1)
    alive.bar = 3.75
    drop_certain(alive)
    np.testing.assert_array_equal(alive.row_array, [1, 3])
    alive.bar = 3.76
    drop_certain(alive)
    np.testing.assert_array_equal(alive.row_array, [1])


@pytest.mark.parametrize("absolute", [False, True])
def test_leaders_are_the_best_by_estimate_and_of_equals_the_earlier(absolute):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        estimates = rng.integers(-3, 4, size=15).astype(float)
        alive = made(estimates, np.ones(15), 2, absolute)
        ranking = np.abs(estimates) if absolute else estimates
        np.testing.assert_array_equal(alive.ranking(), ranking)
        order = np.lexsort((np.arange(15), -ranking))
        for count in (1, 2, 5, 15, 40):
            np.testing.assert_array_equal(alive.leaders(count), order[:count])


def test_candidates_keep_their_names():
    candidates = np.array([3, 8, 11, 40])
    alive = made([1.0, 5.0, -2.0, 4.9], [0.2] * 4, 2, candidates=candidates)
    drop_certain(alive)
    np.testing.assert_array_equal(alive.row_array, [8, 40])
    np.testing.assert_array_equal(candidates, [3, 8, 11, 40])


def test_no_more_than_k_candidates_are_never_dropped_without_a_bar():
    alive = made([1.0, 100.0], [0.0, 0.0], 2)
    drop_certain(alive)
    assert alive.n == 2
