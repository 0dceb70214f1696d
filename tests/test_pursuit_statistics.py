"""Failure rates of pursuits below delta, and intervals that cover, judged by binomial tests at fixed seeds."""

import numpy as np
import pytest
from scipy.stats import binom

import banditmips as bm
from banditmips.atoms import DenseStore, gabor_atoms, sinusoids
from banditmips.pursuit.dictionary import Dictionary
from banditmips.pursuit.race import Race
from banditmips.pursuit.residual import Residual
from banditmips.race.sampling import BottomKSampler, UniformSampler

pytestmark = pytest.mark.statistical


def is_plausible(failures, trials, delta):
    """Whether so many failures, or more, have a chance of one in a thousand if each trial fails with delta."""
    return bool(binom.sf(failures - 1, trials, delta) > 1e-3)


def close_race(kind, seed, d=8_000):
    """Return a dictionary in which two of four groups are nearly equal, a signal, and the groups' true scores."""
    rng = np.random.default_rng([seed, 11])
    weights = np.array([1.0, rng.uniform(0.9, 0.98), 0.1, 0.0]) * rng.choice([-1.0, 1.0], 4)
    if kind in ("sines", "gabor"):
        frequencies = rng.permutation(np.linspace(0.02, 0.4, 4))
        if kind == "sines":
            store = sinusoids(frequencies, d, pairs=True)
        else:
            store = gabor_atoms(frequencies, rng.uniform(1_000, d - 1_000, 4), rng.uniform(400, 900, 4), d)
        values = store.entries(np.arange(8), np.arange(d)).reshape(4, 2, d)
        angles = rng.uniform(0, 2 * np.pi, 4)
        tones = np.cos(angles)[:, None] * values[:, 0] + np.sin(angles)[:, None] * values[:, 1]
        signal = weights @ (tones / np.linalg.norm(tones, axis=1)[:, None]) * np.sqrt(d)
        signal += 0.7 * rng.normal(size=d)
        fits = [np.linalg.lstsq(pair.T, signal, rcond=None)[0] for pair in values]
        scores = [np.linalg.norm(fit @ pair) for fit, pair in zip(fits, values, strict=True)]
        return Dictionary(store, 2), signal, scores
    if kind == "normal":
        atoms = rng.normal(size=(4, d))
    elif kind == "heavy":
        atoms = rng.standard_t(3, size=(4, d))
    else:
        atoms = rng.normal(size=(4, d)) * (rng.random((4, d)) < 0.03)
    atoms *= np.exp(rng.normal(size=(4, 1)))
    unit = atoms / np.linalg.norm(atoms, axis=1)[:, None]
    signal = weights @ unit * np.sqrt(d) + 0.7 * rng.normal(size=d)
    return Dictionary(DenseStore(atoms), 1), signal, np.abs(unit @ signal)


@pytest.mark.parametrize("kind", ["normal", "heavy", "sparse", "sines", "gabor"])
@pytest.mark.parametrize("sampling", ["uniform", "weighted"])
def test_a_step_fails_no_more_often_than_delta(kind, sampling):
    trials, delta, failures, sampled = 80, 0.05, 0, 0
    for seed in range(trials):
        dictionary, signal, scores = close_race(kind, seed)
        dictionary.first_round, dictionary.growth, dictionary.finish_fraction = 32, 1.5, 0.8
        if sampling == "uniform":
            sampler = UniformSampler(signal.size, seed, None)
        else:
            weights = 0.5 * np.abs(signal) / np.abs(signal).mean() + 0.5
            sampler = BottomKSampler(np.arange(signal.size), weights, seed)
        residual = Residual(signal, dictionary)
        winner = Race(dictionary, residual, np.arange(4), sampler, None, delta=delta, weakness=0.0, budget=None).run()
        sampled += winner.stop_reason == "separated"
        failures += winner.group != int(np.argmax(scores))
    assert is_plausible(failures, trials, delta)
    assert sampled > 0  # the exact finish, which cannot fail, has not answered everything


@pytest.mark.parametrize("method", ["mp", "omp"])
@pytest.mark.parametrize("kind", ["normal", "heavy", "sines"])
def test_intervals_cover_the_coefficients_together(method, kind):
    trials, delta, missed, estimated = 80, 0.2, 0, 0
    for seed in range(trials):
        rng = np.random.default_rng([seed, 13])
        d = 30_000
        if kind == "sines":
            store = sinusoids(rng.uniform(0.01, 0.4, 6), d, pairs=True)
            atoms = store.entries(np.arange(12), np.arange(d))
            signal = 2.0 * atoms[2] - atoms[3] + 1.5 * atoms[8] + rng.normal(size=d)
        else:
            store = atoms = rng.normal(size=(8, d)) if kind == "normal" else rng.standard_t(4, size=(8, d))
            signal = 2.0 * atoms[1] - 1.3 * atoms[4] + rng.normal(size=d)
        result = bm.matching_pursuit(
            store, signal, 2, method=method, delta=delta, rescore=False, coef_rtol=0.1, seed=seed
        )
        truth = true_coefficients(atoms, signal, result, method)
        missed += bool(((truth < result.lower) | (truth > result.upper)).any())
        estimated += int((~result.exact).sum())
    assert is_plausible(missed, trials, delta)
    assert estimated > trials


def true_coefficients(atoms, signal, result, method):
    """Return the coefficients that the intervals are for: all together, or given what the steps before have left."""
    rows = result.indices.reshape(len(result.indices), -1)
    found = result.coefficients.reshape(rows.shape)
    if method == "omp":
        truth = np.linalg.lstsq(atoms[rows.ravel()].T, signal, rcond=None)[0]
    else:
        truth, residual = [], signal
        for chosen, weights in zip(rows, found, strict=True):
            truth.append(np.linalg.lstsq(atoms[chosen].T, residual, rcond=None)[0])
            residual = residual - weights @ atoms[chosen]
    return np.reshape(truth, result.coefficients.shape)


def test_whole_pursuits_fail_no_more_often_than_delta():
    trials, delta, failures, spent = 60, 0.2, 0, []
    for seed in range(trials):
        rng = np.random.default_rng([seed, 17])
        atoms = rng.normal(size=(40, 30_000))
        signal = np.array([1.0, 0.95, 0.9, 0.85]) @ atoms[:4] + rng.normal(size=30_000)
        exact, found = (bm.matching_pursuit(atoms, signal, 4, delta=d, seed=seed) for d in (0.0, delta))
        failures += exact.indices.tolist() != found.indices.tolist()
        spent.append(found.delta_spent)
    assert is_plausible(failures, trials, delta)
    assert 0.0 < min(spent) <= max(spent) <= delta


def test_shares_of_delta_add_up_to_delta_however_long_the_pursuit():
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(100, 12_000))
    signal = rng.normal(size=100) @ atoms
    for options in ({"n_nonzero": 30}, {"tol": 1e-3 * signal @ signal}):
        for rescore in (True, False):
            result = bm.matching_pursuit(atoms, signal, method="omp", rescore=rescore, delta=0.1, **options)
            assert len(result.indices) >= 30
            assert 0.0 < result.delta_spent <= 0.1


def test_an_atom_that_hides_in_a_few_coordinates_is_found_after_fit():
    found = 0
    for seed in range(20):
        rng = np.random.default_rng([seed, 19])
        atoms = rng.normal(size=(60, 20_000))
        place = rng.integers(0, 20_000, 5)
        atoms[7] *= 0.01
        atoms[7, place] = 50.0
        signal = rng.normal(size=20_000)
        signal[place] += 40.0
        pursuit = bm.MatchingPursuit(1, sampling="uniform", seed=seed).fit(atoms)
        found += pursuit.decompose(signal).indices.tolist() == [7]
    assert found == 20
