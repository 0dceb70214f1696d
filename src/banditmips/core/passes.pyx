"""Passes over atoms in memory: rough sums of all rows' terms with some queries, in one reading.

Atoms whose numbers are floats in every digit (types of one or two bytes, and float32) are added up in single precision,
all others in double; `banditmips.race.passes` says by how much the sums may be wrong.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from banditmips.core.entries cimport Learnt, learnt_in, look_at_row
from banditmips.core.kernels cimport (
    BM_F16, BM_F32, BM_F64, BM_I8, BM_I16, BM_LANE_TERMS, BM_MOMENTS, BM_PRODUCTS, BM_U8, BM_U16, bm_columns,
    bm_kernels, bm_rest,
)
from banditmips.core.places cimport Place
from banditmips.core.rows cimport Rows, Segment, rough_room

LANE_TERMS = BM_LANE_TERMS
"""Terms that are added in the numbers' own precision before their sum goes on in double."""
SQUARE_TERMS = 256 if bm_kernels().name in (b"avx2", b"avx512") else 2048
"""The same of the squares that come with products: with short vectors, a row of 16 KB has so many in each lane."""

cdef enum:
    PIECE = 1024  # entries of a row that are converted at a time
    NEAR = 2048  # and of four rows that stay in the first cache for all queries
    AT_HAND = 1 << 16  # entries of queries that stay in the second cache while all rows go by


ctypedef fused real:
    float
    double


def pass_dtype(Rows rows):
    """The type of numbers that sums over these rows are added up in."""
    single = all(_is_single(rows.segments[s].dtype) for s in range(rows.n_segments))
    return np.dtype(np.float32 if single else np.float64)


def rough_sums(Rows rows, const int64_t[::1] chosen, const real[:, ::1] queries, int objective, moments=None):
    """Sum the objective's terms of some rows with each query, roughly.

    Parameters
    ----------
    chosen : int64 array of shape (n,)
    queries : array of shape (m, d), of the `pass_dtype`
    objective : int
        What a coordinate adds (`banditmips.core.statistics`).
    moments : float64 array of shape (2, n), or None
        Takes the rows' sums and sums of squares; for products only.

    Returns
    -------
    float64 array of shape (m, n); what overflowed is not finite.
    """
    cdef int64_t n = chosen.shape[0], n_queries = queries.shape[0], quarter = (n + 3) // 4
    if queries.shape[1] != rows.d or pass_dtype(rows).itemsize != sizeof(real):
        raise ValueError(f"queries must have {rows.d} entries of type {pass_dtype(rows)}")
    rows.check(chosen)
    cdef bint has_moments = moments is not None
    if has_moments and objective != BM_PRODUCTS:
        raise ValueError("moments come with products only")
    # Those of rows that are a quarter of all apart come one after another.
    by_fours = np.zeros((n_queries + 2, quarter, 4))
    cdef double[:, :, ::1] sums = by_fours
    # One query takes rows as they are, converted in registers; several share what was converted once.
    cdef bint as_they_are = n_queries == 1 and _are_of_one_kind(rows)
    if n and n_queries:
        with nogil:
            _fill(rows, chosen, queries, objective, has_moments, as_they_are, sums)
    in_order = by_fours.transpose(0, 2, 1).reshape(n_queries + 2, 4 * quarter)
    if has_moments:
        moments[:] = in_order[n_queries:, :n]
    return in_order[:n_queries, :n]


def multiplies_columns(Rows rows):
    """Whether `products_of_columns` multiplies these: one matrix by column, of numbers that are converted in registers."""
    return (
        rows.are_columns
        and _is_single(rows.segments[0].dtype)
        and rows.segments[0].row_stride == rows.arrays[0].itemsize
    )


def products_of_columns(Rows rows, const float[:, ::1] queries, float[::1] squares=None):
    """Products of all rows for which `multiplies_columns` is true with each query, in one reading for every eight of them.

    Parameters
    ----------
    squares : float32 array of shape (n,), optional
        Takes the rows' sums of squares, of which LANE_TERMS are added in a row.

    Returns
    -------
    float32 array of shape (m, n)
    """
    cdef Py_ssize_t m = queries.shape[0], first = 0, count
    cdef int n_beside
    if not multiplies_columns(rows):
        raise ValueError("products by column are those of one matrix of numbers of up to four bytes in Fortran order")
    if queries.shape[1] != rows.d or (squares is not None and squares.shape[0] != rows.n):
        raise ValueError(f"queries must have {rows.d} entries, and squares {rows.n}")
    out = np.empty((m, rows.n), dtype=np.float32)
    if rows.d == 0 or rows.n == 0:
        out[:] = 0.0
        if squares is not None:
            squares[:] = 0.0
        return out
    cdef bm_columns whole = rows._columns(0, rows.n)
    cdef double[::1] room = np.empty(rough_room(rows.n, 8))
    cdef float[::1] beside
    cdef float[:, ::1] products
    while first < m:
        count = min(m - first, <Py_ssize_t> 8)
        n_beside = 1 if count == 1 else 2 if count == 2 else 4 if count <= 4 else 8
        padded = np.zeros((rows.d, n_beside), dtype=np.float32)  # zeros where there are fewer
        padded[:, :count] = np.asarray(queries)[first : first + count].T
        beside, found = padded.reshape(-1), out[first : first + count]
        if n_beside != count:
            found = np.empty((n_beside, rows.n), dtype=np.float32)
        products = found
        with nogil:
            bm_kernels().columns_rough(
                &whole, &beside[0], n_beside, &room[0], &products[0, 0],
                &squares[0] if squares is not None and first == 0 else NULL,
            )
        if n_beside != count:
            out[first:] = found[:count]
        first += count
    return out


def fills_products(Rows rows):
    """Whether `fill_products` multiplies these: rows that are contiguous, or the columns of one matrix."""
    return _are_of_one_kind(rows) or multiplies_columns(rows)


cdef int fill_products(Rows rows, const void* query, void* products, void* totals, void* squares) except -1 nogil:
    """Multiply all of them with a query of the `pass_dtype`, into products of that type.

    Their sums go to `totals` (of rows that are contiguous), and their sums of squares to `squares`, unless these are NULL; of
    the latter, SQUARE_TERMS are added in a row at most.
    """
    cdef bm_columns whole
    cdef const Segment* segment
    cdef double* room = NULL
    cdef int64_t first, stop
    cdef int s
    if not rows.are_contiguous:
        whole = rows._columns(0, rows.n)
        room = <double*> malloc(rough_room(rows.n, 1) * sizeof(double))
        if room == NULL:
            raise MemoryError("there is no memory for the products of all atoms")
        bm_kernels().columns_rough(&whole, <const float*> query, 1, room, <float*> products, <float*> squares)
        free(room)
        return 0
    for s in range(rows.n_segments):
        segment = &rows.segments[s]
        first, stop = segment.first, rows.segments[s + 1].first if s + 1 < rows.n_segments else rows.n
        whole = bm_columns(
            segment.base, segment.row_stride, segment.column_stride, stop - first, rows.d, segment.dtype
        )
        if not _is_single(whole.dtype):
            _fill_rows[double](
                &whole, <const double*> query, <double*> products + first,
                NULL if totals == NULL else <double*> totals + first, NULL if squares == NULL else <double*> squares + first,
            )
        else:
            _fill_rows[float](
                &whole, <const float*> query, <float*> products + first,
                NULL if totals == NULL else <float*> totals + first, NULL if squares == NULL else <float*> squares + first,
            )
    return 0


cdef void _fill_rows(
    const bm_columns* whole, const real* query, real* products, real* totals, real* squares
) noexcept nogil:
    """Do that for contiguous rows of one matrix."""
    if totals != NULL or whole.dtype not in (BM_F32, BM_F64):
        _fill_by_fours(whole, query, products, totals, squares)
    elif real is float:
        bm_kernels().products_f32(
            <const float*> whole.base, whole.row_stride, whole.n, query, whole.d, products, squares
        )
    else:
        bm_kernels().products_f64(
            <const double*> whole.base, whole.row_stride, whole.n, query, whole.d, products, squares
        )


cdef void _fill_by_fours(
    const bm_columns* whole, const real* query, real* products, real* totals, real* squares
) noexcept nogil:
    """Do that for contiguous rows, as numbers of any type are added up: four rows at a time that are a quarter of all apart."""
    cdef int objective = BM_PRODUCTS if totals == NULL and squares == NULL else BM_MOMENTS
    cdef const void* four[4]
    cdef double[12] found
    cdef int64_t quarter = (whole.n + 3) // 4, t, r, row
    for t in range(quarter):
        for r in range(4):
            four[r] = <const char*> whole.base + min(t + r * quarter, whole.n - 1) * whole.row_stride
        _sum_first(objective, whole.dtype, four, query, whole.d, found)
        for r in range(4):
            row = t + r * quarter
            if row >= whole.n:
                break
            products[row] = <real> found[r]
            if totals != NULL:
                totals[row] = <real> found[4 + r]
            if squares != NULL:
                squares[row] = <real> found[8 + r]


def gives_squares(Rows rows):
    """Whether `products_and_squares` multiplies these: floats of one matrix in C order."""
    return rows.n_segments == 1 and rows.are_floats


def products_and_squares(Rows rows, const real[::1] query):
    """Products of all rows for which `gives_squares` is true with a query of their type, and their sums of squares.

    Of the latter, SQUARE_TERMS are added in a row.
    """
    cdef int dtype = BM_F32 if real is float else BM_F64
    if not (gives_squares(rows) and rows.segments[0].dtype == dtype):
        raise ValueError("squares come with products of one matrix of floats in C order")
    if query.shape[0] != rows.d:
        raise ValueError(f"a query must have {rows.d} entries")
    found = np.empty((2, rows.n), dtype=np.asarray(query).dtype)
    cdef real[:, ::1] sums = found
    cdef bm_columns whole = rows._columns(0, rows.n)
    if rows.n and rows.d:
        with nogil:
            if real is double:
                bm_kernels().products_f64(
                    <const double*> whole.base, whole.row_stride, rows.n, &query[0], rows.d, &sums[0, 0], &sums[1, 0]
                )
            else:
                bm_kernels().products_f32(
                    <const float*> whole.base, whole.row_stride, rows.n, &query[0], rows.d, &sums[0, 0], &sums[1, 0]
                )
    return found[0], found[1]


def column_moments(const real[:, :] block):
    """Sums and sums of squares of the rows of a matrix that lies by column, as rough as those of `rough_sums`: (2, n)."""
    cdef int64_t n = block.shape[0], d = block.shape[1]
    if n > 1 and block.strides[0] != sizeof(real):
        raise ValueError("numbers of a column must lie one after another")
    found = np.zeros((2, n))
    cdef double[:, ::1] sums = found
    if n and d:
        with nogil:
            if real is float:
                bm_kernels().columns_moments_f32(&block[0, 0], block.strides[1], n, d, &sums[0, 0], &sums[1, 0])
            else:
                bm_kernels().columns_moments_f64(&block[0, 0], block.strides[1], n, d, &sums[0, 0], &sums[1, 0])
    return found


def learns_of_some(Rows rows):
    """Whether `look_at_some` looks at these: rows of one matrix, of floats or of numbers of up to two bytes."""
    return rows.n_segments == 1 and (rows.segments[0].dtype == BM_F64 or pass_dtype(rows) == np.float32)


def look_at_some(Rows rows, const int64_t[::1] chosen):
    """Learn of some rows what `fit` learns of all, to the bit.

    Returns
    -------
    squares, means, scatters : float64 arrays of as many numbers as there are rows
        Sums of squares, means, and sums of squares about these; not finite where an entry is not.
    low, high : float
        The smallest and the largest entry.
    """
    if not learns_of_some(rows):
        raise ValueError("rows are those of one matrix of floats, or of numbers of up to two bytes")
    rows.check(chosen)
    cdef int64_t count = chosen.shape[0], d = rows.d, t
    cdef bint single = rows.segments[0].dtype != BM_F64
    found = np.empty((4, max(count, <int64_t> 1)))
    found[3] = np.nan
    cdef double[:, ::1] numbers = found
    cdef Learnt learnt = learnt_in(numbers[3], numbers[1], numbers[2], None)
    cdef Place place
    cdef const void* row
    cdef void* room = malloc(max(d, <int64_t> 1) * sizeof(double))
    cdef volatile double mean, square
    if room == NULL:
        raise MemoryError("there is no memory for one atom")
    with nogil:
        for t in range(count):
            place = rows._place_of(chosen[t])
            row = place.entry
            if place.dtype != (BM_F32 if single else BM_F64) or place.stride != <int64_t> (sizeof(float) if single else sizeof(double)):
                row = room
                if single:
                    bm_kernels().to_f32(place.dtype, place.entry, place.stride, d, <float*> room)
                else:
                    bm_kernels().to_f64(place.dtype, place.entry, place.stride, d, <double*> room)
            if single:
                look_at_row[float](<const float*> row, d, t, &learnt, <bm_rest*> NULL)
            else:
                look_at_row[double](<const double*> row, d, t, &learnt, <bm_rest*> NULL)
            # As everywhere else to the bit
            mean = learnt.means[t] + learnt.bases[t]
            square = mean * mean
            square = d * square
            numbers[1, t], numbers[0, t] = mean, learnt.scatters[t] + square
    free(room)
    return found[0, :count], found[1, :count], found[2, :count], learnt.low, learnt.high


cdef bint _are_of_one_kind(Rows rows):
    """Whether all rows are contiguous and of one type, which is converted in registers."""
    return rows.are_contiguous and len({rows.segments[s].dtype for s in range(rows.n_segments)}) == 1


cdef inline bint _is_single(int dtype) noexcept nogil:
    """Whether numbers of a type are floats in every digit."""
    return dtype in (BM_F32, BM_F16, BM_I8, BM_U8, BM_I16, BM_U16)


cdef void _fill(
    Rows rows, const int64_t[::1] chosen, const real[:, ::1] queries, int objective, bint has_moments,
    bint as_they_are, double[:, :, ::1] sums
) noexcept nogil:
    """Four rows at a time that are a quarter of all apart, since processors read ahead along each of them."""
    cdef int64_t n_queries = queries.shape[0], n_done, begin = 0, end, first, t, count
    cdef int64_t piece = rows.d if as_they_are else NEAR if _are_floats_of(rows, sizeof(real)) else PIECE
    cdef int64_t block = rows.d if n_queries == 1 else max(<int64_t> NEAR, AT_HAND // n_queries // NEAR * NEAR)
    cdef int dtype, r
    cdef real[4 * PIECE] room
    cdef real* converted = NULL if as_they_are else room
    cdef const void* four[4]
    cdef double[12] found
    while begin < rows.d:
        end = min(begin + block, rows.d)
        for t in range(sums.shape[1]):
            first = begin
            while first < end:
                count = min(piece, end - first)
                dtype, n_done = _find_four(rows, chosen, t, sums.shape[1], first, count, four, converted), 0
                if n_queries == 1 or has_moments:
                    _sum_first(BM_MOMENTS if has_moments else objective, dtype, four, &queries[0, first], count, found)
                    for r in range(4):
                        sums[0, t, r] += found[r]
                        if has_moments:
                            sums[n_queries, t, r] += found[4 + r]
                            sums[n_queries + 1, t, r] += found[8 + r]
                    n_done = 1
                if n_done < n_queries:
                    _sum_others(
                        objective, four, &queries[n_done, first], rows.d, n_queries - n_done, count, &sums[n_done, t, 0],
                        4 * sums.shape[1],
                    )
                first += count
        begin = end


cdef inline bint _are_floats_of(Rows rows, int64_t itemsize) noexcept nogil:
    """Whether the numbers of all rows are those of queries of this size, side by side."""
    cdef int s
    for s in range(rows.n_segments):
        if rows.segments[s].dtype != (BM_F32 if itemsize == sizeof(float) else BM_F64):
            return False
        if rows.segments[s].column_stride != itemsize:
            return False
    return True


cdef inline void _sum_others(
    int objective, const void** four, const real* queries, int64_t d, int64_t n_queries, int64_t count, double* sums,
    int64_t of_query
) noexcept nogil:
    if real is float:
        bm_kernels().rough_tiles_f32(objective, <const float**> four, queries, d, n_queries, count, sums, of_query)
    else:
        bm_kernels().rough_tiles_f64(objective, <const double**> four, queries, d, n_queries, count, sums, of_query)


cdef inline void _sum_first(
    int objective, int dtype, const void** four, const real* query, int64_t count, double* found
) noexcept nogil:
    if real is float:
        bm_kernels().rough_sums_f32(objective, dtype, four, query, count, found)
    else:
        bm_kernels().rough_sums_f64(objective, dtype, four, query, count, found)


cdef int _find_four(
    Rows rows, const int64_t[::1] chosen, int64_t t, int64_t quarter, int64_t first, int64_t count, const void** four,
    real* room
) noexcept nogil:
    """Find the entries of four rows from a column on (behind the last row it again), and say of what type they are.

    With `room`, those of other types than `real`, or not side by side, are converted there.
    """
    cdef int own = BM_F32 if real is float else BM_F64
    cdef Place place
    cdef int r
    for r in range(4):
        place = rows._place_of(chosen[min(t + r * quarter, <int64_t> chosen.shape[0] - 1)])
        four[r] = place.entry + first * place.stride
        if room == NULL or (place.dtype == own and place.stride == sizeof(real)):
            continue
        if real is float:
            bm_kernels().to_f32(place.dtype, four[r], place.stride, count, room + r * PIECE)
        else:
            bm_kernels().to_f64(place.dtype, four[r], place.stride, count, room + r * PIECE)
        four[r] = room + r * PIECE
    return place.dtype if room == NULL else own
