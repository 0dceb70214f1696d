"""Atoms in memory, of any real dtype and any strides, read as they are: exact sums, and entries one by one."""

from libc.math cimport fabs
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

import numpy as np

cimport numpy as cnp

from banditmips.core.kernels cimport (
    BM_F16, BM_F32, BM_F64, BM_I8, BM_I16, BM_I32, BM_I64, BM_U8, BM_U16, BM_U32, BM_U64, bm_kernels,
)

cnp.import_array()

_DTYPES = {
    "f2": BM_F16, "f4": BM_F32, "f8": BM_F64, "b1": BM_U8,
    "i1": BM_I8, "i2": BM_I16, "i4": BM_I32, "i8": BM_I64, "u1": BM_U8, "u2": BM_U16, "u4": BM_U32, "u8": BM_U64,
}
cdef enum:
    STRETCH = 1024  # entries that are converted together


def is_readable(dtype):
    """Whether entries of this type can be read as they are."""
    return dtype.isnative and dtype.str[1:] in _DTYPES


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
        cdef int s
        for s, array in enumerate(self.arrays):
            self.segments[s].base = <const char*> cnp.PyArray_DATA(array)
            self.segments[s].first = self.n
            self.segments[s].row_stride, self.segments[s].column_stride = array.strides
            self.segments[s].dtype = _DTYPES[array.dtype.str[1:]]
            self.n += array.shape[0]

    def __dealloc__(self):
        free(self.segments)

    cdef const Segment* segment_of(self, int64_t row) noexcept nogil:
        cdef int s = self.n_segments - 1
        while s > 0 and self.segments[s].first > row:
            s -= 1
        return &self.segments[s]

    cdef double sum_terms(self, int64_t row, const double* query, int objective, double* room) noexcept nogil:
        """Sum the terms of a row over all columns, in double precision; `room` is for STRETCH numbers."""
        cdef const Segment* segment = self.segment_of(row)
        cdef const char* start = segment.base + (row - segment.first) * segment.row_stride
        cdef int64_t first, count
        cdef double total = 0.0
        if objective == 0 and segment.dtype == BM_F32 and segment.column_stride == 4:
            return bm_kernels().dot_exact_f32(<const float*> start, query, self.d)
        if segment.dtype == BM_F64 and segment.column_stride == 8:
            return _sum(<const double*> start, query, self.d, objective)
        first = 0
        while first < self.d:
            count = min(<int64_t> STRETCH, self.d - first)
            bm_kernels().to_f64(
                segment.dtype, start + first * segment.column_stride, segment.column_stride, count, room
            )
            total += _sum(room, query + first, count, objective)
            first += count
        return total

    cdef bint sum_four(self, const int64_t* rows, const double* query, double* sums) noexcept nogil:
        """Sum the products of four rows that lie as BLAS would have them; False where they do not."""
        cdef const Segment* segment
        cdef const char* starts[4]
        cdef int t, dtype = self.segments[0].dtype
        cdef int64_t itemsize = 4 if dtype == BM_F32 else 8
        if dtype != BM_F32 and dtype != BM_F64:
            return False
        for t in range(4):
            segment = self.segment_of(rows[t])
            if segment.dtype != dtype or segment.column_stride != itemsize:
                return False
            starts[t] = segment.base + (rows[t] - segment.first) * segment.row_stride
        if dtype == BM_F32:
            bm_kernels().four_dots_exact_f32(<const float**> starts, query, self.d, sums)
        else:
            bm_kernels().four_dots_exact_f64(<const double**> starts, query, self.d, sums)
        return True

    cdef double sum_columns(
        self, int64_t row, const int64_t[::1] columns, const double* query, int objective, double* room
    ) noexcept nogil:
        """Sum the terms of a row over some columns; `query` holds its entries there."""
        cdef const Segment* segment = self.segment_of(row)
        cdef const char* start = segment.base + (row - segment.first) * segment.row_stride
        cdef int64_t first, count
        cdef double total = 0.0
        first = 0
        while first < columns.shape[0]:
            count = min(<int64_t> STRETCH, columns.shape[0] - first)
            bm_kernels().gather(segment.dtype, start, segment.column_stride, &columns[first], count, room)
            total += _sum(room, query + first, count, objective)
            first += count
        return total

    def scores(self, const int64_t[::1] rows, columns, const double[::1] query, int objective):
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        out = np.empty(rows.shape[0])
        cdef double[::1] sums = out
        cdef double[1024] room
        cdef const int64_t[::1] chosen = columns if columns is not None else np.empty(0, dtype=np.int64)
        cdef bint whole = columns is None
        cdef int64_t t
        if rows.shape[0] == 0 or query.shape[0] == 0:
            out[:] = 0.0
            return out
        self.check(rows)
        with nogil:
            t = 0
            while whole and objective == 0 and t + 4 <= rows.shape[0]:
                if not self.sum_four(&rows[t], &query[0], &sums[t]):
                    break
                t += 4
            for t in range(t, rows.shape[0]):
                if whole:
                    sums[t] = self.sum_terms(rows[t], &query[0], objective, room)
                else:
                    sums[t] = self.sum_columns(rows[t], chosen, &query[0], objective, room)
        return out

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


cdef double _sum(const double* v, const double* query, int64_t count, int objective) noexcept nogil:
    if objective == 0:
        return bm_kernels().dot_exact_f64(v, query, count)
    if objective == 1:
        return -bm_kernels().sqeuclidean_f64(v, query, count)
    return -bm_kernels().l1_f64(v, query, count)
