from libc.stdint cimport int64_t, uint8_t

from banditmips.core.near_best cimport real
from banditmips.core.plain cimport PlainKind


cdef class Best:
    cdef readonly object indices, scores
    cdef int64_t* _indices
    cdef double* _scores
    cdef Py_ssize_t k, count
    cdef bint absolute
    cdef double rank(self, double score) noexcept nogil
    cdef double bar(self) noexcept nogil
    cdef void add(self, int64_t row, double score) noexcept nogil
    cdef bint add_all(self, const int64_t* rows, const double* scores, Py_ssize_t count) noexcept nogil
    cdef bint _add_in_order(self, const int64_t* rows, const double* scores, Py_ssize_t count, double bar) noexcept nogil
    cdef double _bar_of(self, const double* scores, Py_ssize_t count) noexcept nogil


cdef class PlainProducts(PlainKind):
    cdef public object squares


cdef size_t room_for_best(int64_t n) noexcept nogil
cdef Py_ssize_t close_by_products(
    const real* products, const real* atoms, const real* known, int64_t n, int64_t d, double squares, Py_ssize_t k,
    bint absolute, double* room, int64_t* close
) noexcept nogil
cdef bint best_by_products(
    const real* products, const real* atoms, const real* known, const real* query, int64_t n, int64_t d, double squares,
    Best best, double* room, const uint8_t* out
) noexcept nogil
cdef void fill_exact(
    const real* atoms, const int64_t* rows, Py_ssize_t count, const real* query, int64_t d, double* sums
) noexcept nogil
