"""Queries answered from what an index has prepared: what they cost, and that the ways to end agree with each other."""

from dataclasses import asdict

import numpy as np
import pytest

import banditmips as bm
from banditmips import datasets


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", ["coordinates", "full"])
def test_a_heavy_tailed_query_costs_two_coordinates_of_each_atom_and_a_few_products(seed, layout):
    """Its largest entries tell who leads, and the leader's exact score drops nearly everybody else."""
    n, d = 1_000, 20_000
    data = datasets.load("heavy_tailed", n=n, d=d, seed=seed)
    query = data.queries[0]
    result = bm.BanditMIPS(layout=layout).fit(data.atoms).search(query)
    assert result.indices[0] == np.argmax(data.atoms.astype(np.float64) @ query)
    assert result.n_multiplies <= 4 * n + 30 * d
    assert result.n_survivors <= 30


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", ["normal_custom", "heavy_tailed", "ratings", "symmetric_normal"])
def test_a_query_in_double_precision_finds_the_same_atoms(name, k):
    data = datasets.load(name, n=300, d=8_192, seed=1)
    index = bm.BanditMIPS().fit(data.atoms)
    query = data.queries[0]
    single, double = index.search(query, k=k), index.search(query.astype(np.float64), k=k)
    exact = data.atoms.astype(np.float64) @ query
    assert (single.indices == np.argsort(-exact)[:k]).all()
    assert (double.indices == single.indices).all()
    assert np.allclose(single.scores, exact[single.indices], rtol=1e-12)
    assert double.n_multiplies == single.n_multiplies


@pytest.mark.parametrize("name", ["normal_custom", "heavy_tailed", "ratings", "symmetric_normal"])
def test_all_atoms_named_as_candidates_are_all_atoms(name):
    """A mask that excludes one hopeless atom changes the way, not the answer."""
    data = datasets.load(name, n=300, d=8_192, seed=2)
    index = bm.BanditMIPS().fit(data.atoms)
    query = data.queries[0]
    exact = data.atoms.astype(np.float64) @ query
    mask = np.zeros(300, dtype=bool)
    mask[np.argmin(exact)] = True
    everyone, all_but_one = index.search(query, k=2), index.search(query, k=2, mask=mask)
    assert (everyone.indices == all_but_one.indices).all()
    assert np.allclose(everyone.scores, all_but_one.scores, rtol=1e-12)


def test_a_search_leaves_nothing_behind_for_the_next():
    """Workspaces are used again: a hard query between two equal ones does not change the second answer."""
    data = datasets.load("heavy_tailed", n=400, d=10_000, seed=3)
    index = bm.BanditMIPS().fit(data.atoms)
    query = data.queries[0]
    first = asdict(index.search(query))
    index.search(np.random.default_rng(0).normal(size=10_000).astype(np.float32))
    second = asdict(index.search(query))
    assert first.keys() == second.keys()
    assert all(np.array_equal(first[name], second[name]) for name in first)
