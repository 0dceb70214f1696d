"""Plain searches of an index for scores that follow from products with all atoms, in one compiled call.

Those are inner products, cosines, correlations and squared differences, of atoms of any type and order, all of them or less
those that a mask takes out. `PlainProducts` is the shorter way for inner products of atoms that are as BLAS likes them.
"""

from libc.math cimport frexp, isnan, ldexp, sqrt
from libc.stdint cimport int64_t, uint8_t

import numpy as np

cimport numpy as cnp

from banditmips.core.certain cimport are_fine
from banditmips.core.kernels cimport BM_F32, bm_kernels, bm_moments
from banditmips.core.near_best cimport (
    Room, Rounding, certain_bar, count_left, fill_maxima, kth_best, leave_out, n_blocks, reaching, real, rounding_of, without_those,
)
from banditmips.core.passes cimport fill_products
from banditmips.core.plain cimport PlainKind, are_floats, are_same, is_plain_mask
from banditmips.core.products cimport Best
from banditmips.core.rows cimport Rows

cnp.import_array()


cdef class PlainScores(PlainKind):
    """Plain searches of an index, whose scores follow from products by a factor and an offset of each atom.

    Attributes
    ----------
    rows : Rows
    single : bool
        Whether products are those of single precision.
    objective : int
        Of the exact sums.
    factors, offsets, squares : arrays of shape (n,) of the products' type, or None
        What products are multiplied by, and what is taken from them (times the query's mean, for correlations); and the
        sums of the squares of the atoms times their factors.
    norms, means : float64 arrays of shape (n,), or None
        By which exact sums are divided, and what correlations take from them.
    longest, low, high : float
        Norm of the longest atom; and the norms of queries whose products are normal numbers.
    wider, lost : float
        How many times as wrong as products their scores may be; and what differences lose besides, for each square of
        the sum of the two norms.
    most_close : int
        Rows that products may leave: where there are more, others tell them apart, also the next time.
    exponent : int
        Queries are multiplied by a power of two that makes their largest entry this one, for exact scores.
    most_level : float
        A query whose mean is more of it than so many times the rest is taken less its mean; `level` does that.
    lengths, multiply : callables, or None
        Mean and norm of a query; products of all atoms with a query, where our own loops are not for them.
    by_columns : bool
        Whether exact sums of all atoms take less than the products and, after them, those of the best.
    """

    cdef bint serves(self, cnp.ndarray atoms, cnp.ndarray row, k, tuple asked):
        return (
            cnp.PyArray_NDIM(row) == 1
            and cnp.PyArray_DIM(row, 0) == self.d
            and are_floats(row, self.type_num)
            and k == self.k
            and are_same(asked, self.asked)
            and not self.is_closed
        )

    cdef bint takes(self, mask):
        return is_plain_mask(mask, self.n)

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row, cnp.ndarray mask):
        cdef bm_moments moments
        cdef double norm, centre = 0.0, mean = 0.0, size = 1.0
        cdef int exponent = 0
        cdef bint scales = self.norms is not None
        measure(cnp.PyArray_DATA(row), cnp.PyArray_TYPE(row) == cnp.NPY_FLOAT, self.d, &moments)
        if self.level is not None and are_fine(&moments):
            centre = moments.total / self.d
            # By rough sums, hence half as much as it takes.
            if self.d * centre * centre > 0.5 * self.most_level * (moments.squares - self.d * centre * centre):
                row = self.level(row)
                measure(cnp.PyArray_DATA(row), False, self.d, &moments)
                centre = moments.total / self.d
        if not self.is_served(&moments):
            return None
        norm = sqrt(moments.squares)
        if scales:
            measured = self.lengths(row)
            if measured is None:
                return None
            mean, size = measured
            frexp(moments.largest, &exponent)
            exponent = self.exponent - exponent
            mean, size = ldexp(mean, exponent), ldexp(size, exponent)
        cdef Room room = Room((2 * n_blocks(self.n) + <Py_ssize_t> self.k + 2 * self.n) * sizeof(double))
        cdef double* sums = <double*> room.start
        cdef int64_t* close = <int64_t*> (sums + self.n)
        cdef Py_ssize_t n_close = self.n, t, n_left = self.n
        cdef const uint8_t* out = <const uint8_t*> data_of(mask)
        if out != NULL:
            n_left = count_left(out, self.n)
            if n_left < <Py_ssize_t> self.k:
                return None
        cdef Room wide = Room(self.d * sizeof(double))
        self.widen(cnp.PyArray_DATA(row), cnp.PyArray_TYPE(row) == cnp.NPY_FLOAT, exponent, <double*> wide.start)
        if self.by_columns:
            n_close = 0
            for t in range(self.n):
                if out == NULL or not out[t]:
                    close[n_close] = t
                    n_close += 1
            self._add_columns(wide, sums)
            for t in range(n_close):
                sums[t] = sums[close[t]]
        else:
            n_close = self._find_close(row, norm, centre, out, <double*> (close + self.n), close)
            if n_close < 0:
                return None
            if self.rows.are_contiguous or n_close == 1:
                with nogil:
                    self.rows.fill_sums(close, n_close, <double*> wide.start, self.objective, sums)
            else:
                self._add_apart(wide, close, n_close, sums)
        cdef Best best = Best(self.k, self.absolute)
        if scales:
            self.scale(close, n_close, size, -self.d * mean, sums)
        if not best.add_all(close, sums, n_close):
            return None
        fields = self.fields.copy()
        fields["indices"], fields["scores"], fields["n_survivors"] = best.indices, best.scores, n_left
        fields["n_multiplies"] = n_left * (moments.n_nonzero if self.objective == 0 else self.d)
        return self.result(fields)

    cdef bint is_served(self, const bm_moments* moments) noexcept nogil:
        """Whether products of such a query are normal numbers, and not few."""
        if not are_fine(moments) or not (self.low < sqrt(moments.squares) < self.high):
            return False
        return self.objective != 0 or self.few_entries * moments.n_nonzero > self.d

    cdef void widen(self, const void* query, bint is_single, int exponent, double* wide) noexcept nogil:
        """Put a query there, in double precision and times a power of two."""
        cdef double power = ldexp(1.0, exponent)
        cdef const double* numbers = <const double*> query
        cdef int64_t t
        if is_single:
            bm_kernels().to_f64(BM_F32, query, sizeof(float), self.d, wide)
            numbers = wide
        for t in range(self.d):
            wide[t] = numbers[t] * power

    cdef int _add_columns(self, Room wide, double* sums) except -1:
        """Exact sums of all rows."""
        cdef double[:, ::1] query = <double[:1, :self.d]> <double*> wide.start
        cdef const double[:, ::1] found = self.rows.sums_of_columns(query, 0, self.n, self.objective)
        cdef Py_ssize_t t
        for t in range(self.n):
            sums[t] = found[0, t]
        return 0

    cdef int _add_apart(self, Room wide, const int64_t* close, Py_ssize_t n_close, double* sums) except -1:
        """Exact sums of rows whose numbers lie apart."""
        if n_close == 0:
            return 0
        query = np.asarray(<double[:1, :self.d]> <double*> wide.start)
        chosen = np.asarray(<int64_t[:n_close]> <int64_t*> close)
        cdef const double[::1] found = self.rows.pair_sums(chosen, np.array([0, n_close]), query, self.objective)
        cdef Py_ssize_t t
        for t in range(n_close):
            sums[t] = found[t]
        return 0

    cdef void scale(self, const int64_t* close, Py_ssize_t n_close, double size, double taken, double* sums) noexcept:
        """Make scores of exact sums: of products, over both norms, less what the means take from them."""
        cdef const double* norms = <const double*> data_of(self.norms)
        cdef const double* means = <const double*> data_of(self.means)
        cdef Py_ssize_t t
        # As everywhere else to the bit: the compiler must neither change their order nor leave out a rounding.
        cdef volatile double score, factor, offset
        for t in range(n_close):
            factor = norms[close[t]] * size
            factor = 1.0 / factor if factor > 0.0 else 0.0
            score = sums[t] * factor
            if means != NULL:
                offset = taken * means[close[t]]
                offset = offset * factor
                score = score + offset
            sums[t] = score

    cdef Py_ssize_t _find_close(
        self, cnp.ndarray row, double norm, double centre, const uint8_t* out, double* room, int64_t* close
    ) except -2:
        """Find rows that are among the best, or too close to tell; how many, or -1 where others have to do it."""
        cdef cnp.ndarray vector = row, found
        cdef Room own
        cdef void* products
        cdef Py_ssize_t n_close
        if (cnp.PyArray_TYPE(row) == cnp.NPY_FLOAT) != self.single:
            with np.errstate(over="ignore", under="ignore"):
                vector = row.astype(np.float32 if self.single else np.float64)
        if self.multiply is not None:
            found = self.multiply(vector)
            products = cnp.PyArray_DATA(found)
        else:
            own = Room(self.n * sizeof(double))
            products = own.start
            with nogil:
                fill_products(self.rows, cnp.PyArray_DATA(vector), products)
        n_close = (
            close_by[float](self, <float*> products, norm, centre, out, room, close)
            if self.single else
            close_by[double](self, <double*> products, norm, centre, out, room, close)
        )
        if n_close > self.most_close:
            self.is_closed = True
            return -1
        return n_close


cdef void* data_of(array) noexcept:
    """Where the numbers of an array are; NULL where there is none."""
    return NULL if array is None else cnp.PyArray_DATA(array)


cdef void measure(const void* query, bint is_single, int64_t d, bm_moments* moments) noexcept nogil:
    if is_single:
        bm_kernels().moments_f32(<const float*> query, d, NULL, moments)
    else:
        bm_kernels().moments_f64(<const double*> query, d, NULL, moments)


cdef Py_ssize_t close_by(
    PlainScores kind, real* products, double norm, double centre, const uint8_t* out, double* room, int64_t* close
) except -2:
    """Rows that are among the best by what is made of products, or too close to tell; -1 where one is not finite."""
    cdef const real* factors = <const real*> data_of(kind.factors)
    cdef const real* offsets = <const real*> data_of(kind.offsets)
    cdef const real* squares = <const real*> data_of(kind.squares)
    cdef Py_ssize_t n = kind.n, t, top = 0, n_close = 0, k = kind.k
    cdef real level = <real> (1.0 if kind.level is None else centre)
    cdef double bar
    cdef Rounding rounding
    with nogil:
        if factors != NULL:
            for t in range(n):
                products[t] *= factors[t]
        if offsets != NULL:
            for t in range(n):
                products[t] -= level * offsets[t]
        if out != NULL:
            leave_out(products, out, n, kind.absolute)
        fill_maxima(squares, n, room + n_blocks(n))
        bar = kth_best(products, n, k, kind.absolute, room, room + 2 * n_blocks(n), &top)
        if not isnan(bar):
            rounding = rounding_of(real is float, kind.d, kind.wider * (norm + (kind.longest if kind.lost > 0.0 else 0.0)))
            if kind.lost > 0.0:
                rounding.lost += kind.lost * (norm + kind.longest) ** 2 + 2.0 * rounding.lost
            bar = certain_bar(products, squares, n, kind.absolute, room, bar, &rounding)
            n_close = reaching(products, squares, n, kind.absolute, room, bar, &rounding, close)
    if isnan(bar):
        return -1
    return n_close if out == NULL else without_those(out, close, n_close)
