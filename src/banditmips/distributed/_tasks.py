"""What runs on the workers: pure functions of a fitted shard, so that they can be repeated anywhere.

Between two exchanges a worker remembers where the races of a batch stand, for as long as it has the batch. Whoever
does not remember (another worker, after this one has died) plays again what was ordered before: it comes to the same.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from banditmips._queries import check_together, finish_by_products
from banditmips._threads import map_in_order
from banditmips.atoms.metering import metered
from banditmips.distributed._cluster import Failed
from banditmips.distributed._messages import Batch, Order, Play, Report, Work
from banditmips.distributed._shard import Shard, naming_global_rows
from banditmips.distributed._shard_query import ShardQuery
from banditmips.race.batch import ASKED_TOGETHER, Account

__all__ = ["Asked", "as_is", "serve", "serve_here"]


@dataclass
class _Standing:
    """Where the races of a batch stand on one shard."""

    queries: dict[int, ShardQuery] = field(default_factory=dict)
    n_exchanges: int = 0


_standings: WeakKeyDictionary[Batch, dict[int, _Standing]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Asked:
    """What a worker is called for: orders, and the keys under which it keeps a shard, the batch and the masks."""

    shard: Any
    batch: Any
    excluded: Any
    orders: Sequence[Mapping[int, Order]]


async def serve_here(asked: Sequence[Asked], dask_worker: Any) -> list[tuple[dict[int, Report], Work]] | Failed | None:
    """Serve all shards that the worker is called for, in as many threads as it has; None if one of them is not here."""
    kept = dask_worker.data
    if not all(key in kept for one in asked for key in (one.shard, one.batch, one.excluded) if key is not None):
        return None
    given = [
        (kept[one.shard], kept[one.batch], None if one.excluded is None else kept[one.excluded], one.orders)
        for one in asked
    ]

    def serve_all() -> list[tuple[dict[int, Report], Work]]:
        return list(map_in_order(lambda one: serve(*one, dask_worker.address), given, dask_worker.state.nthreads))

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
    The reports on each query that there were orders for, and the account of the work.
    """
    begin = time.perf_counter()
    standings = _standings.setdefault(batch, {})
    standing = standings.get(shard.first_row)
    if standing is None or standing.n_exchanges != len(orders) - 1:
        standing = _Standing()
        for earlier in orders[:-1]:
            _follow(standing, shard, batch, excluded, earlier)
    reports, n_multiplies, bytes_read = _follow(standing, shard, batch, excluded, orders[-1])
    standings[shard.first_row] = standing
    moved = len(pickle.dumps((reports, orders[-1])))
    return reports, Work(here or _here(), time.perf_counter() - begin, n_multiplies, bytes_read, moved)


def _follow(
    standing: _Standing,
    shard: Shard,
    batch: Batch,
    excluded: NDArray[np.bool_] | None,
    orders: Mapping[int, Order],
) -> tuple[dict[int, Report], dict[int, int], dict[int, int]]:
    """Follow the orders of one exchange: the reports, and for each query the multiplies and the bytes read."""
    with naming_global_rows(shard.first_row):
        atoms = shard.known(batch.options)
        check_together(atoms, batch.options)
        n_multiplies, bytes_read = {}, {}
        account: Account | None = None
        for place, (number, order) in enumerate(orders.items()):
            if place % ASKED_TOGETHER == 0:
                races = account is None or account.allows_more
            with metered() as meter:
                query = standing.queries.get(number)
                if query is None:
                    some = None if excluded is None else excluded[number % len(excluded)]
                    query = standing.queries[number] = ShardQuery(shard, batch, number, some)
                n_multiplies[number] = -query.n_multiplies
                query.follow(order, races)
            if isinstance(order, Play) and order.finish and races and query.full_time > 0.0:
                account = account or Account(query.full_time, len(orders))
                account.add(query.time_spent, query.waits)
            bytes_read[number] = meter.bytes_read
        with metered() as meter:
            finish_by_products(atoms, [standing.queries[number] for number in orders], batch.k)
        if orders:
            bytes_read[next(iter(orders))] += meter.bytes_read
    for number in orders:
        n_multiplies[number] += standing.queries[number].n_multiplies
    standing.n_exchanges += 1
    return {number: standing.queries[number].report() for number in orders}, n_multiplies, bytes_read


def as_is(value: Any) -> Any:
    """Make a value the result of a task: one that Dask sends once, and has again when a worker dies."""
    return value


def _here() -> str:
    """The address of the worker that this runs on."""
    from distributed import get_worker

    return str(get_worker().address)
