"""MovieLens 100K and 1M from their original files: atoms and queries are movies, coordinates are users."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from numpy.typing import DTypeLike

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._imputation import Factors, Triplets, factorise
from banditmips.datasets._rated import RatedDraw
from banditmips.datasets._sources import real_or_surrogate

__all__ = ["movielens_1m", "movielens_100k", "read_movielens_1m", "read_movielens_100k"]


def movielens_100k(
    *,
    path: str | os.PathLike[str] | None = None,
    imputed: bool = True,
    n: int = 100,
    d: int | None = None,
    n_queries: int = 1,
    n_factors: int = 15,
    seed: int = 0,
    dtype: DTypeLike = "float32",
    surrogate: bool | Literal["if_missing"] = False,
) -> Dataset:
    """Return MovieLens 100K: 1,682 movies rated by 943 users.

    Imputed, every entry is what a model of the observed ratings says (mean, user and movie biases, and
    factors, fitted by alternating least squares): between 0 and 5, around 3.4. The fit takes about half a
    second, and is kept for the next call in the same process.

    Parameters
    ----------
    path
        ``u.data``, or the folder with it; by default ``ml-100k/u.data`` in the folder that the environment
        variable BANDITMIPS_DATA names (or in ``~/.cache/banditmips``).
    imputed
        False gives the observed ratings, with 0 for the missing ones.
    n, n_queries
        Numbers of movies drawn as atoms, and of others drawn as queries.
    d
        Number of users drawn as coordinates; all of them by default.
    n_factors
        Factors of the imputation.
    seed
        Seed of the draws. The imputation does not depend on it.
    dtype
        float32 or float64.
    surrogate
        True gives synthetic ratings of the same shape instead; "if_missing" does so if the file is not there.

    Raises
    ------
    FileNotFoundError
        If the file is not there; the message says where to get it and where to put it.
    ValueError
        If the file is broken; the message names the line.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("movielens_100k", n=10, surrogate=True)  # without it, the file has to be there
    >>> ds.atoms.shape, ds.surrogate
    ((10, 943), True)
    """
    draw = RatedDraw(imputed, n, d, n_queries, n_factors, seed, dtype)
    return _load("movielens_100k", path, surrogate, draw)


def movielens_1m(
    *,
    path: str | os.PathLike[str] | None = None,
    imputed: bool = True,
    n: int = 100,
    d: int | None = None,
    n_queries: int = 1,
    n_factors: int = 15,
    seed: int = 0,
    dtype: DTypeLike = "float32",
    surrogate: bool | Literal["if_missing"] = False,
) -> Dataset:
    """Return MovieLens 1M: 3,706 rated movies and 6,040 users, read from ``ratings.dat``.

    The parameters are those of `movielens_100k`; the default place is ``ml-1m/ratings.dat``, and the fit takes
    a few seconds.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> load("movielens_1m", n=10, surrogate=True).d
    6040
    """
    draw = RatedDraw(imputed, n, d, n_queries, n_factors, seed, dtype)
    return _load("movielens_1m", path, surrogate, draw)


def read_movielens_100k(path: str | os.PathLike[str]) -> Triplets:
    r"""Return the ratings of ``u.data``: lines of user, movie, rating and time, separated by tabs.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "u.data"
    ...     _ = path.write_text("196\t242\t3\t881250949\n186\t302\t3\t891717742\n")
    ...     ratings = read_movielens_100k(path)
    >>> ratings.n_users, ratings.n_movies, ratings.values.tolist()
    (2, 2, [3.0, 3.0])
    """
    return _read(Path(path), "\t", "tabs")


def read_movielens_1m(path: str | os.PathLike[str]) -> Triplets:
    """Return the ratings of ``ratings.dat``: lines of user, movie, rating and time, separated by ``::``.

    Otherwise as `read_movielens_100k`.
    """
    return _read(Path(path), "::", "'::'")


def _read(path: Path, separator: str, separator_name: str) -> Triplets:
    columns: tuple[list[int], list[int], list[int]] = ([], [], [])
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            try:
                user, movie, rating, _ = map(int, line.decode("ascii").split(separator))
            except ValueError as error:
                raise ValueError(
                    f"{path}, line {number}: expected four whole numbers (user, movie, rating, time)"
                    f" separated by {separator_name}, got {line[:60]!r}"
                ) from error
            if not 1 <= rating <= 5:
                raise ValueError(f"{path}, line {number}: expected a rating from 1 to 5, got {rating}")
            for column, value in zip(columns, (user, movie, rating), strict=True):
                column.append(value)
    if not columns[0]:
        raise ValueError(f"{path} is empty: expected lines of user, movie, rating and time")
    return Triplets.from_ids(*columns)


@dataclass(frozen=True)
class _Release:
    title: str
    n_users: int
    read: Callable[[Path], Triplets]


_RELEASES = {
    "movielens_100k": _Release("MovieLens 100K", 943, read_movielens_100k),
    "movielens_1m": _Release("MovieLens 1M", 6_040, read_movielens_1m),
}


# The time of the last change is part of the key, so that a file that was replaced is read again.
@lru_cache(maxsize=2)
def _triplets(name: str, path: Path, changed: int) -> Triplets:
    return _RELEASES[name].read(path)


@lru_cache(maxsize=4)
def _factors(name: str, path: Path, changed: int, n_factors: int) -> Factors:
    return factorise(_triplets(name, path, changed), n_factors=n_factors)


def _load(
    name: str,
    path: str | os.PathLike[str] | None,
    surrogate: bool | Literal["if_missing"],
    draw: RatedDraw,
) -> Dataset:
    release = _RELEASES[name]

    def real(files: list[Path]) -> Dataset:
        file = files[0].resolve()
        key = (name, file, file.stat().st_mtime_ns)
        return draw.real(name, release.title, file, _triplets(*key), lambda: _factors(*key, n_factors=draw.n_factors))

    return real_or_surrogate(name, path, surrogate, real, lambda: draw.surrogate(name, release.title, release.n_users))
