from libc.stdint cimport int64_t

from banditmips.core.kernels cimport bm_columns
from banditmips.core.pairs cimport Wanted
from banditmips.core.places cimport Place


cdef struct Segment:
    const char* base
    int64_t first
    int64_t row_stride
    int64_t column_stride
    int dtype


cdef int64_t rough_room(int64_t n, int n_queries) noexcept nogil


cdef class Rows:
    cdef readonly int64_t n, d, row_bytes
    cdef readonly object arrays
    cdef readonly bint are_contiguous, are_columns
    cdef bint are_floats  # contiguous ones of one type
    cdef Segment* segments
    cdef int n_segments
    cdef const Segment* segment_of(self, int64_t row) noexcept nogil
    cdef void fill_sums(
        self, const int64_t* rows, int64_t count, const double* query, int objective, double* sums
    ) noexcept nogil
    cdef double norm(self, int64_t row) noexcept nogil
    cdef double sum_columns(
        self, int64_t row, const int64_t[::1] columns, const double* query, int objective, double* room
    ) noexcept nogil
    cdef Place _place_of(self, int64_t row) noexcept nogil
    cdef bm_columns _columns(self, int64_t start, int64_t stop) noexcept nogil
    cdef Wanted _wanted(self, const int64_t[::1] numbers, Place* places, const bm_columns* columns)
    cdef bint _all_lie_as(self, int dtype)
