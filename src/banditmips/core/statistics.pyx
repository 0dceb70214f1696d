"""What sampled cells say: estimates of scores, their variances, and those of differences between two atoms."""

from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.kernels cimport bm_kernels, bm_weighed

PRODUCT, NEG_SQUARED_DIFFERENCE, NEG_ABSOLUTE_DIFFERENCE = 0, 1, 2
"""What one coordinate adds to a score: q*v, -(q - v)^2 or -|q - v|."""


cdef class Sample:
    """How the first N cells of an order speak for all of them, for one query.

    With terms x at these cells, ``sum(scale*x)`` estimates the total, with the variance ``sum((spread*(x - R*unit))^2)``, ``R``
    being the estimate over ``total_unit`` (a ratio estimator; with equal weights it is the plain mean).

    About their ratio, a term that was certain to be seen does not deviate, and all the others, though they be 0, deviate by
    their weights: so what is one cell's may look like everybody's. The largest part that one cell has in what is seen is
    therefore that about the ratio or about 0, whichever is larger; where nothing but 0 was seen, it is 1.
    """

    def __init__(self, prefix, const double[::1] query, int objective):
        self.coordinates = prefix.coordinates
        self.total_unit = prefix.total_unit
        self._query = query
        self._scale, self._unit, self._spread = prefix.scale, prefix.unit, prefix.spread
        self.objective, self.size = objective, query.shape[0]
        self._room = np.empty((2, self.size))
        self._cells = bm_weighed(&self._room[0, 0], &self._unit[0], &self._spread[0], self.size)
        self._kernels = bm_kernels()

    cdef void _fill_terms(self, const Values* values, Py_ssize_t t, double* terms) noexcept nogil:
        """What each cell of an atom adds to its score."""
        cdef const char* row = row_of(values, t)
        cdef const double* query = &self._query[0]
        cdef double scale = 1.0 if values.factors == NULL else values.factors[values.atoms[t]]
        if values.are_single:
            self._kernels.cell_terms_f32(<const float*> row, query, self.size, self.objective, scale, terms)
        else:
            self._kernels.cell_terms_f64(<const double*> row, query, self.size, self.objective, scale, terms)

    cdef void fill_estimates(self, const Values* values, Py_ssize_t n, double* estimates) noexcept nogil:
        """Estimate the scores of the first n atoms."""
        cdef double* terms = &self._room[0, 0]
        cdef Py_ssize_t t
        for t in range(n):
            self._fill_terms(values, t, terms)
            estimates[t] = self._kernels.dot_f64(&self._scale[0], terms, self.size)
            if values.offsets != NULL:
                estimates[t] += values.offsets[values.atoms[t]]

    cdef void fill_variances(
        self, const Values* values, Py_ssize_t n, const double* estimates, double* variances, double* shares
    ) noexcept nogil:
        """Fill in the variances of the first n atoms' estimates, and the largest part of one cell in each."""
        cdef Py_ssize_t t
        cdef double ratio
        for t in range(n):
            self._fill_terms(values, t, &self._room[0, 0])
            ratio = sampled_part(values, t, estimates) / self.total_unit
            variances[t] = self._kernels.cell_spread(&self._cells, NULL, 1.0, ratio, &shares[t])

    cdef void compare(
        self, const Values* values, const double* estimates, Py_ssize_t leader, double sign, const int64_t* places,
        Py_ssize_t count, double* variances, double* shares,
    ) noexcept nogil:  # fmt: skip
        """Fill in the variances of a leader's estimate less `sign` times those of others, from the same cells.

        Also the largest part that one cell has in what is seen of each difference: near 1, all hangs on a single cell.
        """
        cdef double* leading = &self._room[1, 0]
        cdef double difference, of_leader = sampled_part(values, leader, estimates)
        cdef Py_ssize_t t
        self._fill_terms(values, leader, leading)
        for t in range(count):
            self._fill_terms(values, places[t], &self._room[0, 0])
            difference = of_leader - sign * sampled_part(values, places[t], estimates)
            variances[t] = self._kernels.cell_spread(
                &self._cells, leading, -sign, difference / self.total_unit, &shares[t]
            )

    cdef double scatter(self, const Values* values, Py_ssize_t t, double center) noexcept nogil:
        """The scatter of an atom's entries about a centre, as the sample sees it."""
        cdef const char* row = row_of(values, t)
        if values.are_single:
            return self._kernels.cell_scatter_f32(<const float*> row, &self._scale[0], self.size, center)
        return self._kernels.cell_scatter_f64(<const double*> row, &self._scale[0], self.size, center)


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
