"""Exact sums of pairs of a row and a query, of which many share rows or queries: each row is read once for all of them.

A part of the queries is at hand at a time, as much as stays in the second cache, and rows go by it one after another: what
is loaded of a row serves four queries. Rows of floats are read as they lie. Numbers of other types, and those of columns,
are put at hand too, row by row: so many columns of a matrix by column at a time that it is read as it lies.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

from banditmips.core.kernels cimport (
    BM_F16, BM_F32, BM_F64, BM_I8, BM_I16, BM_NEIGHBOURS, BM_STRETCH, BM_SUMS, BM_U8, BM_U16, bm_columns, bm_kernels,
    bm_neighbours,
)
from banditmips.core.places cimport CACHE_LINE, PITCH, PREFETCH_LATER, Place, next_line, read_stretch

cdef enum:
    MOST_ROWS = 256  # that are at hand at a time
    MOST_APART = 32  # the same of rows by column without neighbours, in half of the second cache
    MOST_QUERIES = 128  # of which a part is at hand at a time
    SECOND_CACHE = 1 << 20  # bytes that the second cache of most processors holds (measured: rows are shared from 1.2 MB on)
    AT_HAND = SECOND_CACHE // 2  # bytes of queries, or of rows
    LEAST_PART = 512  # numbers of a part: what is around fewer takes longer than from a farther cache
    SHARED = 4  # queries that want a row, on average, from which on contiguous rows are read once for all (measured: from 3)
    FEW_NEIGHBOURS = 2  # rows of a cache line up to which numbers are read one by one
    GAP = PITCH - BM_STRETCH  # numbers between rows: at a power of two they would push each other out of the cache
    MOST_PAIRS = 16384  # of which sums are held at a time, two megabytes of them
    TOGETHER = 16  # columns of numbers that are converted before they are turned
    MOST_TOGETHER = 1024  # rows of these
    AHEAD = 128  # cache lines of the next row that are fetched: a part of a stretch, which the processor does not see coming


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
    cdef int64_t first, n, most, part, pitch, size, n_groups, n_runs
    cdef const void** rows  # where the part of each is
    cdef char* room
    cdef char* converted
    cdef bm_neighbours* groups
    cdef Run* runs
    cdef Place* places
    cdef object memory

    cdef int begin(self, const Wanted* wanted, int64_t n_queries, bint are_single) except -1:
        """Make room for as many of the wanted rows, and a part of so many queries (perhaps of floats), as stay in the cache.

        Rows that lie apart are read stretch by stretch, number by number.
        """
        cdef bint lie_apart = _lie_apart(wanted)
        cdef int64_t t, n = min(wanted.n, <int64_t> MOST_APART if lie_apart else <int64_t> MOST_ROWS), largest, of_queries
        cdef const Place* place
        self.most = n
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
        of_queries = n_queries * <int64_t> (sizeof(float) if are_single and self.are_single else sizeof(double))
        largest = max(of_queries, 0 if self.lie_ready else n * self.size)
        # The compiler may add up plain numbers in any order: parts of a stretch would be others than all of it.
        while self.part > LEAST_PART and largest * self.part > AT_HAND and not lie_apart and bm_kernels().name != b"portable":
            self.part //= 2
        if not lie_apart:
            self.part = min(self.part, wanted.d)
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

    cdef void take(self, int64_t first) noexcept nogil:
        """Turn to the wanted rows from this one on."""
        cdef int64_t t, n = min(self.most, self.wanted.n - first)
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

    cdef void expect(self, int64_t t) noexcept nogil:
        """Fetch the beginning of row t of those at hand: rows are too far apart for the processor to see the next one coming."""
        cdef int64_t line
        if self.lie_ready and t < self.n:
            for line in range(AHEAD):
                PREFETCH_LATER(<const char*> self.rows[t] + line * CACHE_LINE)


cdef class Pairs:
    """Pairs in the order of their rows, what is added up of them, and a part of each query."""

    cdef int64_t[::1] begins, queries, places  # where those of each row begin; of each its query, and its place in `sums`
    cdef double[::1] found
    cdef double* lanes  # of the pairs of rows that are at hand
    cdef char* part  # of query q, from q * pitch on
    cdef int64_t pitch  # bytes
    cdef bint are_single  # whether rows and queries are floats, which take half of the cache
    cdef object memory

    cdef int sort(self, const Asked* asked, int64_t n_rows) except -1:
        cdef int64_t q, t, start = asked.begins[0], n_pairs = asked.begins[asked.n] - start
        cdef int64_t[::1] begins = np.zeros(n_rows + 2, dtype=np.int64)
        self.queries, self.places = np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs, dtype=np.int64)
        self.found = np.zeros(n_pairs)
        for t in range(n_pairs):
            begins[asked.slots[start + t] + 2] += 1
        for t in range(2, n_rows + 2):
            begins[t] += begins[t - 1]
        # Where the next pair of each row goes: at the end, where those of the next row begin.
        for q in range(asked.n):
            for t in range(asked.begins[q], asked.begins[q + 1]):
                self.queries[begins[asked.slots[t] + 1]], self.places[begins[asked.slots[t] + 1]] = q, t
                begins[asked.slots[t] + 1] += 1
        self.begins = begins
        return 0

    cdef int make_room(self, const Asked* asked, Hand hand) except -1:
        """Make room for what is at hand of queries and, for as many rows as are at hand at a time, of sums."""
        cdef int64_t n_queries = asked.n, most_rows = hand.most
        cdef int64_t n_rows = self.begins.shape[0] - 2, first, most = 0
        for first in range(0, n_rows, most_rows):
            most = max(most, self.begins[min(first + most_rows, n_rows)] - self.begins[first])
        self.are_single = asked.are_single and hand.are_single
        self.pitch = (hand.part + GAP) * <int64_t> (sizeof(float) if self.are_single else sizeof(double))
        cdef double[::1] lanes = np.empty(most * BM_SUMS + CACHE_LINE // sizeof(double))
        cdef uint8_t[::1] parts = np.empty(n_queries * self.pitch + CACHE_LINE, dtype=np.uint8)
        self.memory, self.lanes, self.part = (lanes, parts), <double*> next_line(&lanes[0]), <char*> next_line(&parts[0])
        return 0

    cdef void take(self, const Asked* asked, int64_t d, int64_t first, int64_t count) noexcept nogil:
        """Have the numbers of all queries at so many coordinates at hand."""
        cdef int64_t q, size = sizeof(float) if asked.are_single else sizeof(double)
        cdef const char* query
        for q in range(asked.n):
            query = <const char*> asked.queries + (q * d + first) * size
            if asked.are_single and not self.are_single:
                bm_kernels().to_f64(BM_F32, query, size, count, <double*> (self.part + q * self.pitch))
            else:
                memcpy(self.part + q * self.pitch, query, count * size)

    cdef void add(self, int64_t row, const void* numbers, bint is_single, int64_t count, int objective, double* lanes) noexcept nogil:
        """Add the terms of a row, of which these numbers are at hand, with its queries to their sums."""
        cdef const void* some[4]
        cdef int64_t t = self.begins[row], end = self.begins[row + 1]
        cdef int q, together
        while t < end:
            together = 4 if end - t >= 4 else 2 if end - t >= 2 else 1
            for q in range(together):
                some[q] = self.part + self.queries[t + q] * self.pitch
            if self.are_single:
                bm_kernels().add_part_of_floats(objective, <const float*> numbers, <const float**> some, together, count, lanes)
            elif is_single:
                bm_kernels().add_part_f32(objective, <const float*> numbers, <const double**> some, together, count, lanes)
            else:
                bm_kernels().add_part_f64(objective, <const double*> numbers, <const double**> some, together, count, lanes)
            t, lanes = t + together, lanes + together * BM_SUMS


cdef bint may_share(int64_t n_pairs, int64_t n, int64_t row_bytes) noexcept nogil:
    """Whether so many pairs, spread over n atoms, are so many that `are_shared` could say yes of them."""
    return n_pairs >= SHARED * n and n * row_bytes > SECOND_CACHE


cpdef bint are_shared(const int64_t[::1] rows, int64_t n, int64_t row_bytes):
    """Whether so many queries want each of their contiguous rows, of n atoms, that it takes less to read it once for all.

    Rows that the second cache holds, all of them together, are as fast query by query.
    """
    if rows.shape[0] * row_bytes <= SHARED * SECOND_CACHE:
        return False
    cdef uint8_t[::1] wanted = np.zeros(n, dtype=np.uint8)
    cdef int64_t t, n_wanted = 0
    for t in range(rows.shape[0]):
        n_wanted += not wanted[rows[t]]
        wanted[rows[t]] = True
    return rows.shape[0] >= SHARED * n_wanted and n_wanted * row_bytes > SECOND_CACHE


cdef int add_pairs(const Wanted* wanted, const Asked* asked, int objective, double* sums) except -1:
    """Add the terms of each pair to its sum."""
    cdef Asked some = asked[0]
    cdef int64_t first = 0, stop
    while first < asked.n:
        stop = first + 1
        while (
            stop < min(asked.n, first + MOST_QUERIES)
            and asked.begins[stop + 1] - asked.begins[first] <= MOST_PAIRS
        ):
            stop += 1
        some.queries = <const char*> asked.queries + first * wanted.d * <int64_t> (
            sizeof(float) if asked.are_single else sizeof(double)
        )
        some.begins, some.n = asked.begins + first, stop - first
        if some.begins[some.n] > some.begins[0] and wanted.d > 0:
            _add_some(wanted, &some, objective, sums)
        first = stop
    return 0


cdef int copy_rows(const Wanted* wanted, real* rows) except -1:
    """Copy the rows, converted to this type, one behind the other."""
    cdef Hand hand = Hand()
    hand.begin(wanted, 0, False)
    cdef int64_t first = 0, start, count, t, d = wanted.d
    cdef int dtype = BM_F32 if hand.are_single else BM_F64
    with nogil:
        while first < wanted.n:
            hand.take(first)
            start = 0
            while start < d:
                count = min(hand.part, d - start)
                hand.read(start, count)
                for t in range(hand.n):
                    if real is float:
                        bm_kernels().to_f32(dtype, hand.rows[t], hand.size, count, rows + (first + t) * d + start)
                    else:
                        bm_kernels().to_f64(dtype, hand.rows[t], hand.size, count, rows + (first + t) * d + start)
                start += count
            first += hand.most
    return 0


cdef int _add_some(const Wanted* wanted, const Asked* asked, int objective, double* sums) except -1:
    """Do that for so many queries that a part of them stays in the cache."""
    cdef int64_t first = 0, t
    cdef Hand hand = Hand()
    cdef Pairs pairs = Pairs()
    hand.begin(wanted, asked.n, asked.are_single)
    pairs.sort(asked, wanted.n)
    pairs.make_room(asked, hand)
    with nogil:
        while first < wanted.n:
            hand.take(first)
            _add_rows(hand, pairs, asked, objective)
            first += hand.most
        for t in range(pairs.found.shape[0]):
            sums[pairs.places[t]] += pairs.found[t]
    return 0


cdef void _add_rows(Hand hand, Pairs pairs, const Asked* asked, int objective) noexcept nogil:
    """Add up the pairs of the rows that are at hand."""
    cdef int64_t first = 0, d = hand.wanted.d, count, t, begin = pairs.begins[hand.first]
    cdef int64_t n_pairs = pairs.begins[hand.first + hand.n] - begin
    if n_pairs == 0:
        return
    memset(pairs.lanes, 0, n_pairs * BM_SUMS * sizeof(double))
    while first < d:
        count = min(hand.part, d - first)
        pairs.take(asked, d, first, count)
        hand.read(first, count)
        for t in range(hand.n):
            hand.expect(t + 1)
            pairs.add(
                hand.first + t, hand.rows[t], hand.are_single, count, objective,
                pairs.lanes + (pairs.begins[hand.first + t] - begin) * BM_SUMS,
            )
        first += count
        if first % BM_STRETCH == 0 or first == d:
            bm_kernels().end_stretch(pairs.lanes, n_pairs, &pairs.found[begin])


cdef bint _lie_apart(const Wanted* wanted) noexcept nogil:
    """Whether most of the rows of a matrix by column have no neighbours that are wanted too."""
    cdef int64_t t, n_groups = 1
    if wanted.columns == NULL:
        return False
    for t in range(1, wanted.n):
        n_groups += wanted.numbers[t] // BM_NEIGHBOURS != wanted.numbers[t - 1] // BM_NEIGHBOURS
    return wanted.n <= FEW_NEIGHBOURS * n_groups
