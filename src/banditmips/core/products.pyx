"""The best of all products of atoms with a query: exactly, where their rounding cannot tell who is best.

`PlainProducts` does that for a plain query in one call, from the user's arrays to the result (`banditmips.core.plain`).
"""

from libc.float cimport DBL_EPSILON, DBL_MIN, FLT_EPSILON, FLT_MIN
from libc.math cimport INFINITY, NAN, fabs, isfinite, isnan, sqrt
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

cimport numpy as cnp

from banditmips.core.certain cimport MeasuredQuery, are_fine
from banditmips.core.kernels cimport BM_F32, BM_F64, BM_FAR, BM_STRETCH, bm_kernels, bm_moments
from banditmips.core.plain cimport PlainKind
from banditmips.core.rows cimport Rows
from banditmips.core.survivors cimport keep_largest

cnp.import_array()

cdef double ROUNDING = 4.0
"""Error of a product by BLAS, in units of the last place of the product of the two norms."""

ctypedef fused real:
    float
    double


cdef enum:
    BLOCK = 256  # products of which the largest is kept, so that most blocks are not looked at again


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
        cdef Py_ssize_t place
        cdef double rank = self.rank(score), other
        if self.count == self.k:
            other = self.bar()
            if rank < other or (rank == other and row > self._indices[self.k - 1]):
                return
        place = self.count if self.count < self.k else self.k - 1
        while place > 0:
            other = self.rank(self._scores[place - 1])
            if other > rank or (other == rank and self._indices[place - 1] < row):
                break
            self._indices[place], self._scores[place] = self._indices[place - 1], self._scores[place - 1]
            place -= 1
        self._indices[place], self._scores[place] = row, score
        self.count = min(self.count + 1, self.k)

    cdef bint add_all(self, const int64_t* rows, const double* scores, Py_ssize_t count) noexcept nogil:
        """Add rows with their exact scores; False where one is not finite."""
        cdef Py_ssize_t t
        for t in range(count):
            if not isfinite(scores[t]):
                return False
            self.add(rows[t], scores[t])
        return True


cdef class Room:
    """Memory of one search, given back at its end."""

    cdef void* start

    def __cinit__(self, size_t n_bytes):
        self.start = malloc(max(n_bytes, <size_t> 1))
        if self.start == NULL:
            raise MemoryError("there is no memory for the products of all atoms")

    def __dealloc__(self):
        free(self.start)


cdef inline Py_ssize_t _n_blocks(Py_ssize_t n) noexcept nogil:
    return (n + BLOCK - 1) // BLOCK


cdef double _kth_best(
    const real* products, Py_ssize_t n, Py_ssize_t k, bint absolute, double* maxima, double* heap, Py_ssize_t* top
) noexcept nogil:
    """The k-th largest of n products, or of their sizes, and where the largest is; NaN where one is not finite.

    `maxima` is filled with the largest of each block, `heap` with the k best.
    """
    cdef Py_ssize_t t, start = 0, stop
    cdef double value, largest = -INFINITY
    while start < n:
        stop = min(start + BLOCK, n)
        if real is float:
            maxima[start // BLOCK] = bm_kernels().largest_f32(products + start, stop - start, absolute)
        else:
            maxima[start // BLOCK] = bm_kernels().largest_f64(products + start, stop - start, absolute)
        if isnan(maxima[start // BLOCK]):
            return NAN
        if start < k or maxima[start // BLOCK] > heap[0]:
            for t in range(start, stop):
                value = fabs(products[t]) if absolute else products[t]
                if value > largest:
                    top[0], largest = t, value
                if t < k or value > heap[0]:
                    keep_largest(value, heap, min(t, k), k)
        start = stop
    return heap[0]


cdef struct Rounding:
    double of_norm  # error of a product for each unit of the norm of the row
    double lost  # what underflow may take from it: less than the smallest normal number in each product, or in an entry
    double lost_squares  # the same of a sum of squares


cdef Rounding _rounding_of(double unit, double tiny, int64_t d, double squares) noexcept nogil:
    cdef Rounding rounding
    rounding.of_norm = ROUNDING * unit * sqrt(squares) + tiny * sqrt(<double> d)
    rounding.lost = rounding.lost_squares = tiny * d
    return rounding


cdef inline double _width(const Rounding* rounding, double square) noexcept nogil:
    """By how much a product with a row of that sum of squares may be wrong; for ever, where the sum is not finite."""
    return INFINITY if isnan(square) else rounding.of_norm * sqrt(square + rounding.lost_squares) + rounding.lost


cdef double _certain_bar(
    const real* products, const real* squares, Py_ssize_t n, bint absolute, const double* maxima, double kth,
    const Rounding* rounding
) noexcept nogil:
    """What k of the products that reach the k-th best are worth at least."""
    cdef Py_ssize_t t, block
    cdef double largest = 0.0
    for block in range(_n_blocks(n)):
        if maxima[block] < kth:
            continue
        for t in range(block * BLOCK, min((block + 1) * BLOCK, n)):
            if (fabs(products[t]) if absolute else products[t]) >= kth and not squares[t] <= largest:
                largest = squares[t]
    return kth - _width(rounding, largest)


cdef Py_ssize_t _reaching(
    const real* products, const real* squares, Py_ssize_t n, bint absolute, const double* maxima, double bar,
    const Rounding* rounding, int64_t* places
) noexcept nogil:
    """How many products reach the bar if they may be wrong, and where they are, unless `places` is NULL."""
    cdef Py_ssize_t t, block, start, stop, count = 0
    cdef double value, largest, widest
    for block in range(_n_blocks(n)):
        start, stop = block * BLOCK, min((block + 1) * BLOCK, n)
        if real is float:
            largest = bm_kernels().largest_f32(squares + start, stop - start, False)
        else:
            largest = bm_kernels().largest_f64(squares + start, stop - start, False)
        widest = _width(rounding, largest)
        if maxima[block] + widest < bar:
            continue
        for t in range(start, stop):
            value = fabs(products[t]) if absolute else products[t]
            # Few come that far, and a root takes longer than all the rest.
            if value + widest >= bar and value + _width(rounding, squares[t]) >= bar:
                if places != NULL:
                    places[count] = t
                count += 1
    return count


def close_to_best(const real[::1] products, squares, Rows rows, double query_squares, Py_ssize_t k, bint absolute):
    """Rows that are among the best k by the products of all atoms, or that rounding cannot tell from those.

    Parameters
    ----------
    products : array of shape (n,)
        Of the atoms with the query, as BLAS gives them.
    squares : array of shape (n,) of the same type, or None
        Of the atoms with themselves. Where nobody knows them, the norm of the best row stands for those of all that could
        be close to it: finding out would take as long as the products.
    query_squares : float
        Of the query with itself.

    Returns
    -------
    int64 array, or None where a product is not finite.
    """
    cdef Py_ssize_t n = products.shape[0], top = 0
    cdef Room room = Room((_n_blocks(n) + k) * sizeof(double))
    cdef double* maxima = <double*> room.start
    cdef double bar
    cdef Rounding rounding
    cdef cnp.npy_intp count = 0
    with nogil:
        bar = _kth_best(&products[0], n, k, absolute, maxima, maxima + _n_blocks(n), &top)
    if isnan(bar):
        return None
    if squares is None:
        squares = np.empty(n, dtype=np.asarray(products).dtype)
        squares[:] = <real> (rows.norm(top) ** 2)
    cdef const real[::1] known = squares
    if known.shape[0] != n:
        raise ValueError(f"squares must be those of {n} atoms, got {known.shape[0]}")
    with nogil:
        rounding = _rounding_of(
            FLT_EPSILON if real is float else DBL_EPSILON, FLT_MIN if real is float else DBL_MIN, rows.d, query_squares
        )
        bar = _certain_bar(&products[0], &known[0], n, absolute, maxima, bar, &rounding)
        count = _reaching(&products[0], &known[0], n, absolute, maxima, bar, &rounding, NULL)
    close = cnp.PyArray_SimpleNew(1, &count, cnp.NPY_INT64)
    _reaching(&products[0], &known[0], n, absolute, maxima, bar, &rounding, <int64_t*> cnp.PyArray_DATA(close))
    return close


def best_of_all(products, squares, Rows rows, MeasuredQuery query, Py_ssize_t k, bint absolute):
    """The best k by the products of all atoms with one query; None where a number is not finite."""
    close = close_to_best(products, squares, rows, query.moments.squares, k, absolute)
    return None if close is None else best_of(close, rows.scores(close, None, query.exact, 0), k, absolute)


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
    if query.shape[0] != rows.d or rows.segments[0].row_stride != rows.d * <int64_t> sizeof(real):
        raise ValueError(f"rows of {rows.d} numbers must follow one another, and the query have as many")
    if squares is not None and known.shape[0] != rows.n:
        raise ValueError(f"squares must be those of {rows.n} atoms, got {known.shape[0]}")
    found = _find_best[real](
        <const real*> rows.segments[0].base, NULL if squares is None else &known[0], &query[0], rows.n, rows.d,
        query_squares, best,
    )
    return best if found else None


cdef class PlainProducts(PlainKind):
    """Plain searches that all products answer.

    Attributes
    ----------
    squares : array of shape (n,) of the atoms' type, or None
        Sums of the squares of the atoms, where they are known.
    """

    cdef public object squares

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row):
        """The result; None where a number is not finite, or the query not plain."""
        cdef bm_moments moments
        cdef Py_ssize_t k = self.k
        cdef Best best
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
                self.n, self.d, moments.squares, best,
            ):
                return None
        elif not _find_best[double](
            <const double*> cnp.PyArray_DATA(atoms), <const double*> known, <const double*> cnp.PyArray_DATA(row),
            self.n, self.d, moments.squares, best,
        ):
            return None
        fields = self.fields.copy()
        fields["indices"], fields["scores"], fields["n_multiplies"] = best.indices, best.scores, self.n * moments.n_nonzero
        return self.result(fields)


cdef bint _find_best(
    const real* atoms, const real* known, const real* query, int64_t n, int64_t d, double squares, Best best
) except -1:
    """Put the best rows into `best`; False where a number is not finite.

    `known` are the sums of the atoms' squares, or NULL. They cost nothing beside what comes from memory; of atoms in the
    cache, where they would take half as long as the products, the norm of the best row stands for those of all.
    """
    cdef Py_ssize_t k = best.k, top = 0, n_close = 0
    cdef Room room = Room(2 * n * sizeof(real) + (_n_blocks(n) + k) * sizeof(double)), found
    cdef double* maxima = <double*> room.start
    cdef real* products = <real*> (maxima + _n_blocks(n) + k)
    cdef real* own_squares = products + n
    cdef bint from_memory = n * d * <int64_t> sizeof(real) >= BM_FAR
    cdef real* wanted = own_squares if from_memory and known == NULL else NULL
    cdef Rounding rounding
    cdef double bar
    cdef int64_t* close
    cdef Py_ssize_t t
    cdef bint are_finite = False
    with nogil:
        if real is float:
            bm_kernels().products_f32(atoms, d * sizeof(real), n, query, d, products, wanted)
        else:
            bm_kernels().products_f64(atoms, d * sizeof(real), n, query, d, products, wanted)
        bar = _kth_best(products, n, k, best.absolute, maxima, maxima + _n_blocks(n), &top)
        if not isnan(bar):
            rounding = _rounding_of(
                FLT_EPSILON if real is float else DBL_EPSILON, FLT_MIN if real is float else DBL_MIN, d, squares
            )
            if known == NULL and not from_memory:
                if real is float:
                    own_squares[0] = <real> bm_kernels().dot_f32(atoms + top * d, atoms + top * d, d)
                else:
                    own_squares[0] = <real> bm_kernels().dot_f64(atoms + top * d, atoms + top * d, d)
                for t in range(1, n):
                    own_squares[t] = own_squares[0]
            if known == NULL:
                known = own_squares
            bar = _certain_bar(products, known, n, best.absolute, maxima, bar, &rounding)
            n_close = _reaching(products, known, n, best.absolute, maxima, bar, &rounding, NULL)
    if isnan(bar):
        return False
    found = Room(2 * n_close * sizeof(double))
    close = <int64_t*> found.start
    with nogil:
        _reaching(products, known, n, best.absolute, maxima, bar, &rounding, close)
        _fill_exact(atoms, close, n_close, query, d, <double*> (close + n_close))
        are_finite = best.add_all(close, <double*> (close + n_close), n_close)
    return are_finite


cdef void _fill_exact(
    const real* atoms, const int64_t* rows, Py_ssize_t count, const real* query, int64_t d, double* sums
) noexcept nogil:
    """Exact products of rows with a query, to the bit those of `Rows.scores`, which takes it in double precision."""
    cdef double[BM_STRETCH] wide
    cdef const double* stretch
    cdef const real* four[4]
    cdef double[4] more
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
        t = 0
        while t < count:
            for r in range(4):
                four[r] = atoms + rows[min(t + r, count - 1)] * d + start
            if count - t == 1:
                if real is float:
                    more[0] = bm_kernels().dot_exact_f32(four[0], stretch, size)
                else:
                    more[0] = bm_kernels().dot_exact_f64(four[0], stretch, size)
            elif real is float:
                bm_kernels().four_dots_exact_f32(four, stretch, size, more)
            else:
                bm_kernels().four_dots_exact_f64(four, stretch, size, more)
            for r in range(min(<Py_ssize_t> 4, count - t)):
                sums[t + r] += more[r]
            t += 4
        start += size
