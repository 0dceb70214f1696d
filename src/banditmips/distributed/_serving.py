"""How the orders of a batch reach the shards, and their reports come back: by calls, or by tasks.

Calls take milliseconds less for each exchange, and the queries go to every worker without being written down by the
scheduler first, or lie in memory that workers on the same machine share; so they come first. They are lost with a
worker: then the batch begins anew as tasks, which Dask runs wherever it can, on shards that it has made again.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips.distributed._cluster import Cluster, WorkerLostError
from banditmips.distributed._messages import Batch, Order, Report, Work
from banditmips.distributed._sharing import SharedArray, SharedBatch
from banditmips.distributed._tasks import Asked, as_is, serve, serve_here

__all__ = ["ByCalls", "ByTasks", "Serving", "Tasks"]

Served = dict[int, tuple[dict[int, Report], Work]]


class Serving(Protocol):
    """Whoever brings orders to the shards."""

    def serve(self, orders: Mapping[int, Sequence[Mapping[int, Order]]]) -> Served:
        """Follow the last orders for each of these shards, given all of the batch so far: what they report."""


class Tasks(Protocol):
    """Whoever runs tasks."""

    def submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Any:
        """Make a task, which runs at home if there is one."""

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Wait for the results of tasks."""


class ByTasks:
    """Serve a batch by tasks.

    Parameters
    ----------
    tasks : Tasks
    shards : futures of `Shard`
    homes : the workers that they live on
    batch : Batch
    excluded : each shard's part of the masks, or None
    """

    def __init__(
        self,
        tasks: Tasks,
        shards: Sequence[Any],
        homes: Sequence[str | None],
        batch: Batch,
        excluded: Sequence[NDArray[np.bool_]] | None,
    ) -> None:
        self._tasks, self._shards, self._homes = tasks, shards, homes
        # As tasks of their own, so that they are sent once, and can be had again if the worker that has them dies.
        self._excluded: list[Any] = [None] * len(shards)
        if excluded is not None:
            self._excluded = [tasks.submit(as_is, part, home=home) for part, home in zip(excluded, homes, strict=True)]
        self._batch = tasks.submit(as_is, batch)

    def serve(self, orders: Mapping[int, Sequence[Mapping[int, Order]]]) -> Served:
        """Make a task for each shard, and wait for them."""
        futures = [
            self._tasks.submit(
                serve, self._shards[number], self._batch, self._excluded[number], given, home=self._homes[number]
            )
            for number, given in orders.items()
        ]
        return dict(zip(orders, self._tasks.gather(futures), strict=True))


class ByCalls:
    """Serve a batch by calls to the workers that hold the shards; parameters as for `ByTasks`."""

    def __init__(
        self,
        cluster: Cluster,
        shards: Sequence[Any],
        homes: Sequence[str | None],
        batch: Batch,
        excluded: Sequence[NDArray[np.bool_]] | None,
    ) -> None:
        self._cluster, self._shards = cluster, shards
        self._homes = [home for home in homes if home is not None]
        if len(self._homes) < len(shards):
            raise WorkerLostError("there is no worker")
        homes = sorted(set(self._homes))
        near = cluster.near(homes)
        self._batches = self._shared(batch, near) | self._sent(batch, [home for home in homes if home not in near])
        self._excluded: list[Any] = [None] * len(shards)
        if excluded is not None:
            self._excluded = cluster.send(excluded, self._homes)

    def _shared(self, batch: Batch, homes: list[str]) -> dict[str, Any]:
        """Let workers on this machine read the queries where they lie."""
        if not homes:
            return {}
        self._queries = SharedArray(batch.queries)  # which stay there until the batch is over
        shared = SharedBatch.of(batch, self._queries)
        return dict(zip(homes, self._cluster.send([shared] * len(homes), homes), strict=True))

    def _sent(self, batch: Batch, homes: list[str]) -> dict[str, Any]:
        """Send the queries to one worker; the workers hand them on to each other."""
        if not homes:
            return {}
        sent = self._cluster.send([batch], homes[:1])[0]
        # Each has one of its own: Dask takes copies of the same thing away again.
        batches = {home: self._cluster.submit(as_is, sent, home=home) for home in homes}
        self._cluster.settle(list(batches.values()))
        return batches

    def serve(self, orders: Mapping[int, Sequence[Mapping[int, Order]]]) -> Served:
        """Call every worker once, for all its shards."""
        numbers: dict[str, list[int]] = {}
        for number in orders:
            numbers.setdefault(self._homes[number], []).append(number)
        asked = {home: [self._asked(number, orders[number]) for number in its] for home, its in numbers.items()}
        answers = self._cluster.call(serve_here, asked)
        return {
            number: answer
            for home, its in numbers.items()
            for number, answer in zip(its, pickle.loads(answers[home]), strict=True)
        }

    def _asked(self, number: int, orders: Sequence[Mapping[int, Order]]) -> Asked:
        excluded = self._excluded[number]
        batch = self._batches[self._homes[number]]
        return Asked(self._shards[number].key, batch.key, None if excluded is None else excluded.key, orders)
