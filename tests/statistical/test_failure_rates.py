"""Failure rates of `paired` and `codes` on nice and nasty data, judged trial by trial.

Wald's sequential test compares a rate of delta with one of 2*delta: trials go on until what has happened is 1,000 times
as likely at one of them as at the other. So a rate of at most delta fails with a probability of at most 1e-3, and one
of 2*delta passes with at most that. If the most trials have not told, a binomial test of all does, which finds
2*delta with probability 0.98.
"""

from itertools import count

import numpy as np
import pytest
from scipy.stats import binom

import banditmips as bm

pytestmark = pytest.mark.statistical

N_ATOMS, D = 10, 500
RACING = {"minimise": "multiplies", "rescore": False}
MOST_TRIALS = {0.1: 400, 0.01: 4000}
TOLD = np.log(1e3)


def normal_custom(rng):
    return rng.normal(size=(N_ATOMS, 1)) + rng.normal(size=(N_ATOMS, D)), rng.normal() + rng.normal(size=D)


def correlated(rng):
    query = rng.normal() + rng.normal(size=D)
    return rng.normal(size=(N_ATOMS, 1)) * query + rng.normal(size=(N_ATOMS, D)), query


def symmetric(rng):
    return rng.normal(size=(N_ATOMS, D)), rng.normal(size=D)


def ratings(rng):
    movies, users = rng.normal(size=(N_ATOMS + 1, 5)), 0.4 * rng.normal(size=(D, 5))
    table = 3.4 + 0.4 * rng.normal(size=(N_ATOMS + 1, 1)) + 0.3 * rng.normal(size=D) + movies @ users.T
    table = np.clip(table, 0.0, 5.0)
    return table[:-1], table[-1]


def heavy_tails(rng):
    query = rng.standard_t(2, size=D)
    return 0.3 * rng.normal(size=(N_ATOMS, 1)) * query + rng.standard_t(3, size=(N_ATOMS, D)), query


def lognormal(rng):
    return rng.lognormal(size=(N_ATOMS, D)), rng.lognormal(size=D)


def nearly_equal(rng):
    query = rng.normal(size=D)
    return query + 0.1 * rng.normal(size=(N_ATOMS, D)), query


def sparse_query(rng):
    return rng.normal(size=(N_ATOMS, 1)) + rng.normal(size=(N_ATOMS, D)), np.where(
        rng.random(D) < 0.2, rng.normal(size=D), 0.0
    )


def sparse_against_dense(rng):
    """The best atom has 1 % of large entries, the others are dense and steady: a small sample sees nothing of it."""
    atoms = 1.0 + 0.1 * rng.normal(size=(N_ATOMS, D))
    atoms[0] = 0.0
    atoms[0, rng.choice(D, D // 100, replace=False)] = 1.3 * 100
    return atoms, 1.0 + 0.1 * rng.normal(size=D)


ORDINARY = [normal_custom, correlated, symmetric, ratings, heavy_tails, lognormal, nearly_equal, sparse_query]


def races(make, k, answer):
    """Race with one seed after another, for ever, and say whether each answer is wrong."""
    for seed in count():
        if seed % 8 == 0:  # eight races, each with its own seed, on the same atoms
            atoms, query = make(np.random.default_rng([seed, 17]))
            scores = atoms @ query
            bar = np.sort(scores)[-k]
        found = answer(atoms, query, seed)
        yield bool((scores[found.indices] < bar - 1e-9 * abs(bar)).any())


def assert_rate_at_most(delta, outcomes):
    """Look at outcomes, True for a failure, until they tell whether the rate is delta or twice as much."""
    failures, evidence, most = 0, 0.0, MOST_TRIALS[delta]
    for trial, failed in zip(range(1, most + 1), outcomes, strict=False):
        failures += failed
        evidence += np.log(2.0) if failed else np.log((1.0 - 2.0 * delta) / (1.0 - delta))
        if evidence <= -TOLD:
            return
        assert evidence < TOLD, f"{failures} failures in {trial} trials at delta = {delta}"
    assert binom.sf(failures - 1, most, delta) > 1e-3, f"{failures} failures in {most} trials at delta = {delta}"


@pytest.mark.parametrize("delta", [0.1, 0.01])
def test_the_test_tells_delta_from_twice_as_much(delta):
    def passes(rate, seed):
        try:
            assert_rate_at_most(delta, np.random.default_rng([seed, 19]).random(MOST_TRIALS[delta]) < rate)
        except AssertionError:
            return False
        return True

    assert sum(passes(delta / 2.0, seed) for seed in range(50)) == 50
    assert sum(passes(2.0 * delta, seed) for seed in range(50)) <= 3
    assert not passes(1.0, 0)


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize("make", ORDINARY)
def test_paired_without_fit(make, delta):
    assert_rate_at_most(delta, races(make, 1, lambda a, q, s: bm.search(a, q, delta=delta, seed=s, **RACING)))


def after_fit(layout, delta):
    def answer(atoms, query, seed):
        index = bm.BanditMIPS(layout=layout, delta=delta, seed=seed, **RACING).fit(atoms)
        return index.search(query)

    return answer


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
@pytest.mark.parametrize("make", [*ORDINARY, sparse_against_dense])
def test_after_fit(make, layout):
    assert_rate_at_most(0.1, races(make, 1, after_fit(layout, 0.1)))


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
def test_an_index_sees_sparse_atoms_at_a_small_delta(layout):
    assert_rate_at_most(0.01, races(sparse_against_dense, 1, after_fit(layout, 0.01)))


@pytest.mark.parametrize("make", [normal_custom, symmetric, heavy_tails])
@pytest.mark.parametrize(("k", "absolute"), [(3, False), (1, True)])
def test_paired_with_k_and_absolute(make, k, absolute):
    def outcomes():
        for seed in count():
            atoms, query = make(np.random.default_rng([seed, 18]))
            scores = np.abs(atoms @ query) if absolute else atoms @ query
            found = bm.search(atoms, query, k, delta=0.1, absolute=absolute, seed=seed, **RACING)
            yield set(found.indices) != set(np.argsort(-scores)[:k])

    assert_rate_at_most(0.1, outcomes())


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("make", [normal_custom, correlated, symmetric, heavy_tails])
def test_paired_by_sampling(make, replacement):
    def answer(atoms, query, seed):
        options = {"sampling": "weighted", "replacement": replacement}
        return bm.search(atoms, query, delta=0.1, seed=seed, **options, **RACING)

    assert_rate_at_most(0.1, races(make, 1, answer))
