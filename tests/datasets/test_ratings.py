import numpy as np

from banditmips.datasets import load


def test_values():
    dataset = load("ratings", n=800, d=1000, n_queries=20, seed=1)
    for rows in (dataset.atoms, dataset.queries):
        assert 0 <= rows.min() < rows.max() <= 5
        assert abs(rows.mean() - 3.4) < 0.25
    assert not dataset.surrogate
    # Fifteen factors and the biases carry nearly everything: the rest is noise of sd 0.02.
    centred = dataset.atoms - dataset.atoms.mean()
    singular = np.linalg.svd(centred, compute_uv=False)
    assert 0.9999 > (singular[:17] ** 2).sum() / (singular**2).sum() > 0.99


def test_queries_share_the_users_with_the_atoms():
    dataset = load("ratings", n=200, d=3000, n_queries=50, seed=1)
    atom_users, query_users = dataset.atoms.mean(axis=0), dataset.queries.mean(axis=0)
    assert np.corrcoef(atom_users, query_users)[0, 1] > 0.95
