from libc.math cimport fabs
from libc.stdint cimport int64_t, uint8_t


cdef enum:
    # Numbers below which work takes less than waiting for the interpreter's lock, which others would take meanwhile
    WORTH_HANDING_OVER = 1 << 13


cdef class Survivors:
    cdef public Py_ssize_t n
    cdef readonly Py_ssize_t n_known
    cdef readonly Py_ssize_t k
    cdef readonly bint absolute
    cdef public double bar, reach
    cdef Py_ssize_t _n_room, _n_room_known
    cdef object _numbers, _grown
    cdef int64_t* rows
    cdef double* estimates
    cdef double* radius
    cdef uint8_t* beaten
    cdef double* lower
    cdef double* heap
    cdef int64_t* known_rows
    cdef double* known_scores
    cdef Py_ssize_t find_leaders(self, Py_ssize_t count, int64_t* places, const uint8_t* among=*) noexcept nogil
    cdef void begin_again(self, Py_ssize_t n) noexcept nogil
    cdef int _make_room(self, Py_ssize_t n, Py_ssize_t k, bint absolute) except -1
    cdef int make_room_for_known(self, Py_ssize_t count) except -1
    cdef double known_score(self, int64_t row) noexcept nogil
    cdef void learn(self, int64_t row, double score) noexcept nogil
    cdef void compact(self) noexcept nogil


cdef inline double ranked(Survivors alive, Py_ssize_t t) noexcept nogil:
    """An estimate as it is ranked."""
    return fabs(alive.estimates[t]) if alive.absolute else alive.estimates[t]


cdef void keep_largest(double value, double* heap, Py_ssize_t size, Py_ssize_t k) noexcept nogil
cdef double kth_largest(const double* values, Py_ssize_t n, Py_ssize_t k, double* heap) noexcept nogil
