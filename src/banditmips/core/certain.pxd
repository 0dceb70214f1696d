from libc.stdint cimport int64_t

from banditmips.core.survivors cimport Survivors


cdef class ScoreMap:
    cdef readonly object factors, offsets
    cdef const double[::1] _factors, _offsets
    cdef bint _has_factors, _has_offsets
    cdef double rounding
    cdef void apply(self, Survivors alive) noexcept nogil
    cdef void widen(self, Survivors alive) noexcept nogil
