from libc.stdint cimport int64_t


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
