"""The round loop: sample, estimate, drop what cannot win, until the answer is clear.

`race` is the paper's Algorithm 1 with geometric rounds, k, epsilon and a budget. It knows nothing of users' arrays: it
is handed a `Contest` and returns an `Outcome`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips._result import Round, StopReason
from banditmips.race import kernels
from banditmips.race.bounds import Bound, RoundView, round_share
from banditmips.race.planner import Schedule
from banditmips.race.sampling import SamplePrefix, Sampler

__all__ = ["Contest", "Outcome", "Reader", "race"]

N_TRACED = 32
"""Leading atoms that a trace keeps for each round."""


class Reader(Protocol):
    """Where a race gets the atoms' values from."""

    def read(
        self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """Put the rows' values at the sample's coordinates from position `start` on into `out`.

        Returns how many multiplies that takes for each row, or None if it is one wherever the query is not 0.
        """

    def scatters(self, rows: NDArray[np.int64], sample: SamplePrefix) -> NDArray[np.float64] | None:
        """Return what the sample shows of the scatter of the rows' entries, or None if the values tell it."""

    def exact_cost(self, rows: NDArray[np.int64]) -> int:
        """Multiplies that the rows' exact scores take."""

    def exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows' exact scores."""


@dataclass(frozen=True)
class Contest:
    """One query's race, ready to run.

    Attributes
    ----------
    candidates
        The atoms that take part.
    row_scale, centers, needed_scatter
        For each candidate: a factor on all of its terms (the cosine's norms), the mean of its entries, and what a
        sample must show of their scatter about it (NaN where nothing is known).
    query
        The query, all d coordinates of it.
    unit_costs
        Multiplies that each coordinate takes for one atom: 1, or 0 where there is nothing to multiply.

    A contest may as well be about lines of coordinates (see `race.lines`): then "coordinate" means line here, and
    `widths` says how many coordinates each has.
    """

    candidates: NDArray[np.int64]
    row_scale: NDArray[np.float64]
    centers: NDArray[np.float64]
    needed_scatter: NDArray[np.float64]
    query: NDArray[np.float64]
    unit_costs: NDArray[np.int64]
    objective: int
    k: int
    delta: float
    epsilon: float
    absolute: bool
    budget: int | None
    traced: bool
    widths: NDArray[np.int64] | None = None

    def part(self, chosen: NDArray[np.int64], delta: float) -> Contest:
        """The contest among some of the candidates, given by their positions, with its own share of delta."""
        return replace(
            self,
            candidates=self.candidates[chosen],
            row_scale=self.row_scale[chosen],
            centers=self.centers[chosen],
            needed_scatter=self.needed_scatter[chosen],
            delta=delta,
        )


@dataclass
class Outcome:
    """How a race ended: the survivors with their estimates, intervals and costs.

    `handed_over` says that the race ended where its sample did, with the answer still open.
    """

    survivors: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64]
    exact: NDArray[np.bool_]
    n_multiplies: int
    n_rounds: int
    n_survivors: int
    stop_reason: StopReason
    delta_spent: float
    rounds: list[Round]
    handed_over: bool = False


class _Field:
    """The survivors and all that is kept for each of them, with the values sampled so far."""

    def __init__(self, contest: Contest, n_seen: int = 0) -> None:
        self._unit_costs = contest.unit_costs
        self.rows = contest.candidates
        self.row_scale = contest.row_scale
        self.centers = contest.centers
        self.needed_scatter = contest.needed_scatter
        self.seen = np.full(self.rows.size, n_seen)
        self._values = np.empty((self.rows.size, 0))
        self.size = 0
        self.n_multiplies = 0

    def sample(self, reader: Reader, prefix: SamplePrefix) -> NDArray[np.float64]:
        """Read the prefix's new coordinates and return the values of all of them so far."""
        size = prefix.coordinates.size
        if size > self._values.shape[1]:
            # Room for about two more rounds, so that few rounds have to move what they hold.
            grown = np.empty((self.rows.size, max(size, min(2 * size, size + 4096))))
            grown[:, : self.size] = self._values[:, : self.size]
            self._values = grown
        counted = reader.read(self.rows, prefix, self.size, self._values[:, self.size : size])
        if counted is None:
            each = int(self._unit_costs[prefix.coordinates[self.size :]].sum())
            self.n_multiplies += self.rows.size * each
            self.seen += each
        else:
            self.n_multiplies += int(counted.sum())
            self.seen += counted
        self.size = size
        return self._values[:, :size]

    def keep(self, kept: NDArray[np.bool_]) -> None:
        self.rows = self.rows[kept]
        self.row_scale = self.row_scale[kept]
        self.centers = self.centers[kept]
        self.needed_scatter = self.needed_scatter[kept]
        self.seen = self.seen[kept]
        self._values = self._values[kept, : self.size]


def race(
    contest: Contest,
    reader: Reader,
    sampler: Sampler,
    bound: Bound,
    schedule: Schedule,
    n_rounds: int = 0,
    size: int = 0,
    n_seen: int = 0,
    hands_over: Callable[[int], bool] | None = None,
) -> Outcome:
    """Run one query's race.

    Parameters
    ----------
    n_rounds, size, n_seen
        Rounds already played elsewhere, how far they went in the sampler's order, and how many multiplies they took
        for each atom; the contest's `unit_costs` are 0 where those would be counted again.
    hands_over
        Asked with the number of survivors when they would be finished exactly: whether to leave them to another race.
    """
    field = _Field(contest, n_seen)
    rounds: list[Round] = []
    number = n_rounds
    spent = sum(contest.delta * round_share(r) for r in range(1, n_rounds + 1))
    estimates = np.zeros(field.rows.size)
    radius = np.full(field.rows.size, np.inf)
    reason: StopReason | None = None
    if sampler.population == 0:  # a zero query: every score is 0
        reason, radius = StopReason.EXHAUSTED, np.zeros(field.rows.size)

    while reason is None:
        size, reason = _next_step(contest, field, reader, sampler, schedule, size)
        if reason is not None:
            break
        number += 1
        view = _play(contest, field, reader, sampler.prefix(size), sampler.population, number)
        leaders = _leaders(view.ranking_scores, contest.k)
        if size == sampler.population and not sampler.with_replacement:
            reason, radius = StopReason.EXHAUSTED, np.zeros(view.estimates.size)
            kept = np.ones(view.estimates.size, dtype=np.bool_)
        else:
            spent += contest.delta * round_share(number)
            radius = bound.score_radius(view)
            kept = ~bound.beaten(view, leaders, 0.0)
            if int(kept.sum()) <= contest.k:
                reason = StopReason.SEPARATED
            elif contest.epsilon > 0.0 and _all_others(bound.beaten(view, leaders, contest.epsilon), leaders):
                reason = StopReason.EPSILON
        if contest.traced:
            n_coordinates = size if contest.widths is None else int(contest.widths[view.sample.coordinates].sum())
            rounds.append(_record(view, radius, leaders, field.rows, int(kept.sum()), n_coordinates))
        estimates, radius = view.estimates[kept], radius[kept]
        field.keep(kept)

    outcome = Outcome(
        survivors=field.rows,
        scores=estimates,
        radius=radius,
        exact=np.full(field.rows.size, reason is StopReason.EXHAUSTED),
        n_multiplies=field.n_multiplies,
        n_rounds=number,
        n_survivors=field.rows.size,
        stop_reason=reason,
        delta_spent=spent,
        rounds=rounds,
    )
    if reason is StopReason.FINISHED_EXACTLY and hands_over is not None and hands_over(field.rows.size):
        outcome.handed_over = True
        return outcome
    if reason is StopReason.FINISHED_EXACTLY:
        finish_exactly(outcome, reader, np.arange(field.rows.size), _finish_cost(field, reader, sampler))
    if field.rows.size == contest.candidates.size and outcome.exact.all():
        outcome.delta_spent = 0.0  # nothing was dropped on a sample's word
    return outcome


def _next_step(
    contest: Contest, field: _Field, reader: Reader, sampler: Sampler, schedule: Schedule, size: int
) -> tuple[int, StopReason | None]:
    """Choose how many coordinates to reach next, or say why to stop sampling instead."""
    n_survivors = field.rows.size
    left = None if contest.budget is None else contest.budget - field.n_multiplies
    can_finish = left is None or _finish_cost(field, reader, sampler) <= left
    if sampler.with_replacement and field.size >= sampler.population:
        return field.size, StopReason.FINISHED_EXACTLY if can_finish else StopReason.BUDGET
    size = schedule.next_size(size, sampler.population)
    if schedule.should_finish(n_survivors, size, sampler.population):
        if can_finish:
            return field.size, StopReason.FINISHED_EXACTLY
        if schedule.exceeds_buffer(n_survivors, size):
            return field.size, StopReason.BUDGET
    if left is not None:
        size = min(size, field.size + left // (n_survivors * max(int(contest.unit_costs.max()), 1)))
        if size <= field.size:
            return field.size, StopReason.BUDGET
    return size, None


def _finish_cost(field: _Field, reader: Reader, sampler: Sampler) -> int:
    """Multiplies that the survivors' exact scores add: pairs seen in the rounds are not counted again."""
    return reader.exact_cost(field.rows) - (0 if sampler.with_replacement else int(field.seen.sum()))


def finish_exactly(outcome: Outcome, reader: Reader, positions: NDArray[np.int64], cost: int) -> None:
    """Replace the estimates of the survivors at these positions by their exact scores."""
    outcome.scores[positions] = reader.exact(outcome.survivors[positions])
    outcome.radius[positions] = 0.0
    outcome.exact[positions] = True
    outcome.n_multiplies += cost


def _play(
    contest: Contest, field: _Field, reader: Reader, prefix: SamplePrefix, population: int, number: int
) -> RoundView:
    """Read one round's coordinates and make the statistics that bounds look at."""
    values = field.sample(reader, prefix)
    query = contest.query[prefix.coordinates]
    estimates, variances, scatters = kernels.sample_estimates(
        values,
        field.row_scale,
        query,
        prefix.scale,
        prefix.unit,
        prefix.spread,
        prefix.total_unit,
        contest.objective,
        field.centers,
    )
    shown = reader.scatters(field.rows, prefix)
    return RoundView(
        number=number,
        sample=prefix,
        population=population,
        values=values,
        query=query,
        row_scale=field.row_scale,
        objective=contest.objective,
        absolute=contest.absolute,
        estimates=estimates,
        variances=variances,
        scatters=scatters if shown is None else shown,
        needed_scatter=field.needed_scatter,
    )


def _leaders(scores: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """The k best by estimate, best first; of equals the earlier one."""
    return np.argsort(-scores, kind="stable")[:k]


def _all_others(beaten: NDArray[np.bool_], leaders: NDArray[np.int64]) -> bool:
    return int(beaten.sum()) == beaten.size - leaders.size


def _record(
    view: RoundView,
    radius: NDArray[np.float64],
    leaders: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_survivors: int,
    n_coordinates: int,
) -> Round:
    best = _leaders(view.ranking_scores, N_TRACED)
    scores = view.estimates[best]
    return Round(
        n_coordinates=n_coordinates,
        n_survivors=n_survivors,
        leader=int(rows[leaders[-1]]),
        indices=rows[best],
        scores=scores,
        lower=scores - radius[best],
        upper=scores + radius[best],
    )


def measure(contest: Contest, reader: Reader, sampler: Sampler, bound: Bound, size: int) -> Outcome:
    """Estimate the candidates' scores from `size` coordinates (at most all), without dropping anybody."""
    field = _Field(contest)
    prefix = sampler.prefix(min(size, sampler.population))
    view = _play(contest, field, reader, prefix, sampler.population, 1)
    exhausted = field.size == sampler.population and not sampler.with_replacement
    return Outcome(
        survivors=field.rows,
        scores=view.estimates,
        radius=np.zeros(field.rows.size) if exhausted else bound.score_radius(view),
        exact=np.full(field.rows.size, exhausted),
        n_multiplies=field.n_multiplies,
        n_rounds=1,
        n_survivors=field.rows.size,
        stop_reason=StopReason.EXHAUSTED if exhausted else StopReason.BUDGET,
        delta_spent=0.0 if exhausted else contest.delta,
        rounds=[],
    )
