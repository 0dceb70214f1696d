"""Random numbers that belong to coordinates and the seed, never to a query's place in a batch."""

from libc.math cimport log
from libc.stdint cimport int64_t, uint32_t, uint64_t

import numpy as np

from banditmips.core.numbers cimport mix, unit_interval


def uniforms(uint64_t seed, int64_t start, int64_t stop):
    """Return the numbers start, ..., stop-1 of the seed's sequence of uniform numbers in (0, 1)."""
    out = np.empty(stop - start)
    cdef double[::1] numbers = out
    cdef uint64_t key = mix(seed)
    cdef int64_t t
    for t in range(start, stop):
        numbers[t - start] = unit_interval(mix(key ^ <uint64_t> t))
    return out


def random_words(uint64_t seed, uint64_t stream, int64_t count):
    """Return `count` words of 32 random bits; streams of one seed have nothing to do with each other."""
    out = np.empty(count, dtype=np.uint32)
    cdef uint32_t[::1] words = out
    cdef uint64_t key = mix(seed ^ mix(stream + <uint64_t> 0xA24BAED4963EE407))
    cdef int64_t t
    for t in range(count):
        words[t] = <uint32_t> (mix(key ^ <uint64_t> t) >> 32)
    return out


def permuted_coordinates(uint64_t seed, int64_t d, int64_t start, int64_t stop):
    """Return positions start, ..., stop-1 of a pseudo-random permutation of 0, ..., d-1, in time that ignores d.

    A Feistel network on the smallest number of bits that holds d (of eight rounds where those are few); numbers
    outside 0, ..., d-1 are sent through again until they fall inside, which keeps the map one-to-one. Saved caches and
    packed groups hold values in this order, so a change of it is a change of the file format.
    """
    if not 0 <= start <= stop <= d:
        raise ValueError(f"positions {start} to {stop} are not within the {d} coordinates")
    cdef int n_bits = 2
    while (<int64_t> 1 << n_bits) < d:
        n_bits += 1
    cdef int low = n_bits // 2, high = n_bits - n_bits // 2
    cdef int n_turns = 4 if n_bits > 16 else 8
    cdef uint64_t key = mix(seed ^ <uint64_t> 0xD1B54A32D192ED03)
    out = np.empty(stop - start, dtype=np.int64)
    cdef int64_t[::1] coordinates = out
    cdef int64_t position
    with nogil:
        for position in range(start, stop):
            coordinates[position - start] = _permuted(position, d, low, high, n_turns, key)
    return out


cdef int64_t _permuted(int64_t position, int64_t d, int low, int high, int n_turns, uint64_t key) noexcept nogil:
    cdef uint64_t x = <uint64_t> position, left, right, scrambled
    cdef int left_bits, right_bits, turn, swapped_bits
    while True:
        left, left_bits = x >> low, high
        right, right_bits = x & ((<uint64_t> 1 << low) - 1), low
        for turn in range(n_turns):
            scrambled = mix(key ^ (right << 3) ^ <uint64_t> turn) & ((<uint64_t> 1 << left_bits) - 1)
            scrambled ^= left
            left = right
            right = scrambled
            swapped_bits = left_bits
            left_bits = right_bits
            right_bits = swapped_bits
        x = (left << low) | right
        if x < <uint64_t> d:
            return <int64_t> x


def exponential_keys(uint64_t seed, const int64_t[::1] coordinates, const double[::1] weights):
    """Return Exp(1)/weight for each coordinate; the exponential number depends on the seed and the coordinate only."""
    out = np.empty(coordinates.shape[0])
    cdef double[::1] keys = out
    cdef uint64_t seed_key = mix(seed ^ <uint64_t> 0x8CB92BA72F3D8DD7)
    cdef int64_t t
    with nogil:
        for t in range(coordinates.shape[0]):
            keys[t] = -log(unit_interval(mix(seed_key ^ <uint64_t> coordinates[t]))) / weights[t]
    return out


def weight_profile(const double[::1] weights):
    """Group positive weights of nearly the same size: the groups' mean weights and their counts.

    Groups share the exponent and the first two bits of the mantissa (weights within 25 % of each other). The sum of
    ``1 - exp(-w*tau)`` over the groups' means is then within 0.2 % of the sum over the weights, at about a hundred
    evaluations.
    """
    all_counts, all_sums = np.zeros(1 << 13), np.zeros(1 << 13)
    cdef double[::1] counts = all_counts, sums = all_sums
    cdef const int64_t* bits = <const int64_t*> &weights[0] if weights.shape[0] else NULL
    cdef int64_t t, group
    for t in range(weights.shape[0]):
        group = bits[t] >> 50
        counts[group] += 1.0
        sums[group] += weights[t]
    used = np.flatnonzero(all_counts)
    return all_sums[used] / all_counts[used], all_counts[used]
