"""Batches of plain queries to an index, whose scores follow from products with all atoms, in one compiled call."""

from libc.math cimport frexp, ldexp, sqrt
from libc.stdint cimport int64_t, uint8_t

import numpy as np

cimport numpy as cnp

from banditmips.core.kernels cimport bm_moments
from banditmips.core.near_best cimport Room, count_left, n_blocks
from banditmips.core.plain cimport BytesFirst, are_floats, are_same
from banditmips.core.products cimport Best
from banditmips.core.scored cimport PlainScores, close_by, data_of, measure

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
    """One kind of batch of so many queries to an index, whose atoms lie row after row and are not far away.

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
            and are_same(asked, self.asked)
            and not self.is_closed
        )

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray rows, cnp.ndarray mask):
        cdef cnp.npy_intp m = self.n_queries, t
        cdef cnp.npy_intp[2] shape = [m, self.k]
        cdef const uint8_t* out = <const uint8_t*> data_of(mask)
        cdef Py_ssize_t n_left = self.n, n_flat
        cdef cnp.ndarray products = None
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
        if self.norms is not None and not self._find_lengths(rows, looked):
            return None
        for t in range(m):
            (<double*> cnp.PyArray_DATA(norms))[t] = looked[t].norm
        close = self.bytes_first.ask(atoms, rows, norms, mask, n_flat)
        left = rows if close is None else rows[without_rows(close[1])]
        if len(left):
            with np.errstate(over="ignore", under="ignore"):
                products = self.multiply(left.astype(np.float32 if self.single else np.float64, copy=False))
        cdef cnp.ndarray indices = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_INT64)
        cdef cnp.ndarray scores = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_FLOAT64)
        cdef Best best = Best.__new__(Best)
        best.k, best.absolute = self.k, self.absolute
        best._indices, best._scores = <int64_t*> cnp.PyArray_DATA(indices), <double*> cnp.PyArray_DATA(scores)
        if not self._find_all(rows, products, close, out, looked, best):
            return None
        by_bytes = None if close is None else (close[1], self.bytes_first.delta)
        return self.batch_result(indices, scores, counts, n_left, by_bytes)

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
                looked[t].exponent = self.exponent - looked[t].exponent
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
            looked[t].mean = ldexp(means[t], looked[t].exponent)
            looked[t].size = ldexp(sizes[t], looked[t].exponent)
        return True

    cdef bint _find_all(
        self, cnp.ndarray rows, cnp.ndarray products, given, const uint8_t* out, const Looked* looked, Best best
    ) except -1:
        """Put the best of each query one after another where `best` begins; False where others have to do it.

        They are of the rows that are `given`, or those by products, of queries that have no such rows.
        """
        cdef Room room = Room((self.d + 2 * self.n + 2 * n_blocks(self.n) + <Py_ssize_t> self.k) * sizeof(double))
        cdef double* wide = <double*> room.start
        cdef double* sums = wide + self.d
        cdef int64_t* close = <int64_t*> (sums + self.n)
        cdef double* others = <double*> (close + self.n)
        cdef bint is_single = cnp.PyArray_TYPE(rows) == cnp.NPY_FLOAT, scales = self.norms is not None
        cdef const char* query = <const char*> cnp.PyArray_DATA(rows)
        cdef char* of_query = NULL if products is None else <char*> cnp.PyArray_DATA(products)
        cdef const int64_t[::1] chosen, begins
        cdef const int64_t* some = close
        cdef Py_ssize_t t, n_close
        if given is not None:
            chosen, begins = given
        for t in range(self.n_queries):
            n_close = 0 if given is None else begins[t + 1] - begins[t]
            if n_close > 0:
                some = &chosen[0] + begins[t]
            else:
                some = close
                n_close = (
                    close_by[float](self, <float*> of_query, looked[t].norm, looked[t].centre, out, others, close)
                    if self.single else
                    close_by[double](self, <double*> of_query, looked[t].norm, looked[t].centre, out, others, close)
                )
                self.is_closed |= n_close > self.most_close
                if n_close < 0 or self.is_closed:
                    return False
                of_query += self.n * <int64_t> (sizeof(float) if self.single else sizeof(double))
            with nogil:
                self.widen(query, is_single, looked[t].exponent if scales else 0, wide)
                self.rows.fill_sums(some, n_close, wide, self.objective, sums)
            if scales:
                self.scale(some, n_close, looked[t].size, -self.d * looked[t].mean, sums)
            best.count = 0
            if not best.add_all(some, sums, n_close):
                return False
            best._indices, best._scores = best._indices + best.k, best._scores + best.k
            query += self.d * <int64_t> (sizeof(float) if is_single else sizeof(double))
        return True
