"""Entries of rows from some place on, whatever their type and however far apart they lie."""

from libc.stdint cimport int64_t

from banditmips.core.kernels cimport BM_STRETCH, bm_kernels

cdef enum:
    ABREAST = 8  # columns that are read together: a cache line of what they become
    AHEAD = 48  # columns before those that are read, to which the memory is on its way


ctypedef fused real:
    float
    double


cdef void read_stretch(Place* places, int64_t n_rows, int64_t count, double* room) noexcept nogil:
    """Put the next entries of each row into `room`: a few columns of all rows at a time, as they lie in memory."""
    cdef int64_t j = 0, size, t, c
    cdef size_t line, last_line
    cdef Place* place
    cdef double* out
    while j < count:
        size, out, last_line = min(<int64_t> ABREAST, count - j), room + j, 0
        for t in range(n_rows):
            place = &places[t]
            line = <size_t> place.entry // CACHE_LINE
            if line != last_line:
                # Columns are too far apart for the processor to see the next ones coming. (Into the second cache: the
                # first can wait for a dozen lines at a time only, which takes half as long again.)
                for c in range(AHEAD, AHEAD + ABREAST):
                    PREFETCH_LATER(place.entry + c * place.stride)
                last_line = line
            if size == ABREAST and place.width == sizeof(float):
                _widen(<const float*> place.entry, place.stride // <int64_t> sizeof(float), out)
            elif size == ABREAST and place.width == sizeof(double):
                _widen(<const double*> place.entry, place.stride // <int64_t> sizeof(double), out)
            else:
                bm_kernels().to_f64(place.dtype, place.entry, place.stride, size, out)
            place.entry += size * place.stride
            out += PITCH
        j += size


cdef void read_next(Place* place, int64_t count, double* room) noexcept nogil:
    """Put the next entries of one row into `room`."""
    if place.stride >= CACHE_LINE or place.stride <= -CACHE_LINE:
        read_stretch(place, 1, count, room)
    else:
        bm_kernels().to_f64(place.dtype, place.entry, place.stride, count, room)
        place.entry += count * place.stride


cdef void sum_converted(
    const char** rows, int dtype, int64_t stride, const double* query, int64_t d, double* sums
) noexcept nogil:
    """Sum the products of four rows of a type whose numbers are floats; stretch by stretch they are converted for all."""
    cdef float[4 * BM_STRETCH] room
    cdef const void* four[4]
    cdef int64_t first = 0, count
    cdef int r
    for r in range(4):
        sums[r], four[r] = 0.0, room + r * BM_STRETCH
    while first < d:
        count = min(<int64_t> BM_STRETCH, d - first)
        for r in range(4):
            bm_kernels().to_f32(dtype, rows[r] + first * stride, stride, count, room + r * BM_STRETCH)
        add_dots(four, 4, True, query + first, count, sums)
        first += count


cdef inline void _widen(const real* entry, int64_t stride, double* out) noexcept nogil:
    cdef int j
    for j in range(ABREAST):
        out[j] = entry[j * stride]
