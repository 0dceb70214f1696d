"""Entries of rows from some place on, whatever their type and however far apart they lie."""

from libc.stdint cimport int64_t

from banditmips.core.kernels cimport BM_F16, BM_F32, BM_F64, BM_I8, BM_I16, BM_STRETCH, BM_U8, BM_U16, bm_kernels

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


cdef void add_stretch(
    Place* places, Py_ssize_t n, int objective, const double* stretch, int64_t count, double* sums
) noexcept nogil:
    """Add the terms of the next entries of up to four rows with those of a query, and go on behind them.

    Those are a stretch at most, or of rows of contiguous floats of one type as many as there are.
    """
    cdef float[4 * BM_STRETCH] room
    cdef const void* four[4]
    cdef bint single = True, double_ = True, narrow = True
    cdef Py_ssize_t r
    for r in range(n):
        single &= places[r].dtype == BM_F32 and places[r].stride == sizeof(float)
        double_ &= places[r].dtype == BM_F64 and places[r].stride == sizeof(double)
        narrow &= -CACHE_LINE < places[r].stride < CACHE_LINE
        narrow &= places[r].dtype in (BM_F32, BM_F16, BM_I8, BM_U8, BM_I16, BM_U16)
    if narrow and not single:  # every such number is a float
        for r in range(n):
            bm_kernels().to_f32(places[r].dtype, places[r].entry, places[r].stride, count, room + r * BM_STRETCH)
    if single or double_ or narrow:
        for r in range(4):
            four[r] = (
                room + min(r, n - 1) * BM_STRETCH if narrow and not single else <const void*> places[min(r, n - 1)].entry
            )
        add_sums(objective, four, n, single or narrow, stretch, count, sums)
        for r in range(n):
            places[r].entry += count * places[r].stride
        return
    for r in range(4):
        four[r] = room
    for r in range(n):
        read_next(&places[r], count, <double*> room)
        add_sums(objective, four, 1, False, stretch, count, sums + r)


cdef inline void _widen(const real* entry, int64_t stride, double* out) noexcept nogil:
    cdef int j
    for j in range(ABREAST):
        out[j] = entry[j * stride]
