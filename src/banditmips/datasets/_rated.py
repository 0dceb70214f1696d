"""What the loaders of rating data have in common: which movies and users are drawn, and what they become."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._imputation import Factors, Triplets
from banditmips.datasets._random import check_counts, check_dtype, draw_coordinates, draw_rows
from banditmips.datasets.ratings import ratings

__all__ = ["RatedDraw"]


@dataclass(frozen=True)
class RatedDraw:
    """What was asked of a loader of rating data; see `movielens.movielens_100k` for the meaning of each."""

    imputed: bool
    n: int
    d: int | None
    n_queries: int
    n_factors: int
    seed: int
    dtype: DTypeLike

    def __post_init__(self) -> None:
        check_counts(n=self.n, n_queries=self.n_queries, n_factors=self.n_factors, seed=self.seed)
        if self.d is not None:
            check_counts(d=self.d)
        check_dtype(self.dtype)

    def real(self, name: str, title: str, path: Path, ratings: Triplets, factors: Callable[[], Factors]) -> Dataset:
        """Return the dataset drawn from observed ratings; the factors are made only if they are needed."""
        atoms, queries = draw_rows(ratings.n_movies, self.n, self.n_queries, self.seed, "rated movies")
        users = draw_coordinates(ratings.n_users, self.d, self.seed, "users")
        movies = np.concatenate([atoms, queries])
        dtype = check_dtype(self.dtype)
        if self.imputed:
            how = f"imputed with {self.n_factors} factors"
            rows = factors().imputed(movies, users)
        else:
            how = "0 where there is none"
            rows = ratings.zero_filled(movies)[:, users]
        rows = rows.astype(dtype, copy=False)
        return Dataset(
            name=name,
            atoms=rows[: self.n],
            queries=rows[self.n :],
            description=f"{title} ratings, {how}; atoms and queries are movies, coordinates are users.",
            params={
                "path": str(path),
                "imputed": self.imputed,
                "n": self.n,
                "d": len(users),
                "n_queries": self.n_queries,
                "n_factors": self.n_factors,
                "seed": self.seed,
                "dtype": dtype.name,
            },
        )

    def surrogate(self, name: str, title: str, n_users: int) -> Dataset:
        """Return synthetic imputed ratings, labelled as a stand-in."""
        if not self.imputed:
            raise ValueError(f"imputed must be True for the surrogate of {name}, whose ratings are all there")
        d = n_users if self.d is None else self.d
        made = ratings(n=self.n, d=d, n_queries=self.n_queries, seed=self.seed, dtype=self.dtype)
        return replace(
            made, name=name, description=f"Surrogate for imputed {title}: {made.description}", surrogate=True
        )
