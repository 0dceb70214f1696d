"""What is decided between two exchanges, for one query: who leads, who plays on and how far, and when it is over.

Every shard runs the race of an index on its own atoms (`core.loop`), and pauses to report its best. An atom is out when
its interval ends below what k others reach, wherever these are: so all that shards have to hear of each other is one
number for each query, the *bar*, which the k best of all shards reach at least.

1. Certain bounds: where they leave few atoms, shards report what they know before they read anything. Where time is to
   be saved, the exact scores of the most promising raise the bar for the others.
2. The first cells of the codes. Searches that save multiplies have an exchange after every round, because every round
   raises the bar; searches that save time do not, because an exchange takes longer than a round.
3. Exact scores of the k leaders of all: there is no better bar.
4. With that, every shard ends its race.
5. Where more than k are left, what is left is scored exactly.

A shard to which the first queries of a batch look as if races would not pay puts the others off, until these have
ended: it says nothing of them, and is asked again.

Shards that sample coordinates and compare pairs cannot use what they hear after the first step: they end their races
alone, and the best of each are scored exactly. `core.rule` says why all this needs no more delta than one place does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._result import SearchResult, StopReason, padded
from banditmips._validate import Options
from banditmips.core.rule import share_of_round
from banditmips.distributed._messages import Exact, Order, Play, Report

__all__ = ["QueryRace"]

FIRST_CELLS, GROWTH = 64, 2
"""Cells before the first exchange, and how many times more before each next one, where multiplies are to be saved: an
exchange after every round."""
FEW_LEFT = 4096
"""Atoms that certain bounds may leave, if their races are to end without another exchange: they take less time."""

_LATEST = (StopReason.BUDGET, StopReason.EPSILON, StopReason.FINISHED_EXACTLY, StopReason.SEPARATED)
"""Reasons to end, those first that say most about the whole if they are those of one shard."""


class QueryRace:
    """One query's race over all shards.

    Parameters
    ----------
    first_rows
        Global index of each shard's first atom, ascending.
    counts
        Candidates on each shard.
    row_cost
        Multiplies of an exact score, at most.
    leads
        Whether shards compute their own leaders' exact scores before the first report, because these cost next to
        nothing.

    Attributes
    ----------
    orders
        What each shard has to do next; empty when the race is over.
    n_multiplies, bytes_read
        What the shards have taken so far.
    """

    def __init__(
        self,
        k: int,
        options: Options,
        first_rows: NDArray[np.int64],
        counts: Sequence[int],
        row_cost: int,
        leads: bool,
    ) -> None:
        self._k, self._options = k, options
        self._first_rows, self._row_cost = first_rows, row_cost
        self._n_candidates = sum(counts)
        self._reports: dict[int, Report] = {}
        self._bar = -np.inf
        self._saves_time = options.minimise == "time"
        self._until = 1 if self._saves_time else FIRST_CELLS
        self._leads = leads and self._saves_time and options.budget is None
        self._has_led = self._scored = self._refused = False
        self._winners = np.empty(0, dtype=np.int64)
        self.n_multiplies = 0
        self.bytes_read = 0
        shards = [shard for shard, count in enumerate(counts) if count]
        first = Play(until=self._until, leads=self._leads, waits=True) if len(shards) > 1 else Play(finish=True)
        self.orders: dict[int, Order] = dict.fromkeys(shards, first)

    def take(self, reports: Mapping[int, Report]) -> None:
        """Hear what the shards have to say about the last orders, and decide what comes next.

        Whoever has put its order off, and says nothing, is given it again; the others wait.
        """
        self._reports.update(reports)
        late = {shard: order for shard, order in self.orders.items() if shard not in reports}
        if late:
            self.orders = late
            return
        self._raise_bar()
        going = {shard: report for shard, report in self._reports.items() if not report.over and report.n_left}
        waiting = [shard for shard, report in going.items() if report.waiting]
        if waiting:
            self._begin(waiting)
        elif not self._saves_time and any(report.reading for report in going.values()) and not self._is_settled(going):
            if self._leaders_cost_little(going) and self._order_leaders():
                return
            self._has_led = False  # more cells may tell of others
            self._until *= GROWTH
            reading = [shard for shard, report in going.items() if report.reading]
            self.orders = dict.fromkeys(reading, Play(self._bar, self._until))
        elif self._is_settled(going):
            self._settle()
        else:
            self._end_races(going)

    def _begin(self, waiting: Sequence[int]) -> None:
        """Let shards read on that have bounds alone, for atoms that can reach the bar."""
        n_left = sum(self._reports[shard].n_left for shard in waiting)
        if self._saves_time and 2 * self._k <= n_left and self._order_leaders():
            return
        if self._has_led and n_left <= FEW_LEFT:
            self.orders = dict.fromkeys(waiting, Play(self._bar, finish=True))
            return
        self._has_led = False  # codes know better who leads
        self.orders = dict.fromkeys(waiting, Play(self._bar, self._until, leads=self._leads))

    def _order_leaders(self) -> bool:
        """Order the exact scores of the k leaders, unless that was done before, or every shard has those of its own."""
        if self._has_led or self._leads or self._options.budget is not None:
            return False
        self._has_led = True
        rows, ranking, _, exact, _, _ = self._merged()
        leaders = np.lexsort((rows, -ranking))[: self._k]
        unknown = rows[leaders[~exact[leaders]]]
        self.orders = self._exact(unknown)
        return bool(unknown.size)

    def _leaders_cost_little(self, going: Mapping[int, Report]) -> bool:
        """Whether their rows take at most half the multiplies of the next round, as in `CodeSource.wants_leaders`."""
        n_left = sum(report.n_left for report in going.values())
        return 2 * self._k * self._row_cost <= n_left * (GROWTH - 1) * self._until

    def _end_races(self, going: Mapping[int, Report]) -> None:
        """Let the shards end their races, with the exact scores of the leaders as the bar."""
        if not self._order_leaders():
            self.orders = dict.fromkeys(going, Play(self._bar, finish=True))

    def _is_settled(self, going: Mapping[int, Report]) -> bool:
        """Whether no shard has to play on: they all know their best, and nobody else is left."""
        if not going:
            return True
        n_left = sum(report.n_left for report in self._reports.values())
        return n_left <= self._k and all(report.is_complete for report in going.values())

    def _raise_bar(self) -> None:
        """Find what the k best of all reach at least, and leave out those that are known to end below it."""
        _, ranking, radius, _, _, trusted = self._merged()
        lower = np.sort((ranking - radius)[trusted])
        if lower.size >= self._k:
            self._bar = max(self._bar, float(lower[-self._k]))
        for shard, report in self._reports.items():
            if report.trusted and not report.over and report.is_complete:
                self._reports[shard] = report.part(
                    self._ranked(report.scores) + report.reach * report.radius >= self._bar
                )

    def _settle(self) -> None:
        """Find the winners among what is left, by exact scores where intervals do not tell."""
        self.orders = {}
        rows, ranking, radius, exact, reach, trusted = self._merged()
        close = self._within_epsilon(rows, ranking, radius, reach) if trusted.all() else None
        if close is not None:
            self._winners = rows[close]
            if self._options.rescore and not exact[close].all():
                self._score(rows[close[~exact[close]]])
            return
        can_win = ~(trusted & (ranking + reach * radius < self._bar))
        if can_win.sum() < self._k:  # intervals that miss, or scores that cannot be told apart
            can_win[:] = True
        order = np.lexsort((rows, -ranking))
        order = order[can_win[order]]
        if len(self._reports) == 1:  # one shard has chosen its own
            order = order[: self._k]
        unknown = order[~exact[order]]
        self._winners = rows[order[: self._k]]
        if unknown.size and order.size > self._k:
            # The most promising first: their scores may settle it.
            if not self._scored and exact[order].sum() < self._k:
                unknown = unknown[: self._k]
            self._scored = True
            self._score(rows[unknown])
        elif unknown.size and self._options.rescore:
            self._score(rows[unknown])

    def _within_epsilon(
        self, rows: NDArray[np.int64], ranking: NDArray[np.float64], radius: NDArray[np.float64], reach: NDArray[Any]
    ) -> NDArray[np.intp] | None:
        """The k that are worth most for certain, if nobody exceeds them by more than epsilon; else None.

        Whoever was not reported is beaten by k of its own shard, but for epsilon; and these k reach no more than those.
        """
        epsilon = self._options.epsilon
        if epsilon == 0.0 or self._options.budget is not None or rows.size <= self._k:
            return None
        lower = ranking - radius
        order = np.lexsort((rows, -lower))
        chosen, others = order[: self._k], order[self._k :]
        most = (ranking + reach * radius)[others].max()
        return chosen if most <= lower[chosen].min() + epsilon else None

    def _score(self, rows: NDArray[np.int64]) -> None:
        """Order exact scores, if they are within the budget."""
        budget = self._options.budget
        if budget is None or self.n_multiplies + rows.size * self._row_cost <= budget:
            self.orders = self._exact(rows)
        else:
            self._refused = True

    def _exact(self, rows: NDArray[np.int64]) -> dict[int, Order]:
        owners = np.searchsorted(self._first_rows, rows, side="right") - 1
        return {int(shard): Exact(rows[owners == shard]) for shard in np.unique(owners)}

    def _ranked(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.abs(scores) if self._options.absolute else scores

    def _merged(self) -> tuple[NDArray[Any], ...]:
        """Rows, scores as they are ranked, radii, exactness, reach and trust of all that is reported."""
        reports = self._reports.values()
        rows, scores, radius, exact = (
            np.concatenate([getattr(report, name) for report in reports])
            for name in ("rows", "scores", "radius", "exact")
        )
        sizes = [report.rows.size for report in reports]
        reach, trusted = (
            np.repeat([getattr(report, name) for report in reports], sizes) for name in ("reach", "trusted")
        )
        return rows, self._ranked(scores), radius, exact, reach, trusted | exact

    def result(self, checked: bool) -> SearchResult:
        """Put the answer together."""
        reports = self._reports.values()
        rows, scores, radius, exact = np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0, np.bool_)
        if reports:
            rows, ranking, radius, exact, _, _ = self._merged()
            scores = np.concatenate([report.scores for report in reports])
            order = np.lexsort((rows, -ranking))
            best = order[np.isin(rows[order], self._winners)]
            rows, scores, radius, exact = rows[best], scores[best], radius[best], exact[best]
        rows, scores, radius, exact = padded(self._k, rows, scores, radius, exact)
        n_rounds = max((report.n_rounds for report in reports), default=0)
        spent = self._options.delta
        if not any(report.rounded for report in reports):
            certain = all(report.certain for report in reports)
            spent *= 0.0 if certain else sum(map(share_of_round, range(1, n_rounds + 1)))
        return SearchResult(
            indices=rows,
            scores=scores,
            lower=scores - radius,
            upper=scores + radius,
            exact=exact,
            n_multiplies=self.n_multiplies,
            bytes_read=self.bytes_read,
            n_rounds=n_rounds,
            n_survivors=sum(report.n_left for report in reports),
            stop_reason=self._reason(),
            delta_spent=spent,
            checked=checked,
        )

    def _reason(self) -> StopReason:
        """Why the race ended: the weightiest of what the shards say."""
        reasons = {report.stop_reason for report in self._reports.values() if report.over}
        if self._refused:
            return StopReason.BUDGET
        if self._scored:
            reasons.add(StopReason.FINISHED_EXACTLY)
        if not self._reports:
            return StopReason.EXHAUSTED
        return next((reason for reason in _LATEST if reason in reasons), None) or (
            StopReason.EXHAUSTED if reasons else StopReason.SEPARATED
        )
