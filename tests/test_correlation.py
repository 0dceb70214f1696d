"""objective="correlation": the cosine of vectors less their means, fitted and not."""

import numpy as np
import pytest

import banditmips as bm


def correlations(atoms, query):
    apart, query = atoms - atoms.mean(axis=1, keepdims=True), query - query.mean()
    norms = np.linalg.norm(apart, axis=1) * np.linalg.norm(query)
    return np.divide(apart @ query, norms, out=np.zeros(len(atoms)), where=norms > 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
@pytest.mark.parametrize("fitted", [True, False])
def test_the_best_correlations_are_found_whatever_level_and_scale(dtype, minimise, fitted):
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(60, 6)) @ rng.normal(size=(6, 3_000)) + 0.3 * rng.normal(size=(60, 3_000))
    atoms = (rng.uniform(0.1, 10.0, size=(60, 1)) * factors + rng.normal(0.0, 20.0, size=(60, 1))).astype(dtype)
    query = (factors[7] + 0.5 * rng.normal(size=3_000) - 4.0).astype(dtype)
    truth = correlations(atoms.astype(np.float64), query.astype(np.float64))
    best = np.argsort(-truth)[:3]
    options = {"objective": "correlation", "minimise": minimise}
    if fitted:
        found = bm.BanditMIPS(**options).fit(atoms).search(query, 3)
    else:
        found = bm.search(atoms, query, 3, **options)
    np.testing.assert_array_equal(found.indices, best)
    np.testing.assert_allclose(found.scores, truth[best], rtol=1e-5)


def test_a_constant_atom_or_query_is_correlated_with_nothing():
    atoms = np.vstack([np.full(500, 3.0), np.arange(500.0), -np.arange(500.0)])
    found = bm.BanditMIPS(objective="correlation").fit(atoms).search(np.arange(500.0), 3)
    np.testing.assert_array_equal(found.indices, [1, 0, 2])
    np.testing.assert_allclose(found.scores, [1.0, 0.0, -1.0], atol=1e-9)
    flat = bm.BanditMIPS(objective="correlation").fit(atoms).search(np.full(500, 2.0), 3)
    np.testing.assert_allclose(flat.scores, 0.0, atol=1e-9)
