from libc.stdint cimport int64_t

from banditmips.core.certain cimport ScoreMap
from banditmips.core.rows cimport Rows


cdef class Exact:
    cdef public int64_t row_cost
    cpdef scores(self, rows)
    cpdef int64_t cost(self, rows) except -1
    cdef int fill(self, const int64_t* rows, Py_ssize_t count, double* out) except -1
    cdef int _copy(self, const double[::1] scores, double* out) except -1
    cdef int64_t cost_of(self, const int64_t* rows, Py_ssize_t count) except -1


cdef class RowsExact(Exact):
    cdef Rows _rows
    cdef const double[::1] _query
    cdef object _array, _columns, _complain
    cdef int _objective
    cdef ScoreMap _map
    cdef int _turn_into_scores(self, const int64_t* rows, Py_ssize_t count, double* sums) except -1
