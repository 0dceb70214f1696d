from libc.stdint cimport int64_t

from banditmips.core.kernels cimport BM_STRETCH, bm_kernels


cdef extern from "c/compiler.h" nogil:
    void PREFETCH_LATER(const void* address)


cdef enum:
    CACHE_LINE = 64  # bytes
    PITCH = BM_STRETCH + 8  # between rows that are held: at a power of two they would push each other out of the cache


cdef struct Place:
    const char* entry
    int64_t stride
    int64_t width  # of a float that can be loaded at once, or 0
    int dtype


cdef void read_stretch(Place* places, int64_t n_rows, int64_t count, double* room) noexcept nogil
cdef void read_next(Place* place, int64_t count, double* room) noexcept nogil
cdef void sum_converted(
    const char** rows, int dtype, int64_t stride, const double* query, int64_t d, double* sums
) noexcept nogil


cdef inline void add_dots(
    const void** rows, Py_ssize_t n, bint single, const double* stretch, int64_t count, double* sums
) noexcept nogil:
    """Add the products of up to four rows of floats or doubles with a stretch; behind the last are others, to make four."""
    cdef double[4] found
    cdef Py_ssize_t r
    if n == 1:
        if single:
            found[0] = bm_kernels().dot_exact_f32(<const float*> rows[0], stretch, count)
        else:
            found[0] = bm_kernels().dot_exact_f64(<const double*> rows[0], stretch, count)
    elif single:
        bm_kernels().four_dots_exact_f32(<const float**> rows, stretch, count, found)
    else:
        bm_kernels().four_dots_exact_f64(<const double**> rows, stretch, count, found)
    for r in range(min(n, <Py_ssize_t> 4)):
        sums[r] += found[r]
