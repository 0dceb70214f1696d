"""Beside scikit-learn's orthogonal_mp: the same support and coefficients. The large version is in benchmarks/."""

import numpy as np
import pytest

import banditmips as bm

linear_model = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")


def test_support_and_coefficients_are_those_of_scikit_learn():
    n, d, k, trials = 200, 20_000, 5, 30
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(n, d))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    fitted = bm.MatchingPursuit(k, method="omp", delta=1e-3).fit(atoms)
    same, n_multiplies = 0, []
    for seed in range(trials):
        chosen = rng.choice(n, k, replace=False)
        signal = rng.uniform(1.0, 3.0, k) * rng.choice([-1.0, 1.0], k) @ atoms[chosen]
        signal += 0.5 * np.linalg.norm(signal) / np.sqrt(d) * rng.normal(size=d)
        theirs = linear_model.orthogonal_mp(atoms.T, signal, n_nonzero_coefs=k)
        for ours in (
            bm.matching_pursuit(atoms, signal, k, method="omp", delta=1e-3, seed=seed),
            fitted.decompose(signal),
        ):
            same += set(ours.indices.tolist()) == set(chosen.tolist()) and np.allclose(ours.coef_, theirs, rtol=1e-8)
            n_multiplies.append(ours.n_multiplies_total)
    assert same == 2 * trials
    # scikit-learn computes the products with all atoms once, and again in each of the steps.
    assert np.mean(n_multiplies) < (k + 1) * n * d / 20
