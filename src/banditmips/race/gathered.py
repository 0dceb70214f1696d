"""The compiled race on coordinates that are weighted by the query and read from the atoms themselves.

It runs the race of `sampling.BottomKSampler` (the same keys, the same order, the same inclusion probabilities) without
going back to Python between rounds; see `compiled` for what both compiled races share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.compiled import OUT_OF_RANGE, SEPARATED, UNDECIDED, worth_it
from banditmips.race.kernels import FASTMATH, mix, permuted_coordinates
from banditmips.race.pilots import PILOT_SIZE, PILOTS_ARE_SURE, read_values, uniform_need
from banditmips.race.rounds import N_PILOTS, eliminate, pick_pilots, typical_need

_GROUPS = 1 << 13


@njit(cache=True, nogil=True, inline="always")
def _weight(q: float, beta: float) -> float:
    size = abs(np.float64(q))
    if beta == 0.5:
        return size
    if size == 0.0:
        return 0.0
    # As in `sampling.power_weights`, no coordinate of the support may get a weight of 0.
    return max(size ** (2.0 * beta), 1e-100)


@njit(cache=True, nogil=True)
def solve_tau(groups: NDArray[np.float64], n_groups: int, size: float, population: int, tau: float) -> float:
    """Find tau with ``sum(1 - exp(-w*tau)) = size`` from below; rows of `groups` are mean weights and counts."""
    for _ in range(100):
        missing = 0.0
        slope = 0.0
        for g in range(n_groups):
            part = groups[1, g] * np.exp(-groups[0, g] * tau)
            missing += part
            slope += part * groups[0, g]
        step = (size - population + missing) / slope
        tau += step
        if abs(step) <= 1e-9 * tau:
            break
    return tau


@njit(cache=True, nogil=True)
def _profile(
    query: NDArray[Any],
    coordinates: NDArray[np.int64],
    beta: float,
    scratch: NDArray[np.float64],
    groups: NDArray[np.float64],
) -> tuple[int, int, float]:
    """Group the weights as `kernels.weight_profile` does; return (groups, population, total weight)."""
    scratch[:] = 0.0
    one = np.empty(1)
    bits = one.view(np.int64)
    population = 0
    total = 0.0
    everywhere = coordinates.size == 0
    for t in range(query.size if everywhere else coordinates.size):
        w = _weight(query[t if everywhere else coordinates[t]], beta)
        if w == 0.0:
            continue
        population += 1
        total += w
        one[0] = w
        group = bits[0] >> 50
        scratch[0, group] += w
        scratch[1, group] += 1.0
    if not np.isfinite(total):
        return -1, population, total
    n_groups = 0
    for g in range(_GROUPS):
        if scratch[1, g] > 0.0:
            groups[0, n_groups] = scratch[0, g] / scratch[1, g]
            groups[1, n_groups] = scratch[1, g]
            n_groups += 1
    return n_groups, population, total


@njit(cache=True, nogil=True)
def _smallest_keys(
    query: NDArray[Any], coordinates: NDArray[np.int64], beta: float, seed: int, tau: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the keys below tau and their coordinates, in no order. Few of the d logarithms are ever computed."""
    seed_key = mix(np.uint64(seed) ^ np.uint64(0x8CB92BA72F3D8DD7))
    room = 64
    keys = np.empty(room)
    found = np.empty(room, dtype=np.int64)
    count = 0
    everywhere = coordinates.size == 0
    for t in range(query.size if everywhere else coordinates.size):
        j = t if everywhere else coordinates[t]
        w = _weight(query[j], beta)
        reach = w * tau
        u = (np.float64(mix(seed_key ^ np.uint64(j)) >> np.uint64(11)) + 0.5) * 2.0**-53
        # -log(u) < reach needs u > exp(-reach) >= 1 - reach.
        if u <= 1.0 - reach or w == 0.0:
            continue
        key = -np.log(u) / w
        if key >= tau:
            continue
        if count == room:
            room *= 2
            more_keys = np.empty(room)
            more_keys[:count] = keys
            keys = more_keys
            more_found = np.empty(room, dtype=np.int64)
            more_found[:count] = found
            found = more_found
        keys[count] = key
        found[count] = j
        count += 1
    return keys[:count], found[:count]


@njit(cache=True, nogil=True)
def weighted_order(
    query: NDArray[Any],
    coordinates: NDArray[np.int64],
    beta: float,
    seed: int,
    wanted: int,
    n_groups: int,
    population: int,
    total: float,
    groups: NDArray[np.float64],
) -> NDArray[np.int64]:
    """Return at least the `wanted` coordinates with the smallest keys (or all), smallest first."""
    passing = 1.3 * wanted + 32.0
    while True:
        tau = np.inf
        if passing < 0.9 * population:
            tau = solve_tau(groups, n_groups, passing, population, passing / total)
        keys, found = _smallest_keys(query, coordinates, beta, seed, tau)
        if found.size >= min(wanted, population):
            return found[np.argsort(keys)]
        passing *= 1.5


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _trust(
    values: NDArray[Any],
    rows: NDArray[np.int64],
    n_rows: int,
    size: int,
    scale: NDArray[np.float64],
    centers: NDArray[np.float64],
    needed: NDArray[np.float64],
    part: float,
    trusted: NDArray[np.bool_],
) -> None:
    """Mark the rows of whose scatter the sample has seen a share (see `bounds.MIN_SCATTER_SEEN`).

    The scatter is known over all coordinates; of one that the query's support holds a `part` of, the same part.
    """
    for t in range(n_rows):
        row = values[rows[t]]
        center = centers[rows[t]]
        scatter = 0.0
        for j in range(size):
            scatter += scale[j] * (row[j] - center) * (row[j] - center)
        trusted[rows[t]] = scatter >= part * needed[rows[t]]


@njit(cache=True, nogil=True)
def _describe(
    query: NDArray[Any],
    order: NDArray[np.int64],
    size: int,
    uniform: bool,
    beta: float,
    tau: float,
    share: float,
    whole_weight: float,
    scale: NDArray[np.float64],
    vectors: NDArray[Any],
) -> None:
    """Fill in what `sampling.SamplePrefix` holds for the first `size` coordinates, times the query where it helps."""
    kind = vectors.dtype.type
    query_at, scaled_query, spread_query = vectors[0], vectors[1], vectors[2]
    spread_unit, weight = vectors[3], vectors[4]
    weighed = 0.0
    for j in range(size):
        q = np.float64(query[order[j]])
        w = 1.0 if uniform else _weight(q, beta)
        inclusion = -np.expm1(-w * tau) * share
        scale[j] = 1.0 / inclusion
        weighed += w / inclusion
        query_at[j] = kind(q)
        spread_unit[j] = kind(np.sqrt((1.0 - inclusion) * size / max(size - 1.0, 1.0)) / inclusion)
        weight[j] = kind(w)
    ratio = whole_weight / weighed
    for j in range(size):
        scale[j] *= ratio
        spread = np.float64(spread_unit[j]) * ratio
        scaled_query[j] = kind(scale[j] * query_at[j])
        spread_query[j] = kind(spread * query_at[j])
        spread_unit[j] = kind(spread * weight[j])


@njit(cache=True, nogil=True)
def gathered_race(
    atoms: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    offsets: NDArray[np.float64],
    uniform: bool,
    nearly_even: bool,
    piloted: bool,
    subset: NDArray[np.int64],
    d: int,
    beta: float,
    seed: int,
    sizes: NDArray[np.int64],
    z: NDArray[np.float64],
    sampling_costs: NDArray[np.float64],
    finish_cost: float,
    allowance: float,
    k: int,
    absolute: bool,
    centers: NDArray[np.float64],
    needed_scatter: NDArray[np.float64],
    n_rows: int,
    n_alive: int,
    rows: NDArray[np.int64],
    trusted: NDArray[np.bool_],
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    beaten: NDArray[np.bool_],
    leaders: NDArray[np.int64],
    values: NDArray[Any],
    vectors: NDArray[Any],
    scratch: NDArray[np.float64],
    groups: NDArray[np.float64],
) -> tuple[int, int, int, int, int, float]:
    """Race on weighted coordinates; return (status, survivors, coordinates, rounds, multiplies, total unit).

    Parameters
    ----------
    atoms, by_column
        The atoms by row, shape (n, d), or by column, shape (d, n).
    offsets
        Receives what is known exactly of each score: 0, since every coordinate is sampled.
    uniform
        Whether to sample uniformly, in the seed's order, rather than by weight.
    nearly_even
        Whether the query is even enough for pilots to be sampled uniformly, before any weights are made.
    piloted
        Whether such pilots have been asked before.
    subset
        Coordinates drawn uniformly beforehand, where the query is too long to be read whole; empty for all.
    centers, needed_scatter
        Mean of each atom's entries, and what a sample must show of their scatter; empty where nothing is known.
    n_rows, n_alive
        How many candidates there were, and how many are left in `rows` (ascending).
    values
        Workspace (n, longest round) for the values read.
    """
    trusted[:] = True
    offsets[:] = 0.0
    pilot_cost = sampling_costs[0] / (0.5 * finish_cost)
    needs_pilots = n_alive >= 4 * N_PILOTS and finish_cost < np.inf
    multiplies = 0
    if nearly_even and needs_pilots:
        needs_pilots = False
        # Where the race is uniform too, it will read the same coordinates again.
        multiplies = 0 if uniform else N_PILOTS * PILOT_SIZE
        if not piloted:
            need = uniform_need(atoms, by_column, query, rows, n_alive, d, seed, z[0], values, vectors)
            if need * pilot_cost > PILOTS_ARE_SURE:
                return UNDECIDED, n_alive, 0, 0, N_PILOTS * PILOT_SIZE, 0.0
    if uniform:
        n_groups, population, total_weight = 1, d, float(d)
        groups[0, 0], groups[1, 0] = 1.0, d
    else:
        n_groups, population, total_weight = _profile(query, subset, beta, scratch, groups)
    if n_groups < 0:
        return OUT_OF_RANGE, 0, 0, 0, 0, 0.0
    if population == 0:
        return UNDECIDED, n_alive, 0, 0, 0, 0.0
    reached = sizes.size
    while reached > 0 and sizes[reached - 1] >= 0.8 * population:
        reached -= 1
    # Where only a subset was drawn, every inclusion probability is multiplied by its share of the population.
    share = 1.0 if subset.size == 0 else subset.size / d
    # The whole population's weight is known, or estimated without bias from the subset.
    whole_weight = total_weight / share
    order = np.empty(0, dtype=np.int64)
    scale = np.empty(values.shape[1])
    scaled_query, spread_query = vectors[1], vectors[2]
    spread_unit, residual = vectors[3], vectors[4]
    pilots = np.empty(N_PILOTS, dtype=np.int64)
    size = 0
    spent = 0.0
    tau = 0.0
    leaders[k] = 0
    for r in range(reached):
        next_size = sizes[r]
        new = next_size - size
        cost = n_alive * (new * sampling_costs[0] + next_size * sampling_costs[1]) + sampling_costs[2]
        begun = r > 0 or (n_alive < n_rows and finish_cost < np.inf)
        if begun and not worth_it(spent, cost, allowance, n_alive, n_rows, leaders[k], finish_cost):
            return UNDECIDED, n_alive, size, r, multiplies, whole_weight
        if next_size > order.size and uniform:
            order = permuted_coordinates(seed, d, 0, min(4 * next_size, d))
        elif next_size > order.size:
            order = weighted_order(
                query, subset, beta, seed, max(4 * next_size, 128), n_groups, population, total_weight, groups
            )
        if needs_pilots:
            needs_pilots = False
            # A few atoms tell whether the others are worth a cache line for each of their values.
            pick_pilots(rows, n_alive, pilots)
            read_values(atoms, by_column, pilots, N_PILOTS, order, 0, next_size, values)
            tau = solve_tau(groups, n_groups, np.float64(next_size), population, next_size / total_weight)
            _describe(query, order, next_size, uniform, beta, tau, share, whole_weight, scale, vectors)
            need = typical_need(
                values, pilots, N_PILOTS, next_size, vectors[1], vectors[2], vectors[3], whole_weight, z[0]
            )
            multiplies += N_PILOTS * next_size
            if need * pilot_cost > 1.0:
                return UNDECIDED, n_alive, 0, 0, multiplies, whole_weight
            multiplies -= N_PILOTS * next_size
        read_values(atoms, by_column, rows, n_alive, order, size, next_size, values)
        spent += cost
        multiplies += n_alive * new
        size = next_size
        tau = solve_tau(groups, n_groups, np.float64(size), population, max(tau, size / total_weight))
        _describe(query, order, size, uniform, beta, tau, share, whole_weight, scale, vectors)
        if needed_scatter.size:
            part = population / d if subset.size == 0 else 1.0
            _trust(values, rows, n_alive, size, scale, centers, needed_scatter, part, trusted)
        n_alive = eliminate(
            values,
            rows,
            n_alive,
            size,
            scaled_query,
            spread_query,
            spread_unit,
            whole_weight,
            offsets,
            centers[:0],
            0.0,
            k,
            absolute,
            z[r],
            trusted,
            estimates,
            ranking,
            beaten,
            leaders,
            residual,
        )
        if n_alive < 0:
            return OUT_OF_RANGE, 0, size, r + 1, multiplies, whole_weight
        if n_alive <= k:
            return SEPARATED, n_alive, size, r + 1, multiplies, whole_weight
    return UNDECIDED, n_alive, size, reached, multiplies, whole_weight
