"""Failure rates of `paired` and `codes` on nice and nasty data, judged by a binomial test.

A case fails if its count of wrong answers would be reached with probability below 1e-3 at a true rate of delta. With
these numbers of trials, a true rate of 2*delta is caught with probability 0.98.
"""

import numpy as np
import pytest
from scipy.stats import binom

import banditmips as bm

pytestmark = pytest.mark.statistical

N_ATOMS, D = 10, 500
RACING = {"minimise": "multiplies", "rescore": False}
TRIALS = {0.1: 400, 0.01: 4000}


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


def count_failures(make, trials, k, answer):
    failures = 0
    for seed in range(trials):
        if seed % 8 == 0:  # eight races, each with its own seed, on the same atoms
            atoms, query = make(np.random.default_rng([seed, 17]))
            scores = atoms @ query
            bar = np.sort(scores)[-k]
        found = answer(atoms, query, seed)
        failures += bool((scores[found.indices] < bar - 1e-9 * abs(bar)).any())
    return failures


def assert_rate_at_most(delta, failures, trials):
    assert binom.sf(failures - 1, trials, delta) > 1e-3, f"{failures} failures in {trials} trials at delta = {delta}"


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize("make", ORDINARY)
def test_paired_without_fit(make, delta):
    failures = count_failures(make, TRIALS[delta], 1, lambda a, q, s: bm.search(a, q, delta=delta, seed=s, **RACING))
    assert_rate_at_most(delta, failures, TRIALS[delta])


def after_fit(layout, delta):
    def answer(atoms, query, seed):
        index = bm.BanditMIPS(layout=layout, delta=delta, seed=seed, **RACING).fit(atoms)
        return index.search(query)

    return answer


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
@pytest.mark.parametrize("make", [*ORDINARY, sparse_against_dense])
def test_after_fit(make, layout):
    assert_rate_at_most(0.1, count_failures(make, 400, 1, after_fit(layout, 0.1)), 400)


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
def test_an_index_sees_sparse_atoms_at_a_small_delta(layout):
    assert_rate_at_most(0.01, count_failures(sparse_against_dense, 4000, 1, after_fit(layout, 0.01)), 4000)


@pytest.mark.parametrize("make", [normal_custom, symmetric, heavy_tails])
@pytest.mark.parametrize(("k", "absolute"), [(3, False), (1, True)])
def test_paired_with_k_and_absolute(make, k, absolute):
    failures = 0
    for seed in range(400):
        atoms, query = make(np.random.default_rng([seed, 18]))
        scores = np.abs(atoms @ query) if absolute else atoms @ query
        found = bm.search(atoms, query, k, delta=0.1, absolute=absolute, seed=seed, **RACING)
        failures += set(found.indices) != set(np.argsort(-scores)[:k])
    assert_rate_at_most(0.1, failures, 400)


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize("make", [normal_custom, correlated, symmetric, heavy_tails])
def test_paired_by_sampling(make, replacement):
    failures = count_failures(
        make,
        400,
        1,
        lambda a, q, s: bm.search(a, q, delta=0.1, sampling="weighted", replacement=replacement, seed=s, **RACING),
    )
    assert_rate_at_most(0.1, failures, 400)
