from libc.math cimport isfinite
from libc.stdint cimport int64_t

from banditmips.core.kernels cimport BM_MOST_AXES, bm_certain, bm_certain_query, bm_moments
from banditmips.core.survivors cimport Survivors


cdef class ScoreMap:
    cdef readonly object factors, offsets
    cdef const double[::1] _factors, _offsets
    cdef bint _has_factors, _has_offsets
    cdef double rounding
    cdef bint is_identity(self) noexcept nogil
    cdef void apply(self, Survivors alive) noexcept nogil
    cdef void widen(self, Survivors alive) noexcept nogil


cdef enum:
    MOST_AXES = BM_MOST_AXES
    # Atoms whose intervals are looked at before those of the next
    SIFTED = 256


cdef inline bint are_fine(const bm_moments* moments) noexcept nogil:
    """Whether numbers are finite, and their squares neither too large nor too small."""
    return isfinite(moments.total) and moments.squares < 1e250 and (moments.squares > 1e-250 or moments.largest == 0.0)


cdef class MeasuredQuery:
    cdef readonly object given, exact
    cdef const double[::1] _exact
    cdef bm_moments moments
    cdef void _measure(self, const float* in_single) noexcept nogil


cdef struct Sieve:
    # A query, the room for those that can win, how many there are, and the k largest lower ends of all that have come.
    bm_certain_query query
    Py_ssize_t k, n, n_seen
    bint absolute
    double bar
    int64_t* rows
    double* estimates
    double* radius
    double* lower
    double* heap


cdef class CertainBounds:
    cdef const double[::1] means, norms
    cdef const double[:, ::1] spreads
    cdef const float[:, ::1] along, _axes32
    cdef const double[:, ::1] _axes64
    cdef int64_t d, n_axes
    cdef bint single_axes
    cdef double rounding
    cdef bm_certain _known(self, bint with_axes) noexcept nogil
    cdef bm_certain_query _look(self, MeasuredQuery query, bint with_axes) noexcept nogil
    cdef Sieve _sieve_of(self, Survivors alive, MeasuredQuery query, bint with_axes) noexcept nogil
    cdef bint _sift_all(self, Sieve* sieve, bint with_axes) noexcept nogil
    cdef void _sift_some(self, Sieve* sieve, Py_ssize_t n) noexcept nogil
    cdef void leave(self, MeasuredQuery query, Survivors alive) noexcept nogil
    cdef void place(self, MeasuredQuery query, Survivors alive) noexcept nogil
