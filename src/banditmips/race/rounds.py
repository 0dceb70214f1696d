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

MIN_VARIANCE = 0.25
"""Least variance of a difference of which part is known, as part of what it would be if query and atoms were unrelated.

A sample that happens to show nothing of the rest would make the known part look certain. Unrelated, the rest would have
the level of the query (its sum of squares over d) times the scatters of the two atoms."""


@njit(cache=True, nogil=True)
def insert_leader(scores: NDArray[Any], leaders: NDArray[np.int64], count: int, k: int, score: float, t: int) -> int:
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
            count = insert_leader(scores, leaders, count, k, scores[t], t)
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
    scatter: NDArray[np.float64],
    level: float,
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

    `offsets` holds what is known exactly of each atom's score; `level` and `scatter` then say what the variance of the
    rest is at least (0 and empty where there are no offsets, see `MIN_VARIANCE`). `rows` and `estimates` are compacted
    in place; the number of survivors is returned, or -1 if an estimate is not finite. `bounds.PairedBound` says why all
    k leaders have to beat an atom. ``leaders[k]`` receives how many atoms are beaten or would be with four times the
    sample.
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
        least = MIN_VARIANCE * level * total_unit / size
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
                if level > 0.0:
                    variance = max(variance, least * (scatter[rows[leader]] + scatter[rows[t]]))
                n_near += place == k - 1 and way == 0 and 4.0 * difference * difference > z * z * variance
                if difference <= 0.0 or difference * difference <= z * z * variance:
                    beaten[t] = False
                    break
    leaders[k] = n_near
    return _compact(n_rows, rows, estimates, beaten)


N_PILOTS = 32
"""Atoms that are sampled first, to see whether a race is worth what it costs."""


@njit(cache=True, nogil=True)
def describe_uniform(vectors: NDArray[Any], size: int, d: int) -> None:
    """From the query at uniform coordinates (row 0), fill in what estimates and variances take of it (rows 1 to 3)."""
    kind = vectors.dtype.type
    scale = d / size
    spread = scale * np.sqrt((1.0 - size / d) * size / max(size - 1, 1))
    for j in range(size):
        vectors[1, j] = kind(scale * vectors[0, j])
        vectors[2, j] = kind(spread * vectors[0, j])
        vectors[3, j] = kind(spread)


@njit(cache=True, nogil=True)
def pick_pilots(rows: NDArray[np.int64], n_rows: int, pilots: NDArray[np.int64]) -> None:
    """Take rows at equal steps."""
    for t in range(pilots.size):
        pilots[t] = rows[t * (n_rows // pilots.size)]


@njit(cache=True, nogil=True)
def typical_need(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    n_rows: int,
    size: int,
    scaled_query: NDArray[Any],
    spread_query: NDArray[Any],
    spread_unit: NDArray[Any],
    total_unit: float,
    z: float,
) -> float:
    """Guess from a few atoms how many coordinates it takes to drop a typical one: size * (z * deviation / gap)^2."""
    estimates = np.empty(n_rows)
    for t in range(n_rows):
        total = 0.0
        for j in range(size):
            total += values[rows[t], j] * scaled_query[j]
        estimates[t] = total
    leader = np.argmax(estimates)
    needs = np.empty(n_rows)
    for t in range(n_rows):
        gap = estimates[leader] - estimates[t]
        variance = 0.0
        for j in range(size):
            pair = spread_query[j] * (values[rows[leader], j] - values[rows[t], j])
            e = pair - gap / total_unit * spread_unit[j]
            variance += e * e
        needs[t] = size * z * z * variance / (gap * gap) if gap > 0.0 else np.inf
    return np.median(needs)


_TILE = 2048
"""Atoms worked on together in a block: their sums and squares stay in the processor's nearest cache."""


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def block_sums(
    block: NDArray[Any], places: NDArray[np.int64], query: NDArray[Any], start: int, stop: int, sums: NDArray[Any]
) -> None:
    """Add ``query[t]*block[places[t], i]`` to ``sums[i]`` for t from start to stop, four of them at a time."""
    for first in range(0, sums.size, _TILE):
        out = sums[first : first + _TILE]
        t = start
        while t + 4 <= stop:
            q0, q1, q2, q3 = query[t], query[t + 1], query[t + 2], query[t + 3]
            b0, b1 = block[places[t], first : first + _TILE], block[places[t + 1], first : first + _TILE]
            b2, b3 = block[places[t + 2], first : first + _TILE], block[places[t + 3], first : first + _TILE]
            for i in range(out.size):
                out[i] += (q0 * b0[i] + q1 * b1[i]) + (q2 * b2[i] + q3 * b3[i])
            t += 4
        while t < stop:
            b0 = block[places[t], first : first + _TILE]
            for i in range(out.size):
                out[i] += query[t] * b0[i]
            t += 1


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def block_pairs(
    block: NDArray[Any],
    places: NDArray[np.int64],
    query: NDArray[Any],
    start: int,
    stop: int,
    leading: NDArray[Any],
    sums: NDArray[Any],
    squares: NDArray[Any],
) -> None:
    """Do what `block_sums` does, and add up the squares of ``leading[t] - query[t]*block[places[t], i]``."""
    for first in range(0, sums.size, _TILE):
        out, out2 = sums[first : first + _TILE], squares[first : first + _TILE]
        t = start
        while t + 4 <= stop:
            q0, q1, q2, q3 = query[t], query[t + 1], query[t + 2], query[t + 3]
            a0, a1, a2, a3 = leading[t], leading[t + 1], leading[t + 2], leading[t + 3]
            b0, b1 = block[places[t], first : first + _TILE], block[places[t + 1], first : first + _TILE]
            b2, b3 = block[places[t + 2], first : first + _TILE], block[places[t + 3], first : first + _TILE]
            for i in range(out.size):
                x0, x1, x2, x3 = q0 * b0[i], q1 * b1[i], q2 * b2[i], q3 * b3[i]
                out[i] += (x0 + x1) + (x2 + x3)
                e0, e1, e2, e3 = a0 - x0, a1 - x1, a2 - x2, a3 - x3
                out2[i] += (e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)
            t += 4
        while t < stop:
            b0 = block[places[t], first : first + _TILE]
            for i in range(out.size):
                x = query[t] * b0[i]
                out[i] += x
                out2[i] += (leading[t] - x) * (leading[t] - x)
            t += 1


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def block_squares(
    block: NDArray[Any],
    places: NDArray[np.int64],
    query: NDArray[Any],
    stop: int,
    leading: NDArray[Any],
    sign: Any,
    squares: NDArray[Any],
) -> None:
    """squares[i] = sum over t of ``(leading[t] - sign*query[t]*block[places[t], i])^2``, four of them at a time."""
    squares[:] = 0
    for first in range(0, squares.size, _TILE):
        out = squares[first : first + _TILE]
        t = 0
        while t + 4 <= stop:
            q0, q1, q2, q3 = sign * query[t], sign * query[t + 1], sign * query[t + 2], sign * query[t + 3]
            a0, a1, a2, a3 = leading[t], leading[t + 1], leading[t + 2], leading[t + 3]
            b0, b1 = block[places[t], first : first + _TILE], block[places[t + 1], first : first + _TILE]
            b2, b3 = block[places[t + 2], first : first + _TILE], block[places[t + 3], first : first + _TILE]
            for i in range(out.size):
                e0, e1, e2, e3 = a0 - q0 * b0[i], a1 - q1 * b1[i], a2 - q2 * b2[i], a3 - q3 * b3[i]
                out[i] += (e0 * e0 + e1 * e1) + (e2 * e2 + e3 * e3)
            t += 4
        while t < stop:
            b0 = block[places[t], first : first + _TILE]
            for i in range(out.size):
                e = leading[t] - sign * query[t] * b0[i]
                out[i] += e * e
            t += 1


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _block_beaten(
    scores: NDArray[Any],
    sums: NDArray[Any],
    squares: NDArray[Any],
    leader: int,
    ranked: Any,
    leading_sum: Any,
    sign: Any,
    turned: Any,
    size: int,
    factor: Any,
    floor: Any,
    scatter: NDArray[np.float64],
    least: Any,
    beaten: NDArray[np.bool_],
) -> None:
    """Take the mark from the atoms that do not lose: ``ranked - sign*score`` is within factor of its deviation.

    The sum of squares about the mean is taken as the sum of squares less that of the mean. What cancels there is small
    beside the mean's own square, and where that is large, an atom loses clearly.
    """
    kind = scores.dtype.type
    per_size = kind(1) / kind(size)
    for i in range(scores.size):
        difference = ranked - sign * scores[i]
        total = leading_sum - turned * sums[i]
        variance = max(squares[i] - total * total * per_size, kind(0))
        if scatter.size:
            variance = max(variance, kind(least * (scatter[leader] + scatter[i])))
        beaten[i] &= (difference > floor) & (difference * difference > factor * variance)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _count_near(
    scores: NDArray[Any],
    sums: NDArray[Any],
    squares: NDArray[Any],
    leading: Any,
    leading_sum: Any,
    size: int,
    factor: Any,
    alive: NDArray[np.bool_],
) -> int:
    """Count the atoms that are beaten, or would be with four times the sample."""
    kind = scores.dtype.type
    per_size = kind(1) / kind(size)
    count = 0
    for i in range(scores.size):
        difference = leading - scores[i]
        total = leading_sum - sums[i]
        variance = max(squares[i] - total * total * per_size, kind(0))
        count += alive[i] & (difference > 0) & (4 * difference * difference > factor * variance)
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
    places: NDArray[np.int64],
    query: NDArray[Any],
    start: int,
    stop: int,
    size: int,
    d: int,
    offsets: NDArray[np.float64],
    scatter: NDArray[np.float64],
    level: float,
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
    leading: NDArray[Any],
    rival: int,
) -> tuple[int, int]:
    """Do what `eliminate` does for all atoms at once, coordinate after coordinate; return (survivors, rival).

    Parameters
    ----------
    places, query, start, stop
        Rows of the block where the query is not 0, and the query there. Up to `start` they have been played: sums (and
        for one leader, squares) of those are in `columns` and are added to.
    size
        Coordinates sampled, those included where the query is 0.
    alive, rows
        `alive` marks the atoms still in the race; `rows` receives those that stay.
    rival
        The atom against which the squares in `columns` were taken (-1: none). Where one atom is wanted and the rival
        still leads, each coordinate is read once in the whole race.
    """
    kind = block.dtype.type
    n_near = 0
    n = block.shape[1]
    sums, scores, ranking, squares = columns[0, :n], columns[1, :n], columns[2, :n], columns[3, :n]
    if start == 0:
        sums[:] = 0
        squares[:] = 0
    if rival >= 0:
        for t in range(start, stop):
            leading[t] = query[t] * block[places[t], rival]
        block_pairs(block, places, query, start, stop, leading, sums, squares)
    else:
        block_sums(block, places, query, start, stop, sums)
    # Everything is in units of sums of terms, of which d/size make a score.
    if not np.isfinite(_add_offsets(sums, offsets, size / d, scores)):
        return -1, rival
    ranked = scores
    if absolute:
        for i in range(n):
            ranking[i] = abs(scores[i])
        ranked = ranking
    count = 0
    for i in range(n):
        if (count < k or ranked[i] > ranked[leaders[k - 1]]) and alive[i] and trusted[i]:
            count = insert_leader(ranked, leaders, count, k, ranked[i], i)
    if size >= 2 and count == k:
        beaten[:n] = trusted
        # The variance of a difference, without replacement.
        factor = kind(z * z * (1.0 - size / d) * size / (size - 1))
        for place in range(k - 1, -1, -1):
            leader = leaders[place]
            for t in range(stop):
                leading[t] = query[t] * block[places[t], leader]
            # A difference that the rounding of sums could have made drops nobody.
            floor = kind(4.0 * np.finfo(block.dtype).eps) * abs(scores[leader])
            for way in range(2 if absolute else 1):
                sign = 1.0 - 2.0 * way
                # Where the leader's score is negative, its size is compared, which turns the pair's sign round.
                turned = -sign if absolute and scores[leader] < 0.0 else sign
                if rival != leader:
                    block_squares(block, places, query, stop, leading, kind(turned), squares)
                _block_beaten(
                    scores,
                    sums,
                    squares,
                    leader,
                    ranked[leader],
                    sums[leader],
                    kind(sign),
                    kind(turned),
                    size,
                    factor,
                    floor,
                    scatter,
                    MIN_VARIANCE * level * size / d,
                    beaten[:n],
                )
                if place == k - 1 and way == 0:
                    n_near = _count_near(scores, sums, squares, ranked[leader], sums[leader], size, factor, alive)
            if k == 1 and not absolute:
                rival = leader
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
    return n_alive, rival
