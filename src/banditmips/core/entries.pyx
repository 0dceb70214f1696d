"""The pass of `fit` over entries: means, scatters, squares of columns and the range, while the entries are at hand."""

from libc.math cimport isnan
from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.kernels cimport bm_kernels, bm_look

ctypedef fused real:
    float
    double

cdef enum:
    STRETCH = 1024  # entries of a row that are summed together
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


cdef void _look(const real* stretch, int64_t size, double pivot, double* column_squares, bm_look* seen) noexcept nogil:
    if real is float:
        bm_kernels().look_f32(stretch, size, pivot, column_squares, seen)
    else:
        bm_kernels().look_f64(stretch, size, pivot, column_squares, seen)


cdef double _middle(const real* stretch, int64_t size) noexcept nogil:
    """The mean of a few entries from all over a stretch."""
    cdef int64_t j, step = max(size // N_LOOKED_AT, <int64_t> 1), count = min(size, <int64_t> N_LOOKED_AT)
    cdef double total = 0.0
    for j in range(count):
        total += stretch[j * step] / <double> count
    return total


cdef double _add_exactly(double total, double x, double* lost) noexcept nogil:
    """Return total + x; what the rounding loses is added to `lost`. (Volatile: no compiler may simplify it away.)"""
    cdef volatile double after = total + x
    cdef volatile double part = after - total
    cdef volatile double rest = after - part
    lost[0] += (total - rest) + (x - part)
    return after


cdef void _add_row(const real* row, int64_t size, double* column_squares, RowState* state) noexcept nogil:
    """Go through a row whose entries before these, if any, have been seen by nobody here."""
    cdef int64_t start = 0, count
    cdef bm_look seen
    cdef double total, squares, scatter, mean, part, difference
    # Volatile: no compiler may change the order of sums in which large numbers take each other off.
    cdef volatile double pivot, moved
    cdef bint is_new = isnan(state.base)
    if is_new:
        state.base = _middle(row, min(size, <int64_t> STRETCH))
    while start < size:
        count = min(<int64_t> STRETCH, size - start)
        pivot = state.base + state.mean
        _look(row + start, count, pivot, column_squares + start, &seen)
        total, squares = seen.total, seen.squares
        scatter = squares - total * (total / count)
        if squares > FAR * scatter:
            pivot += total / count
            _look(row + start, count, pivot, <double*> NULL, &seen)
            total, squares = seen.total, seen.squares
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
        state.low, state.high = min(state.low, seen.low), max(state.high, seen.high)
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
