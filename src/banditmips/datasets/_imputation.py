"""Observed ratings as triplets, and the factorisation that fills in the missing ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Factors", "Triplets", "factorise"]

_ROWS_PER_BLOCK = 4_096


@dataclass(frozen=True, eq=False)
class Triplets:
    """Ratings as they were observed: ``values[k]`` is what user ``users[k]`` gave to movie ``movies[k]``.

    Users and movies are numbered from 0; ``user_ids`` and ``movie_ids`` hold the numbers that the file uses.
    """

    users: NDArray[np.intp]
    movies: NDArray[np.intp]
    values: NDArray[np.float32]
    user_ids: NDArray[np.int64]
    movie_ids: NDArray[np.int64]

    @classmethod
    def from_ids(cls, users: Any, movies: Any, values: Any) -> Triplets:
        """Number the users and movies in the order of their ids."""
        user_ids, user_numbers = np.unique(np.asarray(users, dtype=np.int64), return_inverse=True)
        movie_ids, movie_numbers = np.unique(np.asarray(movies, dtype=np.int64), return_inverse=True)
        return cls(user_numbers, movie_numbers, np.asarray(values, np.float32), user_ids, movie_ids)

    @property
    def n_users(self) -> int:
        """Number of users with a rating."""
        return len(self.user_ids)

    @property
    def n_movies(self) -> int:
        """Number of movies with a rating."""
        return len(self.movie_ids)

    def zero_filled(self, movies: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the ratings of some movies by all users, 0 where there is none."""
        row_of = np.full(self.n_movies, -1)
        row_of[movies] = np.arange(len(movies))
        rows = row_of[self.movies]
        kept = rows >= 0
        filled = np.zeros((len(movies), self.n_users), dtype=np.float32)
        filled[rows[kept], self.users[kept]] = self.values[kept]
        return filled


@dataclass(frozen=True, eq=False)
class Factors:
    """A rating matrix in factors: movie i by user u is ``movies[i] @ users[u]``, cut to 0..5."""

    movies: NDArray[np.float32]
    users: NDArray[np.float32]

    def imputed(self, movies: NDArray[np.intp], users: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return the modelled ratings of some movies by some users, observed or not."""
        ratings = self.movies[movies] @ self.users[users].T
        return np.clip(ratings, 0, 5, out=ratings)


def factorise(
    ratings: Triplets, *, n_factors: int = 15, regularisation: float = 12.0, n_sweeps: int = 10, seed: int = 0
) -> Factors:
    """Fit mean + user bias + movie bias + factors to the observed ratings, by alternating least squares.

    The defaults come from a tenth of MovieLens 100K held out: root mean square error 0.908 there, against
    0.923 with a regularisation of 8, 0.915 with 20, and no better after 20 sweeps.
    """
    mean = float(ratings.values.mean())
    centred = ratings.values.astype(np.float64) - mean
    by_user = _Grouped.by(ratings.users, ratings.n_users, ratings.movies, centred)
    by_movie = _Grouped.by(ratings.movies, ratings.n_movies, ratings.users, centred)
    # Column 0 holds the biases. Small random factors break the symmetry between them.
    movies = np.random.default_rng(seed).normal(0, 0.1, (ratings.n_movies, 1 + n_factors))
    movies[:, 0] = 0
    for _ in range(n_sweeps):
        users = by_user.solve(movies, regularisation)
        movies = by_movie.solve(users, regularisation)
    ones = np.ones((len(movies), 1)), np.ones((len(users), 1))
    return Factors(
        movies=np.hstack([mean + movies[:, :1], ones[0], movies[:, 1:]]).astype(np.float32),
        users=np.hstack([ones[1], users]).astype(np.float32),
    )


@dataclass(frozen=True, eq=False)
class _Grouped:
    """Ratings grouped by one side (users or movies); ``others`` says whose of the other side each is."""

    starts: NDArray[np.intp]
    others: NDArray[np.intp]
    values: NDArray[np.float64]

    @classmethod
    def by(cls, groups: NDArray[np.intp], n: int, others: NDArray[np.intp], values: NDArray[np.float64]) -> _Grouped:
        order = np.argsort(groups, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(groups, minlength=n))])
        return cls(starts, others[order], values[order])

    def solve(self, other_side: NDArray[np.float64], regularisation: float) -> NDArray[np.float64]:
        """Return bias and factors of this side, given those of the other: one ridge regression per row."""
        width = other_side.shape[1]
        features = other_side.copy()
        features[:, 0] = 1  # multiplies this side's bias; the other side's own is taken off the ratings
        solved = np.empty((len(self.starts) - 1, width))
        for first in range(0, len(solved), _ROWS_PER_BLOCK):
            block = slice(first, min(first + _ROWS_PER_BLOCK, len(solved)))
            grams = np.empty((block.stop - first, width, width))
            moments = np.empty((block.stop - first, width, 1))
            for i in range(first, block.stop):
                rated = slice(self.starts[i], self.starts[i + 1])
                others = self.others[rated]
                seen = features[others]
                grams[i - first] = seen.T @ seen
                moments[i - first, :, 0] = (self.values[rated] - other_side[others, 0]) @ seen
            grams += regularisation * np.eye(width)
            solved[block] = np.linalg.solve(grams, moments)[:, :, 0]
        return solved
