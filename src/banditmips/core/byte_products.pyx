"""Products of all atoms with a batch of queries, both rounded to bytes with a dither: estimates, and how far they may be off.

docs/guarantees.md has the theorem. Numbers are rounded stretch by stretch, with a step for each atom and each query in
each stretch. The dither belongs to the coordinates and the seed: the same for all atoms, another one for all queries.
"""

from libc.math cimport fabs, isfinite, sqrt
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

import numpy as np

from banditmips.core.kernels cimport (
    BM_BYTE_ATOMS, BM_BYTE_QUERIES, BM_BYTE_STRETCH, BM_BYTES_ABREAST, BM_F32, BM_F64,
    bm_byte_layout, bm_byte_queries, bm_bytes, bm_dither, bm_kernels,
)
from banditmips.core.rows cimport Rows, Segment
from banditmips.core.survivors cimport kth_largest

from banditmips.core.numbers import random_words

BLOCK = BM_BYTE_ATOMS
"""Atoms that are rounded together."""
MOST_QUERIES = BM_BYTE_QUERIES
"""Queries that are multiplied together, at most."""

cdef uint64_t STREAM = 4
cdef double LOST = 2.0 ** -15
"""What single precision loses of a number before it is rounded, in steps, at most."""
cdef double SPARE = 1.001
"""Sums of products in double precision lose less than a thousandth of a radius, here and in exact scores."""

cdef enum:
    CACHE_LINE = 64  # bytes
    GROUP = 16  # queries in a group
    RUN = 16  # stretches of a row that are rounded one after another: the rounded rows of a block stay in the second cache
    PITCH = RUN * BM_BYTE_STRETCH + 64  # at a power of two rows would push each other out of the cache


def can_round(Rows rows):
    """Whether these are the contiguous rows of one matrix, or those of a matrix of floats in Fortran order."""
    cdef const Segment* segment = &rows.segments[0]
    by_column = segment.dtype in (BM_F32, BM_F64) and segment.row_stride == (4 if segment.dtype == BM_F32 else 8)
    return rows.n_segments == 1 and (rows.are_contiguous or by_column)


cdef class ByteProducts:
    """Products of atoms and queries rounded to bytes.

    Parameters
    ----------
    rows : Rows
        For which `can_round` is true.
    queries : sequence of arrays of shape (d,)
        At most `MOST_QUERIES`, of types that `Rows` can read.
    seed : int

    Attributes
    ----------
    products : float64 array of shape (m, n)
        Estimates, where `fill` has been.
    n_blocks : int
        Of `BLOCK` atoms each, the last one perhaps of fewer.
    """

    cdef readonly object products
    cdef readonly int64_t n_blocks
    cdef Rows rows
    cdef int64_t m, n, d, n_stretches
    cdef int n_groups
    cdef double[:, ::1] _products, _steps, _norms, query_steps, query_norms, query_shifts
    cdef uint8_t[:, ::1] query_bytes
    cdef uint16_t[::1] atom_dither, query_dither
    cdef uint8_t[::1] atom_levels, query_levels

    def __init__(self, Rows rows, queries, uint64_t seed):
        cdef Rows second = Rows([query[np.newaxis] for query in queries])
        if not can_round(rows) or second.d != rows.d or not 0 < second.n <= BM_BYTE_QUERIES:
            raise ValueError(f"{second.n} queries of {second.d} entries for atoms of {rows.d} that can be rounded")
        self.m, self.d = second.n, rows.d
        self.n_stretches = (self.d + BM_BYTE_STRETCH - 1) // BM_BYTE_STRETCH
        self.n_groups = (self.m + GROUP - 1) // GROUP
        words = random_words(seed, STREAM, self.d)
        self.atom_dither, self.query_dither = words.astype(np.uint16), (words >> 16).astype(np.uint16)
        self.atom_levels, self.query_levels = (words >> 8).astype(np.uint8), (words >> 24).astype(np.uint8)
        self.turn_to(rows)
        shape = self.n_stretches, GROUP * self.n_groups
        self.query_steps, self.query_norms, self.query_shifts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        # Entries that are not there are zeros, which are kept as 128. Vectors that begin in the middle of a cache line
        # would take twice as long to load.
        size = shape[0] * shape[1] * BM_BYTE_STRETCH
        room = np.full(size + CACHE_LINE, 128, dtype=np.uint8)
        start = -room.ctypes.data % CACHE_LINE
        self.query_bytes = room[start : start + size].reshape(shape[0], -1)
        with nogil:
            self._round_queries(second)

    def turn_to(self, Rows rows):
        """Take other atoms from now on, as long as those before, and forget these: the queries stay rounded."""
        if not can_round(rows) or rows.d != self.d:
            raise ValueError(f"atoms of {rows.d} entries for queries of {self.d}, or they cannot be rounded")
        self.rows, self.n = rows, rows.n
        self.n_blocks = (self.n + BM_BYTE_ATOMS - 1) // BM_BYTE_ATOMS
        self.products = self._products = np.empty((self.m, self.n))
        self._steps, self._norms = np.empty((self.n_stretches, self.n)), np.empty((self.n_stretches, self.n))

    cdef void _round_queries(self, Rows queries) noexcept nogil:
        cdef int64_t s, b, t, j, first, count
        cdef const Segment* query
        cdef float[BM_BYTE_STRETCH] room
        cdef int8_t[BM_BYTE_STRETCH] rounded
        cdef uint32_t* fours = <uint32_t*> rounded
        cdef uint32_t* out
        cdef bm_bytes known
        cdef bm_dither dither
        cdef double both
        for s in range(self.n_stretches):
            first = s * BM_BYTE_STRETCH
            count = min(<int64_t> BM_BYTE_STRETCH, self.d - first)
            dither.own, dither.levels_of_others = &self.query_dither[first], &self.atom_levels[first]
            both = 0.0
            for j in range(first, first + count):
                both += (127.5 - self.atom_levels[j]) * (127.5 - self.query_levels[j])
            for b in range(self.m):
                query = &queries.segments[b]
                bm_kernels().to_f32(
                    query.dtype, query.base + first * query.column_stride, query.column_stride, count, room
                )
                bm_kernels().row_bytes(room, count, &dither, rounded, &known)
                self.query_steps[s, b], self.query_norms[s, b] = known.step, known.norm
                self.query_shifts[s, b] = known.step * (
                    (127.5 * known.total - known.levelled) / 256.0 + both / 65536.0
                )
                out = <uint32_t*> &self.query_bytes[s, 0] + b
                for t in range((count + 3) // 4):
                    out[t * GROUP * self.n_groups] = fours[t] ^ <uint32_t> 0x80808080

    def fill(self, const int64_t[::1] blocks):
        """Multiply the atoms of these blocks."""
        cdef bint by_row = self.rows.are_contiguous
        cdef int8_t[::1] room = np.zeros(BM_BYTE_ATOMS * (PITCH if by_row else BM_BYTE_STRETCH), dtype=np.int8)
        cdef float[::1] numbers = np.empty(BM_BYTE_STRETCH * (1 if by_row else BM_BYTE_ATOMS), dtype=np.float32)
        cdef double[::1] sums = np.empty(BM_BYTE_ATOMS * BM_BYTE_QUERIES)
        cdef int64_t t
        for t in range(blocks.shape[0]):
            if not 0 <= blocks[t] < self.n_blocks:
                raise IndexError(f"block {blocks[t]} is not one of {self.n_blocks}")
        with nogil:
            for t in range(blocks.shape[0]):
                self._fill_block(blocks[t] * BM_BYTE_ATOMS, by_row, &room[0], &numbers[0], &sums[0])

    cdef void _fill_block(
        self, int64_t start, bint by_row, int8_t* room, float* numbers, double* sums
    ) noexcept nogil:
        cdef int64_t count = min(<int64_t> BM_BYTE_ATOMS, self.n - start), begin = 0, end, s, i, b
        cdef bm_bytes[RUN * BM_BYTE_ATOMS] known
        cdef bm_byte_layout layout
        cdef bm_byte_queries queries
        cdef const int8_t* atoms
        queries.n_groups = self.n_groups
        layout.of_atom, layout.of_four = PITCH if by_row else 4, 4 if by_row else 4 * BM_BYTE_ATOMS
        memset(sums, 0, BM_BYTE_ATOMS * BM_BYTE_QUERIES * sizeof(double))
        memset(known, 0, sizeof(known))
        while begin < self.n_stretches:
            end = min(begin + RUN, self.n_stretches) if by_row else begin + 1
            if by_row:
                for i in range(count):
                    for s in range(begin, end):
                        self._round_row(start + i, s, room + i * PITCH + (s - begin) * BM_BYTE_STRETCH, numbers,
                                        &known[(s - begin) * BM_BYTE_ATOMS + i])
            else:
                self._round_columns(start, count, begin, <int32_t*> room, numbers, known)
            for s in range(begin, end):
                queries.bytes, queries.steps = &self.query_bytes[s, 0], &self.query_steps[s, 0]
                queries.shifts = &self.query_shifts[s, 0]
                queries.n_fours = (min(<int64_t> BM_BYTE_STRETCH, self.d - s * BM_BYTE_STRETCH) + 3) // 4
                atoms = room + (s - begin) * BM_BYTE_STRETCH
                for i in range(count):
                    self._steps[s, start + i] = known[(s - begin) * BM_BYTE_ATOMS + i].step
                    self._norms[s, start + i] = known[(s - begin) * BM_BYTE_ATOMS + i].norm
                i = 0
                while i < count:
                    bm_kernels().byte_products(
                        atoms + i * layout.of_atom, &layout, &known[(s - begin) * BM_BYTE_ATOMS + i], &queries,
                        sums + i * BM_BYTE_QUERIES,
                    )
                    i += BM_BYTES_ABREAST
            begin = end
        for b in range(self.m):
            for i in range(count):
                self._products[b, start + i] = sums[i * BM_BYTE_QUERIES + b]

    cdef void _round_row(
        self, int64_t row, int64_t stretch, int8_t* room, float* numbers, bm_bytes* known
    ) noexcept nogil:
        cdef const Segment* segment = &self.rows.segments[0]
        cdef int64_t first = stretch * BM_BYTE_STRETCH
        cdef int64_t count = min(<int64_t> BM_BYTE_STRETCH, self.d - first)
        cdef const char* source = segment.base + row * segment.row_stride + first * segment.column_stride
        cdef bm_dither dither = self._dither_of_atoms(first)
        if segment.dtype != BM_F32:
            bm_kernels().to_f32(segment.dtype, source, segment.column_stride, count, numbers)
            source = <const char*> numbers
        bm_kernels().row_bytes(<const float*> source, count, &dither, room, known)

    cdef void _round_columns(
        self, int64_t start, int64_t count, int64_t stretch, int32_t* room, float* numbers, bm_bytes* known
    ) noexcept nogil:
        cdef const Segment* segment = &self.rows.segments[0]
        cdef int64_t first = stretch * BM_BYTE_STRETCH
        cdef int64_t width = min(<int64_t> BM_BYTE_STRETCH, self.d - first)
        cdef const char* source = segment.base + start * segment.row_stride + first * segment.column_stride
        cdef bm_dither dither = self._dither_of_atoms(first)
        if segment.dtype == BM_F32:
            bm_kernels().copy_columns_f32(source, segment.column_stride, count, width, numbers)
        else:
            bm_kernels().copy_columns_f64(source, segment.column_stride, count, width, numbers)
        cdef const char* next = source + width * segment.column_stride
        if first + width == self.d:
            next = segment.base + (start + count) * segment.row_stride
        bm_kernels().column_bytes(numbers, width, &dither, next, segment.column_stride, room, known)

    cdef bm_dither _dither_of_atoms(self, int64_t first) noexcept nogil:
        cdef bm_dither dither
        dither.own, dither.levels_of_others = &self.atom_dither[first], &self.query_levels[first]
        return dither

    def deviations(self, columns=slice(None)):
        """Sub-Gaussian deviations of the errors of some of the atoms' products, an array of shape (m, count)."""
        steps, norms = np.asarray(self._steps)[:, columns], np.asarray(self._norms)[:, columns]
        of_steps, of_norms = np.asarray(self.query_steps)[:, : self.m], np.asarray(self.query_norms)[:, : self.m]
        variance = np.square(of_norms).T @ np.square(steps)
        variance += np.square(of_steps).T @ np.square(norms)
        np.sqrt(variance, out=variance)
        # The error of a dithered byte is uniform, and its level stands for 256 values of the dither.
        variance *= (1.0 + 1.0 / 256.0) / sqrt(12.0)
        return variance

    def radii(self, ends):
        """How many deviations an interval reaches, of so many sub-Gaussian ones, with all that is lost by rounding."""
        cdef double lost = LOST * sqrt(24.0 * self.n_stretches * BM_BYTE_STRETCH)
        return [SPARE * (end + lost) for end in ends]


def reaching_best(const double[::1] products, const double[::1] deviations, radii, Py_ssize_t k, bint absolute):
    """Places whose upper ends reach the k-th largest lower end; None where a number is not finite.

    Parameters
    ----------
    radii : pair of float
        How many deviations lower ends lie below the products, and upper ends above.
    """
    cdef Py_ssize_t n = products.shape[0], t, n_close = 0
    cdef double below, above, bar, total = 0.0
    cdef double[::1] lower = np.empty(n), heap = np.empty(k)
    close = np.empty(n, dtype=np.int64)
    cdef int64_t[::1] places = close
    below, above = radii
    with nogil:
        for t in range(n):
            lower[t] = (fabs(products[t]) if absolute else products[t]) - below * deviations[t]
            total += lower[t]
        if isfinite(total):
            bar = kth_largest(&lower[0], n, k, &heap[0])
            for t in range(n):
                if lower[t] + (below + above) * deviations[t] >= bar:
                    places[n_close] = t
                    n_close += 1
    return close[:n_close].copy() if isfinite(total) else None
