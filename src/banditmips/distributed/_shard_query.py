"""One query on one shard: the race of an index, which pauses where other shards have something to say."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import SparseStore
from banditmips.core.answer import Times, answer_survivors, is_worth_a_round
from banditmips.core.code_source import CodeSource
from banditmips.core.loop import can_lead, lead, learn, race
from banditmips.core.outcome import Outcome
from banditmips.core.records import StopReason
from banditmips.core.rule import CodeRule, drop_certain
from banditmips.core.survivors import Survivors
from banditmips.distributed._messages import Batch, Exact, Order, Play, Report
from banditmips.race.known import known_of
from banditmips.race.query import Multiplied, Query
from banditmips.race.rules import compares_pairs

if TYPE_CHECKING:
    from banditmips.distributed._shard import Shard

__all__ = ["ShardQuery"]

N_REPORTED = 16
"""Survivors that a shard reports at least, if it has them: of those that are known, who has lost is known too."""
_FEW_LEFT = 0.25
"""Part of the atoms that certain bounds may leave, if it is to be worth hearing of other shards' bounds first: where
more are left, those would hardly leave fewer."""


class _PausingSource(CodeSource):
    """Rounds on codes that pause where the others are to be heard."""

    until: int | None = None

    @property
    def paused(self) -> bool:
        return self.until is not None and self.size >= self.until

    def can_go_on(self, size: int) -> bool:
        return not self.paused and super().can_go_on(size)


class ShardQuery(Query):
    """One query on one shard. Rows are the shard's own, except where they are said to be global.

    Parameters
    ----------
    room : float64, shape (d,)
        Where the query lies in double precision while it is its turn, if it was given in another one. All queries of a
        batch share it: memory for each of them would take longer to have than to fill.

    Attributes
    ----------
    n_multiplies : int
        What it has taken so far.
    """

    def __init__(
        self,
        shard: Shard,
        batch: Batch,
        number: int,
        excluded: NDArray[np.bool_] | None,
        room: NDArray[np.float64],
    ) -> None:
        options = batch.options
        self._n_all = int(batch.n_candidates[number])
        if options.budget is not None:
            n_own = shard.n_atoms if excluded is None else int((~excluded).sum())
            options = replace(options, budget=max(options.budget * n_own // max(self._n_all, 1), 1))
        self._given = batch.queries[number]
        fits = self._given.dtype == np.float64 and self._given.flags.c_contiguous
        self._room = self._given if fits else room
        self._take_room()
        super().__init__(shard.known(options), self._room, batch.k, options, excluded)
        _ = self._situation  # while the room is this query's
        self._first_row = shard.first_row
        self._alive: Survivors | None = None
        self._source: _PausingSource | None = None
        self.n_sharing = len(batch.queries)
        self._known_times: Times | None = None
        self._time_alone = 0.0
        self._n_rounds = 0
        self._waiting = self._reading = self._certain = self._rounded = False
        self.n_multiplies = 0

    def _take_room(self) -> None:
        """Put the query where it is looked for, unless it lies there for good."""
        if self._room is not self._given:
            np.copyto(self._room, self._given)

    @property
    def vector(self) -> NDArray[Any]:
        """The query as products with it are taken: as it was given, where the atoms' kind of number is taken anyway."""
        if self._query is not self._room:  # it has been given another length
            return self._query
        vector: NDArray[Any] = self._given
        return vector.astype(np.float64) if isinstance(self._atoms.store, SparseStore) else vector

    @property
    def n_all(self) -> int:
        """Atoms that take part, over all shards."""
        return self._n_all

    @property
    def looks_bad(self) -> bool:
        """Whether those that are left, though not for good, would take longer than the products with all atoms."""
        return self.ended is None and self._reading and self._are_too_many()

    def _are_too_many(self) -> bool:
        """Whether the rows of those that are left would take longer than the products with all atoms."""
        return self._alive is not None and self._alive.n * self._times().row >= self.full_time > 0.0

    @property
    def time_spent(self) -> float:
        """Nanoseconds that the race has taken, by the costs that it is planned with."""
        return self._time_alone if self._source is None else float(self._source.time_spent)

    @property
    def full_time(self) -> float:
        """Nanoseconds of all products for this query, if they are a choice; else 0."""
        return self._times().full if self.uses_codes() and self._options.budget is None else 0.0

    def follow(self, order: Order, races: bool = True) -> None:
        """Do what is asked for; where all products are wanted (`waits`), `finish` has to follow.

        Without `races`, products are wanted wherever rows of those that are left would take longer.
        """
        self._take_room()
        # Scores that overflow are caught where they become exact.
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(order, Exact):
                self._compute(order.rows - self._first_row)
            else:
                self._play(order, races)

    def finish(self, found: Multiplied) -> None:
        """Answer by the products with all atoms of the shard."""
        self._take_room()
        super().finish(found)
        assert self.ended is not None
        self.n_multiplies = self.ended.n_multiplies
        self._rounded = found.n_scored > 0
        self._certain = not self._rounded

    def _play(self, order: Play, races: bool) -> None:
        begins = self._alive is None
        if begins and self._wants_all():
            self._leave_to_products()
            return
        if self._alive is None:
            self._alive = self._bounded()
        if not races and self._are_too_many():
            self._leave_to_products()
            return
        self._waiting = begins and order.waits and self._alive.n <= _FEW_LEFT * self.candidates.size
        if self._waiting:
            return
        self._raise_bar(self._alive, order.bar)
        if self.uses_codes():
            self._play_on_codes(self._alive, order)
        else:
            self.candidates = self._alive.row_array.copy()
            if self.candidates.size:
                self._end(self._race_on_samples())
                self._certain = self.ended is not None and self.ended.delta_spent == 0.0
            else:
                self._end(Outcome(self._alive, StopReason.SEPARATED))

    def _wants_all(self) -> bool:
        """Whether everything is to be multiplied, before anything is looked at."""
        all_wanted = self._options.delta == 0.0 or (self._n_all <= self._k and self._options.rescore)
        hopeless = self.uses_codes() and self._codes_cannot_pay(self._times())
        return (all_wanted or hopeless) and self._affordable(self._exact.cost(self.candidates), 0)

    def _leave_to_products(self) -> None:
        n_left = self.candidates.size if self._alive is None else self._alive.n
        self.ended = self.handed_over(n_left)
        self.ended.n_multiplies, self.ended.n_rounds = self.n_multiplies, self._n_rounds

    def _times(self) -> Times:
        """What the steps of the race take: asked for at every step, and the same at all of them."""
        if self._known_times is None:
            self._known_times = super()._times()
        return self._known_times

    def _raise_bar(self, alive: Survivors, bar: float) -> None:
        """Leave out what cannot reach the bar."""
        alive.bar = max(alive.bar, bar)
        if self._source is None or self._n_rounds == 0:  # nothing was read yet
            drop_certain(alive)
        elif self._code_rule().judge_round(self._source, self._n_rounds):
            self._source.keep()

    def _code_rule(self) -> CodeRule:
        return CodeRule(self._options.delta, self._n_all)

    def _play_on_codes(self, alive: Survivors, order: Play) -> None:
        # Where multiplies are to be saved, few are read on if they have been reported before and there are others left.
        may_read_on = alive.n > 0 and not order.finish and self._options.minimise == "multiplies"
        if alive.n <= self._k and not (may_read_on and self._reading):
            self._reading = may_read_on
            self._stop(order, Outcome(alive, StopReason.SEPARATED))
            return
        if order.finish and self._source is None and self._n_all <= self._atoms.store.shape[0]:
            self._answer_alone(alive, order)
            return
        times, begins = self._times(), self._source is None
        source = self._make_source(alive) if self._source is None else self._source
        source.until, source.n_multiplies = order.until, self.n_multiplies
        if begins and self._options.budget is None and not is_worth_a_round(source, self._code_rule()):
            self.n_multiplies = source.n_multiplies
            self._leave_to_products()
            return
        self._source = source

        def are_too_many(n_left: int) -> bool:
            if not self._affordable(self._exact.cost(self.candidates), source.n_multiplies):
                return False
            return source.hopeless or n_left * times.row >= times.full > 0.0

        def hands_over(n_left: int) -> bool:
            return not order.finish or are_too_many(n_left)

        outcome = race(source, self._code_rule(), self._exact, self._limits(), self._n_rounds, hands_over)
        self._n_rounds, self.n_multiplies = outcome.n_rounds, outcome.n_multiplies
        self._reading = source.paused or outcome.stop_reason is StopReason.SEPARATED
        if not outcome.handed_over and not (source.paused and outcome.stop_reason is StopReason.BUDGET):
            self._stop(order, outcome)
        elif not source.paused and are_too_many(alive.n):
            self._leave_to_products()
        elif order.leads and alive.n > self._k and can_lead(alive, self._exact, self._limits(), self.n_multiplies):
            self.n_multiplies += lead(alive, self._exact)
            self._raise_bar(alive, -np.inf)

    def _answer_alone(self, alive: Survivors, order: Play) -> None:
        """The race of an index, where there is no other shard."""
        scores, times = self._situation.product_map(), self._times()
        assert scores is not None
        known = known_of(self._atoms)
        outcome = answer_survivors(known, alive, self._query, scores, self._exact, self._limits(), times)
        self._n_rounds, self.n_multiplies = outcome.n_rounds, outcome.n_multiplies
        self._time_alone = float(outcome.time_spent)
        self._certain = outcome.delta_spent == 0.0
        if outcome.handed_over:
            self._leave_to_products()
        else:
            self._stop(order, outcome)

    def _make_source(self, alive: Survivors) -> _PausingSource:
        known, scores, times = known_of(self._atoms), self._situation.product_map(), self._times()
        assert known.codes is not None
        assert known.dither is not None
        assert scores is not None
        source = _PausingSource(alive, known.codes, self._query, known.dither, scores, times)
        source.row_cost = self._exact.cost(alive.row_array[:1])
        return source

    def _stop(self, order: Play, outcome: Outcome) -> None:
        """End the race; but where few are left before its end was ordered, other shards may still beat them."""
        if outcome.stop_reason is StopReason.SEPARATED and not order.finish:
            return
        outcome.n_multiplies, outcome.n_rounds = self.n_multiplies, self._n_rounds
        self._end(outcome)
        if order.finish and self._options.rescore:
            outcome.rescore(self._k, self._options.absolute, self._exact, self._options.budget)
            self.n_multiplies = outcome.n_multiplies

    def _end(self, outcome: Outcome) -> None:
        self.ended = outcome
        self.n_multiplies, self._n_rounds = outcome.n_multiplies, outcome.n_rounds

    def _compute(self, rows: NDArray[np.int64]) -> None:
        """Make scores exact."""
        if self.ended is None:
            assert self._alive is not None
            self.n_multiplies += learn(self._alive, rows, self._exact)
            return
        places = np.flatnonzero(np.isin(self.ended.survivors, rows) & ~self.ended.exact)
        found = self.ended.survivors[places]
        self.ended.scores[places] = self._exact.scores(found)
        self.ended.radius[places], self.ended.exact[places] = 0.0, True
        self.n_multiplies += self._exact.cost(found)

    def report(self) -> Report:
        """Say what the others need to know: the best atoms here, by their estimates and by what they reach at least."""
        over = self.ended is not None
        if self.ended is not None:
            standing = self.ended
        else:
            assert self._alive is not None
            standing = Outcome(self._alive, StopReason.SEPARATED)
        ranking = np.abs(standing.scores) if self._options.absolute else standing.scores
        told = np.zeros(ranking.size, dtype=np.bool_)
        told[standing.best(self._k, self._options.absolute)] = True
        if not over:
            told[_largest(ranking - standing.radius, max(self._k, N_REPORTED))] = True
        return Report(
            rows=standing.survivors[told] + self._first_row,
            scores=standing.scores[told],
            radius=standing.radius[told],
            exact=standing.exact[told],
            reach=1.0 if self._alive is None else self._alive.reach,
            n_left=standing.n_survivors,
            n_rounds=self._n_rounds,
            waiting=self._waiting,
            reading=self._reading,
            over=over,
            trusted=not over or self.uses_codes() or not compares_pairs(self._options),
            certain=self._certain or (self._n_rounds == 0 and not self._rounded),
            rounded=self._rounded,
            stop_reason=standing.stop_reason if over else None,
        )


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    return np.argpartition(-values, count)[:count] if values.size > count else np.arange(values.size)
