from libc.stdint cimport int64_t, uint8_t

from banditmips.core.kernels cimport bm_sparse, sparse_add, sparse_dot, sparse_dots


cdef enum:
    STRETCH = 1024  # entries that are read together


cdef struct Stretch:
    # Stored numbers of one row (or column) that are read together, with their places and as a matrix of one row.
    int64_t count
    int64_t[STRETCH] places
    double[STRETCH] values
    bm_sparse piece
    int64_t[2] piece_starts
    int64_t start  # of what comes next
    int64_t stop
    bint is_fine  # nothing has led outside the matrix


cdef class SparseProducts:
    cdef readonly int64_t n, d
    cdef readonly bint by_row
    cdef object arrays
    cdef const char* values
    cdef const char* places
    cdef const char* starts
    cdef int64_t stored
    cdef int dtype, itemsize
    cdef bint wide, is_plain
    cdef bm_sparse parts
    cdef sparse_dot dot
    cdef sparse_add add
    cdef sparse_dots dots
    cdef bint span(self, int64_t major, int64_t* start, int64_t* stop) noexcept nogil
    cdef bint read_places(self, int64_t start, int64_t count, int64_t* places) noexcept nogil
    cdef void make_ready(self, Stretch* here) noexcept nogil
    cdef void begin(self, Stretch* here, int64_t major) noexcept nogil
    cdef bint goes_on(self, Stretch* here, bint with_values) noexcept nogil
    cdef _count(self, const int64_t[::1] majors, const uint8_t[::1] inside, bint by_row)
    cdef _check(self, int64_t length, const int64_t[::1] majors, int64_t n_minors, bint by_row)
