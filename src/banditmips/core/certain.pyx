"""Certain bounds: where every score lies by what `fit` knows of each atom, without a multiply.

With m the mean of an atom's entries and s the root of their scatter about it, a query with sum t and squares Q has the inner
product ``m*t`` with the atom, give or take ``s * sqrt(Q - t^2/d)`` (Cauchy and Schwarz). Axes, a few directions in which
much of the atoms lies (orthonormal, and orthogonal to the vector of ones), add the products of their parts to the first
and take their squares from both factors of the second. Rounding widens the interval.
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

    def of_sums(self, sums, rows):
        """Turn sums of the rows' terms into scores."""
        if self.factors is not None:
            sums = sums * self.factors[rows]
        return sums if self.offsets is None else sums + self.offsets[rows]

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


cdef class MeasuredQuery:
    """A query as it was given, in double precision, and its moments."""

    def __init__(self, given):
        cdef const float[::1] singles
        self.given = given
        if given.dtype == np.float32:
            singles = given
            self.exact = np.empty(singles.shape[0])
            self._exact = self.exact
            bm_kernels().moments_f32(&singles[0], singles.shape[0], <double*> &self._exact[0], &self.moments)
        else:
            self.exact = given
            self._exact = given
            bm_kernels().moments_f64(&self._exact[0], self._exact.shape[0], NULL, &self.moments)

    @property
    def total(self):
        """Sum of its entries."""
        return self.moments.total

    @property
    def size(self):
        """Sum of the sizes of its entries."""
        return self.moments.size

    @property
    def squares(self):
        """Sum of the squares of its entries."""
        return self.moments.squares

    @property
    def largest(self):
        """Size of its largest entry."""
        return self.moments.largest

    @property
    def n_nonzero(self):
        """Entries that are not 0."""
        return self.moments.n_nonzero

    @property
    def unevenness(self):
        """How many times more coordinates uniform sampling needs than sampling by size, if the atoms are flat."""
        cdef double size = self.moments.size
        return self.moments.n_nonzero * self.moments.squares / (size * size) if size > 0.0 else 1.0

    @property
    def is_fine(self):
        """Whether its numbers are finite, and their squares neither too large nor too small."""
        return are_fine(&self.moments)


cdef class CertainBounds:
    """What is known of each atom of an index.

    Parameters
    ----------
    means, norms : float64 arrays of shape (n,)
        Means of the atoms' entries, and their norms.
    spreads : float64 array of shape (1, n) or (2, n)
        Norms of what means leave of the atoms, and of what axes leave of that, if there are any.
    d : int
    rounding : float
        Relative error of all these, at most.
    axes : array of shape (r, d), or None
        Up to `MOST_AXES` orthonormal vectors, orthogonal to the vector of ones.
    along : float32 array of shape (r, n), or None
        The atoms' products with these.
    """

    def __init__(self, means, norms, spreads, int64_t d, double rounding, axes=None, along=None):
        self.means, self.norms, self.spreads, self.d, self.rounding = means, norms, spreads, d, rounding
        self.n_axes = 0
        if axes is None:
            return
        if len(axes) > MOST_AXES:
            raise ValueError(f"there are at most {MOST_AXES} axes, not {len(axes)}")
        self.n_axes, self.along = len(axes), along
        self.single_axes = axes.dtype == np.float32
        if self.single_axes:
            self._axes32 = axes
        else:
            self._axes64 = axes

    cdef void _look(self, MeasuredQuery query, int64_t n_axes, double* along) noexcept nogil:
        """The query's products with the first axes."""
        cdef int64_t j
        for j in range(n_axes):
            if self.single_axes:
                along[j] = bm_kernels().dot_exact_f32(&self._axes32[j, 0], &query._exact[0], self.d)
            else:
                along[j] = bm_kernels().dot_exact_f64(&self._axes64[j, 0], &query._exact[0], self.d)

    cdef void place(self, MeasuredQuery query, Survivors alive, bint first) noexcept nogil:
        """Fill in where the survivors' products lie: by all axes; or, `first`, of all atoms by none."""
        cdef bm_moments moments = query.moments
        cdef double[MOST_AXES] along
        cdef double mean = moments.total / self.d
        # In this form nothing overflows where the squares themselves do not.
        cdef double rest = moments.squares - mean * moments.total
        cdef Py_ssize_t t
        cdef int64_t j, row, n_axes = 0 if first else self.n_axes
        cdef const double* spreads = &self.spreads[0 if n_axes == 0 else 1, 0]
        self._look(query, n_axes, along)
        for j in range(n_axes):
            rest -= along[j] * along[j]
        cdef double reach = sqrt(max(rest, 0.0) + self.rounding * moments.squares) * (1.0 + self.rounding)
        cdef double slack = self.rounding * sqrt(moments.squares)
        if first:  # side by side, which the compiler can do several at a time
            for t in range(self.means.shape[0]):
                alive.estimates[t] = self.means[t] * moments.total
                alive.radius[t] = spreads[t] * reach + self.norms[t] * slack
            return
        for t in range(alive.n):
            row = alive.rows[t]
            alive.estimates[t] = self.means[row] * moments.total
            alive.radius[t] = spreads[row] * reach + self.norms[row] * slack
            for j in range(n_axes):
                alive.estimates[t] += along[j] * self.along[j, row]

    def bound(self, Survivors alive, MeasuredQuery query, ScoreMap scores):
        """Fill in where the survivors' scores lie for certain. False where numbers are too large or small for squares."""
        if not query.is_fine:
            return False
        with nogil:
            self.place(query, alive, False)
            scores.apply(alive)
            scores.widen(alive)
        return True
