"""Who is among the best by products of all atoms, or too close to tell by rounded ones."""

from libc.float cimport DBL_EPSILON, DBL_MIN, FLT_EPSILON, FLT_MIN
from libc.math cimport INFINITY, NAN, fabs, isnan, sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

import numpy as np

from banditmips.core.kernels cimport bm_kernels
from banditmips.core.places cimport CACHE_LINE, next_line
from banditmips.core.rows cimport Rows

ROUNDING_OF_DIFFERENCES = 32.0
"""Error of an exact sum of squared differences, in units of the last place of the square of the sum of the two norms."""

cdef enum:
    BLOCK = 64  # products of which the largest is kept, so that most blocks are not looked at again


cdef class Room:
    """Memory of one search, given back at its end. It begins with a cache line."""

    def __cinit__(self, size_t n_bytes):
        self.whole = malloc(n_bytes + CACHE_LINE)
        if self.whole == NULL:
            raise MemoryError("there is no memory for the products of all atoms")
        self.start = next_line(self.whole)

    def __dealloc__(self):
        free(self.whole)


cdef class RowsOfEach:
    """Rows that are found for queries, those of one after those of another.

    Parameters
    ----------
    n_queries : int
    most : int
        Rows that one of them may have at most.
    expected : int
        How many they are likely to have together.
    """

    def __cinit__(self, Py_ssize_t n_queries, Py_ssize_t most, Py_ssize_t expected):
        self.rows, self.begins = np.empty(max(most, expected), dtype=np.int64), np.zeros(n_queries + 1, dtype=np.int64)
        self.most, self.count = most, 0

    cdef int64_t* room(self) except NULL:
        """Where the rows of the next query go."""
        cdef Py_ssize_t used = self.begins[self.count]
        cdef int64_t[::1] larger
        if used + self.most > self.rows.shape[0]:
            larger = np.empty(2 * self.rows.shape[0] + self.most, dtype=np.int64)
            memcpy(&larger[0], &self.rows[0], used * sizeof(int64_t))
            self.rows = larger
        return &self.rows[0] + used

    cdef void take(self, Py_ssize_t count) noexcept nogil:
        """Count so many as those of the next query."""
        self.begins[self.count + 1] = self.begins[self.count] + count
        self.count += 1

    cdef tuple found(self):
        """All rows, and where those of each query begin, with the end of all."""
        return np.asarray(self.rows[: self.begins[self.count]]), np.asarray(self.begins)


cdef Py_ssize_t n_blocks(Py_ssize_t n) noexcept nogil:
    return (n + BLOCK - 1) // BLOCK


cdef double kth_best(
    const real* products, Py_ssize_t n, Py_ssize_t k, bint absolute, double* maxima, double* room, Py_ssize_t* top
) noexcept nogil:
    """The k-th largest of n products, or of their sizes, and where the largest is; NaN where one is not finite.

    `maxima` is filled with the largest of each block; `room` is for n numbers.
    """
    cdef Py_ssize_t t, block, best = 0, count
    cdef double bound = -INFINITY
    cdef int64_t lanes, n_groups
    for block in range(n_blocks(n)):
        count = min(<Py_ssize_t> BLOCK, n - block * BLOCK)
        if real is float:
            maxima[block] = bm_kernels().largest_f32(products + block * BLOCK, count, absolute)
        else:
            maxima[block] = bm_kernels().largest_f64(products + block * BLOCK, count, absolute)
        if isnan(maxima[block]):
            return NAN
        if maxima[block] > maxima[best]:
            best = block
    for t in range(best * BLOCK, min((best + 1) * BLOCK, n)):
        if (fabs(products[t]) if absolute else products[t]) == maxima[best]:
            top[0] = t
            break
    if k == 1:
        return maxima[best]
    # Of twice as many groups, k have one that reaches the k-th largest of their maxima: it is among these.
    lanes = bm_kernels().panel_lanes_f32 if real is float else bm_kernels().panel_lanes_f64
    n_groups = (2 * k + lanes - 1) // lanes * lanes
    if 2 * n_groups <= n:
        if real is float:
            bm_kernels().group_maxima_f32(products, n, absolute, n_groups, room)
        else:
            bm_kernels().group_maxima_f64(products, n, absolute, n_groups, room)
        bound = nth_largest(room, n_groups, k)
    if real is float:
        count = bm_kernels().those_reaching_f32(products, n, absolute, bound, room)
    else:
        count = bm_kernels().those_reaching_f64(products, n, absolute, bound, room)
    return nth_largest(room, count, k)


cdef double nth_largest(double* values, Py_ssize_t n, Py_ssize_t k) noexcept nogil:
    """The k-th largest of n values (1 <= k <= n), none of which is NaN; they change places."""
    cdef Py_ssize_t low = 0, high = n - 1, i, j
    cdef double first, middle, last, pivot
    while low < high:
        first, middle, last = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(first, middle), min(max(first, middle), last))
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


cdef void fill_maxima(const real* values, Py_ssize_t n, double* maxima) noexcept nogil:
    """Put the largest of each block there; NaN where one is not finite."""
    cdef Py_ssize_t block, count
    for block in range(n_blocks(n)):
        count = min(<Py_ssize_t> BLOCK, n - block * BLOCK)
        if real is float:
            maxima[block] = bm_kernels().largest_f32(values + block * BLOCK, count, False)
        else:
            maxima[block] = bm_kernels().largest_f64(values + block * BLOCK, count, False)


cdef Py_ssize_t count_left(const uint8_t* out, Py_ssize_t n) noexcept nogil:
    """How many rows take part, of which those that do not are `out`."""
    cdef Py_ssize_t t, count = n
    for t in range(n):
        count -= out[t] != 0
    return count


cdef void leave_out(real* products, const uint8_t* out, Py_ssize_t n, bint absolute) noexcept nogil:
    """Make products of rows that take no part as small as any: below the k-th best whoever that is, if there are so many."""
    cdef real lowest = 0.0
    cdef Py_ssize_t t
    if not absolute:
        lowest = <real> INFINITY
        for t in range(n):
            lowest = min(lowest, products[t])
    for t in range(n):
        if out[t] and products[t] - products[t] == 0.0:  # what is not finite is named elsewhere
            products[t] = lowest


cdef Py_ssize_t without_those(const uint8_t* out, int64_t* rows, Py_ssize_t count) noexcept nogil:
    """Keep the rows that take part; how many they are."""
    cdef Py_ssize_t t, n_left = 0
    for t in range(count):
        if not out[rows[t]]:
            rows[n_left] = rows[t]
            n_left += 1
    return n_left


cdef Rounding rounding_of(bint single, int64_t d, double norm) noexcept nogil:
    """Rounding of products in single or double precision with a query of this norm."""
    cdef Rounding rounding
    cdef double unit = FLT_EPSILON if single else DBL_EPSILON, tiny = FLT_MIN if single else DBL_MIN
    rounding.of_norm = rounding_units(single, d) * unit * norm + tiny * sqrt(<double> d)
    rounding.lost = rounding.lost_squares = tiny * d
    rounding.same_square = 0.0
    return rounding


cpdef double rounding_units(bint single, int64_t d) noexcept nogil:
    """Error of a product of vectors of length d, in units of the last place of the product of the two norms.

    In double precision it is that of a sum in any order. In single precision that would leave out nobody; our own loops add up
    to 128 numbers in a row, and blocks of BLAS a few hundred, and rounding that always goes one way takes a quarter of that.
    (Measured, of equal numbers, which are worst: 6 for our loops, 28 for products with many queries by BLAS, and 40 with one,
    at d = 300,000; of random positive numbers a tenth to a third. Columns that BLAS adds up one after another are worse.)
    """
    return 32.0 + d / 1024.0 if single else 32.0 + d / 2.0


cdef inline double _width(const Rounding* rounding, double square) noexcept nogil:
    """By how much a product with a row of that sum of squares may be wrong; for ever, where the sum is not finite."""
    return INFINITY if isnan(square) else rounding.of_norm * sqrt(square + rounding.lost_squares) + rounding.lost


cdef Py_ssize_t _reaching_in(
    const real* products, Py_ssize_t n, Py_ssize_t block, bint absolute, double bar, int64_t* places
) noexcept nogil:
    """Which products of a block reach a bar, or miss it by less than rounding: places within the block, and how many."""
    cdef Py_ssize_t count = min(<Py_ssize_t> BLOCK, n - block * BLOCK)
    if real is float:
        return bm_kernels().places_reaching_f32(products + block * BLOCK, count, absolute, bar, places)
    else:
        return bm_kernels().places_reaching_f64(products + block * BLOCK, count, absolute, bar, places)


cdef double certain_bar(
    const real* products, const real* squares, Py_ssize_t n, bint absolute, const double* maxima, double kth,
    const Rounding* rounding
) noexcept nogil:
    """What k of the products that reach the k-th best are worth at least: those of long rows may be wrong by more."""
    cdef Py_ssize_t t, i, block
    cdef double bar = kth - _width(rounding, rounding.same_square), value
    cdef int64_t[BLOCK] here
    if squares == NULL:
        return bar
    bar = INFINITY
    for block in range(n_blocks(n)):
        if maxima[block] < kth:
            continue
        for i in range(_reaching_in(products, n, block, absolute, kth, here)):
            t = block * BLOCK + here[i]
            value = fabs(products[t]) if absolute else products[t]
            if value >= kth:
                bar = min(bar, value - _width(rounding, squares[t]))
    return bar


cdef Py_ssize_t reaching(
    const real* products, const real* squares, Py_ssize_t n, bint absolute, const double* maxima, double bar,
    const Rounding* rounding, int64_t* places
) noexcept nogil:
    """How many products reach the bar if they may be wrong, and where they are, unless `places` is NULL.

    Behind the largest products of each block, `maxima` has the largest squares of each, if there are any.
    """
    cdef Py_ssize_t t, i, block, count = 0
    cdef int64_t[BLOCK] here
    cdef const double* largest = maxima + n_blocks(n)
    cdef double least = bar - _width(rounding, rounding.same_square), value, widest = -1.0
    for block in range(n_blocks(n)):
        if squares != NULL and largest[block] != widest:
            widest = largest[block]
            least = bar - _width(rounding, widest)
        if maxima[block] < least:
            continue
        for i in range(_reaching_in(products, n, block, absolute, least, here)):
            t = block * BLOCK + here[i]
            value = fabs(products[t]) if absolute else products[t]
            if value >= least and (squares == NULL or value + _width(rounding, squares[t]) >= bar):
                if places != NULL:
                    places[count] = t
                count += 1
    return count


def close_to_each(const real[:, ::1] products, squares, Rows rows, const double[::1] norms, settings, lost=None):
    """For each query, the atoms that are among the best k by its products, or that rounding cannot tell from those.

    Parameters
    ----------
    products : array of shape (m, n)
        Of each query with the atoms, as BLAS gives them.
    squares : array of shape (n,) of the same type, or None
        Of the atoms with themselves. Where nobody knows them, the norm of the best row stands for those of all that could
        be close to it: finding out would take as long as the products.
    norms : float64 array of shape (m,)
        Of the queries.
    settings : tuple
        k, and whether products are ranked by their size.
    lost : float64 array of shape (m,), or None
        By how much all products of a query may be wrong besides.

    Returns
    -------
    The rows, those of one query after those of another, and where those of each query begin, with the end of all (an
    array of m + 1); None where a product is not finite.
    """
    cdef Py_ssize_t m = products.shape[0], n = products.shape[1], top = 0, place, k
    cdef bint absolute
    k, absolute = settings
    k = min(k, n)
    cdef Room room = Room((2 * n_blocks(n) + n) * sizeof(double))
    cdef double* maxima = <double*> room.start
    cdef double* values = maxima + 2 * n_blocks(n)
    cdef double bar = 0.0
    cdef Rounding rounding
    known = squares is not None
    cdef const real[::1] of_atoms = squares if known else products[0]
    cdef const double[::1] besides = norms if lost is None else lost
    if of_atoms.shape[0] != n or norms.shape[0] != m or besides.shape[0] != m:
        raise ValueError(f"squares must be those of {n} atoms, norms those of {m} queries")
    cdef RowsOfEach close = RowsOfEach(m, n, 2 * m * k)
    cdef int64_t* places
    # Queries have their best row in common, often, and one by column is far to go.
    cdef double[::1] of_best = np.full(0 if known else n, np.nan)
    cdef const real* squares_known = &of_atoms[0] if known else NULL
    cdef bint has_lost = lost is not None
    if known:
        fill_maxima(squares_known, n, maxima + n_blocks(n))
    for place in range(m):
        places = close.room()
        with nogil:
            bar = kth_best(&products[place, 0], n, k, absolute, maxima, values, &top)
            if not isnan(bar):
                rounding = rounding_of(real is float, rows.d, norms[place])
                if has_lost:
                    rounding.lost += besides[place]
                if squares_known == NULL:
                    if isnan(of_best[top]):
                        of_best[top] = rows.norm(top) ** 2
                    rounding.same_square = of_best[top]
                bar = certain_bar(&products[place, 0], squares_known, n, absolute, maxima, bar, &rounding)
                close.take(reaching(&products[place, 0], squares_known, n, absolute, maxima, bar, &rounding, places))
        if isnan(bar):
            return None
    return close.found()
