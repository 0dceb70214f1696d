"""The failure probability over several shards is that of the whole search, judged by a binomial test on nasty data.

With these numbers of trials, a true rate of 2*delta is caught with probability 0.92.
"""

import numpy as np
import pytest
from scipy.stats import binom

pytestmark = pytest.mark.statistical

N_ATOMS, D, CUTS = 12, 500, [2, 7]
DELTA, N_TRIALS, N_QUERIES = 0.1, 240, 8


def symmetric(rng):
    return rng.normal(size=(N_ATOMS, D)), rng.normal(size=(N_QUERIES, D))


def heavy_tails(rng):
    queries = rng.standard_t(2, size=(N_QUERIES, D))
    return 0.3 * rng.normal(size=(N_ATOMS, 1)) * queries[0] + rng.standard_t(3, size=(N_ATOMS, D)), queries


def sparse_against_dense(rng):
    """The best atom has 1 % of large entries, the others are dense and steady: a small sample sees nothing of it."""
    atoms = 1.0 + 0.1 * rng.normal(size=(N_ATOMS, D))
    lonely = rng.integers(N_ATOMS)
    atoms[lonely] = 0.0
    atoms[lonely, rng.choice(D, D // 100, replace=False)] = 1.3 * 100
    return atoms, 1.0 + 0.1 * rng.normal(size=(N_QUERIES, D))


def nearly_equal_but_for_needles(rng):
    """Atoms that differ at five coordinates each, and a level query: their sums are known and say little."""
    atoms = np.repeat(3.5 + 0.5 * rng.normal(size=(1, D)), N_ATOMS, axis=0)
    for atom in atoms:
        atom[rng.choice(D, 5, replace=False)] += 4.0 * rng.normal(size=5)
    return atoms, 3.4 + 0.6 * rng.normal(size=(N_QUERIES, D))


@pytest.mark.parametrize(
    ("make", "k", "absolute"),
    [
        (symmetric, 1, False),
        (sparse_against_dense, 1, False),
        (nearly_equal_but_for_needles, 1, False),
        (heavy_tails, 2, True),
    ],
)
def test_failures_stay_below_delta(make_shards, make, k, absolute):
    failures = 0
    for seed in range(N_TRIALS // N_QUERIES):
        atoms, queries = make(np.random.default_rng([seed, k]))
        scores = queries @ atoms.T
        scores = np.abs(scores) if absolute else scores
        found = make_shards(atoms, CUTS, seed=seed).search(queries, k, delta=DELTA, absolute=absolute, rescore=False)
        worst = np.take_along_axis(scores, found.indices, axis=1).min(axis=1)
        failures += int((worst < np.sort(scores)[:, -k] * (1 - 1e-9)).sum())
    # Reached with probability below 1e-3 if the true rate were delta.
    assert binom.sf(failures - 1, N_TRIALS, DELTA) > 1e-3, f"{failures} failures in {N_TRIALS} at delta = {DELTA}"
