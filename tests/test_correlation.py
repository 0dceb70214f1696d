"""objective="correlation": the cosine of vectors less their means, fitted and not."""

import numpy as np
import pytest
import scipy.sparse

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


@pytest.mark.parametrize("level", [1e3, 1e6, 1e8, -1e8])
@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
@pytest.mark.parametrize("fitted", [True, False])
def test_a_level_far_above_the_scatter_leaves_the_digits_that_the_atoms_have(level, form, minimise, fitted):
    """Products of such vectors as they are would agree in all their digits."""
    rng = np.random.default_rng(1)
    atoms = rng.normal(size=(50, 1_000)) + level
    queries = atoms[:4] + 2.0 * rng.normal(size=(4, 1_000))
    truth = np.array([correlations(atoms, query) for query in queries])
    best = np.argsort(-truth)[:, :2]
    options = {"objective": "correlation", "minimise": minimise}
    index = bm.BanditMIPS(**options).fit(form(atoms)) if fitted else None
    for asked, expected in ((queries, best), (queries[0], best[0])):
        found = index.search(asked, 2) if index else bm.search(form(atoms), asked, 2, **options)
        np.testing.assert_array_equal(found.indices, expected)
    np.testing.assert_allclose(found.scores, truth[0, best[0]], atol=1e-15 * abs(level) + 1e-14)


@pytest.mark.parametrize("value", [0.1, 1 / 3, -1e8 / 7])
def test_a_query_of_one_value_is_correlated_with_nothing_whatever_its_mean_is_rounded_to(value):
    atoms = np.random.default_rng(2).normal(size=(20, 503)) + 1e6
    for found in (
        bm.search(atoms, np.full(503, value), 20, objective="correlation"),
        bm.BanditMIPS(objective="correlation").fit(atoms).search(np.full(503, value), 20),
    ):
        np.testing.assert_array_equal(found.scores, 0.0)
