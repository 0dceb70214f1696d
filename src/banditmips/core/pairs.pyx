"""Exact sums of pairs of a row and a query, of which many share rows or queries: each row is read once for all of them.

A part of all rows that are wanted is at hand at a time, as much as stays in the second cache with what is added up of it.
Rows of floats are read as they lie. Numbers of other types, and those of columns, are put there row by row: so many columns
of a matrix by column at a time that it is read as it lies.
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

import numpy as np

from banditmips.core.kernels cimport (
    BM_F16, BM_F32, BM_F64, BM_I8, BM_I16, BM_NEIGHBOURS, BM_STRETCH, BM_SUMS, BM_U8, BM_U16, bm_columns, bm_kernels,
    bm_neighbours,
)
from banditmips.core.places cimport CACHE_LINE, PITCH, PREFETCH_LATER, Place, next_line, read_stretch

cdef enum:
    MOST_ROWS = 1024  # that are at hand at a time
    MOST_APART = 32  # the same of rows by column without neighbours, in half of the second cache
    AT_HAND = 1 << 19  # bytes of them: half of the second cache of most processors
    LEAST_PART = 512  # numbers of a row: what is around fewer takes longer than from a farther cache
    FEW_NEIGHBOURS = 2  # rows of a cache line up to which numbers are read one by one
    GAP = PITCH - BM_STRETCH  # numbers between rows: at a power of two they would push each other out of the cache
    MOST_PAIRS = 8192  # of which sums are held at a time, a megabyte of them
    TOGETHER = 16  # columns of numbers that are converted before they are turned
    MOST_TOGETHER = 1024  # rows of these


cdef struct Run:
    # Groups of rows next to each other, whose numbers are converted together; the first row, and how many
    int64_t begin
    int64_t end
    int64_t first
    int64_t n


cdef class Hand:
    """Rows that are at hand: a part of each, in single or in double precision."""

    cdef const Wanted* wanted
    cdef bint are_single, lie_ready, lie_by_column, lie_apart
    cdef int64_t first, n, part, pitch, size, n_groups, n_runs
    cdef int64_t fetched, n_to_fetch, per_call  # lines of rows that lie ready, from the part that comes next
    cdef const void** rows  # where the part of each is
    cdef char* room
    cdef char* converted
    cdef bm_neighbours* groups
    cdef Run* runs
    cdef Place* places
    cdef object memory

    cdef int begin(self, const Wanted* wanted, int64_t n, bint whole_stretches, bint lie_apart) except -1:
        """Make room for n of the wanted rows at most; those that lie apart are read stretch by stretch, number by number."""
        cdef int64_t t
        cdef const Place* place
        self.wanted, self.are_single, self.lie_ready, self.lie_apart = wanted, not lie_apart, not lie_apart, lie_apart
        for t in range(wanted.n):
            place = &wanted.places[t]
            self.are_single &= place.dtype in (BM_F32, BM_F16, BM_I8, BM_U8, BM_I16, BM_U16)
        self.size = sizeof(float) if self.are_single else sizeof(double)
        for t in range(wanted.n):
            place = &wanted.places[t]
            self.lie_ready &= place.stride == self.size and place.dtype == (BM_F32 if self.are_single else BM_F64)
        self.lie_by_column = not self.lie_ready and not lie_apart and wanted.columns != NULL
        self.part = BM_STRETCH
        while not whole_stretches and not lie_apart and self.part > LEAST_PART and n * self.part * self.size > AT_HAND:
            self.part //= 2
        self.pitch = (self.part + GAP) * self.size
        self.memory = []
        self.rows = <const void**> self._room(n * sizeof(void*))
        if not self.lie_ready:
            self.room = <char*> self._room(n * self.pitch)
        if lie_apart:
            self.places = <Place*> self._room(n * sizeof(Place))
        if self.lie_by_column:
            self.groups = <bm_neighbours*> self._room(n * sizeof(bm_neighbours))
            self.runs = <Run*> self._room(n * sizeof(Run))
            self.converted = <char*> self._room(TOGETHER * MOST_TOGETHER * self.size)
        return 0

    cdef void* _room(self, int64_t n_bytes) except NULL:
        cdef unsigned char[::1] room = np.empty(n_bytes + CACHE_LINE, dtype=np.uint8)
        self.memory.append(room)
        return next_line(&room[0])

    cdef void take(self, int64_t first, int64_t n) noexcept nogil:
        """Turn to so many of the wanted rows."""
        cdef int64_t t
        self.first, self.n = first, n
        if not self.lie_ready:
            for t in range(n):
                self.rows[t] = self.room + t * self.pitch
        if self.lie_by_column:
            self._group()

    cdef void _group(self) noexcept nogil:
        """Find neighbours."""
        cdef const bm_columns* columns = self.wanted.columns
        cdef const int64_t* numbers = self.wanted.numbers + self.first
        cdef bint are_ready = columns.dtype == (BM_F32 if self.are_single else BM_F64)
        cdef bm_neighbours* group = NULL
        cdef Run* run = NULL
        cdef int64_t t, start
        self.n_groups = self.n_runs = 0
        for t in range(self.n):
            start = numbers[t] // BM_NEIGHBOURS * BM_NEIGHBOURS
            if t == 0 or start >= numbers[t - 1] // BM_NEIGHBOURS * BM_NEIGHBOURS + BM_NEIGHBOURS:
                group = &self.groups[self.n_groups]
                memset(group, 0, sizeof(bm_neighbours))
                group.n = min(<int64_t> BM_NEIGHBOURS, columns.n - start)
                if run == NULL or not (
                    are_ready or (start == run.first + run.n and start + BM_NEIGHBOURS - run.first <= MOST_TOGETHER)
                ):
                    run = &self.runs[self.n_runs]
                    run.begin, run.first = self.n_groups, 0 if are_ready else start
                    self.n_runs += 1
                group.first, run.n = start - run.first, start + group.n - run.first
                self.n_groups += 1
                run.end = self.n_groups
            group.n_wanted += 1
            group.rows[numbers[t] - start] = <void*> self.rows[t]

    cdef void read(self, int64_t first, int64_t count) noexcept nogil:
        """Have the numbers of all rows at so many columns at hand."""
        cdef const Place* place
        cdef int64_t t
        if self.lie_by_column:
            self._turn(first, count)
            return
        if self.lie_apart:
            for t in range(self.n):
                self.places[t] = self.wanted.places[self.first + t]
                self.places[t].entry += first * self.places[t].stride
            read_stretch(self.places, self.n, count, <double*> self.room)
            return
        for t in range(self.n):
            place = &self.wanted.places[self.first + t]
            if self.lie_ready:
                self.rows[t] = place.entry + first * self.size
            elif self.are_single:
                bm_kernels().to_f32(place.dtype, place.entry + first * place.stride, place.stride, count, <float*> self.rows[t])
            else:
                bm_kernels().to_f64(place.dtype, place.entry + first * place.stride, place.stride, count, <double*> self.rows[t])

    cdef void _turn(self, int64_t first, int64_t count) noexcept nogil:
        cdef const bm_columns* columns = self.wanted.columns
        cdef const char* start = <const char*> columns.base + first * columns.column_stride
        cdef const char* numbers
        cdef Run* run
        cdef int64_t t, c, some, at = 0
        if columns.dtype == (BM_F32 if self.are_single else BM_F64):
            self._turn_groups(start, columns.column_stride, count, self.runs, 0)
            return
        while at < count:
            some = min(<int64_t> TOGETHER, count - at)
            for t in range(self.n_runs):
                run = &self.runs[t]
                for c in range(some):
                    numbers = start + (at + c) * columns.column_stride + run.first * columns.row_stride
                    if self.are_single:
                        bm_kernels().to_f32(
                            columns.dtype, numbers, columns.row_stride, run.n, <float*> self.converted + c * run.n
                        )
                    else:
                        bm_kernels().to_f64(
                            columns.dtype, numbers, columns.row_stride, run.n, <double*> self.converted + c * run.n
                        )
                self._turn_groups(self.converted, run.n * self.size, some, run, at)
            at += some

    cdef void _turn_groups(
        self, const char* columns, int64_t stride, int64_t count, const Run* run, int64_t at
    ) noexcept nogil:
        if self.are_single:
            bm_kernels().turn_some_f32(columns, stride, count, self.groups + run.begin, run.end - run.begin, at)
        else:
            bm_kernels().turn_some_f64(columns, stride, count, self.groups + run.begin, run.end - run.begin, at)

    cdef void expect(self, int64_t next_part, int64_t n_calls) noexcept nogil:
        """Fetch so many numbers of each row that follow from memory during the next calls of `add`."""
        self.fetched = 0
        self.n_to_fetch = (next_part * self.size + CACHE_LINE - 1) // CACHE_LINE * self.n if self.lie_ready else 0
        self.per_call = -(-self.n_to_fetch // max(n_calls, <int64_t> 1))

    cdef void _fetch(self) noexcept nogil:
        """Rows are too far apart for the processor to see the next one coming; a few lines at a time are hidden by the sums."""
        cdef int64_t t, n_lines, row, line
        if self.fetched >= self.n_to_fetch:
            return
        n_lines = self.n_to_fetch // self.n
        row, line = self.fetched // n_lines, self.fetched % n_lines
        for t in range(min(self.per_call, self.n_to_fetch - self.fetched)):
            PREFETCH_LATER(<const char*> self.rows[row] + self.part * self.size + line * CACHE_LINE)
            line += 1
            if line == n_lines:
                row, line = row + 1, 0
        self.fetched += self.per_call

    cdef void add(
        self, const int64_t* slots, int64_t n, const double* query, int64_t count, int objective, double* lanes
    ) noexcept nogil:
        """Add the terms of n rows with a query to their sums, four rows at a time."""
        cdef const void* some[4]
        cdef int64_t t = 0
        cdef int r, together
        while t < n:
            together = 4 if n - t >= 4 else 2 if n - t >= 2 else 1
            for r in range(4):
                some[r] = self.rows[slots[t + min(r, together - 1)] - self.first]
            self._fetch()
            if self.are_single:
                bm_kernels().add_part_f32(objective, <const float**> some, together, query, count, lanes)
            else:
                bm_kernels().add_part_f64(objective, <const double**> some, together, query, count, lanes)
            t, lanes = t + together, lanes + together * BM_SUMS


cdef int add_pairs(const Wanted* wanted, const Asked* asked, int objective, double* sums) except -1:
    """Add the terms of each pair to its sum.

    Pairs of a query should be in the order of their rows: otherwise all rows are at hand at a time, however many.
    """
    cdef Asked some = asked[0]
    cdef int64_t first = 0, stop
    while first < asked.n:
        stop = first + 1
        while stop < asked.n and asked.begins[stop + 1] - asked.begins[first] <= MOST_PAIRS:
            stop += 1
        some.queries = <const char*> asked.queries + first * wanted.d * <int64_t> (
            sizeof(float) if asked.are_single else sizeof(double)
        )
        some.begins, some.n = asked.begins + first, stop - first
        _add_some(wanted, &some, objective, sums)
        first = stop
    return 0


cdef int _add_some(const Wanted* wanted, const Asked* asked, int objective, double* sums) except -1:
    """Do that for so many pairs that what is added up of them stays in the cache."""
    cdef int64_t most = wanted.n, q, first = 0
    if asked.begins[asked.n] == asked.begins[0] or wanted.d == 0:
        return 0
    cdef bint lie_apart = _lie_apart(wanted), in_order = _are_in_order(asked)
    if in_order:
        most = min(most, <int64_t> MOST_APART if lie_apart else <int64_t> MOST_ROWS)
    # The compiler may add up plain numbers in any order: parts of a stretch would be others than all of it.
    cdef bint whole_stretches = bm_kernels().name == b"portable"
    cdef Hand hand = Hand()
    hand.begin(wanted, most, whole_stretches, lie_apart and in_order)
    cdef int64_t[::1] begins = np.empty(2 * asked.n, dtype=np.int64)
    cdef double[::1] lanes = np.empty(_most_pairs(asked, wanted.n, most) * BM_SUMS + CACHE_LINE // sizeof(double))
    cdef double* aligned = <double*> next_line(&lanes[0])
    cdef double[::1] query = np.empty(hand.part if asked.are_single else 0)
    with nogil:
        while first < wanted.n:
            hand.take(first, min(most, wanted.n - first))
            for q in range(asked.n):
                begins[2 * q] = _place_of(first, asked.slots, asked.begins[q], asked.begins[q + 1])
                begins[2 * q + 1] = _place_of(first + hand.n, asked.slots, asked.begins[q], asked.begins[q + 1])
                if most == wanted.n:
                    begins[2 * q], begins[2 * q + 1] = asked.begins[q], asked.begins[q + 1]
            _add_block(hand, asked, begins, objective, aligned, query, sums)
            first += most
    return 0


cdef void _add_block(
    Hand hand, const Asked* asked, const int64_t[::1] begins, int objective, double* lanes, double[::1] room, double* sums
) noexcept nogil:
    """Add the pairs of rows that are at hand; those of query q begin at 2 q of `begins`, and end at the next."""
    cdef int64_t first = 0, d = hand.wanted.d, count, q, n, t
    cdef int64_t size = sizeof(float) if asked.are_single else sizeof(double)
    cdef const char* query
    cdef const double* wide
    cdef double* own = lanes
    cdef int64_t n_calls = 0
    for q in range(asked.n):
        own += (begins[2 * q + 1] - begins[2 * q]) * BM_SUMS
        n_calls += (begins[2 * q + 1] - begins[2 * q] + 3) // 4
    memset(lanes, 0, <char*> own - <char*> lanes)
    while first < d:
        count = min(hand.part, d - first)
        hand.read(first, count)
        hand.expect(min(hand.part, d - first - count), n_calls)
        own = lanes
        for q in range(asked.n):
            n = begins[2 * q + 1] - begins[2 * q]
            if n == 0:
                continue
            query = <const char*> asked.queries + (q * d + first) * size
            wide = <const double*> query
            t = 0
            while t < count * size:
                PREFETCH_LATER(query + count * size + t)
                t += CACHE_LINE
            if asked.are_single:
                bm_kernels().to_f64(BM_F32, query, sizeof(float), count, &room[0])
                wide = &room[0]
            hand.add(asked.slots + begins[2 * q], n, wide, count, objective, own)
            own += n * BM_SUMS
        first += count
        if first % BM_STRETCH == 0 or first == d:
            own = lanes
            for q in range(asked.n):
                n = begins[2 * q + 1] - begins[2 * q]
                bm_kernels().end_stretch(own, n, sums + begins[2 * q])
                own += n * BM_SUMS


cdef bint _lie_apart(const Wanted* wanted) noexcept nogil:
    """Whether most of the rows of a matrix by column have no neighbours that are wanted too."""
    cdef int64_t t, n_groups = 1
    if wanted.columns == NULL:
        return False
    for t in range(1, wanted.n):
        n_groups += wanted.numbers[t] // BM_NEIGHBOURS != wanted.numbers[t - 1] // BM_NEIGHBOURS
    return wanted.n <= FEW_NEIGHBOURS * n_groups


cdef bint _are_in_order(const Asked* asked) noexcept nogil:
    cdef int64_t q, t
    for q in range(asked.n):
        for t in range(asked.begins[q] + 1, asked.begins[q + 1]):
            if asked.slots[t] < asked.slots[t - 1]:
                return False
    return True


cdef int64_t _place_of(int64_t slot, const int64_t* slots, int64_t begin, int64_t end) noexcept nogil:
    """Where the pairs of rows from this one on begin, of those that are in order."""
    cdef int64_t middle
    while begin < end:
        middle = (begin + end) // 2
        if slots[middle] < slot:
            begin = middle + 1
        else:
            end = middle
    return begin


cdef int64_t _most_pairs(const Asked* asked, int64_t n_rows, int64_t most) noexcept:
    """The most pairs that are of rows which are at hand together."""
    cdef int64_t first = 0, q, n, largest = asked.begins[asked.n] - asked.begins[0]
    if most == n_rows:
        return largest
    largest = 0
    while first < n_rows:
        n = 0
        for q in range(asked.n):
            n += _place_of(first + most, asked.slots, asked.begins[q], asked.begins[q + 1])
            n -= _place_of(first, asked.slots, asked.begins[q], asked.begins[q + 1])
        largest, first = max(largest, n), first + most
    return largest
