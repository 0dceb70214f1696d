"""Plain searches for scores that follow from products with all atoms, in one compiled call: of an index, or of bare arrays.

Those are inner products, cosines, correlations and squared differences, of atoms of any type and order, all of them or less
those that a mask takes out. `PlainProducts` is the shorter way for inner products of atoms that are as BLAS likes them.
"""

from libc.math cimport fabs, frexp, isnan, ldexp, sqrt
from libc.stdint cimport int64_t, uint8_t

import numpy as np

cimport numpy as cnp

from banditmips.core.certain cimport are_fine
from banditmips.core.kernels cimport BM_F32, bm_kernels, bm_moments
from banditmips.core.maps cimport map_of
from banditmips.core.near_best cimport (
    Room, Rounding, certain_bar, count_left, fill_maxima, kth_best, leave_out, n_blocks, reaching, real, rounding_of, without_those,
)
from banditmips.core.passes cimport fill_products
from banditmips.core.plain cimport PlainKind, are_floats, are_same, is_plain_mask
from banditmips.core.products cimport Best
from banditmips.core.rows cimport Rows

cnp.import_array()


cdef class ScoredAtoms:
    """Some atoms, and how scores follow from products with them.

    Attributes
    ----------
    rows : Rows
    factors, offsets, squares : arrays of shape (n,) of the products' type, or None
        What products are multiplied by, and what is taken from them (times the query's mean, for correlations); and the
        sums of the squares of the atoms times their factors. Where nobody knows these, those of the best stand for all.
    relative : array of shape (n,) of the products' type, or None
        By what part of them scores are wrong besides, because factors are; times `of_part` that is a norm that an atom has
        more.
    norms, means : float64 arrays, or None
        By which exact sums are divided, and what correlations take from them: of all atoms, or of some, one after another,
        whose exact scores are wanted.
    longest : float
        Norm of the longest atom.
    wider, of_longest, of_centre, of_part : float
        How many times as wrong as products their scores may be; what a query's norm has more for each unit of `longest`, and
        of its mean; and see above.
    exponent : int
        Queries are multiplied by a power of two that makes their largest entry this one, for exact scores.
    """

    def __init__(self, Rows rows):
        self.rows, self.wider = rows, 1.0


cdef class PlainScores(PlainKind):
    """Plain searches whose scores follow from products by a factor and an offset of each atom.

    Attributes
    ----------
    known : ScoredAtoms or None
        Those of an index. Of bare arrays nothing is known: `learn` takes rows with their sums (for correlations, else
        perhaps None) and sums of squares and finds the rest, or says False where these cannot tell; and `measure_some`
        takes some of the rows and finds norms, means and the exponent of these, or says False.
    atom_type, by_row : int, bool
        NumPy's number of the type of bare atoms, and whether their rows lie one after another, not their columns.
    single : bool
        Whether products are those of single precision.
    objective : int
        Of the exact sums.
    low, high : float
        The norms of queries whose products are normal numbers.
    lost : float
        What differences lose besides, for each square of the sum of the two norms.
    most_close : int
        Rows that products may leave: where there are more, others tell them apart, also the next time (`is_closed`).
    needs_squares, scales : bool
        Whether scores follow from products with the atoms' squares, and from exact sums with norms.
    most_level : float
        A query whose mean is more of it than so many times the rest is taken less its mean; `level` does that.
    lengths, multiply : callables, or None
        Mean and norm of a query; products of all atoms with a query, with their sums and sums of squares for an array of
        shape (2, n), where our own loops are not for them.
    by_columns : bool
        Whether exact sums of all atoms take less than the products and, after them, those of the best.
    """

    cdef bint serves(self, cnp.ndarray atoms, cnp.ndarray row, k, tuple asked):
        return (
            cnp.PyArray_NDIM(row) == 1
            and cnp.PyArray_DIM(row, 0) == self.d
            and are_floats(row, self.type_num)
            and k == self.k
            and self.are_of_kind(atoms)
            and are_same(asked, self.asked)
            and not self.is_closed
        )

    cdef bint are_of_kind(self, cnp.ndarray atoms):
        """Whether bare atoms are of the type and order; those of an index are."""
        if self.known is not None:
            return True
        cdef int order = cnp.NPY_ARRAY_C_CONTIGUOUS if self.by_row else cnp.NPY_ARRAY_F_CONTIGUOUS
        return (
            cnp.PyArray_NDIM(atoms) == 2
            and cnp.PyArray_DIM(atoms, 0) == self.n
            and cnp.PyArray_DIM(atoms, 1) == self.d
            and cnp.PyArray_TYPE(atoms) == self.atom_type
            and cnp.PyArray_CHKFLAGS(atoms, order | cnp.NPY_ARRAY_ALIGNED)
            and cnp.PyArray_ISNOTSWAPPED(atoms)
            and map_of(atoms) is None
        )

    cdef bint takes(self, mask):
        return is_plain_mask(mask, self.n)

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row, cnp.ndarray mask):
        cdef bm_moments moments
        cdef double norm, centre = 0.0, mean = 0.0, size = 1.0
        cdef int exponent = 0
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
        cdef Room room = Room((2 * n_blocks(self.n) + 3 * self.n) * sizeof(double))
        cdef double* sums = <double*> room.start
        cdef int64_t* close = <int64_t*> (sums + self.n)
        cdef Py_ssize_t n_close = self.n, t, n_left = self.n
        cdef const uint8_t* out = <const uint8_t*> data_of(mask)
        if out != NULL:
            n_left = count_left(out, self.n)
            if n_left < <Py_ssize_t> self.k:
                return None
        cdef ScoredAtoms scored = ScoredAtoms(Rows([atoms])) if self.known is None else self.known
        if self.by_columns:
            n_close = 0
            for t in range(self.n):
                if out == NULL or not out[t]:
                    close[n_close] = t
                    n_close += 1
        else:
            products = self._products(row, scored)
            if products is None:
                return None
            n_close = self.find_close(scored, cnp.PyArray_DATA(products), norm, centre, out, <double*> (close + self.n), close)
            if n_close > self.most_close:
                self.is_closed = True
            if n_close < 0 or self.is_closed:
                return None
        if self.scales:
            measured = self.lengths(row)
            if measured is None or not self.find_norms(scored, close, n_close):
                return None
            mean, size = measured
            frexp(moments.largest, &exponent)
            exponent = scored.exponent - exponent
            mean, size = ldexp(mean, exponent), ldexp(size, exponent)
        cdef Room wide = Room(self.d * sizeof(double))
        self.widen(cnp.PyArray_DATA(row), cnp.PyArray_TYPE(row) == cnp.NPY_FLOAT, exponent, <double*> wide.start)
        if self.by_columns:
            self._add_columns(scored.rows, wide, sums)
            for t in range(n_close):
                sums[t] = sums[close[t]]
        elif scored.rows.are_contiguous or n_close == 1:
            with nogil:
                scored.rows.fill_sums(close, n_close, <double*> wide.start, self.objective, sums)
        else:
            self._add_apart(scored.rows, wide, close, n_close, sums)
        cdef Best best = Best(self.k, self.absolute)
        if self.scales:
            self.scale(scored, close, 0, n_close, size, -self.d * mean, sums)
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

    cdef int _add_columns(self, Rows rows, Room wide, double* sums) except -1:
        """Exact sums of all rows."""
        cdef double[:, ::1] query = <double[:1, :self.d]> <double*> wide.start
        cdef const double[:, ::1] found = rows.sums_of_columns(query, 0, self.n, self.objective)
        cdef Py_ssize_t t
        for t in range(self.n):
            sums[t] = found[0, t]
        return 0

    cdef int _add_apart(self, Rows rows, Room wide, const int64_t* close, Py_ssize_t n_close, double* sums) except -1:
        """Exact sums of rows whose numbers lie apart."""
        if n_close == 0:
            return 0
        query = np.asarray(<double[:1, :self.d]> <double*> wide.start)
        chosen = np.asarray(<int64_t[:n_close]> <int64_t*> close)
        cdef const double[::1] found = rows.pair_sums(chosen, np.array([0, n_close]), query, self.objective)
        cdef Py_ssize_t t
        for t in range(n_close):
            sums[t] = found[t]
        return 0

    cdef bint find_norms(self, ScoredAtoms scored, const int64_t* close, Py_ssize_t n_close) except -1:
        """Find norms and means of some rows, unless those of all are known; False where they are not numbers."""
        if scored.norms is not None or n_close == 0:
            return True
        return self.measure_some(scored, np.asarray(<int64_t[:n_close]> <int64_t*> close))

    cdef void scale(
        self, ScoredAtoms scored, const int64_t* close, int64_t first, Py_ssize_t n_close, double size, double taken, double* sums
    ) noexcept:
        """Make scores of exact sums: of products, over both norms, less what the means take from them.

        Norms that are not those of all atoms are those of the rows that are close, from the first of these on.
        """
        cdef const double* norms = <const double*> data_of(scored.norms)
        cdef const double* means = <const double*> data_of(scored.means)
        cdef Py_ssize_t t, place
        cdef bint are_of_all = self.known is not None
        # As everywhere else to the bit: the compiler must neither change their order nor leave out a rounding.
        cdef volatile double score, factor, offset
        for t in range(n_close):
            place = close[t] if are_of_all else first + t
            factor = norms[place] * size
            factor = 1.0 / factor if factor > 0.0 else 0.0
            score = sums[t] * factor
            if means != NULL:
                offset = taken * means[place]
                offset = offset * factor
                score = score + offset
            sums[t] = score

    cdef cnp.ndarray _products(self, cnp.ndarray row, ScoredAtoms scored):
        """Products with all atoms; of bare ones the rest is learnt on the way. None where that cannot be."""
        cdef cnp.ndarray vector = row, products, squares = None
        cdef cnp.npy_intp n = self.n
        cdef int type_num = cnp.NPY_FLOAT if self.single else cnp.NPY_DOUBLE
        cdef bint learns = self.known is None and self.needs_squares
        cdef Rows rows = scored.rows
        cdef void* of_squares = NULL
        cdef void* of_totals = NULL
        totals = None
        if (cnp.PyArray_TYPE(row) == cnp.NPY_FLOAT) != self.single:
            with np.errstate(over="ignore", under="ignore"):
                vector = row.astype(np.float32 if self.single else np.float64)
        if self.multiply is not None:
            moments = np.empty((2, self.n)) if learns else None
            products = self.multiply(rows, vector, moments)
            if learns:
                totals, squares = moments
        else:
            products = cnp.PyArray_SimpleNew(1, &n, type_num)
            if learns:
                squares = cnp.PyArray_SimpleNew(1, &n, type_num)
                of_squares = cnp.PyArray_DATA(squares)
            if learns and self.level is not None:
                totals = cnp.PyArray_SimpleNew(1, &n, type_num)
                of_totals = cnp.PyArray_DATA(totals)
            with nogil:
                fill_products(rows, cnp.PyArray_DATA(vector), cnp.PyArray_DATA(products), of_totals, of_squares)
        return products if not learns or self.learn(scored, totals, squares) else None

    cdef Py_ssize_t find_close(
        self, ScoredAtoms scored, void* products, double norm, double centre, const uint8_t* out, double* room,
        int64_t* close
    ) except -2:
        """Find rows that are among the best, or too close to tell; how many, or -1 where a number is not finite."""
        if self.single:
            return close_by[float](self, scored, <float*> products, norm, centre, out, room, close)
        return close_by[double](self, scored, <double*> products, norm, centre, out, room, close)


cdef void* data_of(array) noexcept:
    """Where the numbers of an array are; NULL where there is none."""
    return NULL if array is None else cnp.PyArray_DATA(array)


cdef void measure(const void* query, bint is_single, int64_t d, bm_moments* moments) noexcept nogil:
    if is_single:
        bm_kernels().moments_f32(<const float*> query, d, NULL, moments)
    else:
        bm_kernels().moments_f64(<const double*> query, d, NULL, moments)


cdef Py_ssize_t close_by(
    PlainScores kind, ScoredAtoms scored, real* products, double norm, double centre, const uint8_t* out, double* room,
    int64_t* close
) except -2:
    """Rows that are among the best by what is made of products, or too close to tell; -1 where one is not finite."""
    cdef const real* factors = <const real*> data_of(scored.factors)
    cdef const real* offsets = <const real*> data_of(scored.offsets)
    cdef const real* squares = <const real*> data_of(scored.squares)
    cdef const real* relative = <const real*> data_of(scored.relative)
    cdef Py_ssize_t n = kind.n, t, top = 0, n_close = 0, k = kind.k
    cdef real level = <real> (1.0 if kind.level is None else centre)
    cdef double bar, more
    cdef Rounding rounding
    cdef Room larger = None if relative == NULL else Room(n * sizeof(real))
    cdef Rows rows = scored.rows
    with nogil:
        if factors != NULL:
            for t in range(n):
                products[t] *= factors[t]
        if offsets != NULL:
            for t in range(n):
                products[t] -= level * offsets[t]
        if relative != NULL:
            more = scored.of_part * _largest(products, n) / norm
            for t in range(n):
                (<real*> larger.start)[t] = <real> ((sqrt(squares[t]) + more * relative[t]) ** 2)
            squares = <const real*> larger.start
        if out != NULL:
            leave_out(products, out, n, kind.absolute)
        if squares != NULL:
            fill_maxima(squares, n, room + n_blocks(n))
        bar = kth_best(products, n, k, kind.absolute, room, room + 2 * n_blocks(n), &top)
        if not isnan(bar):
            more = scored.wider * norm + scored.of_centre * fabs(centre)
            if kind.lost > 0.0:
                more += scored.of_longest * scored.longest
                norm += scored.longest
            rounding = rounding_of(real is float, kind.d, more)
            if kind.lost > 0.0:
                rounding.lost += kind.lost * norm ** 2 + 2.0 * rounding.lost
            if squares == NULL:
                rounding.same_square = rows.norm(top) ** 2
            bar = certain_bar(products, squares, n, kind.absolute, room, bar, &rounding)
            n_close = reaching(products, squares, n, kind.absolute, room, bar, &rounding, close)
    if isnan(bar):
        return -1
    return n_close if out == NULL else without_those(out, close, n_close)


cdef double _largest(const real* numbers, Py_ssize_t n) noexcept nogil:
    """The largest size of some numbers."""
    if real is float:
        return bm_kernels().largest_f32(numbers, n, True)
    else:
        return bm_kernels().largest_f64(numbers, n, True)
