"""The race on sampled cells: what a query asks of its atoms, ready for the loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips.core.exact import ReaderExact
from banditmips.core.loop import Limits, Outcome, race
from banditmips.core.records import StopReason
from banditmips.core.rule import Rule
from banditmips.core.sample_source import PerAtom, SampleSource
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.sampling import SamplePrefix, Sampler

if TYPE_CHECKING:
    from banditmips.race.schedule import Schedule

__all__ = ["Contest", "Problem", "Reader", "measure", "race_on"]


class Reader(Protocol):
    """Where a race on sampled cells gets the atoms' values from."""

    def read(
        self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """Put the rows' values at the sample's cells from position `start` on into `out`.

        Returns how many multiplies that takes for each row, or None if it is what the problem says of each cell.
        """

    def scatters(self, rows: NDArray[np.int64], sample: SamplePrefix) -> NDArray[np.float64] | None:
        """Return what the sample shows of the scatter of the rows' entries, or None if the values tell it."""

    def exact_cost(self, rows: NDArray[np.int64]) -> int:
        """Multiplies that the rows' exact scores take."""

    def exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows' exact scores."""


@dataclass(frozen=True)
class Problem:
    """One query, cell by cell.

    Attributes
    ----------
    query
        Its numbers, one for each cell (less what is known already).
    objective
        What a cell adds to a score.
    unit_costs
        Multiplies that each cell takes for one atom, where cells are lines of coordinates; None where they are
        coordinates: 1, or 0 for a product with 0.
    widths
        Coordinates of each cell, where cells are lines; None where they are coordinates.
    n_seen
        Multiplies of each atom that were done before.
    """

    query: NDArray[Any]
    objective: int
    unit_costs: NDArray[np.int64] | None = None
    widths: NDArray[np.int64] | None = None
    n_seen: int = 0

    def cost(self, cells: NDArray[np.int64]) -> int:
        """Multiplies that these cells take for one atom."""
        if self.unit_costs is not None:
            return int(self.unit_costs[cells].sum())
        return int(np.count_nonzero(self.query[cells])) if self.objective == PRODUCT else cells.size

    @property
    def most_of_a_cell(self) -> int:
        """The most multiplies that one cell takes for one atom."""
        return 1 if self.unit_costs is None else int(self.unit_costs.max(initial=0))


@dataclass(frozen=True)
class Contest:
    """One query's race, ready to run: who takes part, what is known of each, and what it may cost."""

    candidates: NDArray[np.int64]
    atoms: PerAtom
    problem: Problem
    k: int
    absolute: bool
    limits: Limits

    def part(self, chosen: NDArray[np.int64], delta: float, budget: int | None = None) -> Contest:
        """The contest among some of the candidates, given by their positions, with its own share of delta."""
        limits = Limits(delta, self.limits.epsilon, budget, self.limits.traced)
        return replace(self, candidates=self.candidates[chosen], atoms=self.atoms.part(chosen), limits=limits)

    def source(self, reader: Reader, sampler: Sampler, schedule: Schedule) -> SampleSource:
        """All candidates at the beginning of the race."""
        alive = Survivors(self.candidates, self.candidates.size, self.k, self.absolute)
        return SampleSource(alive, self.atoms, self.problem, reader, sampler, schedule)


def race_on(
    contest: Contest,
    reader: Reader,
    sampler: Sampler,
    rule: Rule,
    schedule: Schedule,
    n_rounds: int = 0,
    hands_over: Callable[[int], bool] | None = None,
) -> Outcome:
    """Race on sampled cells; `n_rounds` were played on other cells before."""
    source = contest.source(reader, sampler, schedule)
    return race(source, rule, ReaderExact(reader), contest.limits, n_rounds, hands_over)


def measure(contest: Contest, reader: Reader, sampler: Sampler, rule: Rule, schedule: Schedule, size: int) -> Outcome:
    """Estimate the candidates' scores from `size` cells (at most all), without dropping anybody."""
    source = contest.source(reader, sampler, schedule)
    source.advance(min(size, sampler.population))
    exhausted = source.size == sampler.population and not sampler.with_replacement
    source.alive.radius_array[:] = 0.0 if exhausted else rule.radius(source, 1)
    return Outcome(
        source.alive,
        StopReason.EXHAUSTED if exhausted else StopReason.BUDGET,
        exact=exhausted,
        n_multiplies=source.n_multiplies,
        n_rounds=1,
        delta_spent=0.0 if exhausted else contest.limits.delta,
    )
