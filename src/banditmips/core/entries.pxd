from libc.stdint cimport int64_t

from banditmips.core.kernels cimport bm_rest

ctypedef fused real:
    float
    double


cdef struct Learnt:
    # Where what is learnt of some rows goes, row by row (`look_at`); and the range of all.
    double* bases
    double* means
    double* scatters
    double* column_squares
    double low
    double high


cdef Learnt learnt_in(double[::1] bases, double[::1] means, double[::1] scatters, double[::1] column_squares) noexcept
cdef void look_at_row(const real* row, int64_t size, int64_t i, Learnt* learnt, bm_rest* rest) noexcept nogil
