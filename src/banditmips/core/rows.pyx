"""Atoms in memory, of any real dtype and any strides, read as they are: exact sums, and entries one by one."""

from libc.math cimport sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy as np

cimport numpy as cnp

from banditmips.core.kernels cimport (
    BM_F16, BM_F32, BM_F64, BM_I8, BM_I16, BM_I32, BM_I64, BM_U8, BM_U16, BM_U32, BM_U64, BM_COLUMN_QUERIES,
    BM_COLUMN_ROOM, BM_COLUMN_ROWS, BM_PRODUCTS, BM_ROUGH_PADDING, BM_ROUGH_ROWS, BM_SQUARES, BM_STRETCH, bm_columns,
    bm_kernels,
)
from banditmips.core.pairs cimport Asked, Wanted, add_pairs, copy_rows
from banditmips.core.places cimport CACHE_LINE, Place, add_stretch, add_sums, read_next

cnp.import_array()

_DTYPES = {
    "f2": BM_F16, "f4": BM_F32, "f8": BM_F64, "b1": BM_U8,
    "i1": BM_I8, "i2": BM_I16, "i4": BM_I32, "i8": BM_I64, "u1": BM_U8, "u2": BM_U16, "u4": BM_U32, "u8": BM_U64,
}

STRETCH = BM_STRETCH
"""Coordinates of a stretch: exact sums add up those of one after another."""


def is_readable(dtype):
    """Whether entries of this type can be read as they are."""
    return dtype.isnative and dtype.str[1:] in _DTYPES


ctypedef fused real:
    float
    double


cdef int64_t rough_room(int64_t n, int n_queries) noexcept nogil:
    """How many numbers rough products of n rows by column with so many queries take room for."""
    return 3 * n_queries * (min(n, <int64_t> BM_ROUGH_ROWS // n_queries) + BM_ROUGH_PADDING)


cdef class Rows:
    """The rows of one or several matrices of the same width, one after another.

    Parameters
    ----------
    arrays : sequence of 2-d arrays
        Of types for which `is_readable` is true. They are referred to, never copied.
    """

    def __cinit__(self, arrays):
        self.n_segments = len(arrays)
        self.segments = <Segment*> calloc(max(self.n_segments, 1), sizeof(Segment))
        if self.segments == NULL:
            raise MemoryError("there is no memory for the list of matrices")

    def __init__(self, arrays):
        self.arrays = tuple(arrays)
        for array in self.arrays:
            if array.ndim != 2:
                raise ValueError(f"atoms must be 2-d, got {array.ndim} dimensions")
        self.n, self.d = 0, arrays[0].shape[1]
        self.row_bytes = self.d * arrays[0].itemsize
        cdef int s
        for s, array in enumerate(self.arrays):
            self.segments[s].base = <const char*> cnp.PyArray_DATA(array)
            self.segments[s].first = self.n
            self.segments[s].row_stride, self.segments[s].column_stride = array.strides
            if self.d == 1:  # between columns there is nothing: NumPy calls a row contiguous whatever it says of that
                self.segments[s].column_stride = array.itemsize
            self.segments[s].dtype = _DTYPES[array.dtype.str[1:]]
            self.n += array.shape[0]
        self.are_contiguous = self.d == 1 or all(array.strides[1] == array.itemsize for array in self.arrays)

        self.are_floats = self._all_lie_as(BM_F32) or self._all_lie_as(BM_F64)
        down, across = map(abs, arrays[0].strides)
        self.are_columns = self.n_segments == 1 and not self.are_contiguous and down < across

    def __dealloc__(self):
        free(self.segments)

    cdef const Segment* segment_of(self, int64_t row) noexcept nogil:
        cdef int s = self.n_segments - 1
        while s > 0 and self.segments[s].first > row:
            s -= 1
        return &self.segments[s]

    cdef double norm(self, int64_t row) noexcept nogil:
        """The length of a row, as far as rounding in its own type leaves it."""
        cdef Place place = self._place_of(row)
        cdef double[BM_STRETCH] room
        cdef int64_t first = 0, count
        cdef double squares = 0.0
        if place.dtype == BM_F32 and place.stride == sizeof(float):
            return sqrt(bm_kernels().dot_f32(<const float*> place.entry, <const float*> place.entry, self.d))
        while first < self.d:
            count = min(<int64_t> BM_STRETCH, self.d - first)
            read_next(&place, count, room)
            squares += bm_kernels().dot_f64(room, room, count)
            first += count
        return sqrt(squares)

    cdef double sum_columns(
        self, int64_t row, const int64_t[::1] columns, const double* query, int objective, double* room
    ) noexcept nogil:
        """Sum the terms of a row over some columns; `query` holds its entries there."""
        cdef const Segment* segment = self.segment_of(row)
        cdef const char* start = segment.base + (row - segment.first) * segment.row_stride
        cdef const void** four = [room, room, room, room]
        cdef int64_t first = 0, count
        cdef double total = 0.0
        while first < columns.shape[0]:
            count = min(<int64_t> BM_STRETCH, columns.shape[0] - first)
            bm_kernels().gather(segment.dtype, start, segment.column_stride, &columns[first], count, room)
            add_sums(objective, four, 1, False, query + first, count, &total)
            first += count
        return total

    def scores(self, const int64_t[::1] rows, columns, const double[::1] query, int objective):
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        out = np.empty(rows.shape[0])
        cdef double[::1] sums = out
        cdef double[BM_STRETCH] room
        cdef const int64_t[::1] chosen = columns if columns is not None else np.empty(0, dtype=np.int64)
        cdef bint whole = columns is None
        cdef int64_t t
        if rows.shape[0] == 0 or query.shape[0] == 0:
            out[:] = 0.0
            return out
        self.check(rows)
        apart = not self.are_contiguous and any(abs(array.strides[1]) >= CACHE_LINE for array in self.arrays)
        if whole and rows.shape[0] > 1 and apart:
            low, high = np.min(rows), np.max(rows)
            # Where there is one for every cache line, they are all read anyway.
            if objective == 0 and self.are_columns and (high - low) * self.arrays[0].itemsize < CACHE_LINE * rows.shape[0]:
                return self.column_products(query, low, high + 1)[np.asarray(rows) - low]
            # Neighbouring rows share cache lines.
            order, begins = np.argsort(rows, kind="stable"), np.array([0, rows.shape[0]])
            out[order] = self.pair_sums(np.asarray(rows)[order], begins, np.asarray(query)[np.newaxis], objective)
            return out
        with nogil:
            if whole:
                self.fill_sums(&rows[0], rows.shape[0], &query[0], objective, &sums[0])
            else:
                for t in range(rows.shape[0]):
                    sums[t] = self.sum_columns(rows[t], chosen, &query[0], objective, room)
        return out

    cdef void fill_sums(
        self, const int64_t* rows, int64_t count, const double* query, int objective, double* sums
    ) noexcept nogil:
        """Sum the terms of each row over all columns.

        Four rows at a time, from their beginning to their end: the memory takes nearly twice as long to give a stretch of
        many rows and then the next of all of them.
        """
        cdef Place[4] places
        cdef int64_t t, r, first, size, n, most = self.d if self.are_floats else <int64_t> BM_STRETCH
        for t in range(0, count, 4):
            n, first = min(<int64_t> 4, count - t), 0
            for r in range(n):
                places[r], sums[t + r] = self._place_of(rows[t + r]), 0.0
            while first < self.d:
                size = min(most, self.d - first)
                add_stretch(places, n, objective, query + first, size, &sums[t])
                first += size

    def rough_products(self, const real[::1] query, int64_t start, int64_t stop):
        """Products with a query of their type of the rows from `start` to `stop` of one matrix: in C order, or by column."""
        cdef bint lie_by_row = self.are_contiguous
        cdef bint lie_by_column = real is float and self.are_columns and self.segments[0].row_stride == sizeof(float)
        cdef int dtype = BM_F32 if real is float else BM_F64
        if not (self.n_segments == 1 and self.segments[0].dtype == dtype and (lie_by_row or lie_by_column)):
            name = "float32 in C or Fortran order" if real is float else "float64 in C order"
            raise ValueError(f"rough products are those of one matrix of {name}")
        if not (0 <= start <= stop <= self.n and query.shape[0] == self.d):
            raise IndexError(f"rows {start} to {stop} of {self.n}, and {query.shape[0]} entries for {self.d} columns")
        out = np.empty(stop - start, dtype=np.asarray(query).dtype)
        cdef real[::1] products = out
        cdef bm_columns part = self._columns(start, stop)
        cdef double[::1] room = np.empty(0 if lie_by_row else rough_room(stop - start, 1))
        if stop > start:
            with nogil:
                if real is double:
                    bm_kernels().products_f64(
                        <const double*> part.base, part.row_stride, part.n, &query[0], self.d, &products[0], NULL
                    )
                elif lie_by_row:
                    bm_kernels().products_f32(
                        <const float*> part.base, part.row_stride, part.n, &query[0], self.d, &products[0], NULL
                    )
                else:
                    bm_kernels().columns_rough(&part, &query[0], 1, &room[0], &products[0], NULL)
        return out

    cdef bm_columns _columns(self, int64_t start, int64_t stop) noexcept nogil:
        """The rows from `start` to `stop` of the first matrix."""
        cdef const Segment* whole = self.segments
        return bm_columns(
            whole.base + start * whole.row_stride, whole.row_stride, whole.column_stride, stop - start, self.d, whole.dtype
        )

    def column_products(self, const double[::1] query, int64_t start, int64_t stop):
        """Sum the products of the rows of one matrix by column from row `start` to `stop`, as `scores` does to the bit."""
        return self.sums_of_columns(np.asarray(query)[np.newaxis], start, stop, 0)[0]

    def sums_of_columns(self, const double[:, ::1] queries, int64_t start, int64_t stop, int objective):
        """Do that for several queries, some of which share what is read: one row of sums for each.

        They are of products or, for the objective of squared differences, of those.
        """
        if not self.are_columns or objective not in (BM_PRODUCTS, BM_SQUARES):
            raise ValueError("sums column by column are those of products or squares of one matrix by column")
        if not (0 <= start <= stop <= self.n and queries.shape[1] == self.d):
            raise IndexError(f"rows {start} to {stop} of {self.n}, and {queries.shape[1]} entries for {self.d} columns")
        cdef bm_columns part = self._columns(start, stop)
        cdef Py_ssize_t m = queries.shape[0], first = 0, count
        out = np.zeros((m, stop - start))
        cdef double[:, ::1] sums = out
        size = BM_COLUMN_ROOM * min((stop - start) * BM_COLUMN_QUERIES, BM_COLUMN_ROWS)
        cdef double[::1] room = np.empty(max(size, 2 * BM_STRETCH))
        cdef const double[:, ::1] beside
        cdef double[:, ::1] found
        while first < m and stop > start and self.d:
            count = min(m - first, <Py_ssize_t> BM_COLUMN_QUERIES)
            some, found = np.asarray(queries)[first : first + count], sums[first : first + count]
            if count == 3 or count == 7:  # one more takes less than one, or three, on their own
                some, found = np.concatenate([some, some[:1]]), np.empty((count + 1, stop - start))
            beside = np.ascontiguousarray(some.T)
            with nogil:
                bm_kernels().columns_exact(&part, objective, &beside[0, 0], <int> beside.shape[1], &room[0], &found[0, 0])
            if count != len(some):
                out[first:] = found[:count]
            first += count
        return np.negative(out, out=out) if objective else out

    def pair_sums(self, const int64_t[::1] rows, const int64_t[::1] begins, const real[:, ::1] queries, int objective):
        """Sum the objective's terms of pairs of a row and a query, as `scores` does to the bit, reading rows once for all.

        Parameters
        ----------
        rows, begins : int64 arrays
            Those of query q are rows[begins[q] : begins[q + 1]]; it takes less time if they are in their order.
        queries : array of shape (m, d)
        """
        cdef Asked asked
        cdef Wanted wanted
        cdef bm_columns columns = self._columns(0, self.n)
        cdef int64_t t, n_pairs = rows.shape[0]
        if queries.shape[1] != self.d:
            raise ValueError(f"queries must have {self.d} entries, got {queries.shape[1]}")
        if begins.shape[0] != queries.shape[0] + 1 or begins[0] != 0 or begins[queries.shape[0]] != n_pairs:
            raise ValueError(f"{n_pairs} rows are to be those of {queries.shape[0]} queries, one after another")
        for t in range(queries.shape[0]):
            if begins[t] > begins[t + 1]:
                raise ValueError(f"the rows of query {t} end before they begin")
        self.check(rows)
        out = np.zeros(n_pairs)
        cdef double[::1] sums = out
        if n_pairs == 0 or self.d == 0:
            return out
        cdef int64_t[::1] slots = np.arange(n_pairs), of_rows
        cdef const int64_t[::1] numbers = rows
        cdef bint are_in_order = queries.shape[0] == 1
        for t in range(1, n_pairs):
            are_in_order &= rows[t - 1] < rows[t]
        if not are_in_order:
            of_rows = np.zeros(self.n, dtype=np.int64)
            for t in range(n_pairs):
                of_rows[rows[t]] = 1
            numbers = np.flatnonzero(of_rows)
            for t in range(numbers.shape[0]):
                of_rows[numbers[t]] = t
            for t in range(n_pairs):
                slots[t] = of_rows[rows[t]]
        cdef char[::1] places = np.empty(numbers.shape[0] * sizeof(Place), dtype=np.int8)
        wanted = self._wanted(numbers, <Place*> &places[0], &columns)
        asked.queries, asked.are_single, asked.n = &queries[0, 0], real is float, queries.shape[0]
        asked.slots, asked.begins = &slots[0], &begins[0]
        add_pairs(&wanted, &asked, objective, &sums[0])
        return out if objective == BM_PRODUCTS else np.negative(out, out=out)

    cdef Wanted _wanted(self, const int64_t[::1] numbers, Place* places, const bm_columns* columns):
        """Rows with these numbers, each once and in their order; there is room for their places, and `columns` are of all."""
        cdef int64_t t
        cdef Wanted wanted
        for t in range(numbers.shape[0]):
            places[t] = self._place_of(numbers[t])
        wanted.places, wanted.numbers, wanted.n, wanted.d = places, &numbers[0], numbers.shape[0], self.d
        wanted.columns = NULL
        if self.are_columns and columns.row_stride == self.arrays[0].itemsize:
            wanted.columns = columns
        return wanted

    cdef bint _all_lie_as(self, int dtype):
        """Whether all rows are contiguous, and of this type of float."""
        cdef int s
        cdef int64_t size = sizeof(float) if dtype == BM_F32 else sizeof(double)
        for s in range(self.n_segments):
            if self.segments[s].dtype != dtype or self.segments[s].column_stride != size:
                return False
        return True

    cdef Place _place_of(self, int64_t row) noexcept nogil:
        cdef const Segment* segment = self.segment_of(row)
        cdef Place place
        place.entry = segment.base + (row - segment.first) * segment.row_stride
        place.stride, place.dtype = segment.column_stride, segment.dtype
        place.width = sizeof(float) if segment.dtype == BM_F32 else sizeof(double) if segment.dtype == BM_F64 else 0
        # Not every array lies where its numbers can be loaded at once.
        if place.width and (<size_t> place.entry % place.width or place.stride % place.width):
            place.width = 0
        return place

    def gather(self, const int64_t[::1] rows, const int64_t[::1] columns, double[:, :] out):
        """Put the entries at ``rows x columns`` into `out`, whose rows must be contiguous."""
        cdef int64_t t
        cdef const Segment* segment
        self.check(rows)
        if rows.shape[0] == 0 or columns.shape[0] == 0:
            return
        with nogil:
            for t in range(rows.shape[0]):
                segment = self.segment_of(rows[t])
                bm_kernels().gather(
                    segment.dtype, segment.base + (rows[t] - segment.first) * segment.row_stride,
                    segment.column_stride, &columns[0], columns.shape[0], &out[t, 0],
                )

    def check(self, const int64_t[::1] rows):
        """Refuse rows that are not there."""
        cdef int64_t t
        for t in range(rows.shape[0]):
            if not 0 <= rows[t] < self.n:
                raise IndexError(f"row {rows[t]} is not one of the {self.n} atoms")


def fill_block(Rows rows, const int64_t[::1] chosen, real[:, ::1] block):
    """Put some rows into `block`, converted to its type."""
    cdef int64_t t
    cdef Place place
    cdef Wanted wanted
    cdef bm_columns columns = rows._columns(0, rows.n)
    rows.check(chosen)
    if block.shape[0] < chosen.shape[0] or block.shape[1] != rows.d:
        raise ValueError(f"block must have room for {chosen.shape[0]} rows of {rows.d} entries")
    cdef char[::1] places
    if rows.are_columns and chosen.shape[0] > 1 and rows.d and np.all(np.diff(chosen) > 0):  # neighbours share cache lines
        places = np.empty(chosen.shape[0] * sizeof(Place), dtype=np.int8)
        wanted = rows._wanted(chosen, <Place*> &places[0], &columns)
        copy_rows(&wanted, &block[0, 0])
        return
    with nogil:
        for t in range(chosen.shape[0]):
            place = rows._place_of(chosen[t])
            if real is float:
                bm_kernels().to_f32(place.dtype, place.entry, place.stride, rows.d, &block[t, 0])
            else:
                bm_kernels().to_f64(place.dtype, place.entry, place.stride, rows.d, &block[t, 0])
