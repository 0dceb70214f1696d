"""A few atoms that are sampled first, to see whether a race on gathered coordinates is worth what it costs.

Where it is not, the query goes to BLAS, and all that came before is regret. So for atoms of which nothing is known, the
look at the query and the pilots are one compiled call of few arguments (`look_and_pilot`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import permuted_coordinates
from banditmips.race.rounds import N_PILOTS, describe_uniform, pick_pilots, typical_need
from banditmips.race.screen import query_moments

PILOT_SIZE = 32
"""Coordinates of pilots that are sampled uniformly."""
PILOTS_ARE_SURE = 1.6
"""So many times the coordinates that are affordable must be needed for a uniform sample to say that there is no hope:
weights would need fewer, but by no more than the query's unevenness."""


@njit(cache=True, nogil=True)
def read_values(
    atoms: NDArray[Any],
    by_column: bool,
    rows: NDArray[np.int64],
    n_rows: int,
    order: NDArray[np.int64],
    start: int,
    stop: int,
    values: NDArray[Any],
) -> None:
    for t in range(n_rows):
        row = rows[t]
        for j in range(start, stop):
            values[row, j] = atoms[order[j], row] if by_column else atoms[row, order[j]]


@njit(cache=True, nogil=True)
def uniform_need(
    atoms: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    rows: NDArray[np.int64],
    n_alive: int,
    d: int,
    seed: int,
    z: float,
    values: NDArray[Any],
    vectors: NDArray[Any],
) -> float:
    """Guess from a uniform sample of a few atoms how many coordinates it takes to drop a typical one."""
    pilots = np.empty(N_PILOTS, dtype=np.int64)
    pick_pilots(rows, n_alive, pilots)
    size = min(PILOT_SIZE, d, values.shape[1])
    order = permuted_coordinates(seed, d, 0, size)
    for j in range(size):
        vectors[0, j] = query[order[j]]
    describe_uniform(vectors, size, d)
    read_values(atoms, by_column, pilots, N_PILOTS, order, 0, size, values)
    return typical_need(values, pilots, N_PILOTS, size, vectors[1], vectors[2], vectors[3], np.float64(d), z)


@njit(cache=True, nogil=True)
def look_and_pilot(
    atoms: NDArray[Any],
    query: NDArray[Any],
    parts: NDArray[np.float64],
    seed: int,
    z: float,
    most_uneven: float,
    values: NDArray[Any],
    vectors: NDArray[Any],
) -> tuple[float, float, float, float]:
    """Return `query_moments`, and what a uniform sample of a few of all atoms says that dropping a typical one needs.

    The last is 0 where the query is not finite, or too uneven for such a sample to mean anything.
    """
    total, size, squares = query_moments(query, parts)
    d = query.size
    if not (squares < np.inf and d * squares <= most_uneven * size * size):
        return total, size, squares, 0.0
    n = atoms.shape[0]
    every = np.empty(N_PILOTS, dtype=np.int64)
    for t in range(N_PILOTS):
        every[t] = t * (n // N_PILOTS)
    need = uniform_need(atoms, False, query, every, N_PILOTS, d, seed, z, values, vectors)
    return total, size, squares, need
