"""Numbers whose squares are too small for their precision: answers are right at every scale."""

import numpy as np
import pytest

import banditmips as bm
from banditmips import datasets

WAYS = {
    "fitted": lambda atoms, query, k, rescore: bm.BanditMIPS(rescore=rescore).fit(atoms).search(query, k),
    "unchecked": lambda atoms, query, k, rescore: (
        bm.BanditMIPS(validate=False, rescore=rescore).fit(atoms).search(query, k)
    ),
    "no fit": lambda atoms, query, k, rescore: bm.search(atoms, query, k, rescore=rescore),
}
SINGLE = [(0, -18), (0, -22), (0, -25), (0, -36), (-22, 0), (-36, 0), (-15, -15), (20, -25), (0, 17), (17, 17), (30, 0)]
DOUBLE = [(0, -140), (0, -160), (-160, 0), (-75, -75), (-90, -90), (0, -290), (-290, 0), (140, 0), (0, 160)]


@pytest.mark.parametrize("rescore", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["correlated_normal_custom", "heavy_tailed", "ratings"])
@pytest.mark.parametrize(
    ("dtype", "of_atoms", "of_query"),
    [(np.float32, *scales) for scales in SINGLE] + [(np.float64, *scales) for scales in DOUBLE],
)
def test_the_scale_of_the_numbers_does_not_matter(dtype, of_atoms, of_query, name, way, rescore):
    data = datasets.load(name, n=100, d=8_192, seed=1)
    with np.errstate(under="ignore"):
        atoms = (data.atoms.astype(np.float64) * 10.0**of_atoms).astype(dtype)
        query = (data.queries[0].astype(np.float64) * 10.0**of_query).astype(dtype)
    best = int(np.argmax(data.atoms.astype(np.float64) @ data.queries[0]))
    assert WAYS[way](atoms, query, 1, rescore).indices[0] == best


@pytest.mark.parametrize("rescore", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("exponent", [-12, -18, -22, -26])
@pytest.mark.parametrize("k", [1, 3])
def test_the_best_of_tiny_atoms_is_found_among_large_ones(way, exponent, k, rescore):
    """Atoms of usual size have negative scores; those that win are next to nothing, but not all the same."""
    rng = np.random.default_rng(exponent % 7)
    n, d = 120, 8_192
    usual = -1.0 + rng.normal(size=(n, d))
    tiny = 10.0**exponent * (rng.normal(size=(n, 1)) + rng.normal(size=(n, d)))
    atoms = np.where(np.arange(n)[:, None] < 80, usual, tiny).astype(np.float32)
    query = (1.0 + rng.normal(size=d)).astype(np.float32)
    best = np.argsort(-(atoms.astype(np.float64) @ query.astype(np.float64)))[:k]
    assert set(WAYS[way](atoms, query, k, rescore).indices) == set(best)
