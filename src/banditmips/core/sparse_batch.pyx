"""Products of a sparse matrix with several queries at once, and the best rows by products.

Stored numbers are put in the order of rows, a piece of the matrix at a time, and each is multiplied with the numbers of
`WIDTH` queries, which lie side by side in a table.
"""

from libc.math cimport INFINITY, isfinite, sqrt
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

import numpy as np

from banditmips.core.kernels cimport BM_SPARSE_WIDTH, bm_kernels, bm_sparse
from banditmips.core.sparse_products cimport STRETCH, SparseProducts, Stretch
from banditmips.core.survivors cimport kth_largest

from banditmips.core.sparse_products import check_fine

WIDTH = BM_SPARSE_WIDTH
"""Queries that are multiplied together."""
_CHUNK = 1 << 15
"""Entries that are put in the order of rows together; at least eight for each row, for each row is looked at."""
_COLUMNS = 1 << 12
"""Most columns that are: their numbers of `WIDTH` queries lie in a table of half a megabyte."""
cdef double EPSILON = 2.0 ** -52


def row_products_of_many(SparseProducts matrix, queries, columns):
    """Products of all rows with several queries, by row.

    Parameters
    ----------
    matrix : SparseProducts
        By row.
    queries : sequence of float64 or float32 arrays of shape (d,), contiguous
    columns : int64 array, or None
        Columns outside which all queries are 0; None for all columns.

    Returns
    -------
    float64 array of shape (blocks, n, WIDTH)
        Product of row i with query b at ``[b // WIDTH, i, b % WIDTH]``.
    """
    cdef int64_t block
    cdef bint fine = True
    _check(matrix, queries, by_row=True)
    blocks = [queries[first:first + WIDTH] for first in range(0, len(queries), WIDTH)]
    sums = np.zeros((len(blocks), matrix.n, WIDTH))
    if columns is not None:
        # Few columns: what is stored elsewhere is left out once for all queries.
        tables = np.empty((len(blocks), columns.size, WIDTH))
        for some, table in zip(blocks, tables, strict=True):
            _put_side_by_side(some, columns, 0, table)
        positions = np.full(matrix.d, -1, dtype=np.int32)
        positions[columns] = np.arange(columns.size, dtype=np.int32)
        fine = columns.size == 0 or _add_some(matrix, tables, positions, sums)
    else:
        table = np.empty((matrix.d, WIDTH))
        for block in range(sums.shape[0]):
            _put_side_by_side(blocks[block], None, 0, table)
            fine = fine and _add_all(matrix, table, sums[block])
    check_fine(fine)
    return sums


def _check(SparseProducts matrix, queries, bint by_row):
    for query in queries:
        if matrix.by_row != by_row or query.shape != (matrix.d,):
            raise ValueError(f"a query of shape {query.shape} does not suit a matrix of {matrix.n} x {matrix.d}")


ctypedef fused real:
    float
    double


cdef _put_side_by_side(queries, columns, int64_t offset, double[:, ::1] table):
    """Fill a table: the numbers of up to WIDTH queries at each of some columns (None: those from `offset` on)."""
    cdef const void* starts[BM_SPARSE_WIDTH]
    cdef const double[::1] wide
    cdef const float[::1] single
    cdef bint are_single = all(query.dtype == np.float32 for query in queries)
    cdef const int64_t[::1] chosen = np.empty(0, dtype=np.int64) if columns is None else columns
    cdef const int64_t* some = NULL if columns is None else &chosen[0]
    cdef int b, m = len(queries)
    if table.shape[0] == 0:
        return
    given = queries if are_single else [np.asarray(query, dtype=np.float64) for query in queries]
    for b in range(m):
        if are_single:
            single = given[b]
            starts[b] = &single[0]
        else:
            wide = given[b]
            starts[b] = &wide[0]
    with nogil:
        if are_single:
            _fill_table[float](<const float**> starts, m, some, offset, table)
        else:
            _fill_table[double](<const double**> starts, m, some, offset, table)


cdef void _fill_table(
    const real** numbers, int m, const int64_t* columns, int64_t offset, double[:, ::1] table
) noexcept nogil:
    """Do that a few columns of all queries at a time, so that what is written stays at hand."""
    cdef int64_t first = 0, last, j, size = table.shape[0]
    cdef int b
    while first < size:
        last = min(first + 64, size)
        for b in range(BM_SPARSE_WIDTH):
            if b >= m:
                for j in range(first, last):
                    table[j, b] = 0.0
            elif columns == NULL:
                for j in range(first, last):
                    table[j, b] = numbers[b][offset + j]
            else:
                for j in range(first, last):
                    table[j, b] = numbers[b][columns[j]]
        first = last


cdef bint _add_all(SparseProducts matrix, const double[:, ::1] table, double[:, ::1] out):
    """Add the products of all rows with the queries of a table; False if a pointer or place is outside."""
    cdef Stretch here
    cdef int64_t row
    if matrix.is_plain:
        with nogil:
            return matrix.dots(&matrix.parts, matrix.n, &table[0, 0], &out[0, 0]) >= 0
    matrix.make_ready(&here)
    with nogil:
        for row in range(matrix.n):
            matrix.begin(&here, row)
            while matrix.goes_on(&here, True):
                bm_kernels().sparse_dots_f64_i64(&here.piece, 1, &table[0, 0], &out[row, 0])
    return here.is_fine


cdef bint _add_some(
    SparseProducts matrix, const double[:, :, ::1] tables, const int32_t[::1] positions, double[:, :, ::1] out
):
    """The same for several tables of some columns; `positions` says where each column is in them, or -1."""
    cdef Stretch here
    cdef double[::1] kept_values = np.empty(_CHUNK + STRETCH)
    cdef int32_t[::1] kept_places = np.empty(_CHUNK + STRETCH, dtype=np.int32)
    cdef int32_t[::1] starts = np.zeros(matrix.n + 1, dtype=np.int32)
    cdef bm_sparse piece
    cdef int64_t row, first = 0, block, e, kept = 0, limit = _CHUNK
    matrix.make_ready(&here)
    piece.values, piece.places, piece.starts = &kept_values[0], &kept_places[0], &starts[0]
    piece.size = tables.shape[1]
    with nogil:
        for row in range(matrix.n):
            matrix.begin(&here, row)
            while matrix.goes_on(&here, True):
                for e in range(here.count):
                    kept_values[kept], kept_places[kept] = here.values[e], positions[here.places[e]]
                    kept += kept_places[kept] >= 0
                # The rows since `first`, of which the last may go on in the next piece.
                if kept >= limit:
                    starts[row + 1 - first] = piece.n_stored = kept
                    for block in range(out.shape[0]):
                        bm_kernels().sparse_dots_f64_i32(
                            &piece, row + 1 - first, &tables[block, 0, 0], &out[block, first, 0]
                        )
                    first, kept = row, 0
            starts[row + 1 - first] = kept
        piece.n_stored = kept
        for block in range(out.shape[0]):
            bm_kernels().sparse_dots_f64_i32(&piece, matrix.n - first, &tables[block, 0, 0], &out[block, first, 0])
    return here.is_fine


def column_products_of_many(SparseProducts matrix, queries, columns):
    """Products of all rows with several queries, by column; the queries are 0 outside these columns (None: all).

    Each product is the sum that `SparseProducts.column_products` gives, to the last bit.

    Returns
    -------
    float64 array of shape (blocks, n, WIDTH), as of `row_products_of_many`
    """
    cdef int64_t first = 0, last, block, size, n_columns = matrix.d if columns is None else columns.size
    _check(matrix, queries, by_row=False)
    blocks = [queries[start:start + WIDTH] for start in range(0, len(queries), WIDTH)]
    sums = np.zeros((len(blocks), matrix.n, WIDTH))
    cdef int32_t[::1] starts = np.empty(matrix.n + 2, dtype=np.int32)
    table = np.empty((min(n_columns, _COLUMNS), WIDTH))
    chosen = np.arange(matrix.d) if columns is None else columns
    ends = np.cumsum(_lengths(matrix, chosen))
    limit = max(_CHUNK, 8 * matrix.n)
    while first < n_columns:
        before = ends[first - 1] if first else 0
        # As many columns as fit, and at least one.
        last = max(np.searchsorted(ends, before + limit, side="right"), first + 1)
        last = min(last, first + _COLUMNS, n_columns)
        size = ends[last - 1] - before
        piece = _in_order_of_rows(matrix, chosen[first:last], starts, np.empty(size), np.empty(size, dtype=np.int32))
        for block in range(sums.shape[0]):
            _put_side_by_side(
                blocks[block], None if columns is None else columns[first:last], first, table[:last - first]
            )
            _add_piece(piece, starts, table[:last - first], sums[block])
        first = last
    return sums


def _lengths(SparseProducts matrix, const int64_t[::1] columns):
    """Stored entries of each column."""
    made = np.empty(columns.shape[0], dtype=np.int64)
    cdef int64_t[::1] lengths = made
    cdef int64_t t, start = 0, stop = 0
    for t in range(columns.shape[0]):
        check_fine(0 <= columns[t] < matrix.d and matrix.span(columns[t], &start, &stop))
        lengths[t] = stop - start
    return made


cdef _in_order_of_rows(
    SparseProducts matrix, const int64_t[::1] columns, int32_t[::1] starts, double[::1] values, int32_t[::1] places
):
    """The entries of some columns by row: where each row starts, the numbers, and which of the columns they are in."""
    cdef Stretch here
    cdef int64_t t, e
    cdef int32_t place, room = values.shape[0]
    matrix.make_ready(&here)
    with nogil:
        memset(&starts[0], 0, starts.shape[0] * sizeof(int32_t))
        # First how many there are of each row, two places ahead; then each goes to the next free place of its row.
        for t in range(columns.shape[0]):
            matrix.begin(&here, columns[t])
            while matrix.goes_on(&here, False):
                for e in range(here.count):
                    starts[here.places[e] + 2] += 1
        for t in range(2, starts.shape[0]):
            starts[t] += starts[t - 1]
        for t in range(columns.shape[0]):
            matrix.begin(&here, columns[t])
            while matrix.goes_on(&here, True):
                for e in range(here.count):
                    place = starts[here.places[e] + 1]
                    # (Whoever changes the matrix meanwhile must not make us write elsewhere.)
                    if place >= room:
                        here.is_fine = False
                        break
                    values[place], places[place] = here.values[e], <int32_t> t
                    starts[here.places[e] + 1] = place + 1
                if not here.is_fine:
                    break
    check_fine(here.is_fine)
    return values, places


cdef _add_piece(piece, const int32_t[::1] starts, const double[:, ::1] table, double[:, ::1] out):
    cdef const double[::1] values = piece[0]
    cdef const int32_t[::1] places = piece[1]
    if values.shape[0] == 0:
        return
    cdef bm_sparse parts
    parts.values, parts.places, parts.starts = &values[0], &places[0], &starts[0]
    parts.n_stored, parts.size = values.shape[0], table.shape[0]
    with nogil:
        bm_kernels().sparse_dots_f64_i32(&parts, out.shape[0], &table[0, 0], &out[0, 0])


def roundings(SparseProducts matrix):
    """By how much two sums of the same products of a row may differ, for a query of length 1, by row."""
    made = np.empty(matrix.n)
    cdef double[::1] out = made
    cdef Stretch here
    cdef int64_t row, e, length
    cdef double squares
    matrix.make_ready(&here)
    with nogil:
        for row in range(matrix.n):
            matrix.begin(&here, row)
            length = here.stop - here.start
            squares = length * 1e-300  # makes good what underflows in a square
            while matrix.goes_on(&here, True):
                for e in range(here.count):
                    squares += here.values[e] * here.values[e]
            out[row] = 2.0 * (length + 4) * EPSILON * sqrt(squares)
    check_fine(here.is_fine)
    return made


def best_rows(const double[::1] scores, Py_ssize_t k, bint absolute):
    """Positions of the k largest scores (or all, if there are fewer), best first; of equals the smaller position.

    Returns
    -------
    int64 array, or None where a score is not finite.
    """
    cdef Py_ssize_t n = scores.shape[0], t, count = 0, ties = 0, top = 0
    cdef double bar = -INFINITY
    cdef bint finite = True
    k = min(k, n)
    chosen = np.empty(k, dtype=np.int64)
    cdef int64_t[::1] places = chosen
    if k == 0:
        return chosen
    ranks = np.abs(scores) if absolute else np.asarray(scores)
    cdef const double[::1] ranked = ranks
    cdef double[::1] heap
    with nogil:
        for t in range(n):
            # (A compiler that may reassociate takes a sum of zero times each for zero.)
            finite &= isfinite(ranked[t]) != 0
            if ranked[t] > bar:
                bar, top = ranked[t], t
    if not finite:
        return None
    if k == 1:
        places[0] = top
        return chosen
    heap = np.empty(k)
    with nogil:
        bar = kth_largest(&ranked[0], n, k, &heap[0])
        # All that are better, and of those that are as good the first: there may be many.
        for t in range(n):
            count += ranked[t] > bar
        ties, count = k - count, 0
        for t in range(n):
            if ranked[t] > bar or (ranked[t] == bar and ties > 0):
                ties -= ranked[t] == bar
                places[count] = t
                count += 1
    return chosen[np.lexsort((chosen, -ranks[chosen]))]
