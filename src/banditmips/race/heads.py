"""Coordinates where a query stands out: they are read for all atoms, and what they add to a score is known then."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import FASTMATH

HAS_NO_HEADS = 3.0
"""Up to this unevenness, a query is not searched for heads: one coordinate then holds at most two thirds of the sum of
squares, and what it adds to a score is well within a radius."""
_HEAD_BAR = 8.0
"""A coordinate stands out where |q| is at least this many times its mean: hardly any does in a normal query."""
_ENOUGH_HEADS, _HEAD_SHARE = 2, 0.05
"""Of those, the largest that are always read, and the part of the sum of squares that any further one must hold: less
would hardly shorten the reach of the rest. (Of heavy-tailed queries one or two tell who leads, and the leader's exact
score does the rest.)"""
_STRETCH = 64


@njit(cache=True, nogil=True)
def _largest_entries(query: NDArray[Any], bar: float, most: int, found: NDArray[np.int64]) -> int:
    """Fill in the coordinates with the largest |q|, largest first, where it is above the bar; return how many."""
    limit = query.dtype.type(bar)
    count = 0
    for first in range(0, query.size, _STRETCH):
        last = min(first + _STRETCH, query.size)
        # Most stretches hold nothing above the bar, which a simple count finds out several entries at a time.
        n_above = 0
        for j in range(first, last):
            n_above += abs(query[j]) > limit
        if n_above == 0:
            continue
        for j in range(first, last):
            size = abs(query[j])
            if not size > limit:
                continue
            place = count if count < most else most - 1
            while place > 0 and size > abs(query[found[place - 1]]):
                found[place] = found[place - 1]
                place -= 1
            found[place] = j
            count = min(count + 1, most)
            if count == most:
                limit = abs(query[found[most - 1]])
    return count


@njit(cache=True, nogil=True)
def find_heads(query: NDArray[Any], moments: tuple[float, float, float], most: int, heads: NDArray[np.int64]) -> int:
    """Fill in the coordinates that are worth reading for every atom, at most `most` of them; return how many."""
    _, size, squares = moments
    count = _largest_entries(query, _HEAD_BAR * size / query.size, most, heads)
    kept = min(count, _ENOUGH_HEADS)
    while kept < count and np.float64(query[heads[kept]]) ** 2 >= _HEAD_SHARE * squares:
        kept += 1
    return kept


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def read_heads(
    atoms: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    heads: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_rows: int,
    d: int,
    moments: tuple[float, float, float],
    rounding: float,
    means: NDArray[np.float64],
    scatter: NDArray[np.float64],
    fraction: float,
    offsets: NDArray[np.float64],
    needed_scatter: NDArray[np.float64],
    absolute: bool,
    centre: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Read the head coordinates of each row: what they add to its score, and what is left to be known of it.

    `offsets` receives the sum of the rows' products there, `needed_scatter` what a sample has to show of the rest of
    their scatter, `centre` and `upper` where their scores can lie.
    """
    total, size, squares = moments
    for h in range(heads.size):
        q = np.float64(query[heads[h]])
        total -= q
        squares -= q * q
    n_rest = d - heads.size
    mean_rest = total / n_rest
    # Taking away what is nearly everything leaves the rounding of everything.
    deviation = np.sqrt(max(squares - total * mean_rest, 0.0) + rounding * moments[2])
    for t in range(n_rows):
        row = rows[t]
        mean = means[row]
        offset, sideways, seen = 0.0, 0.0, 0.0
        for h in range(heads.size):
            v = np.float64(atoms[heads[h], row] if by_column else atoms[row, heads[h]])
            offset += v * query[heads[h]]
            sideways += v - mean
            seen += (v - mean) * (v - mean)
        offsets[row] = offset
        rest = max(scatter[row] - seen, 0.0) + rounding * scatter[row]
        needed_scatter[row] = fraction * (scatter[row] - seen)
        middle = offset + mean * total - mean_rest * sideways
        centre[row] = abs(middle) if absolute else middle
        reach = np.sqrt(rest) * deviation * (1.0 + rounding) + rounding * (abs(mean) * size + abs(offset))
        upper[row] = centre[row] + reach
