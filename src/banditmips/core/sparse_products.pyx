"""Exact products of a sparse matrix with one query, and counts of them, from the matrix as it is stored.

Nobody needs to have looked at the matrix before: each pointer and each place is compared with the shape just before it
is used, which takes less time than a look at all of them would.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

import numpy as np

cimport numpy as cnp

from banditmips.core.kernels cimport (
    BM_F32, BM_F64, BM_I8, BM_I16, BM_I32, BM_I64, BM_U8, BM_U16, BM_U32, BM_U64, bm_kernels,
)

cnp.import_array()

_DTYPES = {
    "f4": BM_F32, "f8": BM_F64, "b1": BM_U8,
    "i1": BM_I8, "i2": BM_I16, "i4": BM_I32, "i8": BM_I64, "u1": BM_U8, "u2": BM_U16, "u4": BM_U32, "u8": BM_U64,
}


class PlaceError(ValueError):
    """A pointer or a place leads outside the matrix."""


def can_be_read(matrix):
    """Whether the arrays of a CSR or CSC matrix can be read as they are, and are as long as its shape says."""
    data, places, starts = matrix.data, matrix.indices, matrix.indptr
    majors = matrix.shape[0 if matrix.format == "csr" else 1]
    return (
        data.ndim == places.ndim == starts.ndim == 1
        and all(array.dtype.isnative and array.flags.c_contiguous and array.flags.aligned
                for array in (data, places, starts))
        and data.dtype.str[1:] in _DTYPES
        and places.dtype == starts.dtype
        and places.dtype in (np.int32, np.int64)
        and starts.size == majors + 1
        and starts[0] == 0
    )


def check_fine(bint is_fine):
    """Raise if something has led outside the matrix."""
    if not is_fine:
        raise PlaceError("what is stored leads outside the matrix")


cdef class SparseProducts:
    """A sparse matrix, by row (CSR) or by column (CSC), ready for products.

    Parameters
    ----------
    matrix
        For which `can_be_read` is true. Its arrays are referred to, never copied; an entry may be stored in several
        parts, and in any order.
    """

    def __init__(self, matrix):
        self.arrays = matrix.data, matrix.indices, matrix.indptr
        self.n, self.d = matrix.shape
        self.by_row = matrix.format == "csr"
        self.stored = min(matrix.data.size, matrix.indices.size)
        self.values = <const char*> cnp.PyArray_DATA(matrix.data)
        self.places = <const char*> cnp.PyArray_DATA(matrix.indices)
        self.starts = <const char*> cnp.PyArray_DATA(matrix.indptr)
        self.dtype, self.itemsize = _DTYPES[matrix.data.dtype.str[1:]], matrix.data.itemsize
        self.wide = matrix.indices.itemsize == 8
        self.is_plain = self.dtype in (BM_F32, BM_F64)
        self.parts.values, self.parts.places, self.parts.starts = self.values, self.places, self.starts
        self.parts.n_stored, self.parts.size = self.stored, self.d if self.by_row else self.n
        single = self.dtype == BM_F32
        if self.wide:
            self.dot = bm_kernels().sparse_dot_f32_i64 if single else bm_kernels().sparse_dot_f64_i64
            self.add = bm_kernels().sparse_add_f32_i64 if single else bm_kernels().sparse_add_f64_i64
            self.dots = bm_kernels().sparse_dots_f32_i64 if single else bm_kernels().sparse_dots_f64_i64
        else:
            self.dot = bm_kernels().sparse_dot_f32_i32 if single else bm_kernels().sparse_dot_f64_i32
            self.add = bm_kernels().sparse_add_f32_i32 if single else bm_kernels().sparse_add_f64_i32
            self.dots = bm_kernels().sparse_dots_f32_i32 if single else bm_kernels().sparse_dots_f64_i32

    cdef bint span(self, int64_t major, int64_t* start, int64_t* stop) noexcept nogil:
        """Where a row (or column) is stored; False if that cannot be."""
        if self.wide:
            start[0], stop[0] = (<const int64_t*> self.starts)[major], (<const int64_t*> self.starts)[major + 1]
        else:
            start[0], stop[0] = (<const int32_t*> self.starts)[major], (<const int32_t*> self.starts)[major + 1]
        return 0 <= start[0] <= stop[0] <= self.stored

    cdef void make_ready(self, Stretch* here) noexcept nogil:
        """Nothing has been read yet."""
        here.is_fine, here.piece_starts[0], here.piece.size = True, 0, self.parts.size
        here.piece.values, here.piece.places, here.piece.starts = here.values, here.places, here.piece_starts

    cdef void begin(self, Stretch* here, int64_t major) noexcept nogil:
        """Go to a row (or column); once something has led outside the matrix, there is nothing in any of them."""
        here.is_fine = here.is_fine and self.span(major, &here.start, &here.stop)
        if not here.is_fine:
            here.start = here.stop = 0

    cdef bint goes_on(self, Stretch* here, bint with_values) noexcept nogil:
        """Read the next numbers there, if there are any."""
        cdef int64_t start = here.start
        here.count = min(<int64_t> STRETCH, here.stop - start)
        if here.count <= 0:
            return False
        if with_values:
            bm_kernels().to_f64(
                self.dtype, self.values + start * self.itemsize, self.itemsize, here.count, here.values
            )
            here.piece.n_stored = here.piece_starts[1] = here.count
        here.start += here.count
        here.is_fine = self.read_places(start, here.count, here.places)
        return here.is_fine

    cdef bint read_places(self, int64_t start, int64_t count, int64_t* places) noexcept nogil:
        cdef uint64_t minors = self.d if self.by_row else self.n
        cdef int64_t e
        cdef bint inside = True
        if self.wide:
            for e in range(count):
                places[e] = (<const int64_t*> self.places)[start + e]
                inside = inside & (<uint64_t> places[e] < minors)
        else:
            for e in range(count):
                places[e] = (<const int32_t*> self.places)[start + e]
                inside = inside & (<uint64_t> places[e] < minors)
        return inside

    def n_stored_of(self, const int64_t[::1] majors):
        """Stored entries of these rows (or columns)."""
        cdef int64_t t, start = 0, stop = 0, total = 0
        for t in range(majors.shape[0]):
            check_fine(0 <= majors[t] < (self.n if self.by_row else self.d) and self.span(majors[t], &start, &stop))
            total += stop - start
        return total

    def row_products(self, query, const int64_t[::1] rows):
        """Products of rows with a query, by row.

        Parameters
        ----------
        query : float64 or float32 array of shape (d,), contiguous
            Of both kinds comes the same, but single precision takes less room in the cache.
        rows : int64 array
            Rows of the matrix.

        Returns
        -------
        products : float64 array
        n_stored : int
            Stored entries of the rows, with or without something to multiply them with.
        """
        products = np.empty(rows.shape[0])
        cdef double[::1] out = products
        cdef bint is_single = query.dtype == np.float32
        cdef const float[::1] singles
        cdef const double[::1] doubles
        cdef const void* numbers
        cdef int64_t total = 0
        self._check(query.shape[0], rows, self.d, by_row=True)
        if rows.shape[0] == 0:
            return products, 0
        if is_single:
            singles = query
            numbers = &singles[0]
        else:
            doubles = query
            numbers = &doubles[0]
        with nogil:
            total = _multiply_rows(self, numbers, is_single, &rows[0], rows.shape[0], &out[0])
        check_fine(total >= 0)
        return products, total

    def column_products(self, const double[::1] query, columns):
        """Products of all rows with a query, by column; only these columns are looked at (None: all of them).

        Returns
        -------
        products : float64 array of shape (n,)
        n_stored : int
            Stored entries of the columns.
        """
        products = np.zeros(self.n)
        cdef double[::1] out = products
        cdef const int64_t[::1] chosen = np.empty(0, dtype=np.int64) if columns is None else columns
        cdef const int64_t* some = NULL if columns is None else &chosen[0]
        cdef int64_t n_columns = self.d if columns is None else chosen.shape[0], total = 0
        self._check(out.shape[0], chosen, self.n, by_row=False)
        if query.shape[0] != self.d:
            raise ValueError(f"query must have {self.d} numbers, got {query.shape[0]}")
        with nogil:
            total = _add_columns(self, &query[0], some, n_columns, &out[0])
        check_fine(total >= 0)
        return products, total

    def count_of_rows(self, const int64_t[::1] rows, const uint8_t[::1] inside):
        """How many entries of these rows are stored in columns that are marked with 1, by row."""
        return self._count(rows, inside, by_row=True)

    def count_of_columns(self, const int64_t[::1] columns, const uint8_t[::1] inside):
        """How many entries of these columns are stored in rows that are marked with 1, by column."""
        return self._count(columns, inside, by_row=False)

    cdef _count(self, const int64_t[::1] majors, const uint8_t[::1] inside, bint by_row):
        cdef int64_t t, e, total = 0
        cdef Stretch here
        self.make_ready(&here)
        self._check(inside.shape[0], majors, self.d if by_row else self.n, by_row)
        with nogil:
            for t in range(majors.shape[0]):
                self.begin(&here, majors[t])
                while self.goes_on(&here, False):
                    for e in range(here.count):
                        total += inside[here.places[e]]
        check_fine(here.is_fine)
        return total

    def stored_by_column(self):
        """How many entries are stored in each column."""
        made = np.zeros(self.d, dtype=np.int64)
        cdef int64_t[::1] counts = made
        cdef int64_t t, e
        cdef Stretch here
        self.make_ready(&here)
        if not self.by_row:
            return np.diff(self.arrays[2]).astype(np.int64, copy=False)
        with nogil:
            for t in range(self.n):
                self.begin(&here, t)
                while self.goes_on(&here, False):
                    for e in range(here.count):
                        counts[here.places[e]] += 1
        check_fine(here.is_fine)
        return made

    def stores_twice(self):
        """Whether some entry is stored in several parts."""
        cdef int64_t[::1] last = np.full(self.d if self.by_row else self.n, -1, dtype=np.int64)
        cdef int64_t t, e, n_majors = self.n if self.by_row else self.d
        cdef Stretch here
        cdef bint twice = False
        self.make_ready(&here)
        with nogil:
            for t in range(n_majors):
                self.begin(&here, t)
                while self.goes_on(&here, False):
                    for e in range(here.count):
                        twice = twice or last[here.places[e]] == t
                        last[here.places[e]] = t
        check_fine(here.is_fine)
        return twice

    cdef _check(self, int64_t length, const int64_t[::1] majors, int64_t n_minors, bint by_row):
        """Refuse what does not suit the matrix: compiled loops believe it."""
        cdef uint64_t n_majors = self.n if by_row else self.d
        cdef int64_t t
        cdef bint inside = True
        if self.by_row != by_row or length != n_minors:
            raise ValueError(f"{length} numbers do not suit a matrix of {self.n} x {self.d}")
        for t in range(majors.shape[0]):
            inside = inside and <uint64_t> majors[t] < n_majors
        if not inside:
            raise IndexError(f"rows or columns must lie in 0..{n_majors - 1}")


cdef int64_t _multiply_rows(
    SparseProducts matrix, const void* query, bint is_single, const int64_t* rows, int64_t n_rows, double* out
) noexcept nogil:
    """Products of rows; returns the stored entries, or -1 if a pointer or place is outside."""
    cdef Stretch here
    cdef int64_t t, total = 0
    cdef double part = 0.0
    if matrix.is_plain:
        return matrix.dot(&matrix.parts, rows, n_rows, query, is_single, out)
    matrix.make_ready(&here)
    for t in range(n_rows):
        matrix.begin(&here, rows[t])
        out[t] = 0.0
        total += here.stop - here.start
        while matrix.goes_on(&here, True):
            bm_kernels().sparse_dot_f64_i64(&here.piece, NULL, 1, query, is_single, &part)
            out[t] += part
    return total if here.is_fine else -1


cdef int64_t _add_columns(
    SparseProducts matrix, const double* query, const int64_t* columns, int64_t n_columns, double* out
) noexcept nogil:
    """Add columns (NULL: the first) times the query's numbers; returns the stored entries, or -1 if one is outside."""
    cdef Stretch here
    cdef int64_t t, column, total = 0
    if matrix.is_plain:
        return matrix.add(&matrix.parts, columns, n_columns, query, out)
    matrix.make_ready(&here)
    for t in range(n_columns):
        column = t if columns == NULL else columns[t]
        matrix.begin(&here, column)
        total += here.stop - here.start
        while matrix.goes_on(&here, True):
            bm_kernels().sparse_add_f64_i64(&here.piece, NULL, 1, query + column, out)
    return total if here.is_fine else -1
