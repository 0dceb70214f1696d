"""The queries of a batch: measured, summed up exactly with the rows that each wants, and the best of those for each."""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

import numpy as np

cimport numpy as cnp

from banditmips.core.certain cimport are_fine
from banditmips.core.kernels cimport BM_F32, BM_PRODUCTS, bm_kernels, bm_moments
from banditmips.core.many_products cimport fill_many_products
from banditmips.core.near_best cimport Room, RowsOfEach, fill_maxima, n_blocks, real
from banditmips.core.pairs cimport are_shared, may_share
from banditmips.core.plain cimport BytesFirst, are_floats, are_same
from banditmips.core.products cimport (
    Best, PlainProducts, best_by_products, close_by_products, fill_exact, room_for_best,
)
from banditmips.core.rows cimport Rows

from banditmips.core.passes import rough_sums
from banditmips.core.plain import without_rows

cnp.import_array()


def measure_queries(const real[:, ::1] queries):
    """Sums of the queries' squares, their largest entries, how many are not 0, and which of the queries are fine.

    Those are whose numbers are finite, and their squares neither too large nor too small.
    """
    cdef Py_ssize_t m = queries.shape[0], t
    squares, largest, n_nonzero, fine = np.empty(m), np.empty(m), np.empty(m, dtype=np.int64), np.empty(m, dtype=np.bool_)
    cdef double[::1] of_squares = squares, sizes = largest
    cdef int64_t[::1] counts = n_nonzero
    cdef uint8_t[::1] are = fine.view(np.uint8)
    cdef bm_moments moments
    with nogil:
        for t in range(m):
            if real is float:
                bm_kernels().moments_f32(&queries[t, 0], queries.shape[1], NULL, &moments)
            else:
                bm_kernels().moments_f64(&queries[t, 0], queries.shape[1], NULL, &moments)
            of_squares[t], sizes[t], counts[t] = moments.squares, moments.largest, moments.n_nonzero
            are[t] = are_fine(&moments)
    return squares, largest, n_nonzero, fine


def add_exactly(
    Rows rows, const real[:, ::1] queries, scales, const int64_t[::1] close, const int64_t[::1] begins, int objective,
    double[::1] sums, part
):
    """Sum the objective's terms of queries with the rows that each wants, as `Rows.scores` does to the bit.

    Parameters
    ----------
    scales : float64 array of shape (m,), or None
        Powers of two that the queries are to be multiplied by.
    close, begins
        The rows, as `close_to_each` gives them.
    sums : float64 array as long as `close`
        Takes the sums.
    part : (first, stop)
        Queries that are to be done.
    """
    cdef Py_ssize_t t, i, first, stop, d = rows.d
    cdef bint has_scales = scales is not None
    cdef const double[::1] powers = np.ones(1) if scales is None else scales
    cdef Room room = Room(d * sizeof(double))
    cdef double* wide = <double*> room.start
    cdef const double* query = wide
    first, stop = part
    rows.check(close)
    if queries.shape[1] != d or not 0 <= first <= stop <= queries.shape[0] or begins.shape[0] != queries.shape[0] + 1:
        raise ValueError(f"queries {first} to {stop} of {queries.shape[0]}, of {queries.shape[1]} entries for {d} columns")
    if begins[0] < 0 or begins[queries.shape[0]] > close.shape[0] or sums.shape[0] != close.shape[0]:
        raise ValueError(f"{begins[queries.shape[0]]} rows are wanted, and {close.shape[0]} are there")
    with nogil:
        for t in range(first, stop):
            if begins[t] == begins[t + 1]:
                continue
            if real is float:
                bm_kernels().to_f64(BM_F32, &queries[t, 0], sizeof(float), d, wide)
            else:
                query = &queries[t, 0]
            if has_scales:
                for i in range(d):
                    wide[i] = query[i] * powers[t]
                query = wide
            rows.fill_sums(&close[begins[t]], begins[t + 1] - begins[t], query, objective, &sums[begins[t]])


def best_of_each(
    const int64_t[::1] close, const int64_t[::1] begins, const double[::1] scores, Py_ssize_t k, bint absolute
):
    """The best k rows of each query by their exact scores, and these; None where one is not finite.

    Where there are fewer, -1 and -inf stand behind them.
    """
    cdef Py_ssize_t m = begins.shape[0] - 1, t, i
    cdef bint are_finite = True
    indices, values = np.empty((m, k), dtype=np.int64), np.empty((m, k))
    cdef int64_t[:, ::1] of_rows = indices
    cdef double[:, ::1] of_scores = values
    cdef Best best = Best.__new__(Best)
    best.k, best.absolute = k, absolute
    with nogil:
        for t in range(m):
            best._indices, best._scores, best.count = &of_rows[t, 0], &of_scores[t, 0], 0
            are_finite &= best.add_all(&close[0] + begins[t], &scores[0] + begins[t], begins[t + 1] - begins[t])
            for i in range(best.count, k):
                of_rows[t, i], of_scores[t, i] = -1, -INFINITY
    return (indices, values) if are_finite else None


cdef class PlainBatch(PlainProducts):
    """One kind of batch that all products answer: atoms and so many queries of one type in C order and in memory.

    Attributes
    ----------
    n_queries : int
    by_tiles, by_ourselves, turns : bool
        Whether our own loop for few queries, or the one for many, takes no more than BLAS for all products; and whether that
        takes less for products of queries with atoms than for those of atoms with queries.
    bytes_first : BytesFirst
    """

    cdef public Py_ssize_t n_queries
    cdef public bint by_tiles, by_ourselves, turns
    cdef public BytesFirst bytes_first

    cdef bint serves(self, cnp.ndarray atoms, cnp.ndarray rows, k, tuple asked):
        return (
            cnp.PyArray_NDIM(rows) == 2
            and cnp.PyArray_DIM(rows, 0) == self.n_queries
            and cnp.PyArray_DIM(rows, 1) == self.d
            and cnp.PyArray_NDIM(atoms) == 2
            and cnp.PyArray_DIM(atoms, 0) == self.n
            and cnp.PyArray_DIM(atoms, 1) == self.d
            and are_floats(atoms, self.type_num)
            and are_floats(rows, self.type_num)
            and k == self.k
            and are_same(asked, self.asked)
        )

    cdef bint takes(self, mask):
        return mask is None

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray rows, cnp.ndarray mask):
        cdef cnp.npy_intp m = self.n_queries
        cdef cnp.ndarray products = None, squares = cnp.PyArray_SimpleNew(1, &m, cnp.NPY_FLOAT64)
        cdef cnp.ndarray counts = cnp.PyArray_SimpleNew(1, &m, cnp.NPY_INT64)
        cdef Py_ssize_t n_flat = self._measure(
            rows, <double*> cnp.PyArray_DATA(squares), <int64_t*> cnp.PyArray_DATA(counts)
        )
        if n_flat < 0:
            return None
        close = self.bytes_first.ask(atoms, rows, None, None, n_flat)
        left = rows if close is None else rows[without_rows(close[1])]
        if len(left) and self.by_ourselves:
            products = _multiplied(atoms, left)
        elif len(left):
            with np.errstate(over="ignore", invalid="ignore"):  # whoever has such a score is named elsewhere
                if self.by_tiles:
                    products = rough_sums(Rows([atoms]), np.arange(self.n), left, 0).astype(left.dtype)
                else:
                    products = np.dot(left, atoms.T) if self.turns else _turned(np.dot(atoms, left.T))
        best = (
            _best_of_all[float](self, <float*> NULL, products, close, atoms, rows, squares)
            if self.type_num == cnp.NPY_FLOAT else
            _best_of_all[double](self, <double*> NULL, products, close, atoms, rows, squares)
        )
        if best is None:
            return None
        indices, scores = best
        by_bytes = None if close is None else (close[1], self.bytes_first.delta)
        return self.batch_result(indices, scores, counts, self.n, by_bytes)

    cdef Py_ssize_t _measure(self, cnp.ndarray rows, double* squares, int64_t* counts) noexcept:
        """Find the sums of the queries' squares, and how many multiplies they take.

        Returns how many have no large entries; -1 where one is not plain.
        """
        cdef const char* query = <const char*> cnp.PyArray_DATA(rows)
        cdef double flat = self.bytes_first.most_peaked ** 2 / self.d
        cdef bm_moments moments
        cdef Py_ssize_t t, n_flat = 0
        with nogil:
            for t in range(self.n_queries):
                if self.type_num == cnp.NPY_FLOAT:
                    bm_kernels().moments_f32(<const float*> query, self.d, NULL, &moments)
                    query += self.d * sizeof(float)
                else:
                    bm_kernels().moments_f64(<const double*> query, self.d, NULL, &moments)
                    query += self.d * sizeof(double)
                if not are_fine(&moments) or self.few_entries * moments.n_nonzero <= self.d:
                    return -1
                squares[t], counts[t] = moments.squares, self.n * moments.n_nonzero
                n_flat += moments.largest * moments.largest <= flat * moments.squares
        return n_flat


cdef cnp.ndarray _multiplied(cnp.ndarray atoms, cnp.ndarray queries):
    """Products of atoms in C order with queries of their type, one row for each query."""
    cdef cnp.npy_intp[2] shape = [cnp.PyArray_DIM(queries, 0), cnp.PyArray_DIM(atoms, 0)]
    cdef cnp.ndarray products = cnp.PyArray_SimpleNew(2, shape, cnp.PyArray_TYPE(atoms))
    cdef void* start = cnp.PyArray_DATA(queries)
    if cnp.PyArray_TYPE(atoms) == cnp.NPY_FLOAT:
        fill_many_products(Rows([atoms]), <const float*> start, shape[0], <float*> cnp.PyArray_DATA(products))
    else:
        fill_many_products(Rows([atoms]), <const double*> start, shape[0], <double*> cnp.PyArray_DATA(products))
    return products


cdef cnp.ndarray _turned(cnp.ndarray products):
    """A matrix of floats in C order, its columns as rows."""
    cdef cnp.npy_intp n = cnp.PyArray_DIM(products, 0), m = cnp.PyArray_DIM(products, 1)
    cdef cnp.npy_intp[2] shape = [m, n]
    cdef cnp.ndarray rows = cnp.PyArray_SimpleNew(2, shape, cnp.PyArray_TYPE(products))
    cdef const void* start = cnp.PyArray_DATA(products)
    with nogil:
        if cnp.PyArray_TYPE(products) == cnp.NPY_FLOAT:
            bm_kernels().turn_f32(start, m * sizeof(float), m, n, <float*> cnp.PyArray_DATA(rows), n)
        else:
            bm_kernels().turn_f64(start, m * sizeof(double), m, n, <double*> cnp.PyArray_DATA(rows), n)
    return rows


cdef object _best_of_all(
    PlainBatch kind, const real* known, cnp.ndarray products, by_bytes, cnp.ndarray atoms, cnp.ndarray rows,
    cnp.ndarray squares
):
    """The best of each query, and their scores; None where a number is not finite.

    They are of the rows by products of bytes, if there are any, and of those by other products for queries that have none.
    """
    cdef Rows all_rows = Rows([atoms])
    if kind.squares is not None:
        known = <const real*> cnp.PyArray_DATA(kind.squares)
    if not may_share(kind.n_queries * <int64_t> kind.k, kind.n, all_rows.row_bytes):
        return _fill_best(kind, known, products, by_bytes, atoms, rows, squares)
    wanted = _rows_to_add(kind, known, products, by_bytes, atoms, squares)
    if wanted is None:
        return None
    close, begins = wanted
    return best_of_each(close, begins, _exact_products(all_rows, rows, close, begins), kind.k, kind.absolute)


cdef object _fill_best(
    PlainBatch kind, const real* known, cnp.ndarray products, by_bytes, cnp.ndarray atoms, cnp.ndarray rows,
    cnp.ndarray squares
):
    """The same, query by query, with nothing around each."""
    cdef cnp.npy_intp[2] shape = [kind.n_queries, kind.k]
    cdef cnp.ndarray indices = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_INT64)
    cdef cnp.ndarray scores = cnp.PyArray_SimpleNew(2, shape, cnp.NPY_FLOAT64)
    cdef Best best = Best.__new__(Best)
    cdef Room room = Room(room_for_best(kind.n))
    cdef double* start = <double*> room.start
    cdef double* exact = start + 2 * n_blocks(kind.n)  # behind the largest squares
    cdef const real* of_query = NULL if products is None else <const real*> cnp.PyArray_DATA(products)
    cdef const real* query = <const real*> cnp.PyArray_DATA(rows)
    cdef const real* first = <const real*> cnp.PyArray_DATA(atoms)
    cdef const double* of_queries = <const double*> cnp.PyArray_DATA(squares)
    cdef const int64_t[::1] chosen, begins
    cdef const int64_t* some
    cdef bint has_rows = by_bytes is not None, are_finite = True
    cdef Py_ssize_t t, count = 0
    best.k, best.absolute = kind.k, kind.absolute
    best._indices, best._scores = <int64_t*> cnp.PyArray_DATA(indices), <double*> cnp.PyArray_DATA(scores)
    if has_rows:
        chosen, begins = by_bytes
    with nogil:
        if known != NULL and of_query != NULL:
            fill_maxima(known, kind.n, start + n_blocks(kind.n))
        for t in range(kind.n_queries):
            best.count = 0
            if has_rows:
                count = begins[t + 1] - begins[t]
            if count > 0:
                some = &chosen[0] + begins[t]
                fill_exact(first, some, count, query, kind.d, exact)
                are_finite = best.add_all(some, exact, count)
            else:
                are_finite = best_by_products(
                    of_query, first, known, query, kind.n, kind.d, of_queries[t], best, start, NULL
                )
                of_query += kind.n
            if not are_finite:
                break
            query += kind.d
            best._indices, best._scores = best._indices + best.k, best._scores + best.k
    return (indices, scores) if are_finite else None


cdef object _exact_products(Rows atoms, queries, close, begins):
    """Exact products of each query with its rows."""
    if are_shared(close, atoms.n, atoms.row_bytes):
        return atoms.pair_sums(close, begins, queries, BM_PRODUCTS)
    sums = np.empty(close.shape[0])
    add_exactly(atoms, queries, None, close, begins, BM_PRODUCTS, sums, (0, len(queries)))
    return sums


cdef object _rows_to_add(
    PlainBatch kind, const real* known, cnp.ndarray products, by_bytes, cnp.ndarray atoms, cnp.ndarray squares
):
    """Rows that can be among the best of each query, and where they begin; None where a number is not finite.

    They are those by products of bytes, if there are any, and those by other products for queries that have none.
    """
    if products is None:
        return by_bytes
    cdef Room room = Room((2 * n_blocks(kind.n) + kind.n) * sizeof(double))
    cdef double* start = <double*> room.start
    cdef const real* of_query = <const real*> cnp.PyArray_DATA(products)
    cdef const real* first = <const real*> cnp.PyArray_DATA(atoms)
    cdef const double* of_queries = <const double*> cnp.PyArray_DATA(squares)
    cdef RowsOfEach rows = RowsOfEach(kind.n_queries, kind.n, 2 * kind.n_queries * kind.k)
    cdef const int64_t[::1] chosen, begins
    cdef bint has_rows = by_bytes is not None, absolute = kind.absolute
    cdef Py_ssize_t t, count, k = kind.k
    cdef int64_t* places
    if has_rows:
        chosen, begins = by_bytes
    if known != NULL:
        fill_maxima(known, kind.n, start + n_blocks(kind.n))
    for t in range(kind.n_queries):
        count, places = begins[t + 1] - begins[t] if has_rows else 0, rows.room()
        if count > 0:
            memcpy(places, &chosen[begins[t]], count * sizeof(int64_t))
        else:
            with nogil:
                count = close_by_products(
                    of_query, first, known, kind.n, kind.d, of_queries[t], k, absolute, start, places
                )
            if count < 0:
                return None
            of_query += kind.n
        rows.take(count)
    return rows.found()
