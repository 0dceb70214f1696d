"""The best of all products of atoms with a query: exactly, where their rounding cannot tell who is best.

`PlainProducts` does that for a plain query in one call, from the user's arrays to the result (`banditmips.core.plain`).
"""

from libc.math cimport INFINITY, fabs, isfinite, isnan, sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort

import numpy as np

cimport numpy as cnp

from banditmips.core.certain cimport MeasuredQuery, are_fine
from banditmips.core.kernels cimport BM_F32, BM_F64, BM_FAR, BM_STRETCH, bm_kernels, bm_moments
from banditmips.core.near_best cimport (
    Room, Rounding, certain_bar, count_left, fill_maxima, kth_best, leave_out, n_blocks, reaching, real, rounding_of, without_those,
)
from banditmips.core.outcome cimport Candidate, compare
from banditmips.core.places cimport PITCH, add_sums, next_line
from banditmips.core.plain cimport PlainKind, is_plain_mask
from banditmips.core.rows cimport Rows

from banditmips.core.near_best import close_to_each

cnp.import_array()

cdef enum:
    MANY = 4  # times as many scores as are wanted: the k-th best of these is found first
    SORTED = 128  # from so many on they are sorted at once: putting each in its place moves half of the others


cdef class Best:
    """The best k rows so far, best first; of equals the one with the smaller index."""

    def __init__(self, cnp.npy_intp k, bint absolute):
        self.indices = cnp.PyArray_SimpleNew(1, &k, cnp.NPY_INT64)
        self.scores = cnp.PyArray_SimpleNew(1, &k, cnp.NPY_FLOAT64)
        self._indices = <int64_t*> cnp.PyArray_DATA(self.indices)
        self._scores = <double*> cnp.PyArray_DATA(self.scores)
        self.k, self.absolute, self.count = k, absolute, 0

    cdef double rank(self, double score) noexcept nogil:
        return fabs(score) if self.absolute else score

    cdef double bar(self) noexcept nogil:
        """What the k-th best is worth; nothing while there are fewer."""
        return self.rank(self._scores[self.k - 1]) if self.count == self.k else -INFINITY

    cdef void add(self, int64_t row, double score) noexcept nogil:
        cdef Py_ssize_t place = 0, end = self.count, middle
        cdef double rank = self.rank(score), other
        if self.count == self.k:
            other = self.bar()
            if rank < other or (rank == other and row > self._indices[self.k - 1]):
                return
        while place < end:
            middle = (place + end) // 2
            other = self.rank(self._scores[middle])
            if other > rank or (other == rank and self._indices[middle] < row):
                place = middle + 1
            else:
                end = middle
        self.count = min(self.count + 1, self.k)
        for end in range(self.count - 1, place, -1):
            self._indices[end], self._scores[end] = self._indices[end - 1], self._scores[end - 1]
        self._indices[place], self._scores[place] = row, score

    cdef bint add_all(self, const int64_t* rows, const double* scores, Py_ssize_t count) noexcept nogil:
        """Add rows with their exact scores; False where one is not finite."""
        cdef Py_ssize_t t
        cdef bint sorts = self.count == 0 and min(count, self.k) >= SORTED
        cdef bint selects = self.count == 0 and (count > self.k if sorts else count > MANY * self.k > MANY)
        cdef double bar = self._bar_of(scores, count) if selects else -INFINITY
        if sorts:
            return self._add_in_order(rows, scores, count, bar)
        for t in range(count):
            if not isfinite(scores[t]):
                return False
            if not self.rank(scores[t]) < bar:
                self.add(rows[t], scores[t])
        return True

    cdef bint _add_in_order(self, const int64_t* rows, const double* scores, Py_ssize_t count, double bar) noexcept nogil:
        """Add the first rows, all those that reach the bar at once; False where a score is not finite, or memory ends."""
        cdef Candidate* order = <Candidate*> malloc(count * sizeof(Candidate))
        cdef Py_ssize_t t, found = 0
        if order == NULL:
            return False
        for t in range(count):
            if not isfinite(scores[t]):
                free(order)
                return False
            order[found].rank, order[found].tie, order[found].place = self.rank(scores[t]), rows[t], t
            found += not order[found].rank < bar
        qsort(order, found, sizeof(Candidate), compare)
        self.count = min(found, self.k)
        for t in range(self.count):
            self._indices[t], self._scores[t] = rows[order[t].place], scores[order[t].place]
        free(order)
        return True

    cdef double _bar_of(self, const double* scores, Py_ssize_t count) noexcept nogil:
        """What the k-th best of many scores is worth, which takes less to find than to put every better one in its place."""
        cdef double* room = <double*> malloc((count + n_blocks(count)) * sizeof(double))
        cdef double bar = -INFINITY
        cdef Py_ssize_t top = 0
        if room != NULL:
            bar = kth_best(scores, count, self.k, self.absolute, room + count, room, &top)
            free(room)
        return -INFINITY if isnan(bar) else bar


def best_of_all(products, squares, Rows rows, MeasuredQuery query, Py_ssize_t k, bint absolute):
    """The best k by the products of all atoms with one query; None where a number is not finite."""
    found = close_to_each(products[np.newaxis], squares, rows, np.sqrt([query.moments.squares]), (k, absolute))
    if found is None:
        return None
    close = found[0]
    return best_of(close, rows.scores(close, None, query.exact, 0), k, absolute)


def best_of(const int64_t[::1] rows, const double[::1] scores, Py_ssize_t k, bint absolute):
    """The best k of these rows by their exact scores; None where one is not finite."""
    cdef Best best = Best(k, absolute)
    return best if best.add_all(&rows[0], &scores[0], rows.shape[0]) else None


def best_of_rows(Rows rows, squares, const real[::1] query, double query_squares, settings):
    """The best k rows of one matrix in C order, by our own loop over all of them; None where a number is not finite."""
    cdef Best best = Best(*settings)  # how many, and whether they are ranked by their size
    cdef int dtype = BM_F32 if real is float else BM_F64
    cdef const real[::1] known = query if squares is None else squares
    if not (rows.n_segments == 1 and rows.segments[0].dtype == dtype and rows.are_contiguous):
        raise ValueError("rows are those of one matrix in C order, of the type of the query")
    # What NumPy says of the way from one row to the next means nothing where there is one.
    follow = rows.n == 1 or rows.segments[0].row_stride == rows.d * <int64_t> sizeof(real)
    if query.shape[0] != rows.d or not follow:
        raise ValueError(f"rows of {rows.d} numbers must follow one another, and the query have as many")
    if squares is not None and known.shape[0] != rows.n:
        raise ValueError(f"squares must be those of {rows.n} atoms, got {known.shape[0]}")
    found = _find_best[real](
        <const real*> rows.segments[0].base, NULL if squares is None else &known[0], &query[0], rows.n, rows.d,
        query_squares, best, NULL,
    )
    return best if found else None


cdef class PlainProducts(PlainKind):
    """Plain searches that all products answer.

    Attributes
    ----------
    squares : array of shape (n,) of the atoms' type, or None
        Sums of the squares of the atoms, where they are known.
    """

    cdef bint takes(self, mask):
        return is_plain_mask(mask, self.n)

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row, cnp.ndarray mask):
        """The result; None where a number is not finite, or the query not plain."""
        cdef bm_moments moments
        cdef Py_ssize_t k = self.k
        cdef int64_t n_left = self.n
        cdef const uint8_t* out = NULL
        cdef Best best
        if mask is not None:
            out = <const uint8_t*> cnp.PyArray_DATA(mask)
            n_left = count_left(out, self.n)
            if n_left < k:
                return None
        if self.type_num == cnp.NPY_FLOAT:
            bm_kernels().moments_f32(<const float*> cnp.PyArray_DATA(row), self.d, NULL, &moments)
        else:
            bm_kernels().moments_f64(<const double*> cnp.PyArray_DATA(row), self.d, NULL, &moments)
        if not are_fine(&moments) or self.few_entries * moments.n_nonzero <= self.d:
            return None
        best = Best(k, self.absolute)
        cdef const void* known = NULL if self.squares is None else cnp.PyArray_DATA(self.squares)
        if self.type_num == cnp.NPY_FLOAT:
            if not _find_best[float](
                <const float*> cnp.PyArray_DATA(atoms), <const float*> known, <const float*> cnp.PyArray_DATA(row),
                self.n, self.d, moments.squares, best, out,
            ):
                return None
        elif not _find_best[double](
            <const double*> cnp.PyArray_DATA(atoms), <const double*> known, <const double*> cnp.PyArray_DATA(row),
            self.n, self.d, moments.squares, best, out,
        ):
            return None
        fields = self.fields.copy()
        fields["indices"], fields["scores"], fields["n_multiplies"] = best.indices, best.scores, n_left * moments.n_nonzero
        fields["n_survivors"] = n_left
        return self.result(fields)


cdef bint _find_best(
    const real* atoms, const real* known, const real* query, int64_t n, int64_t d, double squares, Best best,
    const uint8_t* out
) except -1:
    """Put the best rows into `best`, less those that are `out` (unless that is NULL); False where a number is not finite.

    `known` are the sums of the atoms' squares, or NULL. They cost nothing beside what comes from memory; of atoms in the
    cache, where they would take half as long as the products, the norm of the best row stands for those of all.
    """
    cdef Room room = Room(2 * n * sizeof(real)), other = Room(room_for_best(n))
    cdef real* products = <real*> room.start
    cdef real* own_squares = products + n
    cdef bint from_memory = n * d * <int64_t> sizeof(real) >= BM_FAR
    cdef bint found
    if known != NULL or not from_memory:
        own_squares = NULL
    with nogil:
        if real is float:
            bm_kernels().products_f32(atoms, d * sizeof(real), n, query, d, products, own_squares)
        else:
            bm_kernels().products_f64(atoms, d * sizeof(real), n, query, d, products, own_squares)
        if known == NULL:
            known = own_squares
        if known != NULL:
            fill_maxima(known, n, <double*> other.start + n_blocks(n))
        if out != NULL:
            leave_out(products, out, n, best.absolute)
        found = best_by_products(products, atoms, known, query, n, d, squares, best, <double*> other.start, out)
    return found


cdef size_t room_for_best(int64_t n) noexcept nogil:
    """Bytes that `best_by_products` needs."""
    return (2 * n_blocks(n) + 3 * n) * sizeof(double)


cdef bint best_by_products(
    const real* products, const real* atoms, const real* known, const real* query, int64_t n, int64_t d, double squares,
    Best best, double* room, const uint8_t* out
) noexcept nogil:
    """Put the best rows by the products with a query into `best`; False where a number is not finite.

    Parameters
    ----------
    known, squares
        As those of `close_by_products`.
    room
        Of `room_for_best`; has the largest squares of each block behind room for as many other numbers (`fill_maxima`).
    out
        Rows that take no part, whose products are as small as any; or NULL.
    """
    cdef int64_t* close = <int64_t*> (room + 2 * n_blocks(n) + n)
    cdef Py_ssize_t n_close = close_by_products(products, atoms, known, n, d, squares, best.k, best.absolute, room, close)
    if n_close < 0:
        return False
    if out != NULL:
        n_close = without_those(out, close, n_close)
    fill_exact(atoms, close, n_close, query, d, <double*> (close + n_close))
    return best.add_all(close, <double*> (close + n_close), n_close)


cdef Py_ssize_t close_by_products(
    const real* products, const real* atoms, const real* known, int64_t n, int64_t d, double squares, Py_ssize_t k,
    bint absolute, double* room, int64_t* close
) noexcept nogil:
    """Find rows that are among the best k by the products with a query, or too close to tell.

    Returns how many they are; -1 where a number is not finite.

    Parameters
    ----------
    known
        Sums of the atoms' squares; where it is NULL, that of the best row stands for all.
    squares
        Of the query.
    room
        For n numbers, behind two for each block, of which the second half has the largest squares of each (`fill_maxima`).
    """
    cdef Py_ssize_t top = 0, t
    cdef double bar
    cdef Rounding rounding
    if k >= n:  # nobody has to be left out
        for t in range(n):
            close[t] = t
        return n
    bar = kth_best(products, n, k, absolute, room, room + 2 * n_blocks(n), &top)
    if isnan(bar):
        return -1
    rounding = rounding_of(real is float, d, sqrt(squares))
    if known == NULL:
        if real is float:
            rounding.same_square = bm_kernels().dot_f32(atoms + top * d, atoms + top * d, d)
        else:
            rounding.same_square = bm_kernels().dot_f64(atoms + top * d, atoms + top * d, d)
    bar = certain_bar(products, known, n, absolute, room, bar, &rounding)
    return reaching(products, known, n, absolute, room, bar, &rounding, close)


cdef void fill_exact(
    const real* atoms, const int64_t* rows, Py_ssize_t count, const real* query, int64_t d, double* sums
) noexcept nogil:
    """Exact products of rows with a query, to the bit those of `Rows.scores`, which takes it in double precision."""
    cdef double[PITCH] room  # with a cache line to spare
    cdef double* wide = <double*> next_line(room)
    cdef const double* stretch
    cdef const void* four[4]
    cdef int64_t start = 0, size
    cdef Py_ssize_t t
    cdef int r
    for t in range(count):
        sums[t] = 0.0
    while start < d:
        size = min(<int64_t> BM_STRETCH, d - start)
        if real is float:
            bm_kernels().to_f64(BM_F32, query + start, sizeof(float), size, wide)
            stretch = wide
        else:
            stretch = query + start
        for t in range(0, count, 4):
            for r in range(4):
                four[r] = atoms + rows[min(t + r, count - 1)] * d + start
            add_sums(0, four, count - t, real is float, stretch, size, sums + t)
        start += size
