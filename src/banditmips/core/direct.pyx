"""The short way of a plain query: one call for what most searches are.

A plain query is one row of floats to atoms in an array, for inner products, with nothing asked for but the best k. Whatever
turns out not to be plain is left to `banditmips.race.query`, which does the same things for every option.
"""

from libc.float cimport DBL_EPSILON, DBL_MIN, FLT_EPSILON, FLT_MIN
from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.certain cimport CertainBounds, MeasuredQuery
from banditmips.core.kernels cimport BM_STRETCH, bm_kernels
from banditmips.core.rows cimport Rows
from banditmips.core.survivors cimport Survivors, keep_largest, kth_largest, ranked

cdef double ROUNDING = 4.0
"""Error of a product by BLAS, in units of the last place of the product of the two norms."""


cdef class Best:
    """The best k rows so far, best first; of equals the one with the smaller index."""

    cdef readonly object indices, scores
    cdef int64_t[::1] _indices
    cdef double[::1] _scores
    cdef Py_ssize_t k, count
    cdef bint absolute

    def __init__(self, Py_ssize_t k, bint absolute):
        self.indices, self.scores = np.empty(k, dtype=np.int64), np.empty(k)
        self._indices, self._scores = self.indices, self.scores
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


ctypedef fused real:
    float
    double


def close_to_best(const real[::1] products, Rows rows, double squares, Py_ssize_t k, bint absolute):
    """Rows that are among the best k by the products of all atoms, or that rounding cannot tell from those.

    Parameters
    ----------
    products : array of shape (n,)
        Of the atoms with the query, as BLAS gives them.
    squares : float
        Sum of the squares of the query's entries.

    Returns
    -------
    int64 array, or None where a product is not finite.
    """
    cdef Py_ssize_t n = products.shape[0], t, top = 0, n_close = 0
    cdef double value, bar, slack, norm, root = sqrt(<double> rows.d), largest = -INFINITY, total = 0.0
    cdef double unit = FLT_EPSILON if real is float else DBL_EPSILON
    cdef double tiny = FLT_MIN if real is float else DBL_MIN
    cdef double[::1] heap = np.empty(k)
    with nogil:
        for t in range(n):
            value = fabs(products[t]) if absolute else products[t]
            total += value
            if value > largest:
                top, largest = t, value
            if t < k or value > heap[0]:
                keep_largest(value, &heap[0], min(t, k), k)
    if not isfinite(total):
        return None
    # The norm of the best row stands for those of all that could be close to it.
    norm = rows.norm(top)
    slack = 2.0 * ROUNDING * unit * norm * sqrt(squares)
    # What underflows is less than the smallest normal number: in a product, or in an entry of the query.
    slack += 2.0 * tiny * root * (root + norm)
    bar = heap[0] - slack
    close = np.empty(min(n, 2 * k), dtype=np.int64)
    cdef int64_t[::1] chosen = close
    for t in range(n):
        if (fabs(products[t]) if absolute else products[t]) >= bar:
            if n_close == chosen.shape[0]:
                close = np.concatenate([close, np.empty(min(n, 2 * n_close) - n_close, dtype=np.int64)])
                chosen = close
            chosen[n_close] = t
            n_close += 1
    return close[:n_close]


def best_of_all(products, Rows rows, MeasuredQuery query, Py_ssize_t k, bint absolute):
    """The best k by the products of all atoms with one query; None where a number is not finite."""
    close = close_to_best(products, rows, query.moments.squares, k, absolute)
    return None if close is None else best_of(close, rows.scores(close, None, query.exact, 0), k, absolute)


def best_of(const int64_t[::1] rows, const double[::1] scores, Py_ssize_t k, bint absolute):
    """The best k of these rows by their exact scores; None where one is not finite."""
    cdef Py_ssize_t t
    best = Best(k, absolute)
    for t in range(rows.shape[0]):
        if not isfinite(scores[t]):
            return None
        best.add(rows[t], scores[t])
    return best


cdef class Direct:
    """Plain queries to an index in memory, for one k.

    Parameters
    ----------
    rows : Rows
    known : Known
        What the index has prepared; its certain bounds are needed.
    settings : tuple
        k, whether scores are ranked by their size, and delta.
    times : Times
    """

    cdef Rows rows
    cdef object known, codes
    cdef CertainBounds bounds
    cdef Py_ssize_t k, n
    cdef bint absolute
    cdef double delta, row_time, first_time
    cdef object times

    def __init__(self, Rows rows, known, settings, times):
        self.rows, self.known, self.times = rows, known, times
        self.k, self.absolute, self.delta = settings
        self.n, self.bounds = rows.n, known.bounds
        self.row_time = times.row
        self.first_time = known.codes.n_first * times.cell

    def survivors(self, MeasuredQuery query):
        """Those that certain bounds leave, with where their scores lie."""
        cdef Survivors alive = Survivors.with_room(self.n, self.k, self.absolute)
        with nogil:
            self.bounds.place(query, alive, True)
            self._keep_best(alive, self.n, True)
        # An axis takes about as long as a row.
        if self.bounds.n_axes and alive.n > self.k + self.bounds.n_axes:
            with nogil:
                self.bounds.place(query, alive, False)
                self._keep_best(alive, alive.n, False)
        return alive

    cdef void _keep_best(self, Survivors alive, Py_ssize_t n, bint are_all) noexcept nogil:
        """Move together those of the first n that reach the bar; `are_all` if they are all atoms, one after another."""
        cdef Py_ssize_t t
        cdef int64_t place
        cdef double bar
        if self.k == 1:
            bar = bm_kernels().largest_lower(alive.estimates, alive.radius, n, self.absolute)
        else:
            for t in range(n):
                alive.lower[t] = (fabs(alive.estimates[t]) if self.absolute else alive.estimates[t]) - alive.radius[t]
            bar = kth_largest(alive.lower, n, self.k, alive.heap)
        # The room of the lower ends is free by now, and of the same size as places are.
        cdef int64_t* places = <int64_t*> alive.lower
        alive.n = bm_kernels().reaching(alive.estimates, alive.radius, n, self.absolute, bar, places)
        for t in range(alive.n):
            place = places[t]
            alive.rows[t] = place if are_all else alive.rows[place]
            alive.estimates[t] = alive.estimates[place]
            alive.radius[t] = alive.radius[place]

    def finish(self, Survivors alive, MeasuredQuery query):
        """Exact scores of survivors that are few, the most promising first, some at a time, as long as they can win.

        Returns
        -------
        Best and how many rows were read, or None where a score is not finite.
        """
        best = Best(self.k, self.absolute)
        cdef Py_ssize_t done, t, place, n_read = 0, n_to_read = 0
        cdef double score, bar = -INFINITY
        cdef double[BM_STRETCH] room
        with nogil:
            for done in range(alive.n):
                # The most promising of those that are left comes next.
                place = done
                for t in range(done + 1, alive.n):
                    if ranked(alive, t) > ranked(alive, place):
                        place = t
                alive.rows[done], alive.rows[place] = alive.rows[place], alive.rows[done]
                alive.estimates[done], alive.estimates[place] = alive.estimates[place], alive.estimates[done]
                alive.radius[done], alive.radius[place] = alive.radius[place], alive.radius[done]
                # The bar is raised as often as in the finish of any other search, so that both read the same rows.
                if n_read == n_to_read:
                    bar, n_to_read = best.bar(), n_read + max(self.k, n_read)
                if ranked(alive, done) + alive.radius[done] < bar:
                    continue
                score = self.rows.sum_terms(alive.rows[done], &query._exact[0], 0, room)
                n_read += 1
                if not isfinite(score):
                    n_read = -1
                    break
                best.add(alive.rows[done], score)
        return (best, n_read) if n_read >= 0 else None

    def few(self, Survivors alive):
        """Whether the survivors' rows take less time than their first codes would."""
        return alive.n <= max(64, 2 * self.k) and (
            alive.n * self.row_time <= self.times.prepare + alive.n * self.first_time
        )
