"""Failure rates where much of a score is known before anything is read: the codes' centre, and the atoms' norms.

What is known exactly makes a difference look certain if the sample of the rest happens to show little of it.
"""

import numpy as np
import pytest
from scipy.stats import binom

import banditmips as bm

pytestmark = pytest.mark.statistical

N_ATOMS, D = 30, 2_000
DELTA, TRIALS = 0.1, 400


def nearly_equal_but_for_needles(rng):
    """Atoms that differ at five coordinates each, and a query that is level: the atoms' sums do not decide."""
    atoms = np.repeat(3.5 + 0.5 * rng.normal(size=(1, D)), N_ATOMS, axis=0)
    for atom in atoms:
        atom[rng.choice(D, 5, replace=False)] += 4.0 * rng.normal(size=5)
    return atoms, 3.4 + 0.6 * rng.normal(size=D)


def spikes_on_sparse_atoms(rng):
    """Query and atoms are mostly 0, and a few entries of the query stand out: a sample sees next to nothing."""
    query = np.where(rng.random(D) < 0.06, rng.lognormal(sigma=1.5, size=D), 0.0)
    return np.where(rng.random((N_ATOMS, D)) < 0.1, rng.lognormal(size=(N_ATOMS, D)), 0.0), query


def ratings(rng):
    movies, users = rng.normal(size=(N_ATOMS + 1, 5)), 0.4 * rng.normal(size=(D, 5))
    table = 3.4 + 0.02 * rng.normal(size=(N_ATOMS + 1, 1)) + 0.3 * rng.normal(size=D) + movies @ users.T
    table = np.clip(table, 0.0, 5.0)
    return table[:-1], table[-1]


def heavy_tails(rng):
    query = rng.standard_t(1.5, size=D)
    return 0.02 * rng.normal(size=(N_ATOMS, 1)) * query + rng.standard_t(3, size=(N_ATOMS, D)), query


def scores_of(atoms, query, objective):
    atoms, query = atoms.astype(np.float64), query.astype(np.float64)
    if objective == "neg_sqeuclidean":
        return -((atoms - query) ** 2).sum(axis=1)
    return atoms @ query / (np.linalg.norm(atoms, axis=1) if objective == "cosine" else 1.0)


KINDS = [nearly_equal_but_for_needles, spikes_on_sparse_atoms, ratings, heavy_tails]
WAYS = [("codes", "inner_product"), ("codes", "cosine"), ("codes", "neg_sqeuclidean"), ("coordinates", "inner_product")]


@pytest.mark.parametrize(
    ("make", "layout", "objective"),
    # Cosines of near-duplicates on sampled coordinates are left out: paired differences cannot see a rare needle, and
    # docs/guarantees.md says so.
    [(make, *way) for make in KINDS for way in WAYS] + [(make, "coordinates", "cosine") for make in KINDS[1:]],
)
def test_what_is_known_does_not_make_the_rest_certain(make, layout, objective):
    failures = raced = 0
    options = {"delta": DELTA, "rescore": False, "layout": layout, "objective": objective, "minimise": "multiplies"}
    for seed in range(TRIALS):
        if seed % 8 == 0:
            atoms, query = make(np.random.default_rng([seed, 5]))
            atoms, query = atoms.astype(np.float32), query.astype(np.float32)
            scores = scores_of(atoms, query, objective)
        # Estimates only, because exact scores of the survivors would mend what a sample got wrong.
        found = bm.BanditMIPS(seed=seed, **options).fit(atoms).search(query)
        failures += scores[found.indices[0]] < scores.max() - 1e-6 * abs(scores.max())
        raced += found.n_rounds > 0
    # Of a query that is mostly zeros, exact rows may take fewer multiplies than any codes.
    assert raced == TRIALS if layout != "codes" else raced >= 50
    assert binom.sf(failures - 1, TRIALS, DELTA) > 1e-3, f"{failures} of {TRIALS} wrong at delta {DELTA}"
