"""What runs on the workers: pure functions of a fitted shard, so that they can be repeated anywhere.

Between two exchanges a worker remembers where the races of a batch stand, for as long as it has the batch. Whoever
does not remember (another worker, after this one has died) plays again what was ordered before: it comes to the same.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from banditmips._queries import check_together
from banditmips._shared import finish_by_products
from banditmips._threads import map_in_order
from banditmips.atoms.metering import metered
from banditmips.distributed._cluster import Failed
from banditmips.distributed._messages import Batch, Order, Play, Report, Work
from banditmips.distributed._shard import Shard, naming_global_rows
from banditmips.distributed._shard_query import ShardQuery
from banditmips.distributed._sharing import SharedBatch
from banditmips.race.atom_set import AtomSet
from banditmips.race.batch import Account, account_of
from banditmips.race.code_search import race_times
from banditmips.race.direct import are_plain
from banditmips.race.known import index_rows

__all__ = ["Asked", "as_is", "serve", "serve_here"]

ASKED_TOGETHER = 4
"""Queries after which it is asked again whether races pay: a shard begins them one after another."""
_EXCHANGE_TIME = 5e6
"""Nanoseconds of an exchange in which nothing is done, through the scheduler of a small cluster."""


@dataclass
class _Standing:
    """Where the races of a batch stand on one shard.

    Attributes
    ----------
    queries : those that have begun, by their number
    n_exchanges : how often orders have been followed
    account : what races have cost and saved, as soon as one has ended
    n_saved : races that have ended and were not in vain
    has_put_off : whether queries were left for others to show whether races pay
    room : float64, shape (d,)
        Where the query whose turn it is lies in double precision.
    """

    queries: dict[int, ShardQuery] = field(default_factory=dict)
    n_exchanges: int = 0
    account: Account | None = None
    n_saved: int = 0
    has_put_off: bool = False
    room: NDArray[np.float64] | None = None

    @property
    def allows_races(self) -> bool:
        """Whether races may be tried: as in one place, but not if all that others were put off for were in vain."""
        if self.account is None:
            return True
        return self.account.allows_more and not (self.has_put_off and self.n_saved == 0)

    def enter(self, query: ShardQuery, atoms: AtomSet, batch: Batch) -> None:
        """Write down how a race has ended."""
        if query.full_time > 0.0:
            self.account = self.account or _account_of(query, atoms, batch)
            self.account.add(query.time_spent, query.waits)
            self.n_saved += not query.waits


def _account_of(query: ShardQuery, atoms: AtomSet, batch: Batch) -> Account:
    """What races may cost on this shard."""
    m = len(batch.queries)
    if index_rows(atoms) is None or not are_plain(batch.queries):
        return Account(query.full_time, m)
    return account_of(atoms, batch.queries, batch.k, batch.options, race_times(atoms, batch.options, m))


_standings: WeakKeyDictionary[Batch, dict[int, _Standing]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Asked:
    """What a worker is called for: orders, and the keys under which it keeps a shard, the batch and the masks."""

    shard: Any
    batch: Any
    excluded: Any
    orders: Sequence[Mapping[int, Order]]


async def serve_here(asked: Sequence[Asked], dask_worker: Any) -> bytes | Failed | None:
    """Serve all shards that the worker is called for, in as many threads as it has; None if one of them is not here.

    What `serve` says comes back pickled: Dask would make a message of its own of every small array in it, which takes
    longer than the race.
    """
    kept = dask_worker.data
    if not all(key in kept for one in asked for key in (one.shard, one.batch, one.excluded) if key is not None):
        return None
    given = [
        (kept[one.shard], kept[one.batch], None if one.excluded is None else kept[one.excluded], one.orders)
        for one in asked
    ]

    def serve_one(one: tuple[Shard, Batch | SharedBatch, Any, Any]) -> tuple[dict[int, Report], Work] | None:
        shard, sent, excluded, orders = one
        batch = sent.opened if isinstance(sent, SharedBatch) else sent
        return None if batch is None else serve(shard, batch, excluded, orders, dask_worker.address)

    def serve_all() -> bytes | None:
        served = list(map_in_order(serve_one, given, dask_worker.state.nthreads))
        return None if None in served else pickle.dumps(served)

    try:
        # In a thread, so that the worker can answer others meanwhile.
        return await asyncio.to_thread(serve_all)
    except Exception as error:
        return Failed(error)


def serve(
    shard: Shard,
    batch: Batch,
    excluded: NDArray[np.bool_] | None,
    orders: Sequence[Mapping[int, Order]],
    here: str | None = None,
) -> tuple[dict[int, Report], Work]:
    """Follow the last orders of a batch on one shard.

    Parameters
    ----------
    excluded : bool array of shape (1 or m, n of the shard), or None
        Atoms that take no part.
    orders
        What was ordered for each query, exchange by exchange.
    here : str, optional
        The address of the worker; a task finds out for itself.

    Returns
    -------
    The reports on each query that there were orders for, and the account of the work. Queries that are put off until
    others have shown whether races pay are left out: they are to be ordered again.
    """
    begin = time.perf_counter()
    standings = _standings.setdefault(batch, {})
    standing = standings.get(shard.first_row)
    if standing is None or standing.n_exchanges != len(orders) - 1:
        standing = _Standing()
        for earlier in orders[:-1]:
            _follow(standing, shard, batch, excluded, earlier)
    reports, n_multiplies, bytes_read = _follow(standing, shard, batch, excluded, orders[-1], may_put_off=True)
    standings[shard.first_row] = standing
    moved = len(pickle.dumps((reports, orders[-1])))
    return reports, Work(here or _here(), time.perf_counter() - begin, n_multiplies, bytes_read, moved)


def _follow(
    standing: _Standing,
    shard: Shard,
    batch: Batch,
    excluded: NDArray[np.bool_] | None,
    orders: Mapping[int, Order],
    may_put_off: bool = False,
) -> tuple[dict[int, Report], dict[int, int], dict[int, int]]:
    """Follow the orders of one exchange: the reports, and for each query the multiplies and the bytes read."""
    with naming_global_rows(shard.first_row):
        atoms = shard.known(batch.options)
        check_together(atoms, batch.options)
        if standing.room is None:
            standing.room = np.empty(batch.queries.shape[1])
        n_multiplies, bytes_read = {}, {}
        followed: list[int] = []
        for some in _in_turn(standing, orders):
            are_fresh = some[0] not in standing.queries
            if are_fresh and may_put_off and _looks_bad(standing, followed, len(orders) - len(followed)):
                standing.has_put_off = True
                break
            races = standing.allows_races
            for number in some:
                order = orders[number]
                with metered() as meter:
                    query = standing.queries.get(number)
                    if query is None:
                        out = None if excluded is None else excluded[number % len(excluded)]
                        query = standing.queries[number] = ShardQuery(shard, batch, number, out, standing.room)
                    n_multiplies[number] = -query.n_multiplies
                    query.follow(order, races)
                if isinstance(order, Play) and order.finish and races:
                    standing.enter(query, atoms, batch)
                bytes_read[number] = meter.bytes_read
                followed.append(number)
        with metered() as meter:
            queries = [standing.queries[number] for number in followed]
            finish_by_products(atoms, queries, batch.k, batch.options)
        if followed:
            bytes_read[followed[0]] += meter.bytes_read
    for number in followed:
        n_multiplies[number] += standing.queries[number].n_multiplies
    standing.n_exchanges += 1
    return {number: standing.queries[number].report() for number in followed}, n_multiplies, bytes_read


def _in_turn(standing: _Standing, orders: Mapping[int, Order]) -> Iterator[list[int]]:
    """Queries by the few between which it is asked whether races pay: first those that have begun."""
    begun = [number for number in orders if number in standing.queries]
    fresh = [number for number in orders if number not in standing.queries]
    for numbers in (begun, fresh):
        for start in range(0, len(numbers), ASKED_TOGETHER):
            yield numbers[start : start + ASKED_TOGETHER]


def _looks_bad(standing: _Standing, followed: Sequence[int], n_left: int) -> bool:
    """Whether those that are left had better be put off, because these look bad and none has ended yet.

    What looks bad here may look well to whoever has the best atoms. So nothing is decided, but an exchange or two are
    spent on finding out, if the first cells for those that are left would take longer than that.
    """
    begun = [standing.queries[number] for number in followed]
    if standing.account is not None or not begun:
        return False
    n_bad = sum(query.looks_bad for query in begun)
    spent = sum(query.time_spent for query in begun) / len(begun)
    return 2 * n_bad >= len(begun) and spent * n_left > _EXCHANGE_TIME


def as_is(value: Any) -> Any:
    """Make a value the result of a task: one that Dask sends once, and has again when a worker dies."""
    return value


def _here() -> str:
    """The address of the worker that this runs on."""
    from distributed import get_worker

    return str(get_worker().address)
