"""One query on one shard: rounds among its own atoms, with guests from other shards, and exact scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options, as_finite
from banditmips.core.certain import QueryMoments
from banditmips.core.rule import Rule
from banditmips.core.sample_source import PerAtom
from banditmips.core.survivors import Survivors
from banditmips.distributed._messages import Batch, Duel, Exact, Guests, Order, Play, Report, Screen
from banditmips.distributed._plan import plan_rounds
from banditmips.distributed._shard import Shard
from banditmips.race.parts import Standing, play_rounds
from banditmips.race.query import Query, known_of
from banditmips.race.readers import SparseReader
from banditmips.race.rules import least_sample, make_rule
from banditmips.race.sampled import Contest, Problem, Reader
from banditmips.race.sampling import SamplePrefix, UniformSampler
from banditmips.race.ways import coordinate_way

__all__ = ["Pause", "ShardQuery"]

_MAX_VALUES, _MIN_ROWS = 1 << 20, 512
"""Sampled values of a block of atoms that are held at a time (8 MB), and how many atoms a block has at least."""

N_REPORTED = 16
"""Survivors that a shard reports at least, if it has them: where all are known, they can be brought together."""


class _GuestReader:
    """A shard's reader that also knows the values of guests: the rows from `n_own` on."""

    def __init__(self, reader: Reader, n_own: int, values: NDArray[Any], unit_costs: NDArray[np.int64]) -> None:
        self._reader = reader
        self._n_own = n_own
        self._values = values
        self._unit_costs = unit_costs
        self.exact_cost = reader.exact_cost
        self.exact = reader.exact
        self.scatters = reader.scatters

    def read(
        self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """Read what lives here from the shard, and what does not from what was sent."""
        own = int(np.searchsorted(rows, self._n_own))
        out[own:] = self._values[rows[own:] - self._n_own, start : sample.coordinates.size]
        counted = self._reader.read(rows[:own], sample, start, out[:own]) if own else None
        if not isinstance(self._reader, SparseReader):
            return counted
        # Of sparse atoms only what is stored counts.
        of_guests = (out[own:] != 0.0) @ self._unit_costs[sample.coordinates[start:]]
        return of_guests if counted is None else np.append(counted, of_guests)


@dataclass(frozen=True)
class Pause:
    """What a shard remembers of a query between two exchanges: its survivors, what they took, how far they are."""

    rows: NDArray[np.int32]
    seen: NDArray[np.int32]
    n_rounds: int

    def part(self, chosen: NDArray[np.bool_]) -> Pause:
        """What is remembered of some of them."""
        return Pause(self.rows[chosen], self.seen[chosen], self.n_rounds)

    @classmethod
    def of(cls, standing: Standing) -> Pause:
        """What is needed to go on from a standing."""
        return cls(standing.rows.astype(np.int32), standing.seen.astype(np.int32), standing.n_rounds)


def _known_of_guests(guests: Guests) -> PerAtom:
    return PerAtom(guests.row_scale, guests.centers, guests.needed_scatter, guests.offsets, guests.unrelated)


def _nobody() -> Standing:
    nothing, none = np.empty(0), np.empty(0, dtype=np.int64)
    return Standing(none, nothing, nothing, none, 0, exact=False, within_epsilon=True, n_multiplies=0)


def _regrouped(pauses: Sequence[Pause], n_values: int) -> Iterator[Pause]:
    """Put together those who are equally far, in blocks whose `n_values` values for each atom can be held."""
    step = max(_MAX_VALUES // n_values, _MIN_ROWS)
    for n_rounds in sorted({pause.n_rounds for pause in pauses}):
        rows = np.concatenate([pause.rows for pause in pauses if pause.n_rounds == n_rounds])
        seen = np.concatenate([pause.seen for pause in pauses if pause.n_rounds == n_rounds])
        order = np.argsort(rows)
        for start in range(0, rows.size, step):
            some = order[start : start + step]
            yield Pause(rows[some], seen[some], n_rounds)


class ShardQuery(Query):
    """One query on one shard. Rows are the shard's own, except where they are said to be global."""

    def __init__(
        self,
        shard: Shard,
        batch: Batch,
        number: int,
        k: int,
        options: Options,
        excluded: NDArray[np.bool_] | None = None,
    ) -> None:
        query = batch.queries[number]
        first = least_sample(options, k, int(batch.n_candidates[number]))
        rounds = self._rounds = plan_rounds(query, options, batch.at_hand, first)
        # Every shard has to sample the same coordinates, whatever it could afford to cache.
        options = replace(options, sampling=rounds.sampling)
        super().__init__(shard.atom_set, as_finite(query, ""), k, options, excluded)
        self._shard = shard
        self._batch = batch
        self._n_candidates = int(batch.n_candidates[number])
        self._sizes = rounds.sizes
        self._way = coordinate_way(self._situation)
        if rounds.whole:
            sampler = UniformSampler(self._query.size, options.seed, None)
            reader = self._situation.reader(cached=True)
            self._way = replace(self._way, sampler=sampler, reader=reader, share=1.0)

    def _contest(self, rows: NDArray[np.int64]) -> Contest:
        contest, facts = self._way.contest(super()._contest(rows)), self._atoms.facts
        rows, shift, atoms = contest.candidates, self._rounds.shift, contest.atoms
        offsets = np.zeros(rows.size) if atoms.offsets is None else atoms.offsets
        unrelated, problem = np.zeros(rows.size), contest.problem
        if facts is not None and self._rounds.level != 0.0:
            # The query's mean is taken out of it: what it adds to a score is known.
            offsets = offsets + shift * self._query.size * facts.means[rows]
            unrelated = self._rounds.level * facts.scatter[rows]
            rest = self._query - shift
            problem = Problem(rest, (rest != 0.0).astype(np.int64), problem.objective)
        known = PerAtom(atoms.row_scale, atoms.centers, atoms.needed_scatter, offsets, unrelated)
        return replace(contest, atoms=known, problem=problem)

    def _intervals(self, rows: NDArray[np.integer[Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Where the rows' scores lie for certain: the middles (their sizes, if the sign is free) and the upper ends."""
        bounds, scores = known_of(self._atoms).bounds, self._product_map()
        assert bounds is not None
        assert scores is not None
        alive = Survivors(rows, rows.size, self._k, self._options.absolute)
        if not bounds.bound(alive, QueryMoments(self._query), scores):
            return np.zeros(rows.size), np.full(rows.size, np.inf)
        centre = alive.ranking()
        return centre, centre + alive.radius_array

    def screen(self) -> Standing:
        """Leave out what k others of this shard beat for certain."""
        rows = self._candidates
        centre, upper = self._intervals(rows)
        lower = 2.0 * centre - upper
        kept = upper >= (np.partition(lower, -self._k)[-self._k] if rows.size > self._k else -np.inf)
        return Standing(
            rows=rows[kept],
            scores=centre[kept],
            radius=(upper - centre)[kept],
            seen=np.zeros(int(kept.sum()), dtype=np.int64),
            n_rounds=0,
            exact=False,
            within_epsilon=False,
            n_multiplies=0,
        )

    def start(self) -> list[Pause]:
        """Where the race stands before round one."""
        rows = self._candidates.astype(np.int32)
        return [Pause(rows, np.zeros_like(rows), 0)]

    def play(self, pauses: Sequence[Pause], order: Play, guests: Guests | None) -> list[Standing]:
        """Let the survivors play some rounds, block by block: a block is as good a place for a race as a shard."""
        if order.bar > -np.inf:
            pauses = [pause.part(self._intervals(pause.rows)[1] >= order.bar) for pause in pauses]
        blocks = list(_regrouped(pauses, self._sizes[order.last_round - 1]))
        # Even if nobody is left, there has to be something to report.
        return [self._play_block(block, order, guests) for block in blocks] or [_nobody()]

    def _play_block(self, pause: Pause, order: Play, guests: Guests | None) -> Standing:
        reader, n_own = self._way.reader, self._shard.n_atoms
        contest = self._contest(pause.rows.astype(np.int64))
        local = order.leaders - self._shard.first_row
        announced = local[(local >= 0) & (local < n_own)]
        n_guests = 0
        if guests is not None:
            guests = guests.part(np.isin(guests.rows, order.leaders[(local < 0) | (local >= n_own)]))
            n_guests = guests.rows.size
            rows_of_guests = n_own + np.arange(n_guests)
            announced = np.append(announced, rows_of_guests)
            reader = _GuestReader(reader, n_own, guests.values, contest.problem.unit_costs)
            contest = replace(
                contest,
                candidates=np.append(contest.candidates, rows_of_guests),
                atoms=contest.atoms.joined(_known_of_guests(guests)),
            )
        return self._play_rounds(contest, reader, order.last_round, pause.n_rounds, n_guests, announced)

    def duel(self, order: Duel, guests: Guests) -> Standing:
        """Let all survivors of all shards play some rounds."""
        contest = replace(
            self._contest(np.empty(0, dtype=np.int64)),
            candidates=np.arange(guests.rows.size),
            atoms=_known_of_guests(guests),
        )
        announced = np.flatnonzero(np.isin(guests.rows, order.leaders))
        reader = _GuestReader(self._way.reader, 0, guests.values, contest.problem.unit_costs)
        standing = self._play_rounds(contest, reader, order.last_round, order.n_played, 0, announced)
        return replace(standing, rows=guests.rows[standing.rows] - self._shard.first_row)

    def _play_rounds(
        self,
        contest: Contest,
        reader: Reader,
        last_round: int,
        n_played: int,
        n_guests: int,
        announced: NDArray[np.int64],
    ) -> Standing:
        sampler = self._way.sampler
        rule: Rule = make_rule(
            self._options,
            sampler,
            self._query[self._support],
            self._batch.known_range,
            self._options.delta,
            self._n_candidates,
            self._k,
        )
        sizes = self._sizes[:last_round]
        # Scores that overflow are caught where they become exact.
        with np.errstate(over="ignore", invalid="ignore"):
            return play_rounds(contest, reader, sampler, rule, sizes, n_played, n_guests, announced)

    def finish(self, pauses: Sequence[Pause], order: Exact) -> Standing:
        """Compute exact scores."""
        if order.rows is None:
            rows = np.sort(np.concatenate([pause.rows for pause in pauses])).astype(np.int64)
            n_seen = sum(int(pause.seen.sum()) for pause in pauses)
        else:
            rows, n_seen = order.rows - self._shard.first_row, order.n_seen
        return Standing(
            rows=rows,
            scores=self._exact.scores(rows),
            radius=np.zeros(rows.size),
            seen=np.zeros(rows.size, dtype=np.int64),
            n_rounds=max(pause.n_rounds for pause in pauses),
            exact=True,
            within_epsilon=False,
            n_multiplies=self._exact.cost(rows) - n_seen,
        )

    def report(self, standing: Standing, order: Order) -> Report:
        """Say what the others need to know: the best atoms here, and those that lead; after a duel, all."""
        scores = np.abs(standing.scores) if self._options.absolute else standing.scores
        # Atoms that the sample cannot speak for have an infinite radius, and should not be made leaders.
        best = np.lexsort((standing.rows, -scores, np.isinf(standing.radius)))
        if isinstance(order, Screen):  # what counts is how good they are at least
            best = np.lexsort((standing.rows, standing.radius - scores))
        rows = standing.rows[best] + self._shard.first_row
        told = np.arange(rows.size) < max(self._k, N_REPORTED)
        if isinstance(order, Duel):
            told[:] = True
        elif isinstance(order, Play):
            told |= np.isin(rows, order.leaders)
        return Report(
            rows=rows[told],
            scores=standing.scores[best][told],
            radius=standing.radius[best][told],
            seen=standing.seen[best][told],
            exact=np.full(int(told.sum()), standing.exact),
            n_survivors=standing.rows.size,
            n_rounds=standing.n_rounds,
            within_epsilon=standing.within_epsilon,
        )

    def guests(self, rows: NDArray[np.int64], last_round: int) -> Guests:
        """Read what other shards need of these (global) rows in the rounds up to `last_round`."""
        local = rows - self._shard.first_row
        prefix = self._way.sampler.prefix(self._sizes[last_round - 1])
        dtype = self._shard.atom_set.store.dtype.newbyteorder("=")
        values = np.empty((rows.size, prefix.coordinates.size), dtype=dtype)
        self._way.reader.read(local, prefix, 0, values)
        atoms = self._contest(local).atoms
        assert atoms.offsets is not None
        assert atoms.unrelated is not None
        return Guests(
            rows, values, atoms.row_scale, atoms.centers, atoms.needed_scatter, atoms.offsets, atoms.unrelated
        )
