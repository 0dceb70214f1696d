"""The plan: which way is expected to take the least time, by what things cost on this machine.

Every number here is a measured cost (`race.costs`) times a count; nothing is fitted to data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import inf, isfinite, log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.core.answer import Times
from banditmips.core.code_source import REGRET
from banditmips.core.numbers import permuted_coordinates
from banditmips.core.quantiles import normal_quantile
from banditmips.core.statistics import NEG_SQUARED_DIFFERENCE, PRODUCT, spread_and_noise
from banditmips.race.costs import Costs
from banditmips.race.schedule import TimedSchedule

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore, PartStore
    from banditmips.core.codes import Codes

__all__ = [
    "NO_TIMES",
    "REGRET",
    "TOGETHER",
    "SamplingPlan",
    "cells_needed",
    "code_times",
    "coordinates_needed",
    "file_times",
    "fit_one_call",
    "full_time",
    "is_worth_a_race",
    "may_be_certain",
    "probe_quantile",
    "row_time",
]

NO_TIMES = Times()
"""Where not time but multiplies are to be saved."""
_SEEK = 50_000.0
"""Bytes of a file that are read in the time that it takes to go to another place in it."""
_MARGIN = 3.0
"""How many times less than the full product sampling must promise to take: a probe of few atoms may be wrong, and atoms
that are close to the best take more coordinates than a typical one."""
TOGETHER = 64
"""Queries whose products are computed together: more would not make them faster, but take memory."""
_ONE_CALL = 1 << 26
"""Products up to which also more queries than `TOGETHER` are one compiled call: what is around them elsewhere takes
about half a millisecond, a good part of so many (measured: as long as 10 to 30 million products)."""
_LEAST_D = 16
"""Shorter atoms count for as long: there is to be room for all products."""
_N_PROBED, _PROBE_SIZE = 48, 64
"""Atoms and coordinates of a probe; half of the coordinates say who leads, the other half by how much."""


def fit_one_call(n_queries: int, n: int, d: int) -> bool:
    """Whether one compiled call answers so many queries; if they are many, without products of bytes."""
    return n_queries <= TOGETHER or n_queries * n * max(d, _LEAST_D) <= _ONE_CALL


def full_time(
    costs: Costs, n: int, d: int, itemsize: int, by_blas: bool, n_queries: int = 1, contiguous: bool = True
) -> float:
    """Nanoseconds of all products for one of so many queries, which BLAS would answer together."""
    value = costs.stream_of(n * d, by_blas) if contiguous else costs.columns_of(n * d, 1, itemsize)
    value *= itemsize / 4
    if not by_blas:
        value = max(value, costs.convert)
    if n_queries > 1:
        # Of what is not floats, each value is converted once for all of them.
        m = min(n_queries, TOGETHER)
        together = costs.together_of(max(itemsize, 4), m, by_column=not contiguous, d=d, n_values=n * d)
        value = min(value, (together if by_blas else costs.convert + together) / m)
    if not contiguous and itemsize <= 4:
        value = min(value, costs.column_sweep_of(n * d, itemsize, n_queries) / n_queries)
    return n * d * value


def row_time(costs: Costs, d: int, itemsize: int, contiguous: bool) -> float:
    """Nanoseconds of the exact score of one row, which is read on its own."""
    of_row = costs.row * itemsize / 4 if itemsize >= 4 else costs.short_row
    return d * (of_row if contiguous else costs.gather) + costs.row_overhead


def code_times(
    costs: Costs, codes: Codes, n: int, itemsize: int, contiguous: bool, by_blas: bool, n_queries: int = 1
) -> Times:
    """What the steps of a race on codes take, for one of so many queries."""
    d = codes.rotation.d
    full = full_time(costs, n, d, itemsize, by_blas, n_queries, contiguous)
    row = row_time(costs, d, itemsize, contiguous)
    # What the queries of a batch lose is written down (`race.batch`).
    risk = 2.0 * REGRET * full if n_queries == 1 else inf
    cell, prepare = costs.cell_of(codes.nbytes), codes.rotation.width * costs.rotate + costs.call_overhead
    return Times(cell, row, full, prepare, costs.atom, risk, costs.fine_cell_of(codes.nbytes), costs.fine_atom)


def is_worth_a_race(costs: Costs, times: Times, codes: Codes, n: int, k: int, n_queries: int = 1) -> bool:
    """Whether all products take longer than a race on codes at its best: certain bounds, one round, and k rows.

    Of one query alone what is around a race must not be more than a tenth of them, in case it comes to nothing. What
    the queries of a batch lose is written down (`race.batch`).
    """
    around = costs.call_overhead / (2.0 * REGRET) if n_queries == 1 else 0.0
    least = times.prepare + n * (codes.n_first * times.cell + times.atom + costs.bound) + k * times.row
    return times.full > max(least, around)


def may_be_certain(costs: Costs, times: Times, n: int, k: int) -> bool:
    """Whether all products take longer than certain bounds, and the rows that are returned if these are enough."""
    return times.full > n * costs.bound + k * times.row + costs.call_overhead


def file_times(costs: Costs, codes: Codes, store: PartStore, n_queries: int = 1) -> Times:
    """What the steps of a race on codes take where rows are read from a file, with whatever comes along with them.

    So many queries would share the reading of all rows.
    """
    n, d = store.shape
    byte = store.byte_time
    once = n * d * store.dtype.itemsize * byte
    row = once * store.share_of_rows(1) + _SEEK * byte
    full = once if n_queries == 1 else once / min(n_queries, TOGETHER) + n * d * costs.one_more
    cell, prepare = costs.cell_of(codes.nbytes), codes.rotation.width * costs.rotate + costs.call_overhead
    return Times(cell, row, full, prepare, costs.atom)


@dataclass(frozen=True)
class SamplingPlan:
    """What sampling coordinates of n atoms in memory would take, beside the full product.

    `n_leaders` are the atoms that every other is compared with in each round.
    """

    costs: Costs
    n: int
    d: int
    itemsize: int
    n_queries: int = 1
    weighted: bool = True
    n_leaders: int = 1

    @property
    def arithmetic(self) -> float:
        """Nanoseconds of a value that takes part in a round."""
        return self.n_leaders * self.costs.arithmetic

    @property
    def full(self) -> float:
        """Nanoseconds of all products, for one of the queries."""
        return full_time(self.costs, self.n, self.d, self.itemsize, self.itemsize >= 4, self.n_queries)

    def can_pay(self, first: int) -> bool:
        """Whether a race whose first round reads `first` coordinates could be faster than all products, at its best."""
        costs = self.costs
        probe = _N_PROBED * _PROBE_SIZE * costs.gather + costs.probe_overhead
        return probe <= REGRET * self.full and self.pays(first, first)

    def first_round(self, n_rows: int, first: int) -> float:
        """Nanoseconds of a first round on so many rows, at least."""
        return n_rows * first * self.costs.gather + self.costs.round_overhead

    def pays(self, needed: float, first: int) -> bool:
        """Whether dropping typical atoms on so many coordinates takes much less than the full product."""
        return _MARGIN * self.race_time(needed, first) <= self.full

    def race_time(self, needed: float, first: int) -> float:
        """Nanoseconds of a race whose first round reads `first` coordinates, and that drops atoms on `needed`."""
        costs, growth = self.costs, TimedSchedule.growth
        if needed == float("inf"):
            return needed
        n_rounds = 1.0 + np.log(max(needed / first, 1.0)) / np.log(growth)
        # Every round goes over all values so far: those of the last and, each time fewer, of those before.
        of_value = costs.gather + self.arithmetic * growth / (growth - 1.0)
        rounds = n_rounds * costs.round_overhead + self.n * needed * of_value
        return float(rounds + self.d * (costs.row + (costs.weigh if self.weighted else 0.0)))

    def schedule(self, expected: float, at_hand: int = 0) -> TimedSchedule:
        """Rounds that may take so many nanoseconds, as expected of them, and little more; `at_hand` are cached."""
        costs = self.costs
        return TimedSchedule(
            n_candidates=self.n,
            gather_time=costs.gather,
            arithmetic_time=self.arithmetic,
            round_time=costs.round_overhead,
            row_time=self.full / self.n,
            allowance=REGRET * self.full + expected,
            at_hand=at_hand,
        )


def probe_quantile(n: int, k: int, delta: float) -> float:
    """By how many deviations an atom has to be behind the k best to be dropped, roughly."""
    return sqrt(2.0 * (log(2.0 * n * k) - log(delta)))


def coordinates_needed(
    store: AtomStore,
    query: NDArray[np.float64],
    quantile: float,
    k: int,
    seed: int,
    absolute: bool,
    by_range: bool = False,
    objective: int = PRODUCT,
) -> float:
    """Guess from a few atoms and coordinates how many it takes to drop a typical atom; infinite if nothing stands out.

    `by_range` is for bounds that know the range of the terms, whose deviations are at least half of what is seen of it.

    The leaders of all atoms are not among the few: what the k-th is ahead by follows from the spread of their scores on
    one half of the coordinates, as far as it shows again on the other half.
    """
    n, d = store.shape
    rows, coordinates = _probed(n, d, seed)
    values = np.empty((rows.size, coordinates.size))
    store.gather(rows, coordinates, values)
    with np.errstate(over="ignore", invalid="ignore"):
        if objective == PRODUCT:
            values *= query[coordinates]
        else:
            values -= query[coordinates]
            values = -(values**2 if objective == NEG_SQUARED_DIFFERENCE else np.abs(values))
    return quantile**2 * cells_needed(values, n, k, absolute, by_range)


@lru_cache(maxsize=64)
def _probed(n: int, d: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and coordinates of a probe."""
    rows = np.unique(np.linspace(0, n - 1, min(n, _N_PROBED)).astype(np.int64))
    return rows, permuted_coordinates(seed, d, 0, min(_PROBE_SIZE, d))


def cells_needed(terms: NDArray[np.float64], n: int, k: int, absolute: bool, by_range: bool = False) -> float:
    """Guess from terms of a few of n atoms at a few cells how many cells drop a typical atom by one deviation."""
    if terms.shape[1] < 2:
        return inf
    spread, noise = spread_and_noise(terms, absolute)
    if by_range:
        with np.errstate(over="ignore", invalid="ignore"):
            noise = max(noise, float(np.square(np.ptp(terms) / 2.0)))
    if not (isfinite(spread) and isfinite(noise)) or spread <= 0.0:
        return inf
    # Where the k-th best of n normal numbers lies (of either sign, where they are ranked by size), in deviations.
    ahead = normal_quantile(1.0 - (k - 0.375) / ((2 if absolute else 1) * n + 0.25))
    gap = spread * ahead**2 if ahead > 0.0 else 0.0
    return 2.0 * noise / gap if gap > 0.0 else inf
