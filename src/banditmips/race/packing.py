"""What `dash` works on, packed into few arrays.

Unpacking an array from its Python object takes compiled code a fifth of a microsecond, and twice that where the object
is in no cache: with thirty arrays, that alone would take as long as a quarter of an easy query. So the tables of a lane
are parts of one array, and so are the workspaces of a thread. The functions here say which parts; compiled code and
Python both ask them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.planner import MAX_HEADS
from banditmips.race.screen import PART

SETTINGS = np.dtype(
    [
        ("row_cost", np.float64),
        ("full_cost", np.float64),
        ("allowance", np.float64),
        ("rounding", np.float64),
        ("least_squares", np.float64),
        ("k", np.int64),
        ("few", np.int64),
        ("max_heads", np.int64),
        ("largest", np.int64),
        ("smallest", np.int64),
        ("n_rounds", np.int64),
        ("n_known", np.int64),
        ("length", np.int64),
        ("absolute", np.bool_),
        ("rescore", np.bool_),
        ("whole", np.bool_),
    ],
    align=True,
)
"""What does not change from one query of a lane to the next, beside the tables.

Most of it is explained where it is used (`dash`); `n_rounds` there are at most, `n_known` atoms have facts (all or
none), and `length` is that of the longest race.
"""

_N_COSTS = 4
_N_ROOMS, _N_MARKS, _N_SUMS, _N_VECTORS = 9, 3, 4, 6


@njit(cache=True, nogil=True)
def table_parts(tables: NDArray[np.float64], n: int, n_known: int, n_rounds: int, n_cached: int) -> Any:
    """Return facts, z, score_z, sampling costs, sizes, order and scatters, as `dash` and `cached_race` take them."""
    z = 4 * n_known
    score_z = z + n_rounds + 1
    costs = score_z + n_rounds
    sizes = costs + _N_COSTS
    order = sizes + n_rounds
    scatters = order + n_cached
    return (
        tables[:z].reshape(4, n_known),
        tables[z:score_z],
        tables[score_z:costs],
        tables[costs:sizes],
        tables[sizes:order].view(np.int64),
        tables[order:scatters].view(np.int64),
        tables[scatters:].view(np.float32)[: n_rounds * n].reshape(n_rounds, n),
    )


def pack_tables(
    facts: NDArray[np.float64],
    z: NDArray[np.float64],
    score_z: NDArray[np.float64],
    sampling_costs: NDArray[np.float64],
    sizes: NDArray[np.int64],
    order: NDArray[np.int64],
    scatters: NDArray[np.float32],
) -> NDArray[np.float64]:
    """Copy the tables of a lane into one array."""
    n_known, (n_rounds, n) = facts.shape[1], scatters.shape
    tables = np.zeros(4 * n_known + 3 * n_rounds + 1 + _N_COSTS + order.size + (n_rounds * n + 1) // 2)
    parts = table_parts.py_func(tables, n, n_known, n_rounds, order.size)
    for part, given in zip(parts, (facts, z, score_z, sampling_costs, sizes, order, scatters), strict=True):
        part[...] = given
    return tables


@njit(cache=True, nogil=True)
def space_parts(space: NDArray[np.float64], like: NDArray[Any], n: int, d: int, length: int, k: int) -> Any:
    """Return the workspaces of a thread; `like` is an array of the atoms' precision.

    Returns
    -------
    rooms, parts, known_scores, best_scores, best_radius
        Floats: nine for each atom; two for each part of the query; one for each score that may be known before the
        finish (a guess, and the leaders of two screens and of the finish); the answer.
    rows, places, heads, leaders, known_rows, best_rows
        Integers: the atoms in the race, the places of a race's coordinates, and so on.
    marks, sums, vectors
        Three marks and four numbers in the atoms' precision for each atom, six such numbers for each coordinate of a
        race.
    """
    n_known = 3 * k + 1
    n_parts = (d + PART - 1) // PART
    parts = _N_ROOMS * n
    known_scores = parts + 2 * n_parts
    best_scores = known_scores + n_known
    rows = best_scores + 2 * k
    places = rows + n
    heads = places + length
    leaders = heads + MAX_HEADS
    known_rows = leaders + k + 1
    best_rows = known_rows + n_known
    marks = best_rows + k
    sums = marks + (_N_MARKS * n + 7) // 8
    numbers = space[sums:].view(like.dtype)
    return (
        space[:parts].reshape(_N_ROOMS, n),
        space[parts:known_scores].reshape(2, n_parts),
        space[known_scores:best_scores],
        space[best_scores : best_scores + k],
        space[best_scores + k : rows],
        space[rows:places].view(np.int64),
        space[places:heads].view(np.int64),
        space[heads:leaders].view(np.int64),
        space[leaders:known_rows].view(np.int64),
        space[known_rows:best_rows].view(np.int64),
        space[best_rows:marks].view(np.int64),
        space[marks:sums].view(np.bool_)[: _N_MARKS * n].reshape(_N_MARKS, n),
        numbers[: _N_SUMS * n].reshape(_N_SUMS, n),
        numbers[_N_SUMS * n : _N_SUMS * n + _N_VECTORS * length].reshape(_N_VECTORS, length),
    )


def make_space(n: int, d: int, length: int, k: int) -> NDArray[np.float64]:
    """Make room for what `space_parts` divides, whatever the precision."""
    integers = n + length + MAX_HEADS + (k + 1) + (3 * k + 1) + k
    floats = _N_ROOMS * n + 2 * ((d + PART - 1) // PART) + (3 * k + 1) + 2 * k
    return np.zeros(floats + integers + (_N_MARKS * n + 7) // 8 + _N_SUMS * n + _N_VECTORS * length)
