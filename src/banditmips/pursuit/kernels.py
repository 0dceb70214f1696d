"""The hot loops of a step's race: arrays in, arrays out.

A group is one atom, or a pair of them that is ranked together; ``values[i, a, j]`` is the entry of atom a of group i at
the j-th sampled coordinate. On the sample, the group's atoms are made orthonormal (``mixing``), and ``beta`` are the
products of these orthonormal atoms with the residual: its Euclidean norm is what the group is ranked by.

``fastmath`` is restricted as in `banditmips.race.kernels`.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


@njit(cache=True, nogil=True, fastmath=_FASTMATH)
def project(
    values: NDArray[np.float64], residual: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Project the residual on each group, as far as the sample shows both.

    Returns
    -------
    mixing : shape (m, g, g)
        Lower triangular: ``mixing[i] @ values[i]`` is orthonormal under the sample's scale. Rows of zeros where an
        atom is 0 on the sample, or no more than a multiple of its partner.
    beta : shape (m, g)
    energies : shape (m, g)
        Squared norm of each atom as the sample sees it.
    effective : shape (m,)
        How many coordinates carry the group, in effect: ``sum(e)^2 / sum(e^2)`` of its energies e at each coordinate.
    """
    m, g, n_samples = values.shape
    mixing = np.zeros((m, g, g))
    beta = np.zeros((m, g))
    energies = np.zeros((m, g))
    effective = np.zeros(m)
    for i in range(m):
        products = np.zeros(g)
        for a in range(g):
            energy = 0.0
            product = 0.0
            for j in range(n_samples):
                scaled = scale[j] * values[i, a, j]
                energy += scaled * values[i, a, j]
                product += scaled * residual[j]
            energies[i, a] = energy
            products[a] = product
        if energies[i, 0] > 0.0:
            mixing[i, 0, 0] = 1.0 / np.sqrt(energies[i, 0])
        if g == 2 and energies[i, 1] > 0.0:
            shared = 0.0
            for j in range(n_samples):
                shared += scale[j] * values[i, 0, j] * values[i, 1, j]
            shared *= mixing[i, 0, 0]
            own = energies[i, 1] - shared * shared
            if own > 1e-12 * energies[i, 1]:
                mixing[i, 1, 1] = 1.0 / np.sqrt(own)
                mixing[i, 1, 0] = -shared * mixing[i, 0, 0] * mixing[i, 1, 1]
        fourth = 0.0
        second = 0.0
        for a in range(g):
            for b in range(a + 1):
                beta[i, a] += mixing[i, a, b] * products[b]
            if energies[i, a] > 0.0:
                moment = 0.0
                for j in range(n_samples):
                    e = scale[j] * values[i, a, j] * values[i, a, j]
                    moment += e * e
                second += 1.0
                fourth += moment / (energies[i, a] * energies[i, a])
        if second > 0.0:
            effective[i] = second / fourth
    return mixing, beta, energies, effective


@njit(cache=True, nogil=True, fastmath=_FASTMATH)
def _influence(
    values: NDArray[np.float64],
    residual: NDArray[np.float64],
    mixing: NDArray[np.float64],
    beta: NDArray[np.float64],
    stretch: float,
    norm_noise: float,
    scale: NDArray[np.float64],
    unit: NDArray[np.float64],
    spread: NDArray[np.float64],
    total_unit: float,
    out: NDArray[np.float64],
) -> None:
    """Put into `out` what each coordinate adds to the error of the group's ``beta``, so that errors are its sums.

    To first order, the error of ``beta`` is that of a total of ``u*(e + norm_noise*p)``: u the orthonormal atoms, p the
    projection and e the rest of the residual. ``norm_noise`` is 0 where the norm is known and 1/2 where the sample
    estimates it, the derivative of ``g^(-1/2)`` at 1.
    """
    g, n_samples = values.shape
    kept = norm_noise - 1.0
    for a in range(g):
        for j in range(n_samples):
            out[a, j] = 0.0
        for b in range(a + 1):
            factor = mixing[a, b]
            for j in range(n_samples):
                out[a, j] += factor * values[b, j]
    projection = np.zeros(n_samples)
    for a in range(g):
        for j in range(n_samples):
            projection[j] += beta[a] * out[a, j]
    for a in range(g):
        total = 0.0
        for j in range(n_samples):
            out[a, j] *= stretch * (residual[j] + kept * projection[j])
            total += scale[j] * out[a, j]
        mean = total / total_unit
        for j in range(n_samples):
            out[a, j] = spread[j] * (out[a, j] - mean * unit[j])


@njit(cache=True, nogil=True, fastmath=_FASTMATH)
def covariances(
    values: NDArray[np.float64],
    residual: NDArray[np.float64],
    mixing: NDArray[np.float64],
    beta: NDArray[np.float64],
    stretch: NDArray[np.float64],
    norm_noise: NDArray[np.float64],
    scale: NDArray[np.float64],
    unit: NDArray[np.float64],
    spread: NDArray[np.float64],
    total_unit: float,
    leader: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the covariances of each group's ``stretch*beta`` with itself, and with the leader's, on the same sample.

    Returns
    -------
    own, shared : shape (m, g, g)
        ``shared[i, a, b]`` belongs to component a of group i and component b of the leader.
    """
    m, g, n_samples = values.shape
    leading = np.empty((g, n_samples))
    _influence(
        values[leader],
        residual,
        mixing[leader],
        beta[leader],
        stretch[leader],
        norm_noise[leader],
        scale,
        unit,
        spread,
        total_unit,
        leading,
    )
    own = np.zeros((m, g, g))
    shared = np.zeros((m, g, g))
    errors = np.empty((g, n_samples))
    for i in range(m):
        _influence(
            values[i],
            residual,
            mixing[i],
            beta[i],
            stretch[i],
            norm_noise[i],
            scale,
            unit,
            spread,
            total_unit,
            errors,
        )
        for a in range(g):
            for b in range(g):
                with_own = 0.0
                with_leader = 0.0
                for j in range(n_samples):
                    with_own += errors[a, j] * errors[b, j]
                    with_leader += errors[a, j] * leading[b, j]
                own[i, a, b] = with_own
                shared[i, a, b] = with_leader
    return own, shared
