"""Batches of plain queries whose scores follow from products with all atoms, in one compiled call."""

from libc.math cimport frexp, ldexp, sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

cimport numpy as cnp

from banditmips.core.kernels cimport bm_moments
from banditmips.core.near_best cimport Room, RowsOfEach, count_left, n_blocks
from banditmips.core.pairs cimport are_shared
from banditmips.core.plain cimport BytesFirst, are_floats, are_same
from banditmips.core.products cimport Best
from banditmips.core.rows cimport Rows
from banditmips.core.scored cimport PlainScores, ScoredAtoms, data_of, measure

from banditmips.core.plain import without_rows

cnp.import_array()


cdef struct Looked:
    # A query: what it takes to rank its products, and to make scores of exact sums.
    double norm
    double centre
    double mean
    double size
    int exponent


cdef class ScoresBatch(PlainScores):
    """One kind of batch of so many queries to atoms that lie row after row, or column after column, and are not far away.

    Attributes
    ----------
    n_queries : int
    bytes_first : BytesFirst
    level, lengths, multiply
        Take all queries.
    """

    cdef public Py_ssize_t n_queries
    cdef public BytesFirst bytes_first

    cdef bint serves(self, cnp.ndarray atoms, cnp.ndarray rows, k, tuple asked):
        return (
            cnp.PyArray_NDIM(rows) == 2
            and cnp.PyArray_DIM(rows, 0) == self.n_queries
            and cnp.PyArray_DIM(rows, 1) == self.d
            and are_floats(rows, self.type_num)
            and k == self.k
            and self.are_of_kind(atoms)
            and are_same(asked, self.asked)
            and not self.is_closed
        )

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray rows, cnp.ndarray mask):
        cdef cnp.npy_intp m = self.n_queries, t
        cdef cnp.npy_intp[2] shape = [m, self.k]
        cdef const uint8_t* out = <const uint8_t*> data_of(mask)
        cdef Py_ssize_t n_left = self.n, n_flat
        if self.level is not None:
            rows = self.level(rows)
        cdef cnp.ndarray counts = cnp.PyArray_SimpleNew(1, &m, cnp.NPY_INT64)
        cdef cnp.ndarray norms = cnp.PyArray_SimpleNew(1, &m, cnp.NPY_FLOAT64)
        cdef Room room = Room(m * sizeof(Looked))
        cdef Looked* looked = <Looked*> room.start
        if out != NULL:
            n_left = count_left(out, self.n)
        n_flat = self._look_at_all(rows, n_left, looked, <int64_t*> cnp.PyArray_DATA(counts))
        if n_flat < 0 or n_left < <Py_ssize_t> self.k:
            return None
        for t in range(m):
            (<double*> cnp.PyArray_DATA(norms))[t] = looked[t].norm
        cdef ScoredAtoms scored = ScoredAtoms(Rows([atoms])) if self.known is None else self.known
        by_bytes = None if self.by_columns else self.bytes_first.ask(atoms, rows, norms, mask, n_flat)
        close = self._everybody(out) if self.by_columns else self._close_of_all(scored, rows, by_bytes, out, looked)
        if close is None:
            return None
        if self.scales and not (self._find_lengths(rows, looked) and self._find_norms(scored, close[0], looked)):
            return None
        cdef cnp.ndarray indices = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_INT64)
        cdef cnp.ndarray scores = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_FLOAT64)
        cdef Best best = Best.__new__(Best)
        best.k, best.absolute = self.k, self.absolute
        best._indices, best._scores = <int64_t*> cnp.PyArray_DATA(indices), <double*> cnp.PyArray_DATA(scores)
        if not self._find_best(scored, rows, close, looked, best):
            return None
        asked = None if by_bytes is None else (by_bytes[1], self.bytes_first.delta)
        return self.batch_result(indices, scores, counts, n_left, asked)

    cdef Py_ssize_t _look_at_all(self, cnp.ndarray rows, int64_t n_left, Looked* looked, int64_t* counts) noexcept:
        """Look at all queries; how many have no large entries, or -1 where one is not served."""
        cdef const char* query = <const char*> cnp.PyArray_DATA(rows)
        cdef bint is_single = cnp.PyArray_TYPE(rows) == cnp.NPY_FLOAT
        cdef int64_t size = self.d * <int64_t> (sizeof(float) if is_single else sizeof(double))
        cdef double flat = self.bytes_first.most_peaked ** 2 / self.d
        cdef bm_moments moments
        cdef Py_ssize_t t, n_flat = 0
        with nogil:
            for t in range(self.n_queries):
                measure(query + t * size, is_single, self.d, &moments)
                if not self.is_served(&moments):
                    return -1
                looked[t].norm, looked[t].centre = sqrt(moments.squares), moments.total / self.d
                frexp(moments.largest, &looked[t].exponent)
                counts[t] = n_left * (moments.n_nonzero if self.objective == 0 else self.d)
                n_flat += moments.largest * moments.largest <= flat * moments.squares
        return n_flat

    cdef bint _find_lengths(self, cnp.ndarray rows, Looked* looked) except -1:
        """Find means and norms of all queries; False where they are not numbers."""
        measured = self.lengths(rows)
        if measured is None:
            return False
        cdef const double[::1] means = measured[0], sizes = measured[1]
        cdef Py_ssize_t t
        for t in range(self.n_queries):
            looked[t].mean, looked[t].size = means[t], sizes[t]
        return True

    cdef bint _find_norms(self, ScoredAtoms scored, cnp.ndarray close, Looked* looked) except -1:
        """Find norms of the rows whose scores are wanted, and by what queries are multiplied for them."""
        if not self.find_norms(scored, <const int64_t*> cnp.PyArray_DATA(close), cnp.PyArray_SIZE(close)):
            return False
        cdef Py_ssize_t t
        for t in range(self.n_queries):
            looked[t].exponent = scored.exponent - looked[t].exponent
            looked[t].mean = ldexp(looked[t].mean, looked[t].exponent)
            looked[t].size = ldexp(looked[t].size, looked[t].exponent)
        return True

    cdef object _everybody(self, const uint8_t* out):
        """The rows that take part, for each query."""
        cdef Py_ssize_t t, n_left = 0
        some = np.empty(self.n, dtype=np.int64)
        cdef int64_t[::1] rows = some
        for t in range(self.n):
            rows[n_left] = t
            n_left += out == NULL or not out[t]
        return np.tile(some[:n_left], self.n_queries), n_left * np.arange(self.n_queries + 1)

    cdef object _close_of_all(
        self, ScoredAtoms scored, cnp.ndarray rows, by_bytes, const uint8_t* out, const Looked* looked
    ):
        """Rows that can be among the best of each query, and where they begin; None where others have to find them.

        They are those by products of bytes, if there are any, and by other products for queries that have none.
        """
        given, given_begins = (None, np.zeros(self.n_queries + 1, dtype=np.int64)) if by_bytes is None else by_bytes
        left = without_rows(given_begins)
        if len(left) == 0:
            return by_bytes
        some = rows if len(left) == self.n_queries else rows[left]
        cdef bint learns = self.known is None and self.needs_squares
        with np.errstate(over="ignore", under="ignore"):
            moments = np.empty((2, self.n)) if learns else None
            found = self.multiply(scored.rows, some.astype(np.float32 if self.single else np.float64, copy=False), moments)
        if learns and not self.learn(scored, *moments):
            return None
        cdef cnp.ndarray products = found
        cdef Room room = Room((2 * n_blocks(self.n) + self.n) * sizeof(double))
        cdef char* of_query = <char*> cnp.PyArray_DATA(products)
        cdef const int64_t[::1] known_begins = given_begins, known_rows
        cdef RowsOfEach close = RowsOfEach(self.n_queries, self.n, 2 * self.n_queries * <Py_ssize_t> self.k)
        cdef Py_ssize_t t, n_close
        cdef int64_t* places
        if given is not None:
            known_rows = given
        for t in range(self.n_queries):
            n_close, places = known_begins[t + 1] - known_begins[t], close.room()
            if n_close > 0:
                memcpy(places, &known_rows[known_begins[t]], n_close * sizeof(int64_t))
            else:
                n_close = self.find_close(
                    scored, of_query, looked[t].norm, looked[t].centre, out, <double*> room.start, places
                )
                self.is_closed |= n_close > self.most_close
                if n_close < 0 or self.is_closed:
                    return None
                of_query += self.n * <int64_t> (sizeof(float) if self.single else sizeof(double))
            close.take(n_close)
        return close.found()

    cdef bint _find_best(
        self, ScoredAtoms scored, cnp.ndarray rows, wanted, const Looked* looked, Best best
    ) except -1:
        """Put the best of the wanted rows of each query one after another where `best` begins; False where others have to."""
        cdef Room room = Room((self.d + self.n) * sizeof(double))
        cdef double* wide = <double*> room.start
        cdef double* sums = wide + self.d
        cdef bint is_single = cnp.PyArray_TYPE(rows) == cnp.NPY_FLOAT, are_together
        cdef const char* query = <const char*> cnp.PyArray_DATA(rows)
        cdef const int64_t[::1] close = wanted[0], begins = wanted[1]
        cdef const double[::1] of_all
        cdef const int64_t* some
        cdef Py_ssize_t t, n_close
        # What is read of rows whose numbers lie apart serves all queries, and so it does where many want the same.
        are_together = not scored.rows.are_contiguous or are_shared(close, self.n, scored.rows.row_bytes)
        if are_together:
            of_all = self._sums_together(scored.rows, rows, wanted, looked)
        for t in range(self.n_queries):
            some, n_close = &close[0] + begins[t], begins[t + 1] - begins[t]
            if are_together:
                memcpy(sums, &of_all[begins[t]], n_close * sizeof(double))
            else:
                with nogil:
                    self.widen(query, is_single, looked[t].exponent if self.scales else 0, wide)
                    scored.rows.fill_sums(some, n_close, wide, self.objective, sums)
            if self.scales:
                self.scale(scored, some, begins[t], n_close, looked[t].size, -self.d * looked[t].mean, sums)
            best.count = 0
            if not best.add_all(some, sums, n_close):
                return False
            best._indices, best._scores = best._indices + best.k, best._scores + best.k
            query += self.d * <int64_t> (sizeof(float) if is_single else sizeof(double))
        return True

    cdef object _sums_together(self, Rows atoms, cnp.ndarray rows, wanted, const Looked* looked):
        """Exact sums of all wanted rows, of which what is read serves all queries."""
        close, begins = wanted
        cdef Py_ssize_t t
        powers = np.zeros(self.n_queries, dtype=np.int64)
        if self.scales:
            for t in range(self.n_queries):
                powers[t] = looked[t].exponent
        # Sums with floats are neither too large nor too small in double precision, before or after.
        cdef bint scaled_before = self.scales and not (self.single and cnp.PyArray_TYPE(rows) == cnp.NPY_FLOAT)
        taken = rows * np.ldexp(1.0, powers)[:, np.newaxis] if scaled_before else rows
        if self.by_columns:
            sums = atoms.sums_of_columns(taken.astype(np.float64, copy=False), 0, self.n, self.objective)
            sums = np.take(sums, close[begins[0] : begins[1]], axis=1).reshape(-1)
        else:
            sums = atoms.pair_sums(close, begins, taken, self.objective)
        if self.scales and not scaled_before:
            sums = np.ldexp(sums, np.repeat(powers, np.diff(begins)))
        return sums
