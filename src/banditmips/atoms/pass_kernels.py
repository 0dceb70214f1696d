"""The one pass of `fit` over the atoms, compiled: sums, range and cached values while the entries are at hand.

A tile of the matrix is read from memory once, row after row, and all that is wanted of it is taken while it stays in
the processor's cache. The loops are written so that they work on several entries at a time:

- sums of a row are taken in double precision, a stretch at a time, about a pivot close to its mean;
- squares, minima and maxima are taken column by column over four rows. A minimum goes from one array to another,
  because to a compiler a minimum in place is a store that may be left out, and such stores are slow.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import FASTMATH

_ROWS, _COLUMNS = 8, 8192
"""A tile: half a megabyte at most. Shorter pieces of rows would be read from memory at half the speed."""
_STRETCH, N_LANES = 1024, 512
"""Entries of a row, and columns of four rows, that are summed together."""
TURNED_ROWS = 16
"""Rows that are turned into columns together."""
_FAR = 16.0
"""Squares about a pivot may be so many times those about the mean; else the pivot was too far from it."""


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _sums_about(stretch: NDArray[Any], pivot: float) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for j in range(stretch.size):
        x = np.float64(stretch[j]) - pivot
        total += x
        squares += x * x
    return total, squares


@njit(cache=True, nogil=True)
def _add_exactly(total: float, lost: float, x: float) -> tuple[float, float]:
    """Return total + x, and what roundings of the total have lost so far."""
    after = total + x
    part = after - total
    return after, lost + ((total - (after - part)) + (x - part))


@njit(cache=True, nogil=True)
def _add_to_row(row: NDArray[Any], count: int, state: NDArray[np.float64]) -> None:
    """Go on with a row of which `count` entries have been seen.

    `state` holds a base, the mean so far less the base, and the scatter so far; the last two each as a sum and what its
    roundings have lost. Means are close to the base where entries are large beside their differences, and keep more
    digits of these that way. A row that begins without a base (NaN) gets one: its first entry, or something better.
    """
    base, mean, mean_lost, scatter, scatter_lost = state[0], state[1], state[2], state[3], state[4]
    is_new = np.isnan(base)
    if is_new:
        base = np.float64(row[0])
    for start in range(0, row.size, _STRETCH):
        stretch = row[start : start + _STRETCH]
        size = stretch.size
        pivot = base + mean
        total, squares = _sums_about(stretch, pivot)
        its_scatter = squares - total * (total / size)
        if squares > _FAR * its_scatter:
            pivot += total / size
            total, squares = _sums_about(stretch, pivot)
            its_scatter = max(squares - total * (total / size), 0.0)
            if is_new and start == 0:
                base = pivot
        its_mean = (pivot - base) + total / size
        part = size / (count + size)
        difference = its_mean - mean
        if count == 0:
            mean = its_mean
        else:
            mean, mean_lost = _add_exactly(mean, mean_lost, difference * part)
            its_scatter += difference * part * count * difference
        scatter, scatter_lost = _add_exactly(scatter, scatter_lost, its_scatter)
        count += size
    state[0], state[1], state[2], state[3], state[4] = base, mean, mean_lost, scatter, scatter_lost


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _add_squares(a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], e: NDArray[Any], out: NDArray[np.float64]) -> None:
    for j in range(a.size):
        p, q, r, s = np.float64(a[j]), np.float64(b[j]), np.float64(c[j]), np.float64(e[j])
        out[j] += (p * p + q * q) + (r * r + s * s)


@njit(cache=True, nogil=True)
def _least(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], e: NDArray[Any], before: NDArray[Any], out: NDArray[Any]
) -> None:
    for j in range(a.size):
        p = a[j] if a[j] < b[j] else b[j]
        q = c[j] if c[j] < e[j] else e[j]
        p = p if p < q else q
        out[j] = p if p < before[j] else before[j]


@njit(cache=True, nogil=True)
def _largest(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], e: NDArray[Any], before: NDArray[Any], out: NDArray[Any]
) -> None:
    for j in range(a.size):
        p = a[j] if a[j] > b[j] else b[j]
        q = c[j] if c[j] > e[j] else e[j]
        p = p if p > q else q
        out[j] = p if p > before[j] else before[j]


@njit(cache=True, nogil=True)
def _look_by_column(
    values: NDArray[Any],
    top: int,
    bottom: int,
    first: int,
    stop: int,
    lanes: NDArray[Any],
    column_squares: NDArray[np.float64],
) -> None:
    """Take range and squares of rows top, ..., bottom-1 at columns first, ..., stop-1."""
    last = bottom - 1
    squares = column_squares[first:stop]
    for i in range(top, bottom, 8):
        # Eight rows, there and back between two arrays. A row that is seen again changes no minimum.
        for half in range(2):
            i0 = i + 4 * half
            a, b = values[min(i0, last), first:stop], values[min(i0 + 1, last), first:stop]
            c, e = values[min(i0 + 2, last), first:stop], values[min(i0 + 3, last), first:stop]
            _least(a, b, c, e, lanes[half], lanes[1 - half])
            _largest(a, b, c, e, lanes[2 + half], lanes[3 - half])
            if i0 + 4 <= bottom:
                _add_squares(a, b, c, e, squares)
    for i in range(bottom - (bottom - top) % 4, bottom):
        a = values[i, first:stop]
        for j in range(squares.size):
            squares[j] += np.float64(a[j]) * np.float64(a[j])


@njit(cache=True, nogil=True)
def look_at(
    values: NDArray[Any],
    lanes: NDArray[Any],
    bases: NDArray[np.float64],
    means: NDArray[np.float64],
    scatters: NDArray[np.float64],
    column_squares: NDArray[np.float64],
    wanted: NDArray[np.int64],
    places: NDArray[np.int64],
    first_row: int,
    prefix: NDArray[Any],
) -> None:
    """Learn all about some rows at neighbouring columns.

    Parameters
    ----------
    values
        The entries, in single or double precision.
    lanes : shape (4, N_LANES)
        Where columns are folded together: ``lanes[0]`` holds the smallest and ``lanes[2]`` the largest entries so far,
        the others are workspace.
    bases, means, scatters
        Receive the mean of each row, less a base, and the sum of squares about it. A base that is NaN is replaced.
        Not all three are finite where an entry is not.
    column_squares
        The columns' sums of squares are added to these.
    wanted, places
        Columns to be cached (ascending), and where: ``wanted[t]`` goes to ``prefix[:, places[t]]``.
    first_row, prefix
        The cache of all rows, of which these begin at `first_row`.
    """
    n_rows, n_columns = values.shape
    states = np.empty((_ROWS, 5))
    for top in range(0, n_rows, _ROWS):
        bottom = min(top + _ROWS, n_rows)
        states[:] = 0.0
        for i in range(top, bottom):
            states[i - top, 0] = bases[i]
        taken = 0
        for left in range(0, n_columns, _COLUMNS):
            right = min(left + _COLUMNS, n_columns)
            for i in range(top, bottom):
                _add_to_row(values[i, left:right], left, states[i - top])
            for first in range(left, right, N_LANES):
                _look_by_column(values, top, bottom, first, min(first + N_LANES, right), lanes, column_squares)
            start = taken
            while taken < wanted.size and wanted[taken] < right:
                taken += 1
            for i in range(top, bottom):
                for t in range(start, taken):
                    prefix[first_row + i, places[t]] = values[i, wanted[t]]
        for i in range(top, bottom):
            bases[i] = states[i - top, 0]
            means[i] = states[i - top, 1] + states[i - top, 2]
            scatters[i] = states[i - top, 3] + states[i - top, 4]


@njit(cache=True, nogil=True)
def turn(prefix: NDArray[Any], start: int, stop: int, block: NDArray[Any]) -> None:
    """block[:, start:stop] = prefix[start:stop].T, as far as the block goes: whole cache lines of it at a time."""
    for top in range(start, stop, TURNED_ROWS):
        for j in range(block.shape[0]):
            for i in range(top, min(top + TURNED_ROWS, stop)):
                block[j, i] = prefix[i, j]


@njit(cache=True, nogil=True)
def shown_scatter(
    prefix: NDArray[Any], sizes: NDArray[np.int64], means: NDArray[np.float64], d: int, out: NDArray[np.float32]
) -> None:
    """out[r, i] = what the first ``sizes[r]`` cached values of atom i show of the scatter of all d."""
    for i in range(means.size):
        seen, start = 0.0, 0
        for r in range(sizes.size):
            seen += _sums_about(prefix[i, start : sizes[r]], means[i])[1]
            out[r, i] = np.float32(seen * (d / sizes[r]))
            start = sizes[r]
