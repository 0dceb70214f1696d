"""Prices of crypto-currency pairs by the minute: atoms and queries are pairs, coordinates are minutes."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, Any, Literal, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._random import check_counts, check_dtype, draw_rows
from banditmips.datasets._sources import real_or_surrogate
from banditmips.datasets._surrogates import prices_like

__all__ = ["crypto_pairs"]

_COLUMNS = "time,open,close,high,low,volume"
_TIME, _CLOSE = 0, 2
_MINUTE = 60_000  # milliseconds, the unit of the column "time"


def crypto_pairs(
    *,
    path: str | os.PathLike[str] | None = None,
    n: int = 100,
    d: int = 100_000,
    n_queries: int = 1,
    seed: int = 0,
    dtype: DTypeLike = "float32",
    surrogate: bool | Literal["if_missing"] = False,
) -> Dataset:
    """Return closing prices of trading pairs at d consecutive minutes.

    The minutes begin when enough pairs have been traded. Where a pair was not traded in a minute, its last
    price before stands.

    Parameters
    ----------
    path
        The zip file of minute CSVs (one for each pair, with the columns time in milliseconds, open, close,
        high, low, volume), a folder with the CSVs themselves, or the folder with ``crypto_pairs.zip`` or
        ``crypto_pairs/``; by default the folder that the environment variable BANDITMIPS_DATA names (or
        ``~/.cache/banditmips``).
    n, n_queries
        Numbers of pairs drawn as atoms, and of others drawn as queries.
    d
        Number of minutes.
    seed
        Seed of the draws.
    dtype
        float32 or float64.
    surrogate
        True gives synthetic price paths instead; "if_missing" does so if the file is not there.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("crypto_pairs", n=10, d=1000, surrogate=True)
    >>> ds.atoms.shape, ds.surrogate
    ((10, 1000), True)
    """
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed)
    kept_dtype = check_dtype(dtype)
    params = {"n": n, "d": d, "n_queries": n_queries, "seed": seed, "dtype": kept_dtype.name}

    def real(files: list[Path]) -> Dataset:
        archive: _Pairs = _Archive(files[0]) if files[0].suffix == ".zip" else _Folder(files)
        with archive:
            rows, pairs, start = _draw(archive, n, d, n_queries, seed, kept_dtype)
        when = datetime.fromtimestamp(start * _MINUTE / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        return Dataset(
            name="crypto_pairs",
            atoms=rows[:n],
            queries=rows[n:],
            description=f"Closing prices of crypto-currency pairs at the {d} minutes from {when} UTC on.",
            params={"path": str(archive.path), **params, "pairs": pairs[:n], "query_pairs": pairs[n:]},
        )

    def stand_in() -> Dataset:
        rows = prices_like(n + n_queries, d, seed, kept_dtype)
        return Dataset(
            name="crypto_pairs",
            atoms=rows[n_queries:],
            queries=rows[:n_queries],
            description="Surrogate for crypto-currency prices by the minute: synthetic price paths.",
            params=params,
            surrogate=True,
        )

    return real_or_surrogate("crypto_pairs", path, surrogate, real, stand_in)


def _draw(
    archive: _Pairs, n: int, d: int, n_queries: int, seed: int, dtype: np.dtype[Any]
) -> tuple[NDArray[Any], tuple[str, ...], int]:
    """Return the prices (atoms first), the names of the pairs, and the first minute."""
    first_minutes = np.array([archive.first_minute(member) for member in archive.members])
    wanted = n + n_queries
    if wanted > len(first_minutes):
        raise ValueError(
            f"n + n_queries must be at most {len(first_minutes)}, the number of pairs in {archive.path};"
            f" got {n} + {n_queries}"
        )
    start = int(np.sort(first_minutes)[wanted - 1])
    traded = [m for m, first in zip(archive.members, first_minutes, strict=True) if first <= start]
    drawn = np.concatenate(draw_rows(len(traded), n, n_queries, seed, "pairs"))
    chosen = [traded[i] for i in drawn]
    minutes = start + np.arange(d)
    rows = np.empty((wanted, d), dtype=dtype)
    last_minute = start
    for row, member in zip(rows, chosen, strict=True):
        times, prices = archive.read(member)
        last_minute = max(last_minute, int(times[-1]))
        row[:] = prices[np.searchsorted(times, minutes, side="right") - 1]
    if minutes[-1] > last_minute:
        raise ValueError(
            f"d must be at most {last_minute - start + 1}, the minutes from when {wanted} pairs are there to"
            f" the last trade of those drawn from {archive.path}; got {d}"
        )
    return rows, tuple(PurePosixPath(member).stem for member in chosen), start


class _Pairs(ABC):
    """CSVs, one for each pair; whatever is wrong with one raises a ValueError with the place."""

    path: Path
    members: list[str]

    @abstractmethod
    def _lines(self, member: str) -> AbstractContextManager[IO[bytes]]:
        """Open the CSV of a pair."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def first_minute(self, member: str) -> int:
        """Return the first minute in which a pair was traded."""
        with self._lines(member) as lines:
            self._check_header(member, lines.readline())
            return int(self._numbers(member, 2, lines.readline())[_TIME]) // _MINUTE

    def read(self, member: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the minutes in which a pair was traded, and its closing prices then."""
        try:
            with self._lines(member) as lines:
                text = io.TextIOWrapper(lines, encoding="ascii")
                table = np.loadtxt(text, delimiter=",", comments=None, skiprows=1, ndmin=2)
        except ValueError:
            self._find_fault(member)
            raise
        times = table[:, _TIME]
        if table.shape[1] != _COLUMNS.count(",") + 1 or not np.isfinite(table).all() or (np.diff(times) <= 0).any():
            self._find_fault(member)
        return (times // _MINUTE).astype(np.int64), table[:, _CLOSE]

    def _find_fault(self, member: str) -> None:
        """Raise for the first wrong line of a file that could not be read at once."""
        with self._lines(member) as lines:
            self._check_header(member, lines.readline())
            before = -np.inf
            for number, line in enumerate(lines, 2):
                time = self._numbers(member, number, line)[_TIME]
                if time <= before:
                    raise ValueError(
                        f"{self.path}, {member}, line {number}: expected a time after {before:.0f}, got {time:.0f}"
                    )
                before = time

    def _check_header(self, member: str, line: bytes) -> None:
        if line.strip() != _COLUMNS.encode():
            raise ValueError(f"{self.path}, {member}, line 1: expected {_COLUMNS!r}, got {line[:60]!r}")

    def _numbers(self, member: str, number: int, line: bytes) -> list[float]:
        """Return the numbers of one line."""
        try:
            numbers = [float(field) for field in line.decode("ascii").split(",")]
        except ValueError:
            numbers = []
        if len(numbers) != _COLUMNS.count(",") + 1 or not np.isfinite(numbers).all():
            raise ValueError(
                f"{self.path}, {member}, line {number}: expected numbers for {_COLUMNS}, got {line[:60]!r}"
            )
        return numbers


class _Archive(_Pairs):
    """A zip file of CSVs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{path} is not a zip file, or is truncated: {error}") from error
        self.members = sorted(name for name in self._zip.namelist() if name.endswith(".csv"))

    def close(self) -> None:
        self._zip.close()

    @contextmanager
    def _lines(self, member: str) -> Iterator[IO[bytes]]:
        try:
            with self._zip.open(member) as lines:
                yield lines
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise ValueError(f"{self.path}, {member}: damaged ({error})") from error


class _Folder(_Pairs):
    """CSVs that lie in a folder, unpacked."""

    def __init__(self, files: list[Path]) -> None:
        self.path = files[0].parent
        self.members = sorted(file.name for file in files)

    def close(self) -> None:
        pass

    def _lines(self, member: str) -> AbstractContextManager[IO[bytes]]:
        return (self.path / member).open("rb")
