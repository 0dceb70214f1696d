from libc.math cimport isfinite
from libc.stdint cimport int64_t

from banditmips.core.kernels cimport bm_moments
from banditmips.core.survivors cimport Survivors


cdef class ScoreMap:
    cdef readonly object factors, offsets
    cdef const double[::1] _factors, _offsets
    cdef bint _has_factors, _has_offsets
    cdef double rounding
    cdef void apply(self, Survivors alive) noexcept nogil
    cdef void widen(self, Survivors alive) noexcept nogil


cdef enum:
    MOST_AXES = 8


cdef inline bint are_fine(const bm_moments* moments) noexcept nogil:
    """Whether numbers are finite, and their squares neither too large nor too small."""
    return isfinite(moments.total) and moments.squares < 1e250 and (moments.squares > 1e-250 or moments.largest == 0.0)


cdef class MeasuredQuery:
    cdef readonly object given, exact
    cdef const double[::1] _exact
    cdef bm_moments moments


cdef class CertainBounds:
    cdef const double[::1] means, norms
    cdef const double[:, ::1] spreads
    cdef const float[:, ::1] along, _axes32
    cdef const double[:, ::1] _axes64
    cdef int64_t d, n_axes
    cdef bint single_axes
    cdef double rounding
    cdef void _look(self, MeasuredQuery query, int64_t n_axes, double* along) noexcept nogil
    cdef void place(self, MeasuredQuery query, Survivors alive, bint first) noexcept nogil
