from libc.stdint cimport int64_t, uint64_t

from banditmips.core.entries cimport real
from banditmips.core.kernels cimport bm_rest
from banditmips.core.rotation cimport Rotation


cdef enum:
    MAX_RUNGS = 40
    ALIGNED = 64  # bytes from which vectors are read the fastest


cdef class EncodingRoom:
    cdef void* _memory
    cdef float* x
    cdef uint64_t* planes
    cdef double[MAX_RUNGS] sums


cdef class Codes:
    cdef readonly Rotation rotation
    cdef readonly int64_t n, n_cells, n_first
    cdef readonly int n_bits
    cdef readonly object centre, along, ends, scales, errors, first, rest, finer
    cdef int64_t n_words, n_first_words, n_rungs
    cdef double centre_square
    cdef bint single_centre
    cdef const double[::1] _centre64
    cdef const float[::1] _centre32
    cdef double centre_at(self, int64_t j) noexcept nogil
    cdef double centre_product(self, const double* query) noexcept nogil
    cdef double rest_product(self, const float* x) noexcept nogil
    cdef double scaled_rest(self, const double* v, double part, int* exponent, float* out) noexcept nogil
    cdef double _scaled_rest(self, const double* v, double part, const double* scale, float* out) noexcept nogil
    cdef const double[::1] _along
    cdef const int64_t[::1] _ends
    cdef const float[:, ::1] _scales, _errors
    cdef const uint64_t[:, ::1] _first, _rest, _finer
    cdef bint _is_of_this_precision(self, const real* v) noexcept nogil
    cdef bm_rest _rest_in(self, float* x) noexcept nogil
    cdef int _take_centre_off(self, const real* v, float* x, bm_rest* rest) noexcept nogil
    cdef void _encode_row(self, const real* v, int64_t row, EncodingRoom room, bm_rest* rest) noexcept nogil
    cdef void _store(self, int64_t row, double unit, double square, uint64_t* planes, double* sums) noexcept nogil
    cdef void _unknown(self, int64_t row) noexcept nogil
    cdef void _put(self, int64_t rung, int64_t row, double scale, double error) noexcept nogil
