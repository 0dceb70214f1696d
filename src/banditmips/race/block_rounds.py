"""One round of a compiled race for all atoms at once, coordinate after coordinate.

`eliminate_block` does what `rounds.eliminate` does for rows of values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import FASTMATH
from banditmips.race.rounds import MIN_VARIANCE, insert_leader, least_difference

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
def _fill_deviations(
    sums: NDArray[Any], squares: NDArray[Any], leading_sum: Any, size: int, deviations: NDArray[Any]
) -> None:
    """Roots of the sums of squares about the mean, of all atoms' differences to a leader."""
    kind = sums.dtype.type
    per_size = kind(1) / kind(size)
    for i in range(sums.size):
        total = leading_sum - sums[i]
        deviations[i] = np.sqrt(max(squares[i] - total * total * per_size, kind(0)))


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _pair_variance(a: NDArray[Any], b: NDArray[Any], query: NDArray[Any], size: int) -> Any:
    """Sum of squares about the mean of ``query*(a - b)``."""
    kind = a.dtype.type
    total, squares = kind(0), kind(0)
    for j in range(size):
        e = query[j] * (a[j] - b[j])
        total += e
        squares += e * e
    return max(squares - total * total / kind(size), kind(0))


@njit(cache=True, nogil=True)
def _beaten_by_another(
    prefix: NDArray[Any],
    query_at: NDArray[Any],
    scores: NDArray[Any],
    deviations: NDArray[Any],
    leader: int,
    last: int,
    size: int,
    factor: Any,
    floor: Any,
    scatter: NDArray[np.float64],
    least: float,
    beaten: NDArray[np.bool_],
) -> None:
    """Do what `_block_beaten` does for a leader after the last one, whose `deviations` from all atoms are known.

    A deviation from this leader is no more than that from the last one and that between the two. Where that leaves the
    matter open, the pair itself is looked at.
    """
    kind = scores.dtype.type
    apart = np.sqrt(_pair_variance(prefix[leader], prefix[last], query_at, size))
    for i in range(scores.size):
        if not beaten[i]:
            continue
        difference = scores[leader] - scores[i]
        if not difference > floor:
            beaten[i] = False
            continue
        known = kind(least * (scatter[leader] + scatter[i])) if scatter.size else kind(0)
        most = max((deviations[i] + apart) * (deviations[i] + apart), known)
        if difference * difference > factor * most:
            continue
        variance = max(_pair_variance(prefix[leader], prefix[i], query_at, size), known)
        beaten[i] = difference * difference > factor * variance


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
    prefix: NDArray[Any],
    places: NDArray[np.int64],
    query: NDArray[Any],
    query_at: NDArray[Any],
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
    prefix, query_at, size
        The atoms by row, and the query, at the coordinates sampled, those included where the query is 0.
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
        for i in range(n):
            beaten[i] = trusted[i] and alive[i]
        # The variance of a difference, without replacement.
        factor = kind(z * z * (1.0 - size / d) * size / (size - 1))
        for place in range(k - 1, -1, -1):
            leader = leaders[place]
            # A difference that the rounding of sums could have made drops nobody.
            floor = kind(max(4.0 * np.finfo(block.dtype).eps * abs(scores[leader]), least_difference(block)))
            least = MIN_VARIANCE * level * size / d
            if place < k - 1 and not absolute:
                _beaten_by_another(
                    prefix,
                    query_at,
                    scores,
                    ranking,
                    leader,
                    leaders[k - 1],
                    size,
                    factor,
                    floor,
                    scatter,
                    least,
                    beaten[:n],
                )
                continue
            for t in range(stop):
                leading[t] = query[t] * block[places[t], leader]
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
                    least,
                    beaten[:n],
                )
                if k > 1 and not absolute:
                    # Scores are ranked as they are, so that this room has no other use.
                    _fill_deviations(sums, squares, sums[leader], size, ranking)
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
