"""What sampled cells say: estimates of scores, their variances, and those of differences between two atoms."""

from libc.math cimport fabs
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

PRODUCT, NEG_SQUARED_DIFFERENCE, NEG_ABSOLUTE_DIFFERENCE = 0, 1, 2
"""What one coordinate adds to a score: q*v, -(q - v)^2 or -|q - v|."""


cdef double* _room(int64_t size) except NULL:
    cdef double* room = <double*> malloc(max(size, <int64_t> 1) * sizeof(double))
    if room == NULL:
        raise MemoryError(f"there is no memory for {size} sampled terms")
    return room


cdef double _weighted_sum(const double* weights, const double* terms, int64_t size) noexcept nogil:
    cdef double total = 0.0
    cdef int64_t j
    for j in range(size):
        total += weights[j] * terms[j]
    return total


cdef double _scatter(const double* scale, const double* values, double center, int64_t size) noexcept nogil:
    cdef double total = 0.0
    cdef int64_t j
    for j in range(size):
        total += scale[j] * (values[j] - center) * (values[j] - center)
    return total


cdef class Sample:
    """How the first N cells of an order speak for all of them, for one query.

    With terms x at these cells, ``sum(scale*x)`` estimates the total, with the variance ``sum((spread*(x - R*unit))^2)``, ``R``
    being the estimate over ``total_unit`` (a ratio estimator; with equal weights it is the plain mean).
    """

    def __init__(self, prefix, query, int objective):
        self.coordinates = prefix.coordinates
        self.objective = objective
        self.total_unit = prefix.total_unit
        self._query = np.ascontiguousarray(query, dtype=np.float64)
        self._scale, self._unit, self._spread = prefix.scale, prefix.unit, prefix.spread

    @property
    def size(self):
        """How many cells were sampled."""
        return self._query.shape[0]

    cdef void fill_terms(self, const double* values, double row_scale, double* terms) noexcept nogil:
        """What each cell of an atom adds to its score."""
        cdef int64_t j, size = self._query.shape[0]
        cdef const double* query = &self._query[0]
        if self.objective == 0:
            for j in range(size):
                terms[j] = row_scale * (query[j] * values[j])
        elif self.objective == 1:
            for j in range(size):
                terms[j] = -row_scale * (query[j] - values[j]) * (query[j] - values[j])
        else:
            for j in range(size):
                terms[j] = -row_scale * fabs(query[j] - values[j])

    cdef double variance(self, double estimate, const double* terms, double* share) noexcept nogil:
        """The variance of an estimate, and the largest part that one cell has in it, or would have if terms deviated from 0.

        About their ratio, a term that was certain to be seen does not deviate, and all the others, though they be 0, deviate
        by their weights: so what is one cell's may look like everybody's. Where nothing but 0 was seen, that part is 1.
        """
        cdef double ratio = estimate / self.total_unit
        cdef double about_ratio, total_about_ratio = 0.0, largest_about_ratio = 0.0
        cdef double about_zero, total_about_zero = 0.0, largest_about_zero = 0.0
        cdef int64_t j
        for j in range(self._query.shape[0]):
            about_zero = self._spread[j] * terms[j]
            about_ratio = fabs(about_zero - ratio * (self._spread[j] * self._unit[j]))
            about_zero = fabs(about_zero)
            total_about_ratio += about_ratio * about_ratio
            total_about_zero += about_zero * about_zero
            largest_about_ratio = about_ratio if about_ratio > largest_about_ratio else largest_about_ratio
            largest_about_zero = about_zero if about_zero > largest_about_zero else largest_about_zero
        share[0] = 1.0
        if total_about_zero > 0.0:
            share[0] = largest_about_zero * largest_about_zero / total_about_zero
        if total_about_ratio > 0.0:
            share[0] = max(share[0], largest_about_ratio * largest_about_ratio / total_about_ratio)
        return total_about_ratio

    def estimates(self, const double[:, :] values, const double[::1] row_scale, const double[::1] centers, bint scattered):
        """Return each row's estimated score, the variance of the estimate, and the scatter of the row's entries.

        The scatter is ``sum(scale*(v - center)^2)``, as the sample sees it; zeros if it is not asked for. The largest part
        that one cell has in what each row shows is left in `shares`.
        """
        cdef int64_t i, n = values.shape[0], size = self._query.shape[0]
        all_estimates, all_variances, all_scatters, self.shares = np.empty(n), np.empty(n), np.zeros(n), np.empty(n)
        cdef double[::1] estimates = all_estimates, variances = all_variances, scatters = all_scatters
        cdef double[::1] shares = self.shares
        cdef double* terms = _room(size)
        with nogil:
            for i in range(n):
                self.fill_terms(&values[i, 0], row_scale[i], terms)
                estimates[i] = _weighted_sum(&self._scale[0], terms, size)
                variances[i] = self.variance(estimates[i], terms, &shares[i])
                if scattered:
                    scatters[i] = _scatter(&self._scale[0], &values[i, 0], centers[i], size)
        free(terms)
        return all_estimates, all_variances, all_scatters

    def paired_variances(
        self,
        const double[:, :] values,
        const double[::1] row_scale,
        const double[::1] estimates,
        int64_t leader,
        double sign,
        const int64_t[::1] rows,
    ):
        """Return the variance of ``estimates[leader] - sign*estimates[i]`` for the rows i, from the same cells.

        Also the largest part that one cell has in what is seen of each difference: near 1, all hangs on a single cell.
        """
        cdef int64_t t, i, j, size = self._query.shape[0]
        all_variances, all_shares = np.empty(rows.shape[0]), np.empty(rows.shape[0])
        cdef double[::1] variances = all_variances, shares = all_shares
        cdef double* of_leader = _room(2 * size)
        cdef double* terms = of_leader + size
        with nogil:
            self.fill_terms(&values[leader, 0], row_scale[leader], of_leader)
            for t in range(rows.shape[0]):
                i = rows[t]
                self.fill_terms(&values[i, 0], row_scale[i], terms)
                for j in range(size):
                    terms[j] = of_leader[j] - sign * terms[j]
                variances[t] = self.variance(estimates[leader] - sign * estimates[i], terms, &shares[t])
        free(of_leader)
        return all_variances, all_shares


def spread_and_noise(const double[:, ::1] terms, bint absolute):
    """How far apart the scores of a few atoms are, and the noise of one cell, as the variances of these, from some cells.

    Noise of two halves of the cells has nothing to do with each other: the product of what they say is the spread of the
    scores alone. Where scores are ranked by size, their level counts like their spread.
    """
    cdef int64_t i, j, n = terms.shape[0], size = terms.shape[1], half = size // 2
    cdef double[::1] middle = np.zeros(size)
    cdef double one, other, apart, mean, squares, spread = 0.0, noise = 0.0, level = 0.0, levels[2]
    with nogil:
        for i in range(n):
            for j in range(size):
                middle[j] += terms[i, j] / n
        for i in range(n):
            one = other = squares = levels[0] = levels[1] = 0.0
            for j in range(size):
                apart = terms[i, j] - middle[j]
                squares += apart * apart
                levels[j >= half] += terms[i, j]
                if j < half:
                    one += apart
                else:
                    other += apart
            mean = (one + other) / size
            noise += (squares - size * mean * mean) / (size - 1) / n
            spread += one / half * (other / (size - half)) / n
            level += levels[0] / half * (levels[1] / (size - half)) / n
    return (max(spread, level) if absolute else spread), noise
