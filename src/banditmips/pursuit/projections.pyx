"""What a sample says of a residual's projections on groups of atoms, and how sure that is (for matching pursuit).

A group is one atom, or a pair of them that is ranked together; ``values[i, a, j]`` is the entry of atom a of group i at
the j-th sampled coordinate. On the sample, the group's atoms are made orthonormal (``mixing``), and ``beta`` are the
products of these orthonormal atoms with the residual: its Euclidean norm is what the group is ranked by.
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.kernels cimport bm_kernels

cdef double LEAST_OWN = 1e-12
"""Part of its squared norm that an atom must have beside its partner."""


cdef struct Sums:
    double energy   # sum of e = scale*v^2
    double fourth   # sum of e^2
    double product  # sum of scale*v*residual


cdef Sums _sums(const double* v, const double* residual, const double* scale, int64_t size) noexcept nogil:
    cdef double e, scaled, energy = 0.0, fourth = 0.0, product = 0.0
    cdef Sums sums
    cdef int64_t j
    for j in range(size):
        scaled = scale[j] * v[j]
        e = scaled * v[j]
        energy += e
        fourth += e * e
        product += scaled * residual[j]
    sums.energy, sums.fourth, sums.product = energy, fourth, product
    return sums


cdef double _weighted_product(const double* v, const double* w, const double* scale, int64_t size) noexcept nogil:
    cdef double total = 0.0
    cdef int64_t j
    for j in range(size):
        total += scale[j] * v[j] * w[j]
    return total


cdef void _mix(const double* v, const double* w, double of_v, double of_w, int64_t size, double* out) noexcept nogil:
    cdef int64_t j
    for j in range(size):
        out[j] = of_v * v[j] + of_w * w[j]


cdef void _deviate(double* x, double mean, const double* unit, const double* spread, int64_t size) noexcept nogil:
    cdef int64_t j
    for j in range(size):
        x[j] = spread[j] * (x[j] - mean * unit[j])


cdef double _times_sum(double* x, const double* factors, const double* scale, int64_t size) noexcept nogil:
    """Multiply x by the factors, and return its sum under the scale."""
    cdef double total = 0.0
    cdef int64_t j
    for j in range(size):
        x[j] *= factors[j]
        total += scale[j] * x[j]
    return total


cdef class Projections:
    """The residual's projections on m groups of g atoms, as far as the sample shows both.

    Parameters
    ----------
    values : float64, shape (m, g, N)
    residual : float64, shape (N,)
    prefix : SamplePrefix
        How the N coordinates speak for all.

    Attributes
    ----------
    mixing : shape (m, g, g)
        Lower triangular: ``mixing[i] @ values[i]`` is orthonormal under the sample's scale. Rows of zeros where an
        atom is 0 on the sample, or no more than a multiple of its partner.
    beta : shape (m, g)
    energies : shape (m, g)
        Squared norm of each atom as the sample sees it.
    effective : shape (m,)
        How many coordinates carry the group, in effect: ``sum(e)^2 / sum(e^2)`` of its energies e at each coordinate.
    """

    cdef readonly object mixing, beta, energies, effective
    cdef const double[:, :, :] _values
    cdef const double[::1] _residual, _scale, _unit, _spread
    cdef double _total_unit
    cdef int64_t _g, _size
    cdef double[:, :, ::1] _mixing
    cdef double[:, ::1] _beta, _energies
    cdef double[::1] _effective

    def __init__(self, values, residual, prefix):
        m, g, size = values.shape
        if g not in (1, 2) or not residual.size == prefix.scale.size == size > 0:
            wanted = f"{residual.size} coordinates and groups of 1 or 2"
            raise ValueError(f"values of shape {values.shape} do not suit {wanted}")
        if values.strides[2] != values.itemsize:
            values = np.ascontiguousarray(values)
        self._values, self._residual, self._g, self._size = values, residual, g, size
        self._scale, self._unit, self._spread = prefix.scale, prefix.unit, prefix.spread
        self._total_unit = prefix.total_unit
        self._mixing = self.mixing = np.zeros((m, g, g))
        self._beta = self.beta = np.zeros((m, g))
        self._energies = self.energies = np.empty((m, g))
        self._effective = self.effective = np.zeros(m)
        cdef int64_t i
        with nogil:
            for i in range(self._values.shape[0]):
                self._project(i)

    cdef void _project(self, int64_t i) noexcept nogil:
        cdef double[2] products
        cdef double carried = 0.0
        cdef int64_t a, b, n_seen = 0
        cdef Sums sums
        for a in range(self._g):
            sums = _sums(&self._values[i, a, 0], &self._residual[0], &self._scale[0], self._size)
            self._energies[i, a], products[a] = sums.energy, sums.product
            if sums.energy > 0.0:
                n_seen += 1
                carried += sums.fourth / (sums.energy * sums.energy)
        if n_seen > 0:
            self._effective[i] = n_seen / carried
        self._orthonormalise(i)
        for a in range(self._g):
            for b in range(a + 1):
                self._beta[i, a] += self._mixing[i, a, b] * products[b]

    cdef void _orthonormalise(self, int64_t i) noexcept nogil:
        cdef double shared, own
        if self._energies[i, 0] > 0.0:
            self._mixing[i, 0, 0] = 1.0 / sqrt(self._energies[i, 0])
        if self._g == 1 or self._energies[i, 1] <= 0.0:
            return
        shared = _weighted_product(&self._values[i, 0, 0], &self._values[i, 1, 0], &self._scale[0], self._size)
        shared *= self._mixing[i, 0, 0]
        own = self._energies[i, 1] - shared * shared
        if own > LEAST_OWN * self._energies[i, 1]:
            self._mixing[i, 1, 1] = 1.0 / sqrt(own)
            self._mixing[i, 1, 0] = -shared * self._mixing[i, 0, 0] * self._mixing[i, 1, 1]

    cdef void _fill_errors(
        self, int64_t i, double stretch, double norm_noise, double[:, ::1] errors, double* room
    ) noexcept nogil:
        """Find what each coordinate adds to the error of the group's ``stretch*beta``, so that errors are its sums.

        To first order, the error of ``beta`` is that of a total of ``u*(e + norm_noise*p)``: u the orthonormal atoms,
        p the projection and e the rest of the residual. ``norm_noise`` is 0 where the norm is known and 1/2 where the
        sample estimates it, the derivative of ``g^(-1/2)`` at 1.
        """
        cdef int64_t a, j, last = self._g - 1, size = self._size
        cdef double kept = stretch * (norm_noise - 1.0), mean
        cdef double of_first = kept * self._beta[i, 0], of_last = kept * self._beta[i, 1] if last else 0.0
        cdef const double* residual = &self._residual[0]
        cdef const double* first = &errors[0, 0]
        cdef const double* second = &errors[last, 0]
        for a in range(self._g):
            _mix(
                &self._values[i, 0, 0], &self._values[i, last, 0],
                self._mixing[i, a, 0], self._mixing[i, a, 1] if last else 0.0, size, &errors[a, 0],
            )
        for j in range(size):
            room[j] = stretch * residual[j] + of_first * first[j] + of_last * second[j]
        for a in range(self._g):
            mean = _times_sum(&errors[a, 0], room, &self._scale[0], size) / self._total_unit
            _deviate(&errors[a, 0], mean, &self._unit[0], &self._spread[0], size)

    def covariances(self, const double[::1] stretch, const double[::1] norm_noise, int64_t leader):
        """Return the covariances of each group's ``stretch*beta`` with itself, and with the leader's.

        Returns
        -------
        own, shared : shape (m, g, g)
            ``shared[i, a, b]`` belongs to component a of group i and component b of the leader.
        """
        cdef int64_t i, a, b, m = self._values.shape[0], g = self._g
        if stretch.shape[0] != m or norm_noise.shape[0] != m or not 0 <= leader < m:
            raise ValueError(f"stretch, norm_noise and leader must suit {m} groups")
        all_own, all_shared = np.empty((m, g, g)), np.empty((m, g, g))
        cdef double[:, :, ::1] own = all_own, shared = all_shared
        cdef double[:, ::1] leading = np.empty((g, self._size)), errors = np.empty((g, self._size))
        cdef double[::1] room = np.empty(self._size)
        with nogil:
            self._fill_errors(leader, stretch[leader], norm_noise[leader], leading, &room[0])
            for i in range(m):
                self._fill_errors(i, stretch[i], norm_noise[i], errors, &room[0])
                for a in range(g):
                    for b in range(g):
                        own[i, a, b] = bm_kernels().dot_f64(&errors[a, 0], &errors[b, 0], self._size)
                        shared[i, a, b] = bm_kernels().dot_f64(&errors[a, 0], &leading[b, 0], self._size)
        return all_own, all_shared
