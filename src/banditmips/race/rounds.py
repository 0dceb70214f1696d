"""One round of a compiled race: estimate, find the leaders, keep what they do not beat.

`eliminate` looks at rows of values, `eliminate_block` at all atoms at once, coordinate after coordinate. Both do what
`bounds.PairedBound` describes, in the values' own precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import FASTMATH


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
    have to beat an atom. ``leaders[k]`` receives how many atoms are beaten or would be with four times the sample.
    """
    kind = values.dtype.type
    n_near = leaders[k] = 0
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
                n_near += place == k - 1 and way == 0 and 4.0 * difference * difference > z * z * variance
                if difference <= 0.0 or difference * difference <= z * z * variance:
                    beaten[t] = False
                    break
    leaders[k] = n_near
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
def _count_near(
    scores: NDArray[Any], squares: NDArray[Any], leading: Any, factor: Any, alive: NDArray[np.bool_]
) -> int:
    """Count the atoms that are beaten, or would be with four times the sample."""
    count = 0
    for i in range(scores.size):
        difference = leading - scores[i]
        count += alive[i] & (difference > 0) & (4 * difference * difference > factor * squares[i])
    return count


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
    n_near = 0
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
                if place == k - 1 and way == 0:
                    n_near = _count_near(scores, squares, ranked[leader], factor, alive)
        for place in range(k):
            beaten[leaders[place]] = False
        for i in range(n):
            alive[i] &= not beaten[i]
    leaders[k] = n_near
    n_alive = 0
    for i in range(n):
        if alive[i]:
            rows[n_alive] = i
            estimates[n_alive] = np.float64(scores[i]) * d / size
            n_alive += 1
    return n_alive
