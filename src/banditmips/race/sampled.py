"""The race on sampled cells: what a query asks of its atoms, ready for the loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips.core.certain import ScoreMap
from banditmips.core.loop import Limits
from banditmips.core.outcome import Outcome
from banditmips.core.records import StopReason
from banditmips.core.rule import Rule
from banditmips.core.sample_source import SampleSource
from banditmips.core.statistics import PRODUCT
from banditmips.race.sampling import SamplePrefix

if TYPE_CHECKING:
    from banditmips.atoms.facts import AtomFacts

__all__ = ["Contest", "Problem", "Reader", "measure"]


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
    scores
        What becomes of the sum of an atom's terms.
    share
        Part of all coordinates that lie in cells which may be sampled.
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
    scores: ScoreMap = field(default_factory=ScoreMap)
    share: float = 1.0
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
    """Who takes part in a race, what is known of all atoms, and what it may cost."""

    candidates: NDArray[np.int64]
    facts: AtomFacts | None
    k: int
    absolute: bool
    limits: Limits

    def part(self, candidates: NDArray[np.int64], delta: float, budget: int | None = None) -> Contest:
        """The contest among some of the candidates, with its own share of delta."""
        limits = Limits(delta, self.limits.epsilon, budget, self.limits.traced)
        return replace(self, candidates=candidates, limits=limits)


def measure(source: SampleSource, rule: Rule, size: int, delta: float) -> Outcome:
    """Estimate the candidates' scores from `size` cells (at most all), without dropping anybody."""
    source.advance(min(size, source.population))
    exhausted = source.size == source.population and not source.with_replacement
    if exhausted:
        source.alive.radius_array[:] = 0.0
    else:
        rule.fill_radius(source, 1)
    return Outcome(
        source.alive,
        StopReason.EXHAUSTED if exhausted else StopReason.BUDGET,
        exact=exhausted,
        n_multiplies=source.n_multiplies,
        n_rounds=1,
        delta_spent=0.0 if exhausted else delta,
    )
