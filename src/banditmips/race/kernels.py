"""The hot loops: arrays in, arrays out; no policy, no defaults, no globals.

Numba compiles these on first use and caches the result on disk. ``fastmath`` is restricted to the four flags that
let sums be vectorised but leave NaN and infinities their meaning.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips._compiling import log_compilation

log_compilation()

FASTMATH = {"contract", "reassoc", "nsz", "arcp"}

PRODUCT, NEG_SQUARED_DIFFERENCE, NEG_ABSOLUTE_DIFFERENCE = 0, 1, 2
"""What one coordinate adds to a score: q*v, -(q - v)^2 or -|q - v|."""


# --- random numbers that belong to coordinates --------------------------------------------------------------------


@njit(cache=True, nogil=True, inline="always")
def mix(x: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of SplitMix64): the same number for the same input, whoever asks and when."""
    x = np.uint64(x + np.uint64(0x9E3779B97F4A7C15))
    x = np.uint64((x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9))
    x = np.uint64((x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB))
    return np.uint64(x ^ (x >> np.uint64(31)))


@njit(cache=True, nogil=True)
def uniforms(seed: int, start: int, stop: int) -> NDArray[np.float64]:
    """Return the numbers start, ..., stop-1 of the seed's sequence of uniform numbers in (0, 1)."""
    out = np.empty(stop - start)
    key = mix(np.uint64(seed))
    for t in range(start, stop):
        out[t - start] = (np.float64(mix(key ^ np.uint64(t)) >> np.uint64(11)) + 0.5) * 2.0**-53
    return out


@njit(cache=True, nogil=True)
def permuted_coordinates(seed: int, d: int, start: int, stop: int) -> NDArray[np.int64]:
    """Return positions start, ..., stop-1 of a pseudo-random permutation of 0, ..., d-1, in time that ignores d.

    A Feistel network on the smallest number of bits that holds d (of eight rounds where those are few); numbers
    outside 0, ..., d-1 are sent through again until they fall inside, which keeps the map one-to-one. Saved caches
    hold values in this order, so a change of it is a change of the file format.
    """
    n_bits = 2
    while (np.int64(1) << np.int64(n_bits)) < d:
        n_bits += 1
    low = n_bits // 2
    high = n_bits - low
    n_turns = 4 if n_bits > 16 else 8
    key = mix(np.uint64(seed) ^ np.uint64(0xD1B54A32D192ED03))
    out = np.empty(stop - start, dtype=np.int64)
    for position in range(start, stop):
        x = np.uint64(position)
        while True:
            left, left_bits = x >> np.uint64(low), high
            right, right_bits = x & np.uint64((1 << low) - 1), low
            for turn in range(n_turns):
                scrambled = mix(key ^ (right << np.uint64(3)) ^ np.uint64(turn)) & np.uint64((1 << left_bits) - 1)
                left, right = right, left ^ scrambled
                left_bits, right_bits = right_bits, left_bits
            x = (left << np.uint64(low)) | right
            if x < np.uint64(d):
                break
        out[position - start] = np.int64(x)
    return out


@njit(cache=True, nogil=True)
def exponential_keys(seed: int, coordinates: NDArray[np.int64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Exp(1)/weight for each coordinate; the exponential number depends on the seed and the coordinate only."""
    keys = np.empty(coordinates.size)
    seed_key = mix(np.uint64(seed) ^ np.uint64(0x8CB92BA72F3D8DD7))
    for t in range(coordinates.size):
        bits = mix(seed_key ^ np.uint64(coordinates[t])) >> np.uint64(11)
        keys[t] = -np.log((np.float64(bits) + 0.5) * 2.0**-53) / weights[t]
    return keys


@njit(cache=True, nogil=True)
def weight_profile(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Group positive weights of nearly the same size: the groups' mean weights and their counts.

    Groups share the exponent and the first two bits of the mantissa (weights within 25 % of each other). The sum of
    ``1 - exp(-w*tau)`` over the groups' means is then within 0.2 % of the sum over the weights, at about a hundred
    evaluations.
    """
    counts = np.zeros(1 << 13)
    sums = np.zeros(1 << 13)
    bits = weights.view(np.int64)
    for t in range(weights.size):
        group = bits[t] >> 50
        counts[group] += 1.0
        sums[group] += weights[t]
    used = np.flatnonzero(counts)
    return sums[used] / counts[used], counts[used]


# --- reading and summing ------------------------------------------------------------------------------------------


@njit(cache=True, nogil=True)
def gather(atoms: NDArray[Any], rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
    """Copy atoms[rows][:, columns] into out."""
    for i in range(rows.size):
        row = rows[i]
        for j in range(columns.size):
            out[i, j] = atoms[row, columns[j]]


@njit(cache=True, nogil=True, inline="always")
def _term(objective: int, q: float, v: float) -> float:
    if objective == 0:
        return q * v
    if objective == 1:
        return -(q - v) * (q - v)
    return -abs(q - v)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def sample_estimates(
    values: NDArray[np.float64],
    row_scale: NDArray[np.float64],
    query: NDArray[np.float64],
    scale: NDArray[np.float64],
    unit: NDArray[np.float64],
    spread: NDArray[np.float64],
    total_unit: float,
    objective: int,
    centers: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Estimate each atom's score from the sampled values, with the variance of the estimate.

    With terms x, the estimate is ``sum(scale*x)``, and its variance ``sum((spread*(x - R*unit))^2)`` where
    ``R = estimate/total_unit`` (a ratio estimator). The third array is ``sum(scale*(v - center)^2)``: the scatter of
    the atom's entries, as the sample sees it.
    """
    n_atoms, n_samples = values.shape
    estimates = np.empty(n_atoms)
    variances = np.empty(n_atoms)
    scatters = np.empty(n_atoms)
    for i in range(n_atoms):
        total = 0.0
        scatter = 0.0
        for j in range(n_samples):
            v = values[i, j]
            total += scale[j] * _term(objective, query[j], v)
            scatter += scale[j] * (v - centers[i]) * (v - centers[i])
        total *= row_scale[i]
        ratio = total / total_unit
        variance = 0.0
        for j in range(n_samples):
            e = spread[j] * (row_scale[i] * _term(objective, query[j], values[i, j]) - ratio * unit[j])
            variance += e * e
        estimates[i] = total
        variances[i] = variance
        scatters[i] = scatter
    return estimates, variances, scatters


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def paired_variances(
    values: NDArray[np.float64],
    row_scale: NDArray[np.float64],
    query: NDArray[np.float64],
    unit: NDArray[np.float64],
    spread: NDArray[np.float64],
    total_unit: float,
    objective: int,
    estimates: NDArray[np.float64],
    leader: int,
    sign: float,
    rows: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Return the variance of ``estimates[leader] - sign*estimates[i]`` for the rows i, from the same coordinates."""
    n_samples = values.shape[1]
    residual = np.empty(n_samples)
    ratio = estimates[leader] / total_unit
    for j in range(n_samples):
        residual[j] = row_scale[leader] * _term(objective, query[j], values[leader, j]) - ratio * unit[j]
    out = np.empty(rows.size)
    for t in range(rows.size):
        i = rows[t]
        ratio = estimates[i] / total_unit
        variance = 0.0
        for j in range(n_samples):
            x = row_scale[i] * _term(objective, query[j], values[i, j]) - ratio * unit[j]
            e = spread[j] * (residual[j] - sign * x)
            variance += e * e
        out[t] = variance
    return out


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def exact_scores(
    atoms: NDArray[Any],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    query: NDArray[np.float64],
    objective: int,
    out: NDArray[np.float64],
) -> None:
    """Sum the terms of the given rows over the given columns (over all columns where `columns` is empty)."""
    for t in range(rows.size):
        row = rows[t]
        total = 0.0
        if columns.size == 0:
            for j in range(query.size):
                total += _term(objective, query[j], np.float64(atoms[row, j]))
        else:
            for j in range(columns.size):
                total += _term(objective, query[j], np.float64(atoms[row, columns[j]]))
        out[t] = total


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def exact_scores_by_column(
    atoms: NDArray[Any],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    query: NDArray[np.float64],
    objective: int,
    out: NDArray[np.float64],
) -> None:
    """Do what `exact_scores` does, column after column: for atoms whose columns are contiguous."""
    out[:] = 0.0
    for j in range(query.size):
        column = columns[j] if columns.size else j
        q = query[j]
        for t in range(rows.size):
            out[t] += _term(objective, q, np.float64(atoms[rows[t], column]))
