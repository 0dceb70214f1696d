"""What runs on the workers: pure functions of a fitted shard, so that Dask can repeat them anywhere."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._courses import coordinate_course
from banditmips._index import BanditMIPS
from banditmips._query import AtomSet, Query
from banditmips._validate import Options
from banditmips.atoms import DenseStore
from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.facts import collect_facts
from banditmips.atoms.metering import metered
from banditmips.atoms.parts import PartStore
from banditmips.atoms.sparse import SparseReader, SparseStore
from banditmips.distributed._messages import Batch, Duel, Exact, Guests, Order, Play, Report, Work
from banditmips.distributed._plan import plan_rounds
from banditmips.distributed._sources import open_part
from banditmips.race.elimination import Contest, Reader
from banditmips.race.parts import Standing, play_rounds
from banditmips.race.sampling import SamplePrefix, UniformSampler
from banditmips.race.setup import make_bound

__all__ = [
    "Served",
    "Shard",
    "Summary",
    "Values",
    "as_is",
    "fit_shard",
    "guest_values",
    "join_guests",
    "reports_of",
    "serve",
    "summarise",
    "work_of",
]

N_REPORTED = 16
"""Survivors that a shard reports at least, if it has them: where all are known, they can be brought together."""


@dataclass(frozen=True)
class Shard:
    """A fitted part of the atoms, and the global index of its first one."""

    atom_set: AtomSet
    first_row: int
    extra_bytes: int

    @property
    def n_atoms(self) -> int:
        """How many atoms it holds."""
        return self.atom_set.store.shape[0]

    def __sizeof__(self) -> int:
        """Let Dask know what it would move."""
        atoms = self.atom_set
        array = atoms.store.array if isinstance(atoms.store, DenseStore) else atoms.store
        held = (array, atoms.facts, atoms.cache)
        return sum(int(getattr(part, "nbytes", 0)) for part in held)


@dataclass(frozen=True)
class Summary:
    """What has to be known of a shard before it can be searched.

    Attributes
    ----------
    known_range : (low, high), or None
        Smallest and largest entry, if `fit` looked.
    n_cached : int
        Coordinates of each atom that are cached.
    on_file : bool
        Whether one coordinate costs as much as its whole page or chunk.
    extra_bytes : int
        Memory taken beside the atoms.
    """

    known_range: tuple[float, float] | None
    n_cached: int
    on_file: bool
    extra_bytes: int


def fit_shard(source: Any, rows: tuple[int, int] | None, first_row: int, settings: Mapping[str, Any]) -> Shard:
    """Read a part of the atoms once, as `BanditMIPS.fit` does."""
    store = open_part(source, rows)
    if settings["layout"] == "auto" and not isinstance(store, SparseStore):
        settings = {**settings, "layout": "cache"}  # a copy by coordinate would not be used
    with _naming_global_rows(first_row):
        index = BanditMIPS(**settings).fit(store)
    return Shard(index._fitted, first_row, index.extra_bytes)


def summarise(shard: Shard) -> Summary:
    """Say what has to be known of a shard."""
    atoms = shard.atom_set
    return Summary(
        known_range=atoms.known_range,
        n_cached=0 if atoms.cache is None else atoms.cache.n_coordinates,
        on_file=isinstance(atoms.store, PartStore) and atoms.store.line_width > 1,
        extra_bytes=shard.extra_bytes,
    )


@contextmanager
def _naming_global_rows(first_row: int) -> Iterator[None]:
    """Let errors about an atom name its row among all atoms."""
    try:
        yield
    except BadAtomError as error:
        raise error.counted_from(first_row) from None


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
class _Pause:
    """What a shard remembers of a query between two exchanges: its survivors, what they took, how far they are."""

    rows: NDArray[np.int32]
    seen: NDArray[np.int32]
    n_rounds: int

    @classmethod
    def of(cls, standing: Standing) -> _Pause:
        """What is needed to go on from a standing."""
        return cls(standing.rows.astype(np.int32), standing.seen.astype(np.int32), standing.n_rounds)


def _nothing_to_play(pause: _Pause) -> Standing:
    """Ask for exact scores instead of rounds."""
    rows, seen = pause.rows.astype(np.int64), pause.seen.astype(np.int64)
    unknown = np.full(rows.size, np.inf)
    return Standing(rows, np.zeros(rows.size), unknown, seen, pause.n_rounds, False, False, True, 0)


class _ShardQuery(Query):
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
        rounds = plan_rounds(query, options, batch.at_hand)
        # Every shard has to sample the same coordinates, whatever it could afford to cache.
        options = replace(options, sampling=rounds.sampling)
        super().__init__(shard.atom_set, query, k, options, excluded, "")
        self._shard = shard
        self._batch = batch
        self._n_candidates = int(batch.n_candidates[number])
        self._sizes = rounds.sizes
        self._course = coordinate_course(self._situation)
        if rounds.whole:
            sampler = UniformSampler(self._query.size, options.seed, None)
            reader = self._situation.reader(cached=True)
            self._course = replace(self._course, sampler=sampler, reader=reader, share=1.0)

    def start(self) -> _Pause:
        """Where the race stands before round one."""
        rows = self._candidates.astype(np.int32)
        return _Pause(rows, np.zeros_like(rows), 0)

    def play(self, pause: _Pause, order: Play, guests: Guests | None) -> Standing:
        """Let the survivors play some rounds."""
        if isinstance(self._shard.atom_set.store, SparseStore) and self._situation.why_exactly(self._k) is not None:
            return _nothing_to_play(pause)
        reader, n_own = self._course.reader, self._shard.n_atoms
        contest = self._contest_of(pause.rows.astype(np.int64))
        local = order.leaders - self._shard.first_row
        announced = local[(local >= 0) & (local < n_own)]
        n_guests = 0
        if guests is not None:
            guests = guests.part(np.isin(guests.rows, order.leaders[(local < 0) | (local >= n_own)]))
            n_guests = guests.rows.size
            rows_of_guests = n_own + np.arange(n_guests)
            announced = np.append(announced, rows_of_guests)
            reader = _GuestReader(reader, n_own, guests.values, contest.unit_costs)
            contest = replace(
                contest,
                candidates=np.append(contest.candidates, rows_of_guests),
                row_scale=np.append(contest.row_scale, guests.row_scale),
                centers=np.append(contest.centers, guests.centers),
                needed_scatter=np.append(contest.needed_scatter, guests.needed_scatter),
            )
        return self._play_rounds(contest, reader, order.last_round, pause.n_rounds, n_guests, announced)

    def duel(self, order: Duel, guests: Guests) -> Standing:
        """Let all survivors of all shards play some rounds."""
        contest = replace(
            self._contest_of(np.empty(0, dtype=np.int64)),
            candidates=np.arange(guests.rows.size),
            row_scale=guests.row_scale,
            centers=guests.centers,
            needed_scatter=guests.needed_scatter,
        )
        announced = np.flatnonzero(np.isin(guests.rows, order.leaders))
        reader = _GuestReader(self._course.reader, 0, guests.values, contest.unit_costs)
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
        sampler = self._course.sampler
        bound = make_bound(
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
            return play_rounds(
                contest, reader, sampler, bound, self._course.schedule, sizes, n_played, n_guests, announced
            )

    def _contest_of(self, rows: NDArray[np.int64]) -> Contest:
        contest = self._course.contest(self._contest())
        return contest.part(np.searchsorted(contest.candidates, rows), contest.delta)

    def finish(self, pause: _Pause, order: Exact) -> Standing:
        """Compute exact scores."""
        if order.rows is None:
            rows, n_seen = pause.rows.astype(np.int64), int(pause.seen.sum())
        else:
            rows, n_seen = order.rows - self._shard.first_row, order.n_seen
        return Standing(
            rows=rows,
            scores=self._exact_reader.exact(rows),
            radius=np.zeros(rows.size),
            seen=np.zeros(rows.size, dtype=np.int64),
            n_rounds=pause.n_rounds,
            exact=True,
            within_epsilon=False,
            full=False,
            n_multiplies=self._exact_reader.exact_cost(rows) - n_seen,
        )

    def report(self, standing: Standing, order: Order) -> Report:
        """Say what the others need to know: the best atoms here, and those that lead; after a duel, all."""
        scores = np.abs(standing.scores) if self._options.absolute else standing.scores
        # Atoms that the sample cannot speak for have an infinite radius, and should not be made leaders.
        best = np.lexsort((standing.rows, -scores, np.isinf(standing.radius)))
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
            full=standing.full,
        )

    def guests(self, rows: NDArray[np.int64], last_round: int) -> Guests:
        """Read what other shards need of these (global) rows in the rounds up to `last_round`."""
        local = rows - self._shard.first_row
        prefix = self._course.sampler.prefix(self._sizes[last_round - 1])
        dtype = self._shard.atom_set.store.dtype.newbyteorder("=")
        values = np.empty((rows.size, prefix.coordinates.size), dtype=dtype)
        self._course.reader.read(local, prefix, 0, values)
        contest = self._contest_of(local)
        return Guests(rows, values, contest.row_scale, contest.centers, contest.needed_scatter)


@dataclass(frozen=True)
class Served:
    """What `serve` returns: the pauses stay on the worker, the reports and the account of the work are small."""

    pauses: Mapping[int, _Pause]
    reports: Mapping[int, Report]
    work: Work

    def __sizeof__(self) -> int:
        """Let Dask know what it would move."""
        return sum(pause.rows.nbytes + pause.seen.nbytes for pause in self.pauses.values())


def serve(
    shard: Shard,
    batch: Batch,
    k: int,
    options: Options,
    orders: Mapping[int, Order],
    before: Served | None,
    guests: Mapping[int, Guests] | None,
    excluded: NDArray[np.bool_] | None,
) -> Served:
    """Carry out one exchange's orders on one shard.

    Parameters
    ----------
    orders
        For each query that the shard is asked about, by its number in the batch.
    before
        What the exchange before left here; None in the first one.
    guests
        The leaders, or in a duel all survivors, of the queries that are to be played; None in the first exchange.
    excluded : bool, shape (m, n of the shard) or (1, n of the shard), or None
        Atoms that take no part; for the first exchange only.
    """
    begin = time.perf_counter()
    shard = _with_norms(shard, options)
    pauses = {} if before is None else dict(before.pauses)
    guests = {} if guests is None else guests
    if excluded is not None:
        excluded = np.broadcast_to(excluded, (len(batch.queries), shard.n_atoms))
    reports, n_multiplies, bytes_read = {}, {}, {}
    for number, order in orders.items():
        query = _ShardQuery(shard, batch, number, k, options, None if excluded is None else excluded[number])
        with metered() as meter, _naming_global_rows(shard.first_row):
            pause = pauses.pop(number, None) or query.start()
            if isinstance(order, Duel):
                standing = query.duel(order, guests[number])
            elif isinstance(order, Play):
                standing = query.play(pause, order, guests.get(number))
                pauses[number] = _Pause.of(standing)
            else:
                standing = query.finish(pause, order)
        reports[number] = query.report(standing, order)
        n_multiplies[number], bytes_read[number] = standing.n_multiplies, meter.bytes_read
    moved = sum(part.nbytes for part in guests.values()) + len(pickle.dumps(reports))
    return Served(pauses, reports, Work(_here(), time.perf_counter() - begin, n_multiplies, bytes_read, moved))


@dataclass(frozen=True)
class Values:
    """What `guest_values` returns."""

    guests: Mapping[int, Guests]
    work: Work


def guest_values(
    shard: Shard, batch: Batch, k: int, options: Options, wanted: Mapping[int, tuple[NDArray[np.int64], int]]
) -> Values:
    """Read atoms that live here for other shards: for each query (global rows, last round to read for)."""
    begin = time.perf_counter()
    shard = _with_norms(shard, options)
    found, bytes_read = {}, {}
    for number, (rows, last_round) in wanted.items():
        with metered() as meter, _naming_global_rows(shard.first_row):
            found[number] = _ShardQuery(shard, batch, number, k, options).guests(rows, last_round)
        bytes_read[number] = meter.bytes_read
    return Values(found, Work(_here(), time.perf_counter() - begin, dict.fromkeys(wanted, 0), bytes_read))


def join_guests(parts: list[Values]) -> dict[int, Guests]:
    """Put together the guests of each query, from all the shards that they live on."""
    numbers = sorted({number for part in parts for number in part.guests})
    return {
        number: Guests.joined([part.guests[number] for part in parts if number in part.guests]) for number in numbers
    }


def reports_of(served: Served) -> Mapping[int, Report]:
    """The part of what `serve` returns that has to travel."""
    return served.reports


def work_of(done: Served | Values) -> Work:
    """The account of a task's work."""
    return done.work


def as_is(value: Any) -> Any:
    """Make a value the result of a task: one that Dask sends once, and has again when a worker dies."""
    return value


def _with_norms(shard: Shard, options: Options) -> Shard:
    """The shard with the facts that a cosine needs, if nobody has collected them."""
    if options.objective != "cosine" or shard.atom_set.facts is not None:
        return shard
    return replace(shard, atom_set=replace(shard.atom_set, facts=collect_facts(shard.atom_set.store)))


def _here() -> str:
    """The address of the worker that this runs on."""
    from distributed import get_worker

    return str(get_worker().address)
