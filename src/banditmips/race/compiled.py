"""The whole race of one query in one compiled call: the short way for the common case.

`elimination.race` says what a race is; this module runs the same race, for the paired bound on inner products of dense
atoms in memory, without going back to Python between rounds. Two layouts are served:

- `cached_race` reads the coordinates that an index has cached, all atoms at once in round one;
- `gathered_race` reads weighted coordinates from the atoms themselves, by row or by column.

Both work in the atoms' own precision, on workspaces that the caller keeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.block_rounds import eliminate_block
from banditmips.race.kernels import FASTMATH
from banditmips.race.rounds import N_PILOTS, describe_uniform, eliminate, pick_pilots, typical_need

SEPARATED, UNDECIDED, OUT_OF_RANGE = 0, 1, 2
"""How a compiled race ends: k atoms left; to be finished by the caller; numbers came up that are not finite, or too
small for sums of their squares."""


_PILOT_SIZES = (64, 128)
"""Cached coordinates of the pilots: more, if few could not say enough."""
_TOLD_APART = 5
"""A sample of N coordinates cannot tell a need of more than about so many N from no hope at all."""
_JUMP = 16
"""So few atoms, if others were dropped before, are raced in one round on all of their cached coordinates: reading those
at once takes less time than several rounds would."""


@njit(cache=True, nogil=True)
def worth_it(
    spent: float, cost: float, allowance: float, n_alive: int, n_rows: int, n_near: int, finish_cost: float
) -> bool:
    """Whether one more round is a better bet than exact products of the survivors.

    All rounds together have to stay within the allowance, which bounds the regret where sampling is hopeless, until
    half of the candidates are gone. Where half are gone or would be with four times the sample, five times as much is
    allowed. A round has to be cheap beside the finish in any case.
    """
    if cost > 0.5 * n_alive * finish_cost:
        return False
    n_gone = n_rows - n_alive + n_near
    return (
        spent + cost <= allowance or 2 * n_alive <= n_rows or (2 * n_gone >= n_rows and spent + cost <= 5 * allowance)
    )


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _mark_trusted(scatters: NDArray[np.float32], needed: NDArray[np.float64], trusted: NDArray[np.bool_]) -> None:
    for i in range(scatters.size):
        trusted[i] = scatters[i] >= needed[i]


@njit(cache=True, nogil=True)
def _take_coordinates(
    query: NDArray[Any],
    order: NDArray[np.int64],
    heads: NDArray[np.int64],
    shift: float,
    start: int,
    stop: int,
    query_at: NDArray[Any],
    places: NDArray[np.int64],
    compact: NDArray[Any],
    count: int,
) -> int:
    """Look the query up at positions start, ..., stop-1 of the order; list those where something is left of it."""
    kind = query.dtype.type
    for j in range(start, stop):
        q = query[order[j]] - kind(shift)
        for h in range(heads.size):
            if heads[h] == order[j]:
                q = kind(0)
        query_at[j] = q
        places[count] = j
        compact[count] = q
        count += q != 0
    return count


@njit(cache=True, nogil=True)
def _is_hopeless(
    prefix: NDArray[Any],
    rows: NDArray[np.int64],
    n_alive: int,
    size: int,
    d: int,
    z: float,
    affordable: float,
    vectors: NDArray[Any],
) -> bool:
    """Whether a few atoms say that dropping a typical one takes more coordinates than the race may read.

    This finds out only where little is affordable (see `_TOLD_APART`); where much is, the rounds themselves find out
    at a price that does not show.
    """
    describe_uniform(vectors, size, d)
    pilots = np.empty(N_PILOTS, dtype=np.int64)
    pick_pilots(rows, n_alive, pilots)
    need = typical_need(prefix, pilots, N_PILOTS, size, vectors[1], vectors[2], vectors[3], np.float64(d), z)
    return need > 1.5 * affordable


@njit(cache=True, nogil=True)
def cached_race(
    block: NDArray[Any],
    prefix: NDArray[Any],
    order: NDArray[np.int64],
    query: NDArray[Any],
    heads: NDArray[np.int64],
    shift: float,
    offsets: NDArray[np.float64],
    scatter: NDArray[np.float64],
    level: float,
    sizes: NDArray[np.int64],
    z: NDArray[np.float64],
    sampling_costs: NDArray[np.float64],
    finish_cost: float,
    allowance: float,
    k: int,
    absolute: bool,
    scatters: NDArray[np.float32],
    needed_scatter: NDArray[np.float64],
    n_rows: int,
    n_alive: int,
    rival: int,
    rows: NDArray[np.int64],
    alive: NDArray[np.bool_],
    trusted: NDArray[np.bool_],
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    beaten: NDArray[np.bool_],
    leaders: NDArray[np.int64],
    places: NDArray[np.int64],
    columns: NDArray[Any],
    vectors: NDArray[Any],
) -> tuple[int, int, int, int, int, float]:
    """Race on cached coordinates; return (status, survivors, coordinates, rounds, multiplies, total unit).

    Parameters
    ----------
    order
        The cached coordinates: ``query[order[j]]`` belongs to ``block[j]`` and ``prefix[:, j]``.
    heads, shift, offsets
        Coordinates that are known for all atoms and are not sampled again; what is taken from the query everywhere,
        because the atoms' sums are known; and what both add to each score.
    scatter, level
        Where there are offsets: the scatter of each atom's entries, and the sum of squares over d of what is left of
        the query (empty and 0 otherwise).
    sizes, z
        Coordinates and quantile of each round; the last quantile is that of a single round on all coordinates.
    sampling_costs
        Cost of one value from the block, of one from the prefix, of one row of the prefix, and of one round.
    finish_cost, allowance
        Cost of one exact product; what all rounds together may cost.
    scatters, needed_scatter
        What each round's sample shows of the scatter of each atom's entries, and what it must show (empty if unknown).
    n_rows, n_alive
        How many candidates there were, and how many are left in `rows` (ascending).
    rival
        The atom that is likely to lead (-1: no idea).
    columns, vectors
        Workspaces in the atoms' precision: four as long as the atoms are many, six as long as the prefix.
    """
    n, d = block.shape[1], query.size
    query_at, scaled_query, spread_query = vectors[0], vectors[1], vectors[2]
    spread_unit, residual, compact = vectors[3], vectors[4], vectors[5]
    alive[:] = n_alive == n
    for t in range(n_alive):
        alive[rows[t]] = True
    if needed_scatter.size == 0:
        trusted[:] = True
    if k > 1 or absolute:
        rival = -1
    size, count, played = 0, 0, 0
    multiplies = 0
    spent = 0.0
    leaders[k] = 0
    affordable = allowance / (n_alive * sampling_costs[0])
    pilot_size = min(_PILOT_SIZES[0] if affordable < _TOLD_APART * _PILOT_SIZES[0] else _PILOT_SIZES[1], sizes[-1])
    if level == 0.0 and n_alive >= 4 * N_PILOTS and affordable < _TOLD_APART * pilot_size:
        _take_coordinates(query, order, heads, shift, 0, pilot_size, query_at, places, compact, 0)
        if _is_hopeless(prefix, rows, n_alive, pilot_size, d, z[0], affordable, vectors):
            return UNDECIDED, n_alive, 0, 0, N_PILOTS * pilot_size, np.float64(d)
    jumping = n_alive <= _JUMP and n_alive < n_rows and finish_cost < np.inf
    n_before = sizes.size - 1 if jumping else 0
    for r in range(n_before, sizes.size):
        next_size, quantile = sizes[r], z[r + jumping]
        next_count = _take_coordinates(query, order, heads, shift, size, next_size, query_at, places, compact, count)
        # A block is read once in the race, rows of the prefix from the start in every round.
        by_block = n * (next_count - played) * sampling_costs[0]
        by_row = n_alive * (next_size * sampling_costs[1] + sampling_costs[2])
        whole = next_size <= block.shape[0] and by_block < by_row
        cost = (by_block if whole else by_row) + sampling_costs[3]
        begun = r > 0 or (n_alive < n_rows and finish_cost < np.inf)
        if begun and not worth_it(spent, cost, allowance, n_alive, n_rows, leaders[k], finish_cost):
            return UNDECIDED, n_alive, size, r - n_before, multiplies, np.float64(d)
        multiplies += n_alive * (next_count - count)
        spent += cost
        size, count = next_size, next_count
        if needed_scatter.size:
            _mark_trusted(scatters[r], needed_scatter, trusted)
        if whole:
            n_alive, rival = eliminate_block(
                block,
                prefix,
                places,
                compact,
                query_at,
                played,
                count,
                size,
                d,
                offsets,
                scatter,
                level,
                alive,
                rows,
                k,
                absolute,
                quantile,
                trusted,
                estimates,
                beaten,
                leaders,
                columns,
                residual,
                rival,
            )
            played = count
        else:
            describe_uniform(vectors, size, d)
            for t in range(n_alive):
                alive[rows[t]] = False
            n_alive = eliminate(
                prefix,
                rows,
                n_alive,
                size,
                scaled_query,
                spread_query,
                spread_unit,
                np.float64(d),
                offsets,
                scatter,
                level,
                k,
                absolute,
                quantile,
                trusted,
                estimates,
                ranking,
                beaten,
                leaders,
                residual,
            )
            for t in range(n_alive):
                alive[rows[t]] = True
        if n_alive < 0:
            return OUT_OF_RANGE, 0, size, r + 1 - n_before, multiplies, np.float64(d)
        if n_alive <= k:
            return SEPARATED, n_alive, size, r + 1 - n_before, multiplies, np.float64(d)
    return UNDECIDED, n_alive, size, sizes.size - n_before, multiplies, np.float64(d)


@njit(cache=True, nogil=True)
def sampled_moments(query: NDArray[Any], coordinates: NDArray[np.int64]) -> tuple[float, float, float]:
    """Estimate `screen.query_moments` from a sample of the coordinates."""
    total, size, squares = 0.0, 0.0, 0.0
    for j in coordinates:
        q = np.float64(query[j])
        total += q
        size += abs(q)
        squares += q * q
    scale = query.size / coordinates.size
    return scale * total, scale * size, scale * squares


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def fill_radius(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    size: int,
    spread_query: NDArray[Any],
    spread_unit: NDArray[Any],
    scores: NDArray[np.float64],
    offsets: NDArray[np.float64],
    total_unit: float,
    z: float,
    radius: NDArray[np.float64],
) -> None:
    """Fill in z standard errors of the rows' estimated scores, as `bounds.PairedBound.score_radius` makes them."""
    for t in range(rows.size):
        ratio = (scores[t] - offsets[rows[t]]) / total_unit
        total = 0.0
        for j in range(size):
            e = spread_query[j] * np.float64(values[rows[t], j]) - ratio * spread_unit[j]
            total += e * e
        radius[t] = z * np.sqrt(total)
