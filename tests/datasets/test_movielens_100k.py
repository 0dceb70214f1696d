"""What needs the real MovieLens 100K."""

import numpy as np

from banditmips.datasets import load


def test_all_of_it(movielens_file):
    imputed, observed = (
        load("movielens_100k", path=movielens_file, imputed=i, n=1672, n_queries=10, seed=0) for i in (True, False)
    )
    assert imputed.atoms.shape == observed.atoms.shape == (1672, 943)
    assert 0 <= imputed.atoms.min() < imputed.atoms.max() <= 5
    assert 3.3 < imputed.atoms.mean() < 3.6
    rows = np.concatenate([observed.atoms, observed.queries])
    assert np.count_nonzero(rows) == 100_000
    assert set(np.unique(rows).tolist()) == {0, 1, 2, 3, 4, 5}
    filled = np.concatenate([imputed.atoms, imputed.queries])
    assert np.sqrt(np.mean((filled - rows)[rows > 0] ** 2)) < 0.8


def summary(movies):
    """Return what the constants of the model were measured by."""
    rows = movies.astype(np.float64)
    movie_means, user_means = rows.mean(axis=1), rows.mean(axis=0)
    rest = rows - movie_means[:, None] - user_means + rows.mean()
    norms = np.linalg.norm(rows, axis=1) / np.sqrt(rows.shape[1])
    return {
        "mean": rows.mean(),
        "movie means": movie_means.std(),
        "user means": user_means.std(),
        "interaction": rest.std(),
        "norms": norms.std(),
    }


def test_the_synthetic_ratings_resemble_it(movielens_file):
    real = summary(load("movielens_100k", path=movielens_file, n=1681).atoms)
    model = summary(load("ratings", n=1681, d=943, seed=0).atoms)
    for name, value in real.items():
        assert abs(model[name] / value - 1) < 0.1, name
