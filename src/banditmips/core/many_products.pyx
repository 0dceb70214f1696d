"""Products of all atoms with many queries: each number is loaded once for several others (`core/c/text_panels.h`).

Of atoms that lie row by row, the queries are laid out beside each other, a block of coordinates at a time, and the atoms are
read as they lie, where BLAS would lay them out anew. Of atoms that lie column by column, some are copied as they lie, and the
queries are read as they are. So many products are added up in a row that rounding stays within `near_best.rounding_units`.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

import numpy as np

from banditmips.core.kernels cimport BM_F32, BM_F64, bm_columns, bm_kernels, bm_panel
from banditmips.core.near_best cimport Room, real
from banditmips.core.places cimport CACHE_LINE, PREFETCH_LATER
from banditmips.core.rows cimport Rows, Segment

from banditmips.core.passes import pass_dtype

MOST_SHARING = MOST_ROWS_OF_SUMS
"""Queries that share what is copied of atoms in Fortran order."""
LANES = bm_kernels().panel_lanes_f32
"""Floats of a vector of this processor: products with fewer queries take as long as with so many."""

cdef enum:
    BLOCK = 512  # coordinates of a block: what is laid out of the queries stays in the second cache
    SPAN = 16 * BLOCK  # coordinates whose products are added up in their own precision; beyond that in double
    MOST_QUERIES = 64  # that are laid out at a time
    MOST_ROWS_OF_SUMS = 256  # queries for which columns are copied once
    MOST_ATOMS = 1024  # whose sums are held at a time
    MOST_ROWS = 16  # of which no kernel multiplies more together
    BESIDE = 1024  # bytes of a column that are copied at a time
    SHORT_BLOCK = 256  # coordinates of a block of these: what the kernel reads of them at a time stays in the first cache
    AHEAD = 32  # columns before those that are copied, to which the memory is on its way


cdef struct Work:
    # Some atoms (from `begin` on) and queries; width: queries, and zeros behind them, whose sums are held; and room
    int64_t begin
    int64_t n
    const void* queries
    int64_t m
    int64_t width
    void* panels
    void* converted


def products_with_many(Rows rows, const real[:, ::1] queries):
    """Products of all rows, which have to be contiguous or the columns of one matrix, with each query of their `pass_dtype`.

    Returns
    -------
    array of shape (m, n), of that type; what overflowed is not finite.
    """
    if not (rows.are_contiguous or rows.are_columns):
        raise ValueError("rows have to be contiguous, or those of one matrix in Fortran order")
    if queries.shape[1] != rows.d or pass_dtype(rows).itemsize != sizeof(real):
        raise ValueError(f"queries must have {rows.d} entries of type {pass_dtype(rows)}")
    found = np.empty((queries.shape[0], rows.n), dtype=pass_dtype(rows))
    cdef real[:, ::1] products = found
    if found.size and rows.d:
        fill_many_products(rows, &queries[0, 0], queries.shape[0], &products[0, 0])
    else:
        found[:] = 0.0
    return found


cdef int fill_many_products(Rows rows, const real* queries, int64_t m, real* products) except -1:
    """Do that into products[query * n + row]."""
    if rows.are_contiguous:
        return _fill_by_row(rows, queries, m, products)
    return _fill_by_column(rows, queries, m, products)


cdef int _fill_by_row(Rows rows, const real* queries, int64_t m, real* products) except -1:
    cdef int64_t lanes = _lanes_of(queries), most = min(m, <int64_t> MOST_QUERIES), first = 0
    cdef int64_t width = (most + lanes - 1) // lanes * lanes, size = min(rows.n, <int64_t> MOST_ATOMS) * width
    cdef Room sums = Room(size * sizeof(real)), totals = Room(size * sizeof(double) if rows.d > SPAN else 0)
    cdef Room panels = Room(BLOCK * width * sizeof(real)), converted = Room(MOST_ROWS * BLOCK * sizeof(real))
    cdef Work work
    work.panels, work.converted = panels.start, converted.start
    with nogil:
        while first < m:
            work.m, work.queries, work.begin = min(m - first, most), queries + first * rows.d, 0
            work.width = (work.m + lanes - 1) // lanes * lanes
            while work.begin < rows.n:
                work.n = min(rows.n - work.begin, <int64_t> MOST_ATOMS)
                _add_up(rows, &work, <real*> sums.start, <double*> totals.start)
                # From a row for each atom to one for each query
                _turn(<real*> sums.start, work.width, work.m, work.n, products + first * rows.n + work.begin, rows.n)
                work.begin += work.n
            first += work.m
    return 0


cdef void _add_up(Rows rows, const Work* work, real* sums, double* totals) noexcept nogil:
    """Put products of some atoms with some queries into sums[atom * width + query]."""
    cdef int64_t start = 0, stop, t
    while start < rows.d:
        stop = min(start + SPAN, rows.d)
        _multiply(rows, work, start, stop, sums)
        if rows.d > SPAN:
            for t in range(work.n * work.width):
                totals[t] = sums[t] if start == 0 else totals[t] + sums[t]
        start = stop
    if rows.d > SPAN:
        for t in range(work.n * work.width):
            sums[t] = <real> totals[t]


cdef void _multiply(Rows rows, const Work* work, int64_t start, int64_t stop, real* sums) noexcept nogil:
    """Do that for the coordinates from start to stop."""
    cdef const real* queries = <const real*> work.queries
    cdef real* panels = <real*> work.panels
    cdef real* converted = <real*> work.converted
    cdef int64_t lanes = _lanes_of(queries), abreast = bm_kernels().panel_rows, first = start, t, count, q
    cdef const Segment* segment
    cdef const char* row
    cdef bm_panel of
    cdef int own = BM_F32 if real is float else BM_F64
    of.sums_stride = work.width
    while first < stop:
        of.size, of.adds, t = min(<int64_t> BLOCK, stop - first), first > start, 0
        _lay_out(queries + first, rows.d, work.m, of.size, panels)
        while t < work.n:
            segment, count = rows.segment_of(work.begin + t), min(abreast, work.n - t)
            if segment + 1 < rows.segments + rows.n_segments:
                count = min(count, segment[1].first - work.begin - t)
            row = segment.base + (work.begin + t - segment.first) * segment.row_stride + first * segment.column_stride
            of.next_rows = NULL
            if segment.dtype == own and segment.row_stride % <int64_t> sizeof(real) == 0:
                of.rows, of.row_stride = row, segment.row_stride // <int64_t> sizeof(real)
                if t + 2 * abreast <= work.n:
                    of.next_rows = row + abreast * segment.row_stride
            else:
                of.rows, of.row_stride = converted, BLOCK
                for q in range(count):
                    _convert(
                        segment.dtype, row + q * segment.row_stride, segment.column_stride, of.size, converted + q * BLOCK
                    )
            q = 0
            while q < work.width:
                of.panel, of.stride = panels + q * BLOCK, min(2 * lanes, work.width - q)
                if real is float:
                    bm_kernels().panel_products_f32(&of, count, of.stride // lanes, sums + t * work.width + q)
                else:
                    bm_kernels().panel_products_f64(&of, count, of.stride // lanes, sums + t * work.width + q)
                of.next_rows = NULL
                q += of.stride
            t += count
        first += of.size


cdef void _lay_out(const real* queries, int64_t d, int64_t m, int64_t size, real* panels) noexcept nogil:
    """Put some coordinates of queries beside each other, in panels of two vectors and perhaps one more; zeros behind."""
    cdef int64_t lanes = _lanes_of(queries), q = 0, count, stride
    while q < m:
        stride = 2 * lanes if m - q > lanes else lanes
        count = min(stride, m - q)
        if count < stride:
            memset(panels + q * BLOCK, 0, size * stride * sizeof(real))
        _turn(queries + q * d, d, size, count, panels + q * BLOCK, stride)
        q += stride


cdef int _fill_by_column(Rows rows, const real* queries, int64_t m, real* products) except -1:
    cdef int64_t most = BESIDE // <int64_t> sizeof(real), pitch = most + CACHE_LINE // <int64_t> sizeof(real), begin = 0, n, q, t
    cdef int64_t size = min(m, <int64_t> MOST_ROWS_OF_SUMS) * most, first, count
    cdef Room panel = Room(SHORT_BLOCK * pitch * sizeof(real)), some = Room(size * sizeof(real))
    cdef Room more = Room(size * sizeof(double) if rows.d > SPAN else 0)
    cdef real* sums = <real*> some.start
    cdef double* totals = <double*> more.start
    with nogil:
        while begin < rows.n:
            n, first = min(most, rows.n - begin), 0
            while first < m:
                count = min(m - first, <int64_t> MOST_ROWS_OF_SUMS)
                _add_up_columns(rows, begin, n, queries + first * rows.d, count, <real*> panel.start, sums, totals)
                for q in range(count):
                    for t in range(n):
                        products[(first + q) * rows.n + begin + t] = sums[q * most + t]
                first += count
            begin += n
    return 0


cdef void _add_up_columns(
    Rows rows, int64_t begin, int64_t n, const real* queries, int64_t m, real* panel, real* sums, double* totals
) noexcept nogil:
    """Put products of the n atoms from `begin` on with m queries into sums[query * most + atom]."""
    cdef int64_t lanes = _lanes_of(queries), most = BESIDE // <int64_t> sizeof(real), start = 0, stop, first, t, at
    cdef bm_panel of
    of.row_stride, of.stride, of.sums_stride, of.next_rows = rows.d, most + CACHE_LINE // <int64_t> sizeof(real), most, NULL
    while start < rows.d:
        stop, first = min(start + SPAN, rows.d), start
        while first < stop:
            of.size, of.adds, of.rows = min(<int64_t> SHORT_BLOCK, stop - first), first > start, queries + first
            _copy_columns(rows, begin, n, first, of.size, of.stride, panel)
            at = 0
            while at < n:
                of.panel = panel + at
                if real is float:
                    bm_kernels().panel_products_f32(&of, m, 2 if n - at > lanes else 1, sums + at)
                else:
                    bm_kernels().panel_products_f64(&of, m, 2 if n - at > lanes else 1, sums + at)
                at += 2 * lanes
            first += of.size
        if rows.d > SPAN:
            for t in range(m * most):
                totals[t] = sums[t] if start == 0 else totals[t] + sums[t]
        start = stop
    if rows.d > SPAN:
        for t in range(m * most):
            sums[t] = <real> totals[t]


cdef void _copy_columns(
    Rows rows, int64_t begin, int64_t n, int64_t first, int64_t count, int64_t pitch, real* panel
) noexcept nogil:
    """Put numbers of n atoms, coordinate by coordinate, there; zeros behind them up to whole vectors."""
    cdef bm_columns columns = rows._columns(begin, begin + n)
    cdef const char* column = <const char*> columns.base + first * columns.column_stride
    cdef int64_t j, line, n_bytes = n * columns.row_stride, n_padded = pitch - CACHE_LINE // <int64_t> sizeof(real)
    for j in range(count):
        # Columns are too far apart for the processor to see the next one coming.
        line = 0
        while line < n_bytes:
            PREFETCH_LATER(column + AHEAD * columns.column_stride + line)
            line += CACHE_LINE
        _convert(columns.dtype, column, columns.row_stride, n, panel + j * pitch)
        if n < n_padded:
            memset(panel + j * pitch + n, 0, (n_padded - n) * sizeof(real))
        column += columns.column_stride


cdef inline int64_t _lanes_of(const real* _) noexcept nogil:
    """Numbers of a vector of this processor."""
    if real is float:
        return bm_kernels().panel_lanes_f32
    else:
        return bm_kernels().panel_lanes_f64


cdef inline void _turn(
    const real* columns, int64_t stride, int64_t n_rows, int64_t n_columns, real* rows, int64_t row_stride
) noexcept nogil:
    if real is float:
        bm_kernels().turn_f32(columns, stride * sizeof(float), n_rows, n_columns, rows, row_stride)
    else:
        bm_kernels().turn_f64(columns, stride * sizeof(double), n_rows, n_columns, rows, row_stride)


cdef inline void _convert(int dtype, const char* src, int64_t stride, int64_t count, real* out) noexcept nogil:
    if real is float:
        bm_kernels().to_f32(dtype, src, stride, count, out)
    else:
        bm_kernels().to_f64(dtype, src, stride, count, out)
