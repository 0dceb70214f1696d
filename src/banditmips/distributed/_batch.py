"""One batch of queries on its way through the exchanges, as tasks of Dask."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options
from banditmips.distributed._exchange import QueryRace
from banditmips.distributed._messages import Batch, Order, Work
from banditmips.distributed._tasks import as_is, serve

__all__ = ["BatchSearch", "Tasks", "leaders_are_cheap"]

_CHEAP_LEADERS = 0.04
"""Part of the multiplies of the first exchange that the exact scores of every shard's own leaders may take, at most."""


class Tasks(Protocol):
    """Whoever runs tasks."""

    def submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Any:
        """Make a task, which runs at home if there is one."""

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        """Wait for the results of tasks."""


def leaders_are_cheap(k: int, shape: tuple[int, int], n_shards: int, n_first: int) -> bool:
    """Whether every shard may compute its own leaders' exact scores, where all read `n_first` cells of each atom."""
    n, d = shape
    return n_shards * k * d <= _CHEAP_LEADERS * n * n_first


class BatchSearch:
    """The races of a batch.

    Parameters
    ----------
    tasks : Tasks
    shards : futures of `Shard`
    homes : the workers that they live on
    first_rows : int64, one more than there are shards
        Global index of each shard's first atom, and at last the number of atoms.
    queries : shape (m, d)
    masks : bool, shape (m, n), or None
    n_first : int
        Cells that shards read at first; 0 where they keep no codes.

    Attributes
    ----------
    races : one for each query
    works : what all tasks took
    n_exchanges : how often shards have reported
    """

    def __init__(
        self,
        tasks: Tasks,
        shards: Sequence[Any],
        homes: Sequence[str | None],
        first_rows: NDArray[np.int64],
        queries: NDArray[Any],
        masks: NDArray[np.bool_] | None,
        k: int,
        options: Options,
        n_first: int,
    ) -> None:
        self._tasks = tasks
        self._shards, self._homes, self._first_rows = shards, homes, first_rows
        counts = [np.diff(first_rows)] * len(queries)
        if masks is not None:
            counts = [np.add.reduceat(~mask, first_rows[:-1], dtype=np.int64) for mask in masks]
        shape = int(first_rows[-1]), queries.shape[1]
        leads = leaders_are_cheap(k, shape, len(shards), n_first)
        n_candidates = np.array([each.sum() for each in counts], dtype=np.int64)
        if masks is None:
            self._excluded: list[Any] = [None] * len(shards)
        else:
            self._excluded = [tasks.submit(as_is, part, home=home) for part, home in self._parts_of(masks)]
        self.races = [QueryRace(k, options, first_rows[:-1], each.tolist(), shape[1], leads) for each in counts]
        # As a task of its own, so that it is sent once, and can be had again if the worker that has it dies.
        self._batch = tasks.submit(as_is, Batch(queries, n_candidates, k, options))
        self._orders: list[list[dict[int, Order]]] = [[] for _ in shards]
        self.works: list[Work] = []
        self.n_exchanges = 0

    def _parts_of(self, masks: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], str | None]]:
        """Each shard's part of the masks."""
        if masks.strides[0] == 0:
            masks = masks[:1]  # one mask for all queries goes over once
        cuts = self._first_rows
        return [
            (np.ascontiguousarray(masks[:, start:stop]), home)
            for start, stop, home in zip(cuts[:-1], cuts[1:], self._homes, strict=True)
        ]

    def run(self, advance: Callable[[int], None]) -> None:
        """Play until all races are over; `advance` is told how many have just ended."""
        open_races = {number for number, race in enumerate(self.races) if race.orders}
        advance(len(self.races) - len(open_races))
        while open_races:
            self._exchange()
            over = {number for number in open_races if not self.races[number].orders}
            advance(len(over))
            open_races -= over

    def _exchange(self) -> None:
        """Send the orders out, wait for the reports, and let every race decide what comes next."""
        asked, futures = [], []
        for number, shard in enumerate(self._shards):
            orders = {q: race.orders[number] for q, race in enumerate(self.races) if number in race.orders}
            if orders:
                self._orders[number].append(orders)
                asked.append(number)
                arguments = (shard, self._batch, self._excluded[number], self._orders[number])
                futures.append(self._tasks.submit(serve, *arguments, home=self._homes[number]))
        answers = self._tasks.gather(futures)
        self.n_exchanges += 1
        heard: list[dict[int, Any]] = [{} for _ in self.races]
        for number, (reports, work) in zip(asked, answers, strict=True):
            self.works.append(work)
            for q, report in reports.items():
                heard[q][number] = report
                self.races[q].n_multiplies += work.n_multiplies[q]
                self.races[q].bytes_read += work.bytes_read[q]
        for race, reports in zip(self.races, heard, strict=True):
            if reports:
                race.take(reports)
