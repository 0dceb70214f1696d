"""Products of all atoms with a batch of queries, both rounded to bytes with a dither: estimates, and how far they may be off.

docs/guarantees.md has the theorem. Numbers are rounded stretch by stretch, with a step for each atom and each query in
each stretch. The dither belongs to the coordinates and the seed: the same for all atoms, another one for all queries.
"""

from functools import lru_cache

from libc.math cimport INFINITY, isnan, sqrt
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

import numpy as np

from banditmips.core.kernels cimport (
    BM_BYTE_ATOMS, BM_BYTE_QUERIES, BM_BYTE_STRETCH, BM_BYTES_ABREAST, BM_F32, BM_F64,
    bm_byte_layout, bm_byte_queries, bm_bytes, bm_dither, bm_fetched, bm_kernels, bm_ranked,
)
from banditmips.core.near_best cimport RowsOfEach, kth_best, n_blocks
from banditmips.core.places cimport Place
from banditmips.core.rows cimport Rows, Segment

from banditmips.core.numbers import random_words

BLOCK = BM_BYTE_ATOMS
"""Atoms that are rounded together."""
STRETCH = BM_BYTE_STRETCH
"""Entries that are rounded with one step."""
MOST_QUERIES = BM_BYTE_QUERIES
"""Queries that are multiplied together, at most."""

OF_SQUARES = 1e-4
"""Error of sums of squares, as a part of them: those of a stretch are added up in single precision."""

cdef uint64_t STREAM = 4
cdef double LOST = 2.0 ** -15
"""What single precision loses of a number before it is rounded, in steps, at most."""
cdef double VARIANCE = (1.0 + 1.0 / 256.0) ** 2 / 12.0
"""Of a dithered byte's error, in squared steps: it is uniform, and its level stands for 256 values of the dither."""
cdef double SPARE = 1.001
"""Sums of products in double precision lose less than a thousandth of a radius, here and in exact scores."""

cdef double NOWHERE = -1e300
"""Lower end of an atom that takes no part: a number, because those that are not finite say something else."""

cdef enum:
    CACHE_LINE = 64  # bytes
    GROUP = 16  # queries in a group
    MOST_KEPT = 1 << 16  # coordinates whose dither is kept for the next search
    FETCHED = 2 * BM_BYTE_STRETCH  # bytes that are fetched from memory while a stretch is rounded
    RUN = 2  # stretches of all rows of a block that are rounded, and then multiplied, while the next are fetched
    APART = 64  # bytes between rounded rows: at a power of two they would push each other out of the cache
    ROUNDED = BM_BYTE_STRETCH + APART  # bytes from one rounded query to the next


def _dithers(seed, d):
    # What is long is not kept: beside what is done with it, it takes next to nothing.
    return _kept_dithers(seed, d) if d <= MOST_KEPT else _kept_dithers.__wrapped__(seed, d)


@lru_cache(maxsize=4)
def _kept_dithers(seed, d):
    """Dither of the atoms and of the queries, in units of 2^-16 of a step, and their upper bytes."""
    words = random_words(seed, STREAM, d)
    return (
        (words & 0xFFFF).astype(np.int32), (words >> 16).astype(np.int32),
        (words >> 8).astype(np.uint8), (words >> 24).astype(np.uint8),
    )


def can_round(Rows rows):
    """Whether these are the contiguous rows of one matrix, or those of a matrix in Fortran order."""
    by_column = rows.n_segments == 1 and rows.segments[0].row_stride == rows.arrays[0].itemsize
    return rows.n_segments == 1 and (rows.are_contiguous or by_column)


cdef class ByteProducts:
    """Products of atoms and queries rounded to bytes.

    Parameters
    ----------
    rows : Rows
        For which `can_round` is true.
    queries : sequence of arrays of shape (d,) or (count, d)
        At most `MOST_QUERIES` in all, of types that `Rows` can read.
    seed : int

    Attributes
    ----------
    products : float64 array of shape (m, n)
        Estimates, where `fill` has been.
    squares : float64 array of shape (n,)
        Sums of the atoms' squares there, wrong by a part of `OF_SQUARES` at most.
    n_blocks : int
        Of `BLOCK` atoms each, the last one perhaps of fewer.
    """

    cdef readonly object products, squares
    cdef readonly int64_t n_blocks
    cdef Rows rows
    cdef int64_t m, n, d, n_stretches, pitch
    cdef int n_groups
    cdef double[::1] _squares
    cdef double[:, ::1] _products, query_steps, query_norms, query_shifts
    cdef double[:, ::1] _variances  # squares of the steps of all stretches, and of the norms
    cdef uint8_t[:, ::1] query_bytes
    cdef int32_t[::1] atom_dither, query_dither
    cdef uint8_t[::1] atom_levels, query_levels

    def __init__(self, Rows rows, queries, uint64_t seed):
        cdef Rows second = Rows([np.atleast_2d(some) for some in queries])
        if not can_round(rows) or second.d != rows.d or not 0 < second.n <= BM_BYTE_QUERIES:
            raise ValueError(f"{second.n} queries of {second.d} entries for atoms of {rows.d} that can be rounded")
        self.m, self.d = second.n, rows.d
        self.n_stretches = (self.d + BM_BYTE_STRETCH - 1) // BM_BYTE_STRETCH
        self.pitch = min(<int64_t> RUN, self.n_stretches) * BM_BYTE_STRETCH + APART
        self.n_groups = (self.m + GROUP - 1) // GROUP
        self.atom_dither, self.query_dither, self.atom_levels, self.query_levels = _dithers(seed, self.d)
        self.turn_to(rows)
        shape = self.n_stretches, GROUP * self.n_groups
        self.query_steps, self.query_norms, self.query_shifts = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        # Vectors that begin in the middle of a cache line would take twice as long to load.
        size = shape[0] * shape[1] * BM_BYTE_STRETCH
        room = np.empty(size + CACHE_LINE, dtype=np.uint8)
        start = -room.ctypes.data % CACHE_LINE
        self.query_bytes = room[start : start + size].reshape(shape[0], -1)
        cdef int8_t[::1] rounded = np.zeros(shape[1] * ROUNDED, dtype=np.int8)
        cdef float[::1] numbers = np.empty(BM_BYTE_STRETCH, dtype=np.float32)
        with nogil:
            self._round_queries(second, &rounded[0], &numbers[0])

    def turn_to(self, Rows rows):
        """Take other atoms from now on, as long as those before, and forget these: the queries stay rounded."""
        if not can_round(rows) or rows.d != self.d:
            raise ValueError(f"atoms of {rows.d} entries for queries of {self.d}, or they cannot be rounded")
        self.rows, self.n = rows, rows.n
        self.n_blocks = (self.n + BM_BYTE_ATOMS - 1) // BM_BYTE_ATOMS
        self.products = self._products = np.empty((self.m, self.n))
        self.squares = self._squares = np.zeros(self.n)
        self._variances = np.empty((2 * self.n_stretches, self.n))

    cdef void _round_queries(self, Rows queries, int8_t* rounded, float* numbers) noexcept nogil:
        """Round the queries, stretch by stretch, and lay the bytes out as they are multiplied.

        `rounded` has room for a stretch of each, `numbers` for one that has to be converted.
        """
        cdef int64_t s, b, j, first, count
        cdef Place query
        cdef const char* source
        cdef bm_bytes known
        cdef bm_dither dither
        cdef double both
        cdef uint32_t* fours
        for s in range(self.n_stretches):
            first = s * BM_BYTE_STRETCH
            count = min(<int64_t> BM_BYTE_STRETCH, self.d - first)
            dither.own, dither.levels_of_others = &self.query_dither[first], &self.atom_levels[first]
            both = 0.0
            for j in range(first, first + count):
                both += (127.5 - self.atom_levels[j]) * (127.5 - self.query_levels[j])
            for b in range(self.m):
                query = queries._place_of(b)
                source = query.entry + first * query.stride
                if query.dtype != BM_F32 or query.stride != sizeof(float):
                    bm_kernels().to_f32(query.dtype, source, query.stride, count, numbers)
                    source = <const char*> numbers
                bm_kernels().row_bytes(<const float*> source, count, &dither, source, rounded + b * ROUNDED, &known)
                self.query_steps[s, b], self.query_norms[s, b] = known.step, known.norm
                self.query_shifts[s, b] = known.step * (
                    (127.5 * known.total - known.levelled) / 256.0 + both / 65536.0
                )
            # Four bytes of all queries, and then the next four.
            fours = <uint32_t*> &self.query_bytes[s, 0]
            bm_kernels().turn_f32(rounded, ROUNDED, (count + 3) // 4, GROUP * self.n_groups, <float*> fours, GROUP * self.n_groups)
            for j in range((count + 3) // 4 * GROUP * self.n_groups):
                fours[j] ^= <uint32_t> 0x80808080

    def fill(self, const int64_t[::1] blocks):
        """Multiply the atoms of these blocks."""
        cdef bint by_row = self.rows.are_contiguous
        cdef int8_t[::1] room = np.empty(BM_BYTE_ATOMS * (self.pitch if by_row else BM_BYTE_STRETCH), dtype=np.int8)
        cdef float[::1] numbers = np.empty(BM_BYTE_STRETCH * (1 if by_row else BM_BYTE_ATOMS), dtype=np.float32)
        cdef double[::1] sums = np.empty(BM_BYTE_ATOMS * BM_BYTE_QUERIES)
        cdef int64_t t, next_block
        for t in range(blocks.shape[0]):
            if not 0 <= blocks[t] < self.n_blocks:
                raise IndexError(f"block {blocks[t]} is not one of {self.n_blocks}")
        with nogil:
            for t in range(blocks.shape[0]):
                next_block = blocks[t + 1] if t + 1 < blocks.shape[0] else self.n_blocks
                self._fill_block(
                    blocks[t] * BM_BYTE_ATOMS, next_block * BM_BYTE_ATOMS, by_row, &room[0], &numbers[0], &sums[0]
                )

    cdef void _fill_block(
        self, int64_t start, int64_t next_start, bint by_row, int8_t* room, float* numbers, double* sums
    ) noexcept nogil:
        """Multiply the atoms from one on; those from `next_start` on will be the next."""
        cdef int64_t count = min(<int64_t> BM_BYTE_ATOMS, self.n - start), begin = 0, end, s, i, b
        cdef bm_bytes[RUN * BM_BYTE_ATOMS] known
        cdef const bm_bytes* of_atom
        cdef bm_byte_layout layout
        cdef bm_byte_queries queries
        cdef bm_fetched next
        cdef const int8_t* atoms
        queries.n_groups = self.n_groups
        if by_row:
            next.stride_bytes, next.n_rows = self.rows.segments[0].row_stride, BM_BYTES_ABREAST
            next.size = max(BM_BYTE_STRETCH * self.rows.segments[0].column_stride - <int64_t> FETCHED, <int64_t> 0)
        else:
            next.stride_bytes = self.rows.segments[0].column_stride
            next.n_rows = BM_BYTE_STRETCH // 2 * BM_BYTES_ABREAST // BM_BYTE_ATOMS
            next.size = count * self.rows.segments[0].row_stride
        layout.of_atom, layout.of_four = self.pitch if by_row else 4, 4 if by_row else 4 * BM_BYTE_ATOMS
        memset(sums, 0, BM_BYTE_ATOMS * BM_BYTE_QUERIES * sizeof(double))
        memset(known, 0, sizeof(known))
        memset(&self._squares[start], 0, count * sizeof(double))
        while begin < self.n_stretches:
            end = min(begin + RUN, self.n_stretches) if by_row else begin + 1
            if by_row:
                for i in range(count):
                    for s in range(begin, end):
                        self._round_row(
                            start + i, s, self._after(start, next_start, i, s), numbers,
                            room + i * self.pitch + (s - begin) * BM_BYTE_STRETCH, &known[(s - begin) * BM_BYTE_ATOMS + i],
                        )
            else:
                self._round_columns(start, next_start, begin, <int32_t*> room, numbers, known)
            for s in range(begin, end):
                queries.bytes, queries.steps = &self.query_bytes[s, 0], &self.query_steps[s, 0]
                queries.shifts = &self.query_shifts[s, 0]
                queries.n_fours = (min(<int64_t> BM_BYTE_STRETCH, self.d - s * BM_BYTE_STRETCH) + 3) // 4
                atoms = room + (s - begin) * BM_BYTE_STRETCH
                for i in range(count):
                    of_atom = &known[(s - begin) * BM_BYTE_ATOMS + i]
                    self._variances[s, start + i] = VARIANCE * of_atom.step * of_atom.step
                    self._variances[self.n_stretches + s, start + i] = VARIANCE * of_atom.norm * of_atom.norm
                    self._squares[start + i] += of_atom.squares
                i = 0
                while i < count:
                    if by_row:
                        next.first = self._after(start, next_start, i, s) + FETCHED
                    else:  # the second half of the columns, an eighth of it with each
                        next.first = self._columns_after(start, next_start, s)
                        next.first += (BM_BYTE_STRETCH // 2 + i // BM_BYTES_ABREAST * next.n_rows) * next.stride_bytes
                    bm_kernels().byte_products(
                        atoms + i * layout.of_atom, &layout, &known[(s - begin) * BM_BYTE_ATOMS + i], &queries, &next,
                        sums + i * BM_BYTE_QUERIES,
                    )
                    i += BM_BYTES_ABREAST
            begin = end
        bm_kernels().turn_f64(
            sums, BM_BYTE_QUERIES * sizeof(double), self.m, count, &self._products[0, start], self.n
        )

    cdef const char* _after(self, int64_t start, int64_t next_start, int64_t i, int64_t stretch) noexcept nogil:
        """Which numbers of row i of a block, or of the next block, will be rounded after a stretch has been multiplied."""
        cdef const Segment* segment = &self.rows.segments[0]
        if stretch + RUN < self.n_stretches:
            stretch += RUN
        else:
            start, stretch = next_start, stretch % RUN
        return segment.base + (start + i) * segment.row_stride + stretch * BM_BYTE_STRETCH * segment.column_stride

    cdef void _round_row(
        self, int64_t row, int64_t stretch, const char* after, float* numbers, int8_t* room, bm_bytes* known
    ) noexcept nogil:
        cdef const Segment* segment = &self.rows.segments[0]
        cdef int64_t first = stretch * BM_BYTE_STRETCH
        cdef int64_t count = min(<int64_t> BM_BYTE_STRETCH, self.d - first)
        cdef const char* source = segment.base + row * segment.row_stride + first * segment.column_stride
        cdef bm_dither dither = self._dither_of_atoms(first)
        if segment.dtype != BM_F32:
            bm_kernels().to_f32(segment.dtype, source, segment.column_stride, count, numbers)
            source = <const char*> numbers
        bm_kernels().row_bytes(<const float*> source, count, &dither, after, room, known)

    cdef void _round_columns(
        self, int64_t start, int64_t next_start, int64_t stretch, int32_t* room, float* numbers, bm_bytes* known
    ) noexcept nogil:
        cdef const Segment* segment = &self.rows.segments[0]
        cdef int64_t first = stretch * BM_BYTE_STRETCH, count = min(<int64_t> BM_BYTE_ATOMS, self.n - start)
        cdef int64_t width = min(<int64_t> BM_BYTE_STRETCH, self.d - first), j
        cdef const char* source = segment.base + start * segment.row_stride + first * segment.column_stride
        cdef bm_dither dither = self._dither_of_atoms(first)
        if segment.dtype == BM_F32:
            bm_kernels().copy_columns_f32(source, segment.column_stride, count, width, numbers)
        elif segment.dtype == BM_F64:
            bm_kernels().copy_columns_f64(source, segment.column_stride, count, width, numbers)
        else:
            for j in range(width):
                bm_kernels().to_f32(
                    segment.dtype, source + j * segment.column_stride, segment.row_stride, count, numbers + j * BM_BYTE_ATOMS
                )
                memset(numbers + j * BM_BYTE_ATOMS + count, 0, (BM_BYTE_ATOMS - count) * sizeof(float))
        bm_kernels().column_bytes(
            numbers, width, &dither, self._columns_after(start, next_start, stretch), segment.column_stride, room, known
        )

    cdef const char* _columns_after(self, int64_t start, int64_t next_start, int64_t stretch) noexcept nogil:
        """Which columns of a block, or of the next block, will be rounded after a stretch has been multiplied."""
        cdef const Segment* segment = &self.rows.segments[0]
        if stretch + 1 < self.n_stretches:
            stretch += 1
        else:
            start, stretch = next_start, 0
        return segment.base + start * segment.row_stride + stretch * BM_BYTE_STRETCH * segment.column_stride

    cdef bm_dither _dither_of_atoms(self, int64_t first) noexcept nogil:
        cdef bm_dither dither
        dither.own, dither.levels_of_others = &self.atom_dither[first], &self.query_levels[first]
        return dither

    def deviations(self, atoms=None):
        """Sub-Gaussian deviations of the errors of products with all atoms, or with some: one row for each query."""
        cdef const double[:, ::1] variances = self._variances
        if atoms is not None and atoms.size < self.n:
            variances = np.ascontiguousarray(np.asarray(self._variances)[:, atoms])
        norms, steps = np.asarray(self.query_norms)[:, : self.m], np.asarray(self.query_steps)[:, : self.m]
        cdef const double[:, ::1] weights = np.ascontiguousarray(np.square(np.concatenate((norms, steps))).T)
        deviations = np.empty((self.m, variances.shape[1]))
        cdef double[:, ::1] found = deviations
        with nogil:
            bm_kernels().root_sums(
                &weights[0, 0], self.m, &variances[0, 0], variances.shape[0], variances.shape[1], &found[0, 0]
            )
        return deviations

    def radii(self, ends):
        """How many deviations an interval reaches, of so many sub-Gaussian ones, with all that is lost by rounding."""
        cdef double lost = LOST * sqrt(24.0 * self.n_stretches * BM_BYTE_STRETCH)
        return [SPARE * (end + lost) for end in ends]


def reaching_best(
    const double[:, ::1] products, const double[:, ::1] deviations, radii, Py_ssize_t k, bint absolute, scores=None,
    excluded=None
):
    """For each query, the atoms whose upper ends reach the k-th largest lower end.

    Parameters
    ----------
    products, deviations : float64 arrays of shape (m, n)
    radii : pair of float
        How many deviations lower ends lie below the products, and upper ends above.
    scores : tuple, or None
        How what is ranked follows from products: the atoms' factors and offsets (of shape (n,), no factor below 0), by what
        the offsets of a query are multiplied (m,), by what part of them the product times the factor, and the offset, may be
        wrong, and by how much what is ranked may be besides (m,).
    excluded : bool array of shape (n,) or (m, n), or None
        Atoms that take no part. A query that has fewer than k others is one of which a number is not finite.

    Returns
    -------
    The rows, those of one query after those of another; where those of each query begin, with the end of all (an array of
    m + 1); and for which queries a number is not finite, which have none.
    """
    cdef Py_ssize_t m = products.shape[0], n = products.shape[1], b, t, top = 0, n_reaching
    cdef double bar
    cdef double[::1] lower = np.empty(n), upper = np.empty(n), nothing = np.zeros(n), room = np.empty(n_blocks(n) + n)
    cdef const double[::1] factors, offsets, centres, besides
    cdef const uint8_t[:, ::1] out
    cdef bm_ranked ranked
    cdef bint are_products = scores is None, all_take_part = excluded is None
    unknown = np.zeros(m, dtype=np.bool_)
    cdef RowsOfEach found = RowsOfEach(m, n, n + 2 * m * k)
    cdef int64_t* places
    cdef uint8_t[::1] are_unknown = unknown.view(np.uint8)
    if deviations.shape[0] != m or deviations.shape[1] != n or not 0 < k <= n:
        raise ValueError(f"{m} by {n} products need as many deviations, and at least k = {k} atoms")
    memset(&ranked, 0, sizeof(ranked))
    ranked.below, ranked.above = radii
    ranked.absolute = absolute
    if not are_products:
        factors, offsets, centres, ranked.part, besides = scores
        if not factors.shape[0] == offsets.shape[0] == n or not centres.shape[0] == besides.shape[0] == m:
            raise ValueError(f"factors and offsets must be those of {n} atoms and {m} queries")
        ranked.factors, ranked.offsets = &factors[0], &offsets[0]
    if not all_take_part:
        out = np.ascontiguousarray(np.broadcast_to(excluded, (m, n))).view(np.uint8)
    for b in range(m):
        places, n_reaching = found.room(), 0
        with nogil:
            if not are_products:
                ranked.centre, ranked.besides = centres[b], besides[b]
            bm_kernels().score_ends(&products[b, 0], &deviations[b, 0], n, &ranked, &lower[0], &upper[0])
            if not all_take_part:
                for t in range(n):
                    if out[b, t]:
                        lower[t] = NOWHERE
                        upper[t] = -INFINITY
            bar = kth_best(&lower[0], n, k, False, &room[0], &room[n_blocks(n)], &top)
            are_unknown[b] = isnan(bar) or bar == NOWHERE
            if not are_unknown[b]:
                n_reaching = bm_kernels().reaching(&upper[0], &nothing[0], n, False, bar, places)
            found.take(n_reaching)
    return *found.found(), unknown
