"""What sampled cells say: estimates of scores, their variances, and those of differences between two atoms."""

from libc.math cimport fabs, sqrt
from libc.stdint cimport int64_t

import numpy as np

PRODUCT, NEG_SQUARED_DIFFERENCE, NEG_ABSOLUTE_DIFFERENCE = 0, 1, 2
"""What one coordinate adds to a score: q*v, -(q - v)^2 or -|q - v|."""


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

    cdef double term(self, int64_t j, double v) noexcept nogil:
        cdef double difference
        if self.objective == 0:
            return self._query[j] * v
        difference = self._query[j] - v
        return -difference * difference if self.objective == 1 else -fabs(difference)

    def estimates(self, const double[:, :] values, const double[::1] row_scale, const double[::1] centers):
        """Return each row's estimated score, the variance of the estimate, and the scatter of the row's entries.

        The scatter is ``sum(scale*(v - center)^2)``, as the sample sees it.
        """
        cdef int64_t i, j, n = values.shape[0], size = self._query.shape[0]
        all_estimates, all_variances, all_scatters = np.empty(n), np.empty(n), np.empty(n)
        cdef double[::1] estimates = all_estimates, variances = all_variances, scatters = all_scatters
        cdef double total, scatter, ratio, variance, v, e
        with nogil:
            for i in range(n):
                total, scatter, variance = 0.0, 0.0, 0.0
                for j in range(size):
                    v = values[i, j]
                    total += self._scale[j] * self.term(j, v)
                    scatter += self._scale[j] * (v - centers[i]) * (v - centers[i])
                total *= row_scale[i]
                ratio = total / self.total_unit
                for j in range(size):
                    e = self._spread[j] * (row_scale[i] * self.term(j, values[i, j]) - ratio * self._unit[j])
                    variance += e * e
                estimates[i], variances[i], scatters[i] = total, variance, scatter
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

        Also the largest part that one cell has in it, from 0 to 1: near 1, the variance hangs on a single cell.
        """
        cdef int64_t t, i, j, size = self._query.shape[0]
        cdef double[::1] residual = np.empty(size)
        all_variances, all_shares = np.empty(rows.shape[0]), np.empty(rows.shape[0])
        cdef double[::1] variances = all_variances, shares = all_shares
        cdef double ratio = estimates[leader] / self.total_unit, variance, largest, e
        with nogil:
            for j in range(size):
                residual[j] = row_scale[leader] * self.term(j, values[leader, j]) - ratio * self._unit[j]
            for t in range(rows.shape[0]):
                i = rows[t]
                ratio = estimates[i] / self.total_unit
                variance, largest = 0.0, 0.0
                for j in range(size):
                    e = row_scale[i] * self.term(j, values[i, j]) - ratio * self._unit[j]
                    e = self._spread[j] * (residual[j] - sign * e)
                    e *= e
                    variance += e
                    largest = max(largest, e)
                variances[t] = variance
                shares[t] = largest / variance if variance > 0.0 else 0.0
        return all_variances, all_shares
