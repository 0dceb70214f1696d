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

from banditmips.race.kernels import FASTMATH
from banditmips.race.rounds import eliminate, eliminate_block

SEPARATED, UNDECIDED, NOT_FINITE = 0, 1, 2
"""How a compiled race ends: k atoms left; to be finished by the caller; a NaN or an infinity came up."""

HEAD_BAR = 8.0
"""A coordinate stands out where |q| is at least this many times its mean: hardly any does in a normal query."""


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def exact_rows(
    atoms: NDArray[Any], rows: NDArray[np.int64], n_rows: int, query: NDArray[Any], out: NDArray[np.float64]
) -> None:
    """Inner products of whole rows, summed in double precision."""
    for t in range(n_rows):
        row = atoms[rows[t]]
        total = 0.0
        for j in range(query.size):
            total += np.float64(row[j]) * np.float64(query[j])
        out[t] = total


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
def cached_race(
    block: NDArray[Any],
    prefix: NDArray[Any],
    order: NDArray[np.int64],
    query: NDArray[Any],
    heads: NDArray[np.int64],
    offsets: NDArray[np.float64],
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
    rows: NDArray[np.int64],
    alive: NDArray[np.bool_],
    trusted: NDArray[np.bool_],
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    beaten: NDArray[np.bool_],
    leaders: NDArray[np.int64],
    columns: NDArray[Any],
    vectors: NDArray[Any],
) -> tuple[int, int, int, int, int, float]:
    """Race on cached coordinates; return (status, survivors, coordinates, rounds, multiplies, total unit).

    Parameters
    ----------
    order
        The cached coordinates: ``query[order[j]]`` belongs to ``block[j]`` and ``prefix[:, j]``.
    heads, offsets
        Coordinates that are known for all atoms, and what they add to each score: they are not sampled again.
    sizes, z
        Coordinates and quantile of each round.
    sampling_costs
        Cost of one value from the block, of one from the prefix, of one row of the prefix, and of one round.
    finish_cost, allowance
        Cost of one exact product; what all rounds together may cost.
    scatters, needed_scatter
        What each round's sample shows of the scatter of each atom's entries, and what it must show (empty if unknown).
    n_rows
        The candidates in `rows` (ascending), which `alive` marks too.
    columns, vectors
        Workspaces in the atoms' precision: four as long as the atoms are many, five as long as the prefix.
    """
    n, d = block.shape[1], query.size
    kind = block.dtype.type
    n_alive = n_rows
    query_at, scaled_query, spread_query = vectors[0], vectors[1], vectors[2]
    spread_unit, residual = vectors[3], vectors[4]
    size = 0
    multiplies = 0
    spent = 0.0
    for r in range(sizes.size):
        next_size = sizes[r]
        # Values read before are read again, because every round looks at all of its coordinates.
        by_block = n * next_size * sampling_costs[0]
        by_row = n_alive * (next_size * sampling_costs[1] + sampling_costs[2])
        whole = next_size <= block.shape[0] and by_block < by_row
        cost = (by_block if whole else by_row) + sampling_costs[3]
        if r > 0 and not worth_it(spent, cost, allowance, n_alive, n_rows, leaders[k], finish_cost):
            return UNDECIDED, n_alive, size, r, multiplies, np.float64(d)
        for j in range(size, next_size):
            query_at[j] = query[order[j]]
            for h in range(heads.size):
                if heads[h] == order[j]:
                    query_at[j] = 0
            # Where the query is 0 there is nothing to multiply.
            multiplies += n_alive * (query_at[j] != 0)
        spent += cost
        size = next_size
        if needed_scatter.size:
            _mark_trusted(scatters[r], needed_scatter, trusted)
        scale = d / size
        spread = scale * np.sqrt((1.0 - size / d) * size / max(size - 1, 1))
        for j in range(size):
            scaled_query[j] = kind(scale * query_at[j])
            spread_query[j] = kind(spread * query_at[j])
            spread_unit[j] = kind(spread)
        if whole:
            n_alive = eliminate_block(
                block,
                query_at,
                size,
                d,
                offsets,
                alive,
                rows,
                k,
                absolute,
                z[r],
                trusted,
                estimates,
                beaten,
                leaders,
                columns,
                residual,
            )
        else:
            before = n_alive
            for t in range(before):
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
                k,
                absolute,
                z[r],
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
            return NOT_FINITE, 0, size, r + 1, multiplies, np.float64(d)
        if n_alive <= k:
            return SEPARATED, n_alive, size, r + 1, multiplies, np.float64(d)
    return UNDECIDED, n_alive, size, sizes.size, multiplies, np.float64(d)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def read_heads(
    atoms: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    heads: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_rows: int,
    centers: NDArray[np.float64],
    scatter: NDArray[np.float64],
    fraction: float,
    offsets: NDArray[np.float64],
    needed_scatter: NDArray[np.float64],
) -> None:
    """Sum each row's products at the head coordinates; of the rest of its scatter a sample has to show its share."""
    for t in range(n_rows):
        row = rows[t]
        total = 0.0
        seen = 0.0
        center = centers[row] if scatter.size else 0.0
        for h in range(heads.size):
            v = np.float64(atoms[heads[h], row] if by_column else atoms[row, heads[h]])
            total += v * query[heads[h]]
            seen += (v - center) * (v - center)
        offsets[row] = total
        if scatter.size:
            needed_scatter[row] = fraction * (scatter[row] - seen)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def query_moments(query: NDArray[Any]) -> tuple[float, float]:
    """Return the sum of |q| and the sum of squares, neither of which is finite if an entry is not."""
    kind = query.dtype.type
    total, squares = 0.0, 0.0
    for start in range(0, query.size, 1024):
        # Single precision within a stretch, double between them.
        part, part_squares = kind(0), kind(0)
        for j in range(start, min(start + 1024, query.size)):
            part += abs(query[j])
            part_squares += query[j] * query[j]
        total += part
        squares += part_squares
    return total, squares


@njit(cache=True, nogil=True)
def head_coordinates(query: NDArray[Any], mean: float, most: int) -> NDArray[np.int64]:
    """Return the coordinates that stand out: |q| above 8, 16, 32, ... times the mean, so that at most `most` do."""
    bar = HEAD_BAR * mean
    found = np.empty(most, dtype=np.int64)
    while True:
        count = 0
        limit = query.dtype.type(bar)
        for j in range(query.size):
            if abs(query[j]) > limit:
                if count == most:
                    count += 1
                    break
                found[count] = j
                count += 1
        if count <= most:
            return found[:count]
        bar *= 2.0


@njit(cache=True, nogil=True)
def sampled_unevenness(query: NDArray[Any], order: NDArray[np.int64], size: int) -> float:
    """Estimate `sampling.unevenness` from the first `size` coordinates of the order."""
    total = 0.0
    squares = 0.0
    for j in range(size):
        q = np.float64(query[order[j]])
        total += abs(q)
        squares += q * q
    return size * squares / (total * total) if total > 0.0 else np.inf


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def score_deviations(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    size: int,
    spread_query: NDArray[Any],
    spread_unit: NDArray[Any],
    sampled: NDArray[np.float64],
    total_unit: float,
) -> NDArray[np.float64]:
    """Standard errors of the rows' own estimates, of which `sampled` is the part that was sampled."""
    out = np.empty(rows.size)
    for t in range(rows.size):
        ratio = sampled[t] / total_unit
        total = 0.0
        for j in range(size):
            e = spread_query[j] * np.float64(values[rows[t], j]) - ratio * spread_unit[j]
            total += e * e
        out[t] = np.sqrt(total)
    return out
