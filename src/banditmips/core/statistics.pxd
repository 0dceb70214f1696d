from libc.stdint cimport int64_t


cdef class Sample:
    cdef readonly object coordinates
    cdef readonly int objective
    cdef readonly double total_unit
    cdef const double[::1] _query, _scale, _unit, _spread
    cdef double term(self, int64_t j, double v) noexcept nogil
