"""A race that would be dear in vain is probed first: with the bar of all atoms, not of the few that it looks at."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.race.costs import Costs

N, D = 4_000, 512


@pytest.fixture(autouse=True)
def dear_rounds(monkeypatch):
    """Costs by which a first round takes a good part of all products."""
    here = Costs(sweep=0.1, near_sweep=0.1, stream=0.1, near_stream=0.1, cell=0.06, near_cell=0.06, row_overhead=1.0)
    here = Costs(**{**here.__dict__, "call_overhead": 100.0, "rotate": 0.01, "atom": 1.0, "bound": 0.1})
    for module in ("code_search", "direct", "batch", "query"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: here)


def long_ones(seed, places, absolute=False):
    """Atoms of which a few are a hundred times as long as the others, at some places; and a query close to the last."""
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(N, D)).astype(np.float32)
    atoms[places] *= 100.0
    query = rng.normal(size=D) + 0.02 * atoms[places[-1]]
    return atoms, (-query if absolute else query).astype(np.float32)


@pytest.mark.parametrize("options", [{}, {"absolute": True}, {"objective": "neg_sqeuclidean"}, {"epsilon": 1e-3}])
@pytest.mark.parametrize("k", [1, 3])
def test_atoms_that_stand_out_are_in_the_probe_wherever_they_are(options, k):
    """None of their places is one that every sixteenth is."""
    for seed in range(3):
        atoms, query = long_ones(seed, [17, 330, 1_003, 2_221, 3_997], "absolute" in options)
        if options.get("objective") == "neg_sqeuclidean":
            query = atoms[1_003] + 50.0 * query / np.linalg.norm(query)
        index = bm.BanditMIPS(**options).fit(atoms)
        found = index.search(query.astype(np.float32), k)
        exact = atoms.astype(np.float64) @ query.astype(np.float64)
        if options.get("objective") == "neg_sqeuclidean":
            exact = -np.square(atoms.astype(np.float64) - query).sum(axis=1)
        rank = np.abs(exact) if options.get("absolute") else exact
        np.testing.assert_array_equal(found.indices, np.argsort(-rank, kind="stable")[:k])
        if k == 1:
            assert found.stop_reason != "finished_exactly" or found.n_multiplies < atoms.size


def test_where_nothing_stands_out_the_probe_is_all_that_is_lost():
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(N, D)).astype(np.float32)
    index = bm.BanditMIPS().fit(atoms)
    query = rng.normal(size=D).astype(np.float32)
    found = index.search(query)
    assert found.indices[0] == (atoms @ query).argmax()
    looked_at = found.n_multiplies - atoms.size
    assert 0 <= looked_at <= 0.15 * atoms.size
