"""Round sizes; when sampling stops paying and an exact finish is cheaper.

With ``rescore=True`` exact scores are wanted, and the planner looks for the least time: a query may go straight to
BLAS, and survivors are finished exactly as soon as that is cheaper than another round. With ``rescore=False`` nothing
may cost d, and the planner looks for the fewest multiplies: rounds go on until the answer is clear.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from banditmips.race.costs import Costs

__all__ = ["Plan", "Schedule", "cached_sizes", "gathered_sizes", "most_heads", "plan_query"]

MAX_REGRET = 0.02
"""Part of the time of a full product that rounds may take while they have not shown that they pay."""
MAX_HEADS = 32
"""Coordinates that may be read for all atoms because the query stands out there."""
_OPTIMISM = 2.0
"""A race on gathered coordinates that ends in its first round takes half of what it does otherwise."""
MAX_FIRST_ROUND, _HARDLY_ANY = 0.05, 10_000.0
"""Part of it that the first cached round may take at most, which cannot show anything beforehand; or nanoseconds that
nobody minds."""


@dataclass(frozen=True)
class Plan:
    """How one query is to be answered by a compiled race, and what that is expected to cost, in nanoseconds.

    Attributes
    ----------
    way
        ``blas`` (all products at once), ``cache`` (uniform coordinates that an index has cached), ``gather`` (weighted
        coordinates from row-major atoms) or ``columns`` (weighted coordinates from coordinate-major atoms).
    sampling_costs
        Cost of a value read for the first time, of one used again, and of a round (for ``cache``: of a value in the
        block, of a value in the prefix, of a row of the prefix, and of a round).
    row_cost, full_cost
        Cost of one exact product, and of all of them by BLAS.
    finish_cost
        `row_cost`, or infinite where nothing may be finished exactly.
    allowance
        What the rounds may cost together.
    reason
        The decision in words.
    """

    way: str
    sampling_costs: NDArray[np.float64]
    row_cost: float
    full_cost: float
    finish_cost: float
    allowance: float
    reason: str


@lru_cache
def cached_sizes(n_cached: int) -> tuple[int, ...]:
    """Rounds on cached coordinates: few and large ones, because values are cheap and rounds are not."""
    sizes = [min(32, n_cached)]
    while 2 * sizes[-1] <= n_cached:
        sizes.append(2 * sizes[-1])
    return tuple(sizes)


@lru_cache
def gathered_sizes(limit: int) -> tuple[int, ...]:
    """Rounds on gathered coordinates, each of which costs a cache line: those of the frugal `Schedule`."""
    schedule = Schedule()
    sizes: list[int] = []
    size = schedule.next_size(0, limit)
    while size <= limit and (not sizes or size > sizes[-1]):
        sizes.append(size)
        size = schedule.next_size(size, limit)
    return tuple(sizes)


def most_heads(costs: Costs, d: int, has_columns: bool) -> int:
    """How many coordinates may be read for all atoms because the query stands out there, within the regret allowed."""
    value = costs.column if has_columns else costs.gather
    return int(min(max(MAX_REGRET * d * costs.stream / value, 1), MAX_HEADS))


@lru_cache
def plan_query(costs: Costs, n: int, d: int, way: str, only_columns: bool, rescore: bool) -> Plan:
    """Weigh a race that reads the atoms in this `way` against the full product."""
    stream = costs.stream_of(n * d)
    full = n * d * stream
    row = d * (costs.gather if only_columns else stream)
    if way == "cache":
        sampling = [costs.block, costs.prefix, costs.prefix_row, costs.round_overhead]
        first = n * 32 * costs.block
    else:
        sampling = [costs.column if way == "columns" else costs.gather, costs.arithmetic, costs.round_overhead]
        # The weights take one pass over the query (over a part of it where it is very long).
        first = n * 16 * sampling[0] + min(d, 1 << 14) * 4.0
    race = first + row + costs.call_overhead
    # Cached rounds have no pilot: where atoms are so short that the first one is a fair part of the full product, a
    # hopeless query would already cost too much.
    short = way == "cache" and first > max(MAX_FIRST_ROUND * full, _HARDLY_ANY)
    needed = race if way == "cache" else _OPTIMISM * race
    if rescore and (full <= needed or short):
        reason = f"all products take about {full / 1e3:.0f} us, a race at least {race / 1e3:.0f} us"
        way = "blas"
    else:
        reason = f"a race takes at least {race / 1e3:.0f} us, all products about {full / 1e3:.0f} us"
    return Plan(
        way,
        np.array(sampling),
        row_cost=row,
        full_cost=full,
        finish_cost=row if rescore else np.inf,
        allowance=MAX_REGRET * full if rescore else np.inf,
        reason=reason,
    )


@dataclass(frozen=True)
class Schedule:
    """Geometric rounds, and the point where the survivors' exact products take over.

    The defaults are for few multiplies. On normal, correlated and heavy-tailed data (n = 100, d = 10,000, 40 seeds
    each), a first round of 16 needed 1.00, 0.79 and 1.04 times the mean of a first round of 32, and finishing at 0.8 of
    the coordinates 0.84 to 0.99 times that of finishing at half of them.

    Attributes
    ----------
    first, growth
        Coordinates after round one, and the factor from one round to the next.
    finish_fraction
        Finish exactly when the next round would reach this part of the population.
    max_buffer
        Finish exactly when the next round would have to hold more sampled values than this at once (float64).
    """

    first: int = 16
    growth: float = 1.25
    finish_fraction: float = 0.8
    max_buffer: int = 1 << 26

    def next_size(self, size: int, population: int) -> int:
        """Return how many coordinates the round after `size` coordinates reaches."""
        return min(max(self.first, size + 1, int(size * self.growth)), population)

    def exceeds_buffer(self, n_survivors: int, size: int) -> bool:
        """Whether the sampled values would no longer fit the buffer."""
        return n_survivors * size > self.max_buffer

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` coordinates.

        A population no larger than the first round is simply sampled whole.
        """
        if population <= self.first:
            return False
        return size >= self.finish_fraction * population or self.exceeds_buffer(n_survivors, size)
