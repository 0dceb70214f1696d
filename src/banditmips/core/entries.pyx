"""The pass of `fit` over entries: means, scatters, squares of columns and the range, while the entries are at hand."""

from libc.math cimport isnan
from libc.stdint cimport int64_t

import numpy as np

ctypedef fused real:
    float
    double

cdef enum:
    STRETCH = 1024  # entries of a row that are summed together
    SHORT = 32  # entries that are summed without a break
    N_LOOKED_AT = 16  # of the entries of a stretch, for a number that is close to their mean
cdef double FAR = 2.0
"""Squares about a pivot may be so many times those about the mean; else the pivot was too far from it."""


cdef struct RowState:
    # A base, the mean so far less the base, and the scatter so far; the last two each with what roundings have lost.
    double base
    double mean
    double mean_lost
    double scatter
    double scatter_lost
    double low
    double high


cdef void _sums_about(const real* stretch, int64_t size, double pivot, double* total, double* squares) noexcept nogil:
    cdef double x, sum_x, sum_squares
    cdef int64_t j, start = 0, stop
    total[0], squares[0] = 0.0, 0.0
    while start < size:  # short sums first: fewer roundings on the way of each number
        stop = min(start + SHORT, size)
        sum_x, sum_squares = 0.0, 0.0
        for j in range(start, stop):
            x = stretch[j] - pivot
            sum_x += x
            sum_squares += x * x
        total[0] += sum_x
        squares[0] += sum_squares
        start = stop


cdef double _middle(const real* stretch, int64_t size) noexcept nogil:
    """The mean of a few entries from all over a stretch."""
    cdef int64_t j, step = max(size // N_LOOKED_AT, <int64_t> 1), count = min(size, <int64_t> N_LOOKED_AT)
    cdef double total = 0.0
    for j in range(count):
        total += stretch[j * step] / <double> count
    return total


cdef void _range(const real* stretch, int64_t size, RowState* state) noexcept nogil:
    cdef real low = stretch[0], high = stretch[0]
    cdef int64_t j
    for j in range(size):
        low = stretch[j] if stretch[j] < low else low
        high = stretch[j] if stretch[j] > high else high
    state.low = min(state.low, <double> low)
    state.high = max(state.high, <double> high)


cdef double _add_exactly(double total, double x, double* lost) noexcept nogil:
    """Return total + x; what the rounding loses is added to `lost`. (Volatile: no compiler may simplify it away.)"""
    cdef volatile double after = total + x
    cdef volatile double part = after - total
    cdef volatile double rest = after - part
    lost[0] += (total - rest) + (x - part)
    return after


cdef void _add_row(const real* row, int64_t size, double* column_squares, RowState* state) noexcept nogil:
    """Go through a row whose entries before these, if any, have been seen by nobody here."""
    cdef int64_t start = 0, count, j
    cdef double total, squares, scatter, mean, part, difference
    # Volatile: no compiler may change the order of sums in which large numbers take each other off.
    cdef volatile double pivot, moved
    cdef bint is_new = isnan(state.base)
    if is_new:
        state.base = _middle(row, min(size, <int64_t> STRETCH))
    while start < size:
        count = min(<int64_t> STRETCH, size - start)
        pivot = state.base + state.mean
        _sums_about(row + start, count, pivot, &total, &squares)
        scatter = squares - total * (total / count)
        if squares > FAR * scatter:
            pivot += total / count
            _sums_about(row + start, count, pivot, &total, &squares)
            scatter = max(squares - total * (total / count), 0.0)
            if is_new and start == 0:
                state.base = pivot
        moved = pivot - state.base
        mean = moved + total / count
        part = <double> count / (start + count)
        difference = mean - state.mean
        if start == 0:
            state.mean = mean
        else:
            state.mean = _add_exactly(state.mean, difference * part, &state.mean_lost)
            scatter += difference * part * start * difference
        state.scatter = _add_exactly(state.scatter, scatter, &state.scatter_lost)
        _range(row + start, count, state)
        for j in range(start, start + count):
            column_squares[j] += <double> row[j] * row[j]
        start += count


def look_at(
    const real[:, ::1] values, double[::1] bases, double[::1] means, double[::1] scatters, double[::1] column_squares
):
    """Learn all about some rows at neighbouring columns.

    Parameters
    ----------
    values
        The entries, in single or double precision.
    bases, means, scatters
        Receive the mean of each row, less a base, and the sum of squares about it. A base that is NaN is replaced.
        Not all three are finite where an entry is not.
    column_squares
        The columns' sums of squares are added to these.

    Returns
    -------
    low, high : float
        The smallest and the largest entry.
    """
    cdef RowState state
    cdef double low = np.inf, high = -np.inf
    cdef int64_t i
    with nogil:
        for i in range(values.shape[0]):
            state.base, state.mean, state.mean_lost, state.scatter, state.scatter_lost = bases[i], 0.0, 0.0, 0.0, 0.0
            state.low, state.high = low, high
            _add_row(&values[i, 0], values.shape[1], &column_squares[0], &state)
            bases[i] = state.base
            means[i] = state.mean + state.mean_lost
            scatters[i] = state.scatter + state.scatter_lost
            low, high = state.low, state.high
    return low, high
