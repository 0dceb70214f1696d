"""The hot loops over stored entries. A matrix is (data, indices, indptr): by row, or by column as its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def gather(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    majors: NDArray[np.int64],
    places: NDArray[np.int64],
    out: NDArray[np.float64],
    stored: NDArray[np.bool_],
) -> None:
    """Put the stored entries of the majors into out[major, places[minor]], where that place is not -1."""
    for i in range(majors.size):
        for t in range(indptr[majors[i]], indptr[majors[i] + 1]):
            place = places[indices[t]]
            if place >= 0:
                out[i, place] = data[t]
                stored[i, place] = True


@njit(cache=True, nogil=True, inline="always")
def _correction(objective: int, q: float, v: float) -> float:
    """What a stored entry adds to the sum for an all-zero atom (objectives as in `race.kernels`)."""
    if objective == 0:
        return q * v
    if objective == 1:
        return q * q - (q - v) * (q - v)
    return abs(q) - abs(q - v)


@njit(cache=True, nogil=True)
def row_scores(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    rows: NDArray[np.int64],
    query: NDArray[np.float64],
    inside: NDArray[np.bool_],
    objective: int,
    out: NDArray[np.float64],
) -> None:
    """Add the stored entries' terms to `out`, over the columns inside (all where that is empty); a matrix by row."""
    for i in range(rows.size):
        total = 0.0
        for t in range(indptr[rows[i]], indptr[rows[i] + 1]):
            j = indices[t]
            if inside.size == 0 or inside[j]:
                total += _correction(objective, query[j], np.float64(data[t]))
        out[i] += total


@njit(cache=True, nogil=True)
def column_scores(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    wanted: NDArray[np.bool_],
    query: NDArray[np.float64],
    inside: NDArray[np.bool_],
    objective: int,
    out: NDArray[np.float64],
) -> None:
    """Do the same for the rows wanted, for a matrix by column; `out` has an entry for each row."""
    for j in range(query.size):
        q = query[j]
        if (inside.size and not inside[j]) or (objective == 0 and q == 0.0):
            continue
        for t in range(indptr[j], indptr[j + 1]):
            i = indices[t]
            if wanted[i]:
                out[i] += _correction(objective, q, np.float64(data[t]))


@njit(cache=True, nogil=True)
def count_in_rows(
    indices: NDArray[Any], indptr: NDArray[Any], rows: NDArray[np.int64], where: NDArray[np.bool_]
) -> int:
    """Count the stored entries of the rows in the columns marked; for a matrix by row."""
    count = 0
    for i in range(rows.size):
        for t in range(indptr[rows[i]], indptr[rows[i] + 1]):
            count += where[indices[t]]
    return count
