from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp

from banditmips.core.kernels cimport bm_moments
from banditmips.core.near_best cimport Room, real
from banditmips.core.plain cimport PlainKind
from banditmips.core.rows cimport Rows


cdef class PlainScores(PlainKind):
    cdef public Rows rows
    cdef public object factors, offsets, squares, norms, means, level, lengths, multiply
    cdef public bint single, by_columns
    cdef public int objective, exponent
    cdef public double longest, low, high, wider, lost, most_level
    cdef public Py_ssize_t most_close
    cdef bint is_closed
    cdef bint is_served(self, const bm_moments* moments) noexcept nogil
    cdef void widen(self, const void* query, bint is_single, int exponent, double* wide) noexcept nogil
    cdef int _add_columns(self, Room wide, double* sums) except -1
    cdef int _add_apart(self, Room wide, const int64_t* close, Py_ssize_t n_close, double* sums) except -1
    cdef void scale(self, const int64_t* close, Py_ssize_t n_close, double size, double taken, double* sums) noexcept
    cdef Py_ssize_t _find_close(
        self, cnp.ndarray row, double norm, double centre, const uint8_t* out, double* room, int64_t* close
    ) except -2


cdef void* data_of(array) noexcept
cdef void measure(const void* query, bint is_single, int64_t d, bm_moments* moments) noexcept nogil
cdef Py_ssize_t close_by(
    PlainScores kind, real* products, double norm, double centre, const uint8_t* out, double* room, int64_t* close
) except -2
