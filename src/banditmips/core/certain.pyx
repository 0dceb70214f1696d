"""Certain bounds: where every score lies by what `fit` knows of each atom, without a multiply.

With m the mean of an atom's entries and s the root of their scatter about it, a query with sum t and squares Q has the inner
product ``m*t`` with the atom, give or take ``s * sqrt(Q - t^2/d)`` (Cauchy and Schwarz). Rounding widens the interval.
"""

from libc.math cimport INFINITY, fabs, isfinite, sqrt
from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.kernels cimport bm_kernels, bm_moments
from banditmips.core.survivors cimport Survivors


cdef class ScoreMap:
    """How an atom's score follows from its inner product: ``factor * product + offset``, with numbers of each atom.

    Parameters
    ----------
    factors, offsets : float64 arrays of shape (n,), or None
        None for a factor of 1 and an offset of 0.
    """

    def __init__(self, factors=None, offsets=None):
        self.factors, self.offsets = factors, offsets
        self._has_factors, self._has_offsets = factors is not None, offsets is not None
        if self._has_factors:
            self._factors = np.ascontiguousarray(factors, dtype=np.float64)
        if self._has_offsets:
            self._offsets = np.ascontiguousarray(offsets, dtype=np.float64)
        self.rounding = 8.0 * np.finfo(np.float64).eps

    cdef void apply(self, Survivors alive) noexcept nogil:
        """Turn estimates of inner products into those of scores."""
        cdef Py_ssize_t t
        if self._has_factors:
            for t in range(alive.n):
                alive.estimates[t] *= self._factors[alive.rows[t]]
        if self._has_offsets:
            for t in range(alive.n):
                alive.estimates[t] += self._offsets[alive.rows[t]]

    cdef void widen(self, Survivors alive) noexcept nogil:
        """Turn radii of inner products into those of scores, whose estimates are there; what overflowed says nothing."""
        cdef Py_ssize_t t
        if self._has_factors:
            for t in range(alive.n):
                alive.radius[t] *= fabs(self._factors[alive.rows[t]])
        if self._has_offsets:
            # An offset much larger than the score takes digits away from it.
            for t in range(alive.n):
                alive.radius[t] += self.rounding * fabs(self._offsets[alive.rows[t]]) / alive.reach
        for t in range(alive.n):
            if not isfinite(alive.estimates[t] + alive.radius[t]):
                alive.radius[t] = INFINITY
                if not isfinite(alive.estimates[t]):
                    alive.estimates[t] = 0.0


cdef class QueryMoments:
    """Sum, sum of sizes, sum of squares and largest size of a query's entries."""

    cdef bm_moments moments

    def __init__(self, query):
        cdef const float[::1] singles
        cdef const double[::1] doubles
        if query.dtype == np.float32:
            singles = query
            bm_kernels().moments_f32(&singles[0], singles.shape[0], &self.moments)
        else:
            doubles = query
            bm_kernels().moments_f64(&doubles[0], doubles.shape[0], &self.moments)

    @property
    def total(self):
        return self.moments.total

    @property
    def size(self):
        return self.moments.size

    @property
    def squares(self):
        return self.moments.squares

    @property
    def largest(self):
        return self.moments.largest


cdef class CertainBounds:
    """What is known of each atom of an index: the mean of its entries and the root of their scatter."""

    cdef const double[::1] means, spreads
    cdef double d, rounding

    def __init__(self, means, spreads, int64_t d, rounding):
        self.means, self.spreads, self.d, self.rounding = means, spreads, d, rounding

    def tables(self):
        """The atoms' means, the roots of their scatters, and the rounding that is reckoned with."""
        return self.means, self.spreads, self.rounding

    def bound(self, Survivors alive, QueryMoments query, ScoreMap scores):
        """Fill in where the survivors' scores lie for certain. False where numbers are too large or small for squares."""
        cdef bm_moments moments = query.moments
        cdef double square = moments.squares
        if not (isfinite(square) and isfinite(moments.total) and (square > 1e-250 or moments.largest == 0.0)):
            return False
        cdef double mean = moments.total / self.d
        # In this form nothing overflows where the squares themselves do not.
        cdef double rest = max(square - mean * moments.total, 0.0) + self.rounding * square
        cdef double reach = sqrt(rest) * (1.0 + self.rounding), slack = self.rounding * moments.size
        cdef Py_ssize_t t
        cdef int64_t row
        with nogil:
            for t in range(alive.n):
                row = alive.rows[t]
                alive.estimates[t] = self.means[row] * moments.total
                alive.radius[t] = self.spreads[row] * reach + fabs(self.means[row]) * slack
            scores.apply(alive)
            scores.widen(alive)
        return True
