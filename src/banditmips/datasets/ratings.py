"""Film ratings from a biased low-rank model that looks like an imputed rating matrix of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._random import Role, check_counts, check_dtype, stream

__all__ = ["ratings"]

# Constants measured on MovieLens 100K (1,682 movies x 943 users) after the imputation in `movielens`: mean
# 3.40; movie means spread with sd 0.325, user means with sd 0.329; what the two do not explain has sd 0.160,
# per movie 0.025 / 0.11 / 0.26 and per user 0.061 / 0.12 / 0.24 at the 10th, 50th and 90th percentile.
_MEAN, _MOVIE_BIAS, _USER_BIAS, _INTERACTION = 3.4, 0.325, 0.33, 0.16
_MOVIE_STRENGTH_LOG_SD, _USER_STRENGTH_LOG_SD = 0.65, 0.5
# Shares of the interaction's variance in its 15 principal factors, from the same matrix (rounded).
_SHARES = np.array([32, 13, 11, 6, 6, 5, 4, 4, 3.5, 3, 3, 2.5, 2.5, 2.5, 2]) / 100
# An imputed matrix has exactly the rank of its factors; a little noise keeps the rows in general position.
_NOISE = 0.02
_BLOCK_ENTRIES = 4_000_000


def ratings(
    *, n: int = 4_000, d: int = 6_000, n_queries: int = 1, seed: int = 0, dtype: DTypeLike = "float32"
) -> Dataset:
    """Return ratings between 0 and 5, around 3.4: atoms and queries are movies, coordinates are users.

    A movie's rating by a user is a mean, plus the movie's bias, plus the user's, plus the product of their 15
    factors, plus a little noise. The constants come from imputed MovieLens 100K.

    Parameters
    ----------
    n, d, n_queries
        Numbers of atoms, coordinates and queries.
    seed
        Seed of everything.
    dtype
        float32 or float64 (the values are computed in float32).

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("ratings", n=50, d=400, n_queries=2)
    >>> ds.atoms.shape, ds.queries.shape, bool(3 < ds.atoms.mean() < 4)
    ((50, 400), (2, 400), True)
    """
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed)
    dtype = check_dtype(dtype)
    users = _user_factors(d, seed)
    return Dataset(
        name="ratings",
        atoms=_rate(_movie_factors(n, seed, Role.ATOM_PARAMETERS), users, seed, Role.ATOM_ROWS, dtype),
        queries=_rate(_movie_factors(n_queries, seed, Role.QUERY_PARAMETERS), users, seed, Role.QUERY_ROWS, dtype),
        description="Synthetic film ratings (0 to 5, 15 factors and biases); atoms and queries are movies.",
        params={"n": n, "d": d, "n_queries": n_queries, "seed": seed, "dtype": dtype.name},
    )


def _movie_factors(count: int, seed: int, role: Role) -> NDArray[np.float32]:
    """Return one row for each movie: its mean with bias, a one for the user's bias, and its factors."""
    bias, strength, factors = _draw(count, seed, role)
    factors *= _INTERACTION * np.sqrt(_SHARES / _SHARES.sum())
    factors *= _unit_rms_lognormal(strength, _MOVIE_STRENGTH_LOG_SD)
    return np.hstack([_MEAN + _MOVIE_BIAS * bias, np.ones_like(bias), factors]).astype(np.float32)


def _user_factors(count: int, seed: int) -> NDArray[np.float32]:
    """Return one row for each user, matching `_movie_factors`."""
    bias, strength, factors = _draw(count, seed, Role.COORDINATES)
    factors *= _unit_rms_lognormal(strength, _USER_STRENGTH_LOG_SD)
    return np.hstack([np.ones_like(bias), _USER_BIAS * bias, factors]).astype(np.float32)


def _draw(count: int, seed: int, role: Role) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    values = stream(seed, role).standard_normal((count, 2 + len(_SHARES)))
    return values[:, :1], values[:, 1:2], values[:, 2:]


def _unit_rms_lognormal(normal: NDArray[Any], log_sd: float) -> NDArray[Any]:
    strengths: NDArray[Any] = np.exp(log_sd * normal - log_sd**2)
    return strengths


def _rate(
    movies: NDArray[np.float32], users: NDArray[np.float32], seed: int, role: Role, dtype: np.dtype[Any]
) -> NDArray[Any]:
    n, d = len(movies), len(users)
    rated = np.empty((n, d), dtype=dtype)
    step = max(1, _BLOCK_ENTRIES // d)
    for start in range(0, n, step):
        block = movies[start : start + step] @ users.T
        for i, row in enumerate(block, start):
            row += np.float32(_NOISE) * stream(seed, role, i).standard_normal(d, dtype=np.float32)
        rated[start : start + step] = np.clip(block, 0, 5, out=block)
    return rated
