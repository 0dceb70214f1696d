"""What runs on the workers: pure functions of a fitted shard, so that Dask can repeat them anywhere."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options
from banditmips.atoms.facts import collect_facts
from banditmips.atoms.metering import metered
from banditmips.distributed._messages import Batch, Duel, Guests, Order, Play, Report, Screen, Work
from banditmips.distributed._shard import Shard, naming_global_rows
from banditmips.distributed._shard_query import Pause, ShardQuery
from banditmips.race.parts import Standing

__all__ = ["Served", "Values", "as_is", "guest_values", "join_guests", "reply_of", "serve", "work_of"]


@dataclass(frozen=True)
class Served:
    """What `serve` returns: the pauses stay on the worker, the reports and the account of the work are small."""

    pauses: Mapping[int, Sequence[Pause]]
    reports: Mapping[int, Report]
    work: Work

    def __sizeof__(self) -> int:
        """Let Dask know what it would move."""
        return sum(pause.rows.nbytes + pause.seen.nbytes for pauses in self.pauses.values() for pause in pauses)


def serve(
    shard: Shard,
    batch: Batch,
    k: int,
    options: Options,
    orders: Mapping[int, Order],
    before: Served | None,
    guests: Sequence[Mapping[int, Guests]],
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
        Atoms that live elsewhere: the leaders, or in a duel all survivors, of the queries that are to be played.
    excluded : bool, shape (m, n of the shard) or (1, n of the shard), or None
        Atoms that take no part; for the first exchange only.
    """
    begin = time.perf_counter()
    shard = _with_norms(shard, options)
    pauses = {} if before is None else dict(before.pauses)
    invited = {number: atoms for part in guests for number, atoms in part.items()}
    if excluded is not None:
        excluded = np.broadcast_to(excluded, (len(batch.queries), shard.n_atoms))
    reports, n_multiplies, bytes_read = {}, {}, {}
    for number, order in orders.items():
        query = ShardQuery(shard, batch, number, k, options, None if excluded is None else excluded[number])
        with metered() as meter, naming_global_rows(shard.first_row):
            before_it = pauses.pop(number, None) or query.start()
            if isinstance(order, Screen):
                standing = query.screen()
                pauses[number] = [Pause.of(standing)]
            elif isinstance(order, Duel):
                standing = query.duel(order, invited[number])
            elif isinstance(order, Play):
                standings = query.play(before_it, order, invited.get(number))
                pauses[number] = [Pause.of(block) for block in standings]
                standing = Standing.joined(standings)
            else:
                standing = query.finish(before_it, order)
        reports[number] = query.report(standing, order)
        n_multiplies[number], bytes_read[number] = standing.n_multiplies, meter.bytes_read
    moved = sum(atoms.nbytes for atoms in invited.values()) + len(pickle.dumps(reports))
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
        with metered() as meter, naming_global_rows(shard.first_row):
            found[number] = ShardQuery(shard, batch, number, k, options).guests(rows, last_round)
        bytes_read[number] = meter.bytes_read
    return Values(found, Work(_here(), time.perf_counter() - begin, dict.fromkeys(wanted, 0), bytes_read))


def join_guests(parts: list[Values]) -> dict[int, Guests]:
    """Put together the guests of each query, from all the shards that they live on."""
    numbers = sorted({number for part in parts for number in part.guests})
    return {
        number: Guests.joined([part.guests[number] for part in parts if number in part.guests]) for number in numbers
    }


def reply_of(served: Served) -> tuple[Mapping[int, Report], Work]:
    """The part of what `serve` returns that has to travel."""
    return served.reports, served.work


def work_of(values: Values) -> Work:
    """The account of what reading the guests took."""
    return values.work


def as_is(value: Any) -> Any:
    """Make a value the result of a task: one that Dask sends once, and has again when a worker dies."""
    return value


def _with_norms(shard: Shard, options: Options) -> Shard:
    """The shard with the facts that a cosine needs, if nobody has collected them."""
    if options.objective not in ("cosine", "correlation") or shard.atom_set.facts is not None:
        return shard
    return replace(shard, atom_set=replace(shard.atom_set, facts=collect_facts(shard.atom_set.store)))


def _here() -> str:
    """The address of the worker that this runs on."""
    from distributed import get_worker

    return str(get_worker().address)
