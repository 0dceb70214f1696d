"""Searches whose sizes fit no register and no block: what leaves its arrays does so here, for the sanitizers to see."""

import numpy as np
import pytest

import banditmips as bm


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int8])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 33), (41, 1_037), (130, 4_099)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_odd_sizes_are_answered_as_by_the_full_product(n, d, dtype, order):
    rng = np.random.default_rng(n)
    atoms = np.asarray(np.rint(rng.normal(rng.normal(size=(n, 1)), 3.0, size=(n, d))), dtype=dtype, order=order)
    queries = rng.normal(0.5, 1.0, size=(3, d))
    k = min(n, 3)
    scores = -np.sort(-(queries @ atoms.astype(np.float64).T), axis=1)[:, :k]
    index = bm.BanditMIPS().fit(atoms)
    for result in (
        bm.search(atoms, queries, k),
        index.search(queries, k),
        bm.search(atoms, queries, k, minimise="multiplies"),
    ):
        np.testing.assert_allclose(result.scores, scores, rtol=1e-4, atol=1e-2)
    np.testing.assert_allclose(index.search(queries[0], k).scores, scores[0], rtol=1e-4, atol=1e-2)
