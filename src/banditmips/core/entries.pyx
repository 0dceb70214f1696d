"""Passes over entries: means, scatters, squares of columns and the range for `fit`, while the entries are at hand."""

from libc.math cimport INFINITY, isnan
from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.kernels cimport BM_SQUARES, BM_STRETCH, bm_kernels, bm_look, bm_rest

cdef enum:
    STRETCH = 1024  # entries of a row that are summed together
    N_LOOKED_AT = 16  # of the entries of a stretch, for a number that is close to their mean
    ROWS = 256  # of a matrix by column, of which a stretch each is at hand
    GAP = 8  # numbers between them: at a power of two they would push each other out of the cache
cdef double FAR = 2.0
"""Squares about a pivot may be so many times those about the mean; else the pivot was too far from it."""


cdef struct RowState:
    # A base, the mean so far less the base, and the scatter so far; the last two each with what roundings have lost.
    double base
    double mean
    double mean_lost
    double scatter
    double scatter_lost
    bint is_new  # nobody has given a base


cdef void _look(
    const real* stretch, int64_t size, double pivot, double* column_squares, bm_look* seen, bm_rest* rest
) noexcept nogil:
    if real is float:
        bm_kernels().look_f32(stretch, size, pivot, column_squares, seen, rest)
    else:
        bm_kernels().look_f64(stretch, size, pivot, column_squares, seen, rest)


cdef double _middle(const real* stretch, int64_t size) noexcept nogil:
    """The mean of a few entries from all over a stretch."""
    cdef int64_t j, step = max(size // N_LOOKED_AT, <int64_t> 1), count = min(size, <int64_t> N_LOOKED_AT)
    cdef volatile double total = 0.0  # no compiler may add in another order here than there
    for j in range(count):
        total += stretch[j * step] / <double> count
    return total


cdef double _add_exactly(double total, double x, double* lost) noexcept nogil:
    """Return total + x; what the rounding loses is added to `lost`. (Volatile: no compiler may simplify it away.)"""
    cdef volatile double after = total + x
    cdef volatile double part = after - total
    cdef volatile double rest = after - part
    cdef volatile double missed = (total - rest) + (x - part)
    lost[0] += missed
    return after


cdef RowState _new_state(double base, const real* row, int64_t count) noexcept nogil:
    """Of a row that begins with so many entries, and of which nobody has seen anything here; a base that is NaN is chosen."""
    cdef RowState state
    state.base, state.mean, state.mean_lost, state.scatter, state.scatter_lost = base, 0.0, 0.0, 0.0, 0.0
    state.is_new = isnan(base)
    if state.is_new:
        state.base = _middle(row, count)
    return state


cdef void _look_on(
    const real* stretch, int64_t start, int64_t count, RowState* state, double* column_squares, Learnt* learnt, bm_rest* rest
) noexcept nogil:
    """Go through the next entries of a row, of which so many came before."""
    cdef bm_look seen
    cdef double total, squares, part
    # Volatile: no compiler may change the order of sums in which large numbers take each other off, nor here and there.
    cdef volatile double pivot = state.base + state.mean, moved, weight, scatter, mean, difference
    _look(stretch, count, pivot, column_squares, &seen, rest)
    total, squares = seen.total, seen.squares
    scatter = squares - total * (total / count)
    if squares > FAR * scatter:
        pivot += total / count
        _look(stretch, count, pivot, <double*> NULL, &seen, <bm_rest*> NULL)
        total, squares = seen.total, seen.squares
        scatter = max(squares - total * (total / count), 0.0)
        if state.is_new and start == 0:
            state.base = pivot
    moved = pivot - state.base
    mean = moved + total / count
    part = <double> count / (start + count)
    difference = mean - state.mean
    if start == 0:
        state.mean = mean
    else:
        state.mean = _add_exactly(state.mean, difference * part, &state.mean_lost)
        weight = difference * part
        weight *= start
        scatter += weight * difference
    state.scatter = _add_exactly(state.scatter, scatter, &state.scatter_lost)
    learnt.low, learnt.high = min(learnt.low, seen.low), max(learnt.high, seen.high)


cdef void _write_down(const RowState* state, int64_t i, Learnt* learnt) noexcept nogil:
    learnt.bases[i] = state.base
    learnt.means[i] = state.mean + state.mean_lost
    learnt.scatters[i] = state.scatter + state.scatter_lost


cdef void look_at_row(const real* row, int64_t size, int64_t i, Learnt* learnt, bm_rest* rest) noexcept nogil:
    """Go through row i, of which nobody has seen anything here; `rest` (NULL: nobody wants it) is all of the row's then."""
    cdef int64_t start = 0, count
    cdef RowState state = _new_state(learnt.bases[i], row, min(size, <int64_t> STRETCH))
    while start < size:
        count = min(<int64_t> STRETCH, size - start)
        _look_on(row + start, start, count, &state, _squares_from(learnt, start), learnt, rest)
        start += count
        if rest != NULL:  # the same of the next stretch; signs are 32 to a word
            rest.centre = <const real*> rest.centre + count
            rest.signs += count // 32
            rest.x += count
    _write_down(&state, i, learnt)


cdef double* _squares_from(const Learnt* learnt, int64_t column) noexcept nogil:
    """Where the columns' squares from this one on are; NULL where nobody wants them."""
    return NULL if learnt.column_squares == NULL else learnt.column_squares + column


cdef Learnt learnt_in(double[::1] bases, double[::1] means, double[::1] scatters, double[::1] column_squares) noexcept:
    """Say where to put what is learnt of at least one row; squares of columns are None where nobody wants them."""
    cdef Learnt learnt
    learnt.bases, learnt.means, learnt.scatters = &bases[0], &means[0], &scatters[0]
    learnt.column_squares = NULL if column_squares is None else &column_squares[0]
    learnt.low, learnt.high = INFINITY, -INFINITY
    return learnt


def look_at(
    const real[:, ::1] values, double[::1] bases, double[::1] means, double[::1] scatters, double[::1] column_squares=None
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
        The columns' sums of squares are added to these, unless it is None.

    Returns
    -------
    low, high : float
        The smallest and the largest entry.
    """
    cdef Learnt learnt = learnt_in(bases, means, scatters, column_squares)
    cdef int64_t i
    with nogil:
        for i in range(values.shape[0]):
            look_at_row(&values[i, 0], values.shape[1], i, &learnt, <bm_rest*> NULL)
    return learnt.low, learnt.high


def look_at_columns(
    const real[:, :] values, double[::1] bases, double[::1] means, double[::1] scatters, double[::1] column_squares=None
):
    """Do that, to the bit, for rows of a matrix whose columns lie together in memory, a stretch of all rows at a time."""
    cdef int64_t n = values.shape[0], d = values.shape[1], first, i, start, count, n_rows
    if values.strides[0] != sizeof(real) and n > 1:
        raise ValueError("values must lie column after column")
    cdef Learnt learnt = learnt_in(bases, means, scatters, column_squares)
    cdef real[:, ::1] room = np.empty((min(n, <int64_t> ROWS), STRETCH + GAP), dtype=np.float32 if real is float else np.float64)
    cdef char[::1] memory = np.empty(min(n, <int64_t> ROWS) * sizeof(RowState), dtype=np.int8)
    cdef RowState* states = <RowState*> &memory[0]
    with nogil:
        first = 0
        while first < n:
            n_rows, start = min(<int64_t> ROWS, n - first), 0
            while start < d:
                count = min(<int64_t> STRETCH, d - start)
                _turn(&values[first, start], values.strides[1], n_rows, count, &room[0, 0], STRETCH + GAP)
                for i in range(n_rows):
                    if start == 0:
                        states[i] = _new_state(learnt.bases[first + i], &room[i, 0], count)
                    _look_on(
                        &room[i, 0], start, count, &states[i], _squares_from(&learnt, start), &learnt, <bm_rest*> NULL
                    )
                start += count
            for i in range(n_rows):
                _write_down(&states[i], first + i, &learnt)
            first += n_rows
    return learnt.low, learnt.high


cdef void _turn(
    const real* columns, int64_t stride, int64_t n_rows, int64_t n_columns, real* rows, int64_t row_stride
) noexcept nogil:
    if real is float:
        bm_kernels().turn_f32(columns, stride, n_rows, n_columns, rows, row_stride)
    else:
        bm_kernels().turn_f64(columns, stride, n_rows, n_columns, rows, row_stride)


def add_rows(const real[:, ::1] values, const int64_t[::1] rows, double[::1] totals):
    """Add some rows to the totals of the columns."""
    cdef int64_t i, j
    if values.shape[1] != totals.shape[0]:
        raise ValueError(f"rows of {values.shape[1]} entries cannot be added to {totals.shape[0]} totals")
    with nogil:
        for i in range(rows.shape[0]):
            for j in range(values.shape[1]):
                totals[j] += values[rows[i], j]


def turn(const real[:, :] values, real[:, ::1] rows):
    """Copy values whose columns lie together in memory, row after row."""
    if values.shape[0] != rows.shape[0] or values.shape[1] != rows.shape[1] or values.strides[0] != sizeof(real):
        raise ValueError("values must lie column after column, and have the shape of the rows")
    if values.shape[0] == 0 or values.shape[1] == 0:
        return
    with nogil:
        _turn(&values[0, 0], values.strides[1], values.shape[0], values.shape[1], &rows[0, 0], rows.shape[1])


def sums_of_squares(const real[:, ::1] vectors, means=None):
    """Sums of the vectors' squares, or of those about numbers of their own (of shape (m,)).

    Each is the same in whatever company: every product, difference and sum is in double precision.
    """
    cdef const double[::1] centres
    if means is not None:
        centres = means
        if centres.shape[0] != vectors.shape[0]:
            raise ValueError(f"{centres.shape[0]} means for {vectors.shape[0]} vectors")
    squares = np.zeros(vectors.shape[0])
    cdef double[::1] of_squares = squares
    cdef double[BM_STRETCH] centre
    cdef Py_ssize_t m = vectors.shape[0], d = vectors.shape[1], t, i, start, count
    cdef bint have_centres = means is not None
    cdef const real* one[4]
    cdef double[4] found
    with nogil:
        for i in range(BM_STRETCH):
            centre[i] = 0.0
        for t in range(m):
            if have_centres:
                for i in range(min(d, <Py_ssize_t> BM_STRETCH)):
                    centre[i] = centres[t]
            start = 0
            while start < d:  # the stretches that such a sum has of its own
                count = min(<Py_ssize_t> BM_STRETCH, d - start)
                for i in range(4):
                    one[i] = &vectors[t, start]
                if real is float:
                    bm_kernels().sums_exact_f32(BM_SQUARES, one, 1, centre, count, found)
                else:
                    bm_kernels().sums_exact_f64(BM_SQUARES, one, 1, centre, count, found)
                of_squares[t] += found[0]
                start += count
    return squares


def sums_of_rows(const real[:, ::1] vectors):
    """Sums of the vectors' entries in double precision, each the same in whatever company."""
    totals = np.zeros(vectors.shape[0])
    cdef double[::1] of_rows = totals
    cdef double[BM_STRETCH] ones
    cdef Py_ssize_t m = vectors.shape[0], d = vectors.shape[1], t, start, count
    with nogil:
        for t in range(BM_STRETCH):
            ones[t] = 1.0
        for t in range(m):
            start = 0
            while start < d:
                count = min(<Py_ssize_t> BM_STRETCH, d - start)
                if real is float:
                    of_rows[t] += bm_kernels().dot_exact_f32(&vectors[t, start], ones, count)
                else:
                    of_rows[t] += bm_kernels().dot_exact_f64(&vectors[t, start], ones, count)
                start += count
    return totals
