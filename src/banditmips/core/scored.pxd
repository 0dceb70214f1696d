from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp

from banditmips.core.kernels cimport bm_moments
from banditmips.core.near_best cimport Room
from banditmips.core.plain cimport PlainKind
from banditmips.core.rows cimport Rows


cdef class ScoredAtoms:
    cdef readonly Rows rows
    cdef public object factors, offsets, squares, relative, norms, means
    cdef public double longest, wider, of_longest, of_centre, of_part
    cdef public int exponent


cdef class PlainScores(PlainKind):
    cdef public ScoredAtoms known
    cdef public object level, lengths, multiply, learn, measure_some
    cdef public bint single, by_columns, by_row, needs_squares, scales
    cdef public int objective, atom_type
    cdef public double low, high, lost, most_level
    cdef public Py_ssize_t most_close
    cdef readonly bint is_closed
    cdef bint are_of_kind(self, cnp.ndarray atoms)
    cdef bint is_served(self, const bm_moments* moments) noexcept nogil
    cdef void widen(self, const void* query, bint is_single, int exponent, double* wide) noexcept nogil
    cdef int _add_columns(self, Rows rows, Room wide, double* sums) except -1
    cdef int _add_apart(self, Rows rows, Room wide, const int64_t* close, Py_ssize_t n_close, double* sums) except -1
    cdef bint find_norms(self, ScoredAtoms scored, const int64_t* close, Py_ssize_t n_close) except -1
    cdef void scale(
        self, ScoredAtoms scored, const int64_t* close, int64_t first, Py_ssize_t n_close, double size, double taken, double* sums
    ) noexcept
    cdef cnp.ndarray _products(self, cnp.ndarray row, ScoredAtoms scored)
    cdef Py_ssize_t find_close(
        self, ScoredAtoms scored, void* products, double norm, double centre, const uint8_t* out, double* room,
        int64_t* close
    ) except -2


cdef void* data_of(array) noexcept
cdef void measure(const void* query, bint is_single, int64_t d, bm_moments* moments) noexcept nogil
