from libc.stdint cimport int64_t


cdef class Sample:
    cdef readonly object coordinates, shares
    cdef readonly int objective
    cdef readonly double total_unit
    cdef const double[::1] _query, _scale, _unit, _spread
    cdef void fill_terms(self, const double* values, double row_scale, double* terms) noexcept nogil
    cdef double variance(self, double estimate, const double* terms, double* share) noexcept nogil
