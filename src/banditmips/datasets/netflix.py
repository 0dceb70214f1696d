"""The Netflix Prize ratings (``combined_data_*.txt``, ``mv_*.txt``): atoms are movies, coordinates users."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._imputation import Factors, Triplets, factorise
from banditmips.datasets._random import check_counts
from banditmips.datasets._rated import RatedDraw
from banditmips.datasets._sources import real_or_surrogate

__all__ = ["netflix", "read_netflix"]

_TITLE = "Netflix Prize"
_CUSTOMERS = 480_189
_CHUNK_BYTES = 1 << 24
_MOST_DIGITS = 9
# Every rating line ends like the first of these; each of its characters lies between those of the other two.
_TAIL_LENGTH = len(",3,2005-09-06")
_TAIL_LEAST = np.frombuffer(b",1,0000-00-00", dtype=np.uint8)
_TAIL_MOST = np.frombuffer(b",5,9999-99-99", dtype=np.uint8)


def netflix(
    *,
    path: str | os.PathLike[str] | None = None,
    imputed: bool = True,
    n: int = 100,
    d: int | None = None,
    n_queries: int = 1,
    n_movies: int | None = 6_000,
    n_factors: int = 15,
    seed: int = 0,
    dtype: DTypeLike = "float32",
    surrogate: bool | Literal["if_missing"] = False,
) -> Dataset:
    """Return the Netflix Prize ratings: movies as atoms and queries, customers as coordinates.

    Parameters
    ----------
    path
        One of the files ``combined_data_*.txt``, or the folder with them or with ``mv_*.txt`` (one for each
        movie, as in the original ``training_set``); by default ``netflix/`` or ``netflix/training_set/`` in the
        folder that the environment variable BANDITMIPS_DATA names (or in ``~/.cache/banditmips``).
    imputed, n, d, n_queries, seed, dtype
        As for `movielens.movielens_100k`.
    n_movies
        Movies to read, the first ones of the files: 6,000 as in the paper, or None for all 17,770. The
        imputation works on these alone, and is kept for the next call in the same process.
    n_factors
        Factors of the imputation. The paper has 100 for these ratings, which take far longer to fit.
    surrogate
        True gives synthetic ratings of the same shape instead; "if_missing" does so if no file is there.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("netflix", n=10, d=1000, surrogate=True)
    >>> ds.atoms.shape, ds.surrogate
    ((10, 1000), True)
    """
    check_counts(n_movies=1 if n_movies is None else n_movies)
    draw = RatedDraw(imputed, n, d, n_queries, n_factors, seed, dtype)

    def real(files: list[Path]) -> Dataset:
        key = tuple((file.resolve(), file.stat().st_mtime_ns) for file in files)
        place = files[0].parent if len(files) > 1 else files[0]
        ratings = _triplets(key, n_movies)
        made = draw.real("netflix", _TITLE, place, ratings, lambda: _factors(key, n_movies, n_factors))
        return replace(made, params={**made.params, "n_movies": n_movies})

    return real_or_surrogate("netflix", path, surrogate, real, lambda: draw.surrogate("netflix", _TITLE, _CUSTOMERS))


def read_netflix(paths: Iterable[str | os.PathLike[str]], *, n_movies: int | None = None) -> Triplets:
    r"""Return the ratings of ``combined_data_*.txt`` or ``mv_*.txt``, or those of the first movies in them.

    A line such as ``123:`` begins the ratings of a movie; each is a line of customer, rating and date.

    Parameters
    ----------
    paths
        The files, in order.
    n_movies
        How many movies to read; all of them by default.

    Raises
    ------
    ValueError
        If a line is broken; the message names the file and the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "combined_data_1.txt"
    ...     _ = path.write_text("1:\n1488844,3,2005-09-06\n822109,5,2005-05-13\n")
    ...     ratings = read_netflix([path])
    >>> ratings.n_users, ratings.n_movies, ratings.values.tolist()
    (2, 1, [3.0, 5.0])
    """
    parts = []
    movies_seen: list[int] = []
    for path in paths:
        for movies_begun, users, movies, values in _chunks(Path(path)):
            movies_seen.extend(movies_begun)
            parts.append((users, movies, values))
            if n_movies is not None and len(movies_seen) > n_movies:
                break
        else:
            continue
        break
    if not parts:
        raise ValueError("no files were given to read Netflix ratings from")
    users, movies, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    if n_movies is not None and len(movies_seen) > n_movies:
        kept = np.isin(movies, movies_seen[:n_movies])
        users, movies, values = users[kept], movies[kept], values[kept]
    return Triplets.from_ids(users, movies, values)


_FileKey = tuple[tuple[Path, int], ...]


@lru_cache(maxsize=1)
def _triplets(files: _FileKey, n_movies: int | None) -> Triplets:
    return read_netflix([path for path, _ in files], n_movies=n_movies)


@lru_cache(maxsize=1)
def _factors(files: _FileKey, n_movies: int | None, n_factors: int) -> Factors:
    return factorise(_triplets(files, n_movies), n_factors=n_factors)


def _chunks(path: Path) -> Iterator[tuple[list[int], NDArray[Any], NDArray[Any], NDArray[Any]]]:
    """Yield the movies begun, and the customers, movies and values of the ratings, in chunks of lines."""
    movie, lines_before, unfinished = 0, 0, b""
    with path.open("rb") as file:
        while True:
            read = file.read(_CHUNK_BYTES)
            # An unfinished line waits for the next chunk; the very last one may lack its newline.
            text = unfinished + (read or b"\n" * bool(unfinished))
            whole = text.rfind(b"\n") + 1
            unfinished = text[whole:]
            lines = _Lines(text[:whole].replace(b"\r\n", b"\n"))
            if lines.count:
                chunk = lines.parse(path, lines_before, movie)
                yield chunk
                movie = chunk[0][-1] if chunk[0] else movie
                lines_before += lines.count
            if not read and not unfinished:
                break
    if not lines_before:
        raise ValueError(f"{path} is empty: expected lines such as '123:' and '1488844,3,2005-09-06'")


class _Lines:
    """The whole lines of a chunk of text, parsed together: one by one, the files would take minutes."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.characters = np.frombuffer(text, dtype=np.uint8)
        self.ends = np.flatnonzero(self.characters == ord("\n"))
        self.starts = np.concatenate([[0], self.ends[:-1] + 1])[: len(self.ends)]
        self.count = len(self.ends)

    def parse(
        self, path: Path, lines_before: int, movie_before: int
    ) -> tuple[list[int], NDArray[Any], NDArray[Any], NDArray[Any]]:
        begins_movie = (self.ends > self.starts) & (self.characters[self.ends - 1] == ord(":"))
        heads, rated = np.flatnonzero(begins_movie), np.flatnonzero(~begins_movie)
        ids, good_heads = self._numbers(self.starts[heads], self.ends[heads] - 1)
        users, good_ratings = self._numbers(self.starts[rated], self.ends[rated] - _TAIL_LENGTH)
        # The end of each rating line, a row each; where a line is too short for it, its customer is bad.
        tails = self.characters[np.maximum(self.ends[rated, np.newaxis] - _TAIL_LENGTH, 0) + np.arange(_TAIL_LENGTH)]
        good_ratings &= ((tails >= _TAIL_LEAST) & (tails <= _TAIL_MOST)).all(axis=1)
        wrong = np.concatenate([heads[~good_heads], rated[~good_ratings]])
        if len(wrong):
            self._refuse(path, lines_before, int(wrong.min()), "'movie:' or 'customer,rating from 1 to 5,date'")
        movies = np.concatenate([[movie_before], ids])[np.searchsorted(heads, rated)]
        if movie_before == 0 and not begins_movie[0]:
            self._refuse(path, lines_before, 0, "a line such as '123:' before the first rating")
        return ids.tolist(), users, movies, (tails[:, 1] - ord("0")).astype(np.float32)

    def _numbers(
        self, starts: NDArray[np.intp], stops: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number that stands between each start and stop, and whether it is one."""
        digits = stops - starts
        good = (digits >= 1) & (digits <= _MOST_DIGITS)
        numbers = np.zeros(len(starts), dtype=np.int64)
        for place in range(min(int(digits.max(initial=0)), _MOST_DIGITS)):
            digit = self.characters[np.maximum(stops - 1 - place, 0)] - np.uint8(ord("0"))
            inside = place < digits
            good &= ~inside | (digit <= 9)  # characters below "0" have wrapped around to large ones
            numbers += np.where(inside, digit, 0).astype(np.int64) * 10**place
        return numbers, good & (numbers > 0)

    def _refuse(self, path: Path, lines_before: int, line: int, expected: str) -> None:
        got = self.text[self.starts[line] : self.ends[line]][:60]
        raise ValueError(f"{path}, line {lines_before + line + 1}: expected {expected}, got {got!r}")
