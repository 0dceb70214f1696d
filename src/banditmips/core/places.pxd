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
cdef void add_stretch(
    Place* places, Py_ssize_t n, int objective, const double* stretch, int64_t count, double* sums
) noexcept nogil


cdef inline void* next_line(void* room) noexcept nogil:
    """Where the next cache line begins: vectors in double precision that lie across two take twice as long to load."""
    return <void*> ((<size_t> room + CACHE_LINE - 1) & ~<size_t> (CACHE_LINE - 1))


cdef inline void add_sums(
    int objective, const void** rows, Py_ssize_t n, bint single, const double* stretch, int64_t count, double* sums
) noexcept nogil:
    """Add the terms of up to four rows of floats or doubles with a stretch; behind the last are others, to make four."""
    cdef double[4] found
    cdef Py_ssize_t r
    n = min(n, <Py_ssize_t> 4)
    if single:
        bm_kernels().sums_exact_f32(objective, <const float**> rows, <int> n, stretch, count, found)
    else:
        bm_kernels().sums_exact_f64(objective, <const double**> rows, <int> n, stretch, count, found)
    for r in range(n):
        sums[r] += found[r] if objective == 0 else -found[r]
