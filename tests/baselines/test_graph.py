"""What may be handed to the graph; how it is built and walked is tested with the baseline that uses it."""

import pickle

import numpy as np
import pytest

from banditmips.baselines import graph


def some_graph(dtype=np.float32):
    atoms = np.random.default_rng(0).normal(size=(60, 9)).astype(dtype)
    layers = np.random.default_rng(1).integers(0, 3, size=60)
    return graph.build(atoms, layers, np.ones(60), 4, 20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_pickled_graph_gives_the_same_walks(dtype):
    before = some_graph(dtype)
    after = pickle.loads(pickle.dumps(before))
    query = np.random.default_rng(2).normal(size=9)
    for one, two in zip(before.walk(query, 10), after.walk(query, 10), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_walk_gives_true_inner_products_best_first():
    found = some_graph()
    query = np.random.default_rng(2).normal(size=9)
    atoms, scores, n_products = found.walk(query, 10)
    assert np.unique(atoms).size == 10 <= n_products
    np.testing.assert_allclose(scores, found.atoms[atoms].astype(np.float64) @ query)
    assert (np.diff(scores) <= 0.0).all()


@pytest.mark.parametrize("atoms", [np.ones((4, 3), dtype=np.int8), np.ones((3, 4)).T, np.ones((8, 3))[::2]])
def test_atoms_that_cannot_be_read_are_refused(atoms):
    with pytest.raises(TypeError, match="atoms must be float32 or float64 in C order"):
        graph.build(atoms, np.zeros(4, dtype=np.int64), np.ones(4), 2, 2)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="4 atoms must have as many layers and factors, got 4, 3"):
        graph.build(np.ones((4, 3)), np.zeros(4, dtype=np.int64), np.ones(3), 2, 2)
    with pytest.raises(ValueError, match="query must have 9 entries, got 8"):
        some_graph().walk(np.ones(8), 2)
