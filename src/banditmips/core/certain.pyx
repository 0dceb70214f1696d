"""Certain bounds: where every score lies by what `fit` knows of each atom, without a multiply.

With m the mean of an atom's entries and s the root of their scatter about it, a query with sum t and squares Q has the inner
product ``m*t`` with the atom, give or take ``s * sqrt(Q - t^2/d)`` (Cauchy and Schwarz). Axes, a few directions in which
much of the atoms lies (orthonormal, and orthogonal to the vector of ones), add the products of their parts to the first
and take their squares from both factors of the second. Rounding widens the interval.
"""

from libc.math cimport INFINITY, fabs, sqrt
from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.kernels cimport bm_certain, bm_certain_query, bm_kernels, bm_moments
from banditmips.core.survivors cimport WORTH_HANDING_OVER, Survivors, keep_largest


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

    cdef bint is_identity(self) noexcept nogil:
        """Whether scores are inner products."""
        return not self._has_factors and not self._has_offsets

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
        bm_kernels().give_up_overflowed(alive.estimates, alive.radius, alive.n)


cdef class MeasuredQuery:
    """A query as it was given, in double precision, and its moments."""

    def __init__(self, given):
        cdef const float[::1] singles
        cdef const float* in_single = NULL
        self.given = given
        if given.dtype == np.float32:
            singles = given
            in_single, self.exact = &singles[0], np.empty(singles.shape[0])
        else:
            self.exact = given
        self._exact = self.exact
        if self._exact.shape[0] < WORTH_HANDING_OVER:
            self._measure(in_single)
        else:
            with nogil:
                self._measure(in_single)

    cdef void _measure(self, const float* in_single) noexcept nogil:
        cdef int64_t d = self._exact.shape[0]
        if in_single == NULL:
            bm_kernels().moments_f64(&self._exact[0], d, NULL, &self.moments)
        else:
            bm_kernels().moments_f32(in_single, d, <double*> &self._exact[0], &self.moments)

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

    cdef bm_certain _known(self, bint with_axes) noexcept nogil:
        """What is known of the atoms, by their means alone or by axes too."""
        cdef bm_certain known
        known.means, known.norms, known.n = &self.means[0], &self.norms[0], self.means.shape[0]
        known.spreads = &self.spreads[1 if with_axes else 0, 0]
        known.along = &self.along[0, 0] if with_axes else NULL
        return known

    cdef bm_certain_query _look(self, MeasuredQuery query, bint with_axes) noexcept nogil:
        """What is to be known of a query."""
        cdef bm_certain_query known
        cdef bm_moments moments = query.moments
        cdef double mean = moments.total / self.d
        # In this form nothing overflows where the squares themselves do not.
        cdef double rest = moments.squares - mean * moments.total
        cdef int j
        known.n_axes = <int> self.n_axes if with_axes else 0
        for j in range(known.n_axes):
            if self.single_axes:
                known.along[j] = bm_kernels().dot_exact_f32(&self._axes32[j, 0], &query._exact[0], self.d)
            else:
                known.along[j] = bm_kernels().dot_exact_f64(&self._axes64[j, 0], &query._exact[0], self.d)
            rest -= known.along[j] * known.along[j]
        known.total, known.slack = moments.total, self.rounding * sqrt(moments.squares)
        known.reach = sqrt(max(rest, 0.0) + self.rounding * moments.squares) * (1.0 + self.rounding)
        return known

    cdef void leave(self, MeasuredQuery query, Survivors alive) noexcept nogil:
        """Let those of all atoms take part that can win: by means, and by axes where these leave many."""
        cdef Sieve sieve = self._sieve_of(alive, query, False)
        cdef bint leaves_most = self._sift_all(&sieve, False)
        # An axis takes about as long as a row.
        if leaves_most or (self.n_axes and sieve.n > alive.k + self.n_axes):
            alive.n = sieve.n
            sieve = self._sieve_of(alive, query, True)
            if leaves_most:
                self._sift_all(&sieve, True)
            else:
                self._sift_some(&sieve, alive.n)
        alive.n = sieve.n

    cdef Sieve _sieve_of(self, Survivors alive, MeasuredQuery query, bint with_axes) noexcept nogil:
        """Nobody yet, with the room of these survivors."""
        cdef Sieve sieve
        sieve.query, sieve.absolute, sieve.k = self._look(query, with_axes), alive.absolute, alive.k
        sieve.rows, sieve.estimates, sieve.radius = alive.rows, alive.estimates, alive.radius
        sieve.lower, sieve.heap, sieve.bar, sieve.n, sieve.n_seen = alive.lower, alive.heap, -INFINITY, 0, 0
        return sieve

    cdef bint _sift_all(self, Sieve* sieve, bint with_axes) noexcept nogil:
        """Let all atoms through, a few at a time, while they are in the cache.

        If means leave most of the first eighth, that is said at once: axes leave out those that means do, and more.
        """
        cdef bm_certain known = self._known(with_axes)
        cdef bint may_stop = self.n_axes > 0 and not with_axes
        cdef int64_t start = 0, stop
        while start < known.n:
            stop = min(start + SIFTED, known.n)
            _sift(sieve, &known, NULL, start, stop - start)
            if may_stop and 8 * stop >= known.n and 2 * sieve.n > stop and sieve.n > sieve.k + self.n_axes:
                return True
            start = stop
        _sift_again(sieve)
        return False

    cdef void _sift_some(self, Sieve* sieve, Py_ssize_t n) noexcept nogil:
        """Let the first n survivors through once more, by axes."""
        cdef bm_certain known = self._known(True)
        cdef int64_t start = 0
        while start < n:
            _sift(sieve, &known, sieve.rows + start, 0, min(<int64_t> SIFTED, n - start))
            start += SIFTED
        _sift_again(sieve)

    cdef void place(self, MeasuredQuery query, Survivors alive) noexcept nogil:
        """Fill in where the survivors' products lie, by all axes."""
        cdef bint with_axes = self.n_axes > 0
        cdef bm_certain known = self._known(with_axes)
        cdef bm_certain_query looked = self._look(query, with_axes)
        bm_kernels().certain_intervals(&known, &looked, alive.rows, 0, alive.n, alive.estimates, alive.radius)

    def bound(self, Survivors alive, MeasuredQuery query, ScoreMap scores):
        """Fill in where the survivors' scores lie for certain. False where numbers are too large or small for squares."""
        if not query.is_fine:
            return False
        with nogil:
            self.place(query, alive)
            scores.apply(alive)
            scores.widen(alive)
        return True


cdef void _sift(Sieve* sieve, const bm_certain* known, const int64_t* rows, int64_t first, int64_t count) noexcept nogil:
    """Let those through that reach the bar of all that have come so far: these rows, or as many from `first` on."""
    cdef double[SIFTED] middle, radius, lower
    cdef int64_t[SIFTED] places
    cdef int64_t t, n_left
    bm_kernels().certain_intervals(known, &sieve.query, rows, first, count, middle, radius)
    if sieve.k == 1:
        sieve.bar = max(sieve.bar, bm_kernels().largest_lower(middle, radius, count, sieve.absolute))
    else:
        bm_kernels().lower_ends(middle, radius, count, sieve.absolute, lower)
        for t in range(count):
            if sieve.n_seen < sieve.k or lower[t] > sieve.heap[0]:
                keep_largest(lower[t], sieve.heap, min(sieve.n_seen, sieve.k), sieve.k)
                sieve.n_seen += 1
        if sieve.n_seen >= sieve.k:
            sieve.bar = sieve.heap[0]
    n_left = bm_kernels().reaching(middle, radius, count, sieve.absolute, sieve.bar, places)
    for t in range(n_left):
        sieve.rows[sieve.n + t] = first + places[t] if rows == NULL else rows[places[t]]
        sieve.estimates[sieve.n + t] = middle[places[t]]
        sieve.radius[sieve.n + t] = radius[places[t]]
    sieve.n += n_left


cdef void _sift_again(Sieve* sieve) noexcept nogil:
    """Leave out those that came before the bar was as high as it is now."""
    # The room of the lower ends is free, and of the same size as places are.
    cdef int64_t* places = <int64_t*> sieve.lower
    cdef int64_t t
    sieve.n = bm_kernels().reaching(sieve.estimates, sieve.radius, sieve.n, sieve.absolute, sieve.bar, places)
    for t in range(sieve.n):
        sieve.rows[t], sieve.estimates[t], sieve.radius[t] = (
            sieve.rows[places[t]], sieve.estimates[places[t]], sieve.radius[places[t]]
        )
