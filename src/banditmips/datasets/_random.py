"""Random streams that do not depend on the shape asked for, and checks of the common parameters.

Every row has a stream of its own. So a larger ``n`` or ``d`` extends the smaller dataset of the same seed,
and nothing but the finished matrix and one row has to be in memory.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = [
    "Role",
    "check_counts",
    "check_dtype",
    "draw_coordinates",
    "draw_rows",
    "normal_rows",
    "stream",
]


class Role(IntEnum):
    """What a stream of random numbers is for; the streams of different roles are independent."""

    ATOM_PARAMETERS = 0
    QUERY_PARAMETERS = 1
    ATOM_ROWS = 2
    QUERY_ROWS = 3
    COORDINATES = 4
    CHOICE = 5


def stream(seed: int, role: Role, row: int = 0) -> np.random.Generator:
    """Return the generator that belongs to one row in one role."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(int(role), row)))


def normal_rows(means: NDArray[Any], d: int, seed: int, role: Role, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return a row of d independent N(mean, 1) values for each of the means.

    The values are drawn in float32 whatever the dtype: datasets of different dtypes hold the same data.
    """
    rows = np.empty((len(means), d), dtype=dtype)
    for i, mean in enumerate(means):
        row = stream(seed, role, i).standard_normal(d, dtype=np.float32)
        row += np.float32(mean)
        rows[i] = row
    return rows


def draw_rows(
    available: int, n: int, n_queries: int, seed: int, what: str
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Draw which rows of real data become the n atoms and which others the queries; a larger n adds atoms."""
    if n + n_queries > available:
        raise ValueError(f"n + n_queries must be at most {available}, the number of {what}; got {n} + {n_queries}")
    drawn = stream(seed, Role.CHOICE).permutation(available)
    return drawn[n_queries : n_queries + n], drawn[:n_queries]


def draw_coordinates(available: int, d: int | None, seed: int, what: str) -> NDArray[np.intp]:
    """Draw which d coordinates of real data are kept, in their own order; all of them where d is None."""
    if d is None:
        return np.arange(available)
    if d > available:
        raise ValueError(f"d must be at most {available}, the number of {what}; got {d}")
    return np.sort(stream(seed, Role.COORDINATES).permutation(available)[:d])


def check_counts(**counts: Any) -> None:
    """Raise unless each count is a whole number of at least 1 (a seed: of at least 0)."""
    for name, value in counts.items():
        least = 0 if name.endswith("seed") else 1
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} must be a whole number, got {value!r} of type {type(value).__name__}")
        if value < least:
            raise ValueError(f"{name} must be at least {least}, got {value}")


def check_dtype(dtype: DTypeLike, allowed: tuple[str, ...] = ("float32", "float64")) -> np.dtype[Any]:
    """Return the dtype, or raise if this dataset does not come in it."""
    checked = np.dtype(dtype)
    if checked.name not in allowed:
        raise ValueError(f"dtype must be one of {', '.join(allowed)}, got {checked.name}")
    return checked
