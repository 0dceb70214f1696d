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

SEPARATED, UNDECIDED, NOT_FINITE = 0, 1, 2
"""How a compiled race ends: k atoms left; to be finished by the caller; a NaN or an infinity came up."""

HEAD_BAR = 8.0
"""A coordinate stands out where |q| is at least this many times its mean: hardly any does in a normal query."""


@njit(cache=True, nogil=True)
def _insert_leader(scores: NDArray[Any], leaders: NDArray[np.int64], count: int, k: int, score: float, t: int) -> int:
    """Insert position t into the k best so far (best first; of equals the earlier one stays ahead)."""
    if count == k and not score > scores[leaders[k - 1]]:
        return count
    place = count if count < k else k - 1
    while place > 0 and score > scores[leaders[place - 1]]:
        if place < k:
            leaders[place] = leaders[place - 1]
        place -= 1
    leaders[place] = t
    return count + 1 if count < k else k


@njit(cache=True, nogil=True)
def _pick_leaders(
    scores: NDArray[Any],
    n_rows: int,
    rows: NDArray[np.int64],
    trusted: NDArray[np.bool_],
    k: int,
    leaders: NDArray[np.int64],
) -> int:
    """Find the k best of the rows whose sample can be trusted; return how many there are."""
    count = 0
    for t in range(n_rows):
        if trusted[rows[t]]:
            count = _insert_leader(scores, leaders, count, k, scores[t], t)
    return count


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _dot(a: NDArray[Any], b: NDArray[Any], size: int) -> Any:
    total = a.dtype.type(0)
    for j in range(size):
        total += a[j] * b[j]
    return total


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _residual_variance(
    values: NDArray[Any],
    spread_query: NDArray[Any],
    spread_unit: NDArray[Any],
    ratio: Any,
    other: NDArray[Any],
    sign: Any,
    size: int,
) -> Any:
    """Sum of squares of ``other - sign*(spread*(q*v - ratio*unit))``."""
    total = values.dtype.type(0)
    for j in range(size):
        e = other[j] - sign * (spread_query[j] * values[j] - ratio * spread_unit[j])
        total += e * e
    return total


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _fill_residual(
    values: NDArray[Any],
    spread_query: NDArray[Any],
    spread_unit: NDArray[Any],
    ratio: Any,
    size: int,
    out: NDArray[Any],
) -> None:
    for j in range(size):
        out[j] = spread_query[j] * values[j] - ratio * spread_unit[j]


@njit(cache=True, nogil=True)
def _mark_beatable(
    n_rows: int,
    rows: NDArray[np.int64],
    trusted: NDArray[np.bool_],
    k: int,
    leaders: NDArray[np.int64],
    beaten: NDArray[np.bool_],
) -> None:
    """Begin with every row that may be dropped at all marked as beaten."""
    for t in range(n_rows):
        beaten[t] = trusted[rows[t]]
    for place in range(k):
        beaten[leaders[place]] = False


@njit(cache=True, nogil=True)
def _compact(n_rows: int, rows: NDArray[np.int64], estimates: NDArray[np.float64], beaten: NDArray[np.bool_]) -> int:
    kept = 0
    for t in range(n_rows):
        if not beaten[t]:
            rows[kept] = rows[t]
            estimates[kept] = estimates[t]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def eliminate(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    n_rows: int,
    size: int,
    scaled_query: NDArray[Any],
    spread_query: NDArray[Any],
    spread_unit: NDArray[Any],
    total_unit: float,
    offsets: NDArray[np.float64],
    k: int,
    absolute: bool,
    z: float,
    trusted: NDArray[np.bool_],
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    beaten: NDArray[np.bool_],
    leaders: NDArray[np.int64],
    residual: NDArray[Any],
) -> int:
    """Play one round on ``values[rows]``: estimate, find the leaders, keep what they do not beat.

    `offsets` holds what is known exactly of each atom's score. `rows` and `estimates` are compacted in place; the
    number of survivors is returned, or -1 if an estimate is not finite. `bounds.PairedBound` says why all k leaders
    have to beat an atom.
    """
    kind = values.dtype.type
    for t in range(n_rows):
        estimate = offsets[rows[t]] + np.float64(_dot(values[rows[t]], scaled_query, size))
        if not np.isfinite(estimate):
            return -1
        estimates[t] = estimate
        ranking[t] = abs(estimate) if absolute else estimate
    if n_rows <= k or size < 2 or _pick_leaders(ranking, n_rows, rows, trusted, k, leaders) < k:
        return n_rows
    _mark_beatable(n_rows, rows, trusted, k, leaders, beaten)
    for place in range(k - 1, -1, -1):
        leader = leaders[place]
        leading = estimates[leader]
        sampled = leading - offsets[rows[leader]]
        _fill_residual(values[rows[leader]], spread_query, spread_unit, kind(sampled / total_unit), size, residual)
        for t in range(n_rows):
            if not beaten[t]:
                continue
            ratio = kind((estimates[t] - offsets[rows[t]]) / total_unit)
            for way in range(2 if absolute else 1):
                sign = 1.0 - 2.0 * way
                # Where the leader's score is negative, its size is compared, which turns the pair's sign round.
                turned = -sign if absolute and leading < 0.0 else sign
                difference = ranking[leader] - sign * estimates[t]
                variance = 0.0
                if difference > 0.0:
                    variance = np.float64(
                        _residual_variance(
                            values[rows[t]], spread_query, spread_unit, ratio, residual, kind(turned), size
                        )
                    )
                if difference <= 0.0 or difference * difference <= z * z * variance:
                    beaten[t] = False
                    break
    return _compact(n_rows, rows, estimates, beaten)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def block_sums(block: NDArray[Any], query: NDArray[Any], size: int, out: NDArray[Any]) -> None:
    """out[i] = sum over j of query[j]*block[j, i], four coordinates at a time."""
    n = out.size
    for i in range(n):
        out[i] = 0
    j = 0
    while j + 4 <= size:
        q0, q1, q2, q3 = query[j], query[j + 1], query[j + 2], query[j + 3]
        b0, b1, b2, b3 = block[j], block[j + 1], block[j + 2], block[j + 3]
        for i in range(n):
            out[i] += q0 * b0[i] + q1 * b1[i] + q2 * b2[i] + q3 * b3[i]
        j += 4
    while j < size:
        for i in range(n):
            out[i] += query[j] * block[j, i]
        j += 1


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def block_pair_squares(
    block: NDArray[Any],
    query: NDArray[Any],
    leading: NDArray[Any],
    sums: NDArray[Any],
    sign: Any,
    size: int,
    out: NDArray[Any],
) -> None:
    """out[i] = sum over j of (leading[j] - sign*(query[j]*block[j, i] - mean_i))^2, four coordinates at a time."""
    n = out.size
    for i in range(n):
        out[i] = 0
    to_mean = sign / sums.dtype.type(size)
    j = 0
    while j + 4 <= size:
        q0, q1, q2, q3 = sign * query[j], sign * query[j + 1], sign * query[j + 2], sign * query[j + 3]
        a0, a1, a2, a3 = leading[j], leading[j + 1], leading[j + 2], leading[j + 3]
        b0, b1, b2, b3 = block[j], block[j + 1], block[j + 2], block[j + 3]
        for i in range(n):
            shift = to_mean * sums[i]
            e0 = a0 + shift - q0 * b0[i]
            e1 = a1 + shift - q1 * b1[i]
            e2 = a2 + shift - q2 * b2[i]
            e3 = a3 + shift - q3 * b3[i]
            out[i] += (e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)
        j += 4
    while j < size:
        for i in range(n):
            e = leading[j] + to_mean * sums[i] - sign * query[j] * block[j, i]
            out[i] += e * e
        j += 1


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _block_beaten(
    scores: NDArray[Any], squares: NDArray[Any], leading: Any, sign: Any, factor: Any, beaten: NDArray[np.bool_]
) -> None:
    """Take the mark from the atoms that do not lose: leading - sign*scores[i] is within factor of its deviation."""
    for i in range(scores.size):
        difference = leading - sign * scores[i]
        beaten[i] &= (difference > 0) & (difference * difference > factor * squares[i])


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _add_offsets(sums: NDArray[Any], offsets: NDArray[np.float64], factor: float, out: NDArray[Any]) -> Any:
    """Out = sums + factor*offsets; return the total, which is not finite if an entry is not."""
    total = sums.dtype.type(0)
    for i in range(sums.size):
        out[i] = sums[i] + sums.dtype.type(factor * offsets[i])
        total += out[i]
    return total


@njit(cache=True, nogil=True)
def eliminate_block(
    block: NDArray[Any],
    query: NDArray[Any],
    size: int,
    d: int,
    offsets: NDArray[np.float64],
    alive: NDArray[np.bool_],
    rows: NDArray[np.int64],
    k: int,
    absolute: bool,
    z: float,
    trusted: NDArray[np.bool_],
    estimates: NDArray[np.float64],
    beaten: NDArray[np.bool_],
    leaders: NDArray[np.int64],
    columns: NDArray[Any],
    residual: NDArray[Any],
) -> int:
    """Do what `eliminate` does for all atoms at once, from the first `size` cached coordinates (by coordinate).

    `alive` marks the atoms still in the race; `rows` receives those that stay.
    """
    kind = block.dtype.type
    n = block.shape[1]
    sums, scores, ranking, squares = columns[0], columns[1], columns[2], columns[3]
    block_sums(block, query, size, sums)
    # Everything is in units of sums of terms, of which d/size make a score.
    if not np.isfinite(_add_offsets(sums, offsets, size / d, scores)):
        return -1
    ranked = scores
    if absolute:
        for i in range(n):
            ranking[i] = abs(scores[i])
        ranked = ranking
    count = 0
    for i in range(n):
        if (count < k or ranked[i] > ranked[leaders[k - 1]]) and alive[i] and trusted[i]:
            count = _insert_leader(ranked, leaders, count, k, ranked[i], i)
    if size >= 2 and count == k:
        beaten[:n] = trusted
        # The variance of a difference, without replacement.
        factor = kind(z * z * (1.0 - size / d) * size / (size - 1))
        for place in range(k - 1, -1, -1):
            leader = leaders[place]
            for j in range(size):
                residual[j] = query[j] * block[j, leader] - sums[leader] / kind(size)
            for way in range(2 if absolute else 1):
                sign = 1.0 - 2.0 * way
                # Where the leader's score is negative, its size is compared, which turns the pair's sign round.
                turned = -sign if absolute and scores[leader] < 0.0 else sign
                block_pair_squares(block, query, residual, sums, kind(turned), size, squares)
                _block_beaten(scores, squares, ranked[leader], kind(sign), factor, beaten[:n])
        for place in range(k):
            beaten[leaders[place]] = False
        for i in range(n):
            alive[i] &= not beaten[i]
    n_alive = 0
    for i in range(n):
        if alive[i]:
            rows[n_alive] = i
            estimates[n_alive] = np.float64(scores[i]) * d / size
            n_alive += 1
    return n_alive


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
def worth_it(spent: float, cost: float, allowance: float, n_alive: int, n_rows: int, finish_cost: float) -> bool:
    """Whether one more round is a better bet than exact products of the survivors.

    Until half of the candidates are gone, all rounds together have to stay within the allowance, which bounds the
    regret where sampling is hopeless; after that a round has to be cheap beside the finish.
    """
    if cost > 0.5 * n_alive * finish_cost:
        return False
    return spent + cost <= allowance or 2 * n_alive <= n_rows


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
        if r > 0 and not worth_it(spent, cost, allowance, n_alive, n_rows, finish_cost):
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
