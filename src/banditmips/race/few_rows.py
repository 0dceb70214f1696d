"""The few rows that certain bounds leave, where coordinates would be sampled: what they take, and exact scores."""

from __future__ import annotations

from math import inf

import numpy as np

from banditmips.core.exact import Exact
from banditmips.core.loop import lead
from banditmips.core.outcome import Outcome
from banditmips.core.records import StopReason
from banditmips.core.rule import drop_certain
from banditmips.core.survivors import Survivors
from banditmips.race.atom_set import AtomSet
from banditmips.race.costs import costs
from banditmips.race.full import how_they_lie
from banditmips.race.known import index_rows
from banditmips.race.plan import SamplingPlan, full_time, row_time

__all__ = ["finish_rows", "time_of_all", "time_of_first_round", "time_of_rows"]


def time_of_all(atoms: AtomSet, n_queries: int) -> float:
    """Nanoseconds of all products, for one of so many queries that would share them."""
    store, (by_blas, by_row) = atoms.store, how_they_lie(index_rows(atoms))
    return full_time(costs(), *store.shape, store.dtype.itemsize, by_blas, n_queries, by_row)


def time_of_rows(atoms: AtomSet, alive: Survivors) -> float:
    """Nanoseconds of the rows that are left, more than k, once the k most promising are known; infinite in files."""
    rows, store, k = index_rows(atoms), atoms.store, alive.k
    if rows is None:
        return inf
    middles = alive.ranking()
    bar = np.partition(middles, alive.n - k)[alive.n - k]
    n_read = k + np.count_nonzero(middles + alive.radius_array >= bar)
    _, by_row = how_they_lie(rows)
    return float(n_read * row_time(costs(), store.shape[1], store.dtype.itemsize, by_row))


def time_of_first_round(atoms: AtomSet, n_rows: int, first: int) -> float:
    """Nanoseconds of a first round of sampling so many coordinates of so many rows, at least."""
    return SamplingPlan(costs(), *atoms.store.shape, atoms.store.dtype.itemsize).first_round(n_rows, first)


def finish_rows(alive: Survivors, exact: Exact, n_candidates: int) -> Outcome:
    """Exact scores of those that certain bounds have left of so many; the k most promising, first, leave out others."""
    n_multiplies = lead(alive, exact)
    drop_certain(alive)
    outcome = Outcome(alive, StopReason.FINISHED_EXACTLY, n_multiplies=n_multiplies)
    outcome.n_raced = n_candidates
    outcome.rescore(alive.n, alive.absolute, exact)
    return outcome
