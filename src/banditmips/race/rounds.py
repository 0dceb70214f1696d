"""One round of a compiled race: estimate, find the leaders, keep what they do not beat.

`eliminate` looks at rows of values, and does what `bounds.PairedBound` describes, in the values' own precision.
`block_rounds` does the same for all atoms at once.
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


LEAST_DIFFERENCE = (1e-14, 1e-140)
"""Smaller differences, in single and in double precision, drop nobody: the squares that would say how sure they are
underflow."""


@njit(cache=True, nogil=True)
def least_difference(values: NDArray[Any]) -> float:
    """Return the least difference that counts in the precision of these values."""
    return LEAST_DIFFERENCE[0] if values.itemsize == 4 else LEAST_DIFFERENCE[1]


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
    floor = least_difference(values)
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
    last = leaders[k - 1]
    for place in range(k - 1, -1, -1):
        leader = leaders[place]
        leading = estimates[leader]
        sampled = leading - offsets[rows[leader]]
        least = MIN_VARIANCE * level * total_unit / size
        _fill_residual(values[rows[leader]], spread_query, spread_unit, kind(sampled / total_unit), size, residual)
        # A deviation from this leader is no more than that from the last one and that between the two, which often is
        # all that has to be known. Deviations from the last one are kept in `ranking`, which then has no other use.
        shortcut = place < k - 1 and not absolute
        apart = 0.0
        if shortcut:
            ratio = kind((estimates[last] - offsets[rows[last]]) / total_unit)
            row = values[rows[last]]
            between = _residual_variance(row, spread_query, spread_unit, ratio, residual, kind(1), size)
            apart = np.sqrt(np.float64(between))
        for t in range(n_rows):
            if not beaten[t]:
                continue
            if shortcut:
                most = (ranking[t] + apart) ** 2
                if level > 0.0:
                    most = max(most, least * (scatter[rows[leader]] + scatter[rows[t]]))
                ahead = leading - estimates[t]
                if ahead > floor and ahead * ahead > z * z * most:
                    continue
            ratio = kind((estimates[t] - offsets[rows[t]]) / total_unit)
            for way in range(2 if absolute else 1):
                sign = 1.0 - 2.0 * way
                # Where the leader's score is negative, its size is compared, which turns the pair's sign round.
                turned = -sign if absolute and leading < 0.0 else sign
                difference = (abs(leading) if absolute else leading) - sign * estimates[t]
                variance = 0.0
                if difference > 0.0:
                    variance = np.float64(
                        _residual_variance(
                            values[rows[t]], spread_query, spread_unit, ratio, residual, kind(turned), size
                        )
                    )
                if place == k - 1 and not absolute:
                    ranking[t] = np.sqrt(variance)
                if level > 0.0:
                    variance = max(variance, least * (scatter[rows[leader]] + scatter[rows[t]]))
                n_near += place == k - 1 and way == 0 and 4.0 * difference * difference > z * z * variance
                if difference <= floor or difference * difference <= z * z * variance:
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
        needs[t] = size * z * z * variance / (gap * gap) if gap > 0.0 and gap * gap > 0.0 else np.inf
    return np.median(needs)
