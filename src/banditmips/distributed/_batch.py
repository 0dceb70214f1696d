"""One batch of queries on its way through the exchanges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options
from banditmips.distributed._exchange import QueryRace
from banditmips.distributed._messages import Batch, Order, Work
from banditmips.distributed._serving import Serving

__all__ = ["BatchSearch"]

_CHEAP_LEADERS = 0.04
"""Part of the multiplies of the first exchange that the exact scores of every shard's own leaders may take, at most."""


def leaders_are_cheap(k: int, shape: tuple[int, int], n_shards: int, n_first: int) -> bool:
    """Whether every shard may compute its own leaders' exact scores, where all read `n_first` cells of each atom."""
    n, d = shape
    return n_shards * k * d <= _CHEAP_LEADERS * n * n_first


class BatchSearch:
    """The races of a batch.

    Parameters
    ----------
    make_serving : callable
        Makes a `Serving` of the batch and each shard's part of the masks.
    first_rows : int64, one more than there are shards
        Global index of each shard's first atom, and at last the number of atoms.
    queries : shape (m, d), finite
    masks : bool, shape (m, n), or None
    n_first : int
        Cells that shards read at first; 0 where they keep no codes.

    Attributes
    ----------
    races : one for each query
    works : what serving took, each time
    n_exchanges : how often shards have reported
    """

    def __init__(
        self,
        make_serving: Callable[[Batch, Sequence[NDArray[np.bool_]] | None], Serving],
        first_rows: NDArray[np.int64],
        queries: NDArray[Any],
        masks: NDArray[np.bool_] | None,
        k: int,
        options: Options,
        n_first: int,
    ) -> None:
        counts = [np.diff(first_rows)] * len(queries)
        if masks is not None:
            counts = [np.add.reduceat(~mask, first_rows[:-1], dtype=np.int64) for mask in masks]
        n_shards, shape = first_rows.size - 1, (int(first_rows[-1]), queries.shape[1])
        leads = leaders_are_cheap(k, shape, n_shards, n_first)
        n_candidates = np.array([each.sum() for each in counts], dtype=np.int64)
        self.races = [QueryRace(k, options, first_rows[:-1], each.tolist(), shape[1], leads) for each in counts]
        parts = None if masks is None else _parts_of(masks, first_rows)
        self._serving = make_serving(Batch(queries, n_candidates, k, options), parts)
        self._orders: list[list[dict[int, Order]]] = [[] for _ in range(n_shards)]
        self.works: list[Work] = []
        self.n_exchanges = 0

    def run(self) -> None:
        """Play until all races are over."""
        while any(race.orders for race in self.races):
            self._exchange()

    def _exchange(self) -> None:
        """Send the orders out, wait for the reports, and let every race decide what comes next."""
        asked = {}
        for number, before in enumerate(self._orders):
            orders = {q: race.orders[number] for q, race in enumerate(self.races) if number in race.orders}
            if orders:
                before.append(orders)
                asked[number] = before
        answers = self._serving.serve(asked)
        self.n_exchanges += 1
        heard: list[dict[int, Any]] = [{} for _ in self.races]
        for number, (reports, work) in answers.items():
            self.works.append(work)
            for q, report in reports.items():
                heard[q][number] = report
                self.races[q].n_multiplies += work.n_multiplies[q]
                self.races[q].bytes_read += work.bytes_read[q]
        for race, reports in zip(self.races, heard, strict=True):
            if reports:
                race.take(reports)


def _parts_of(masks: NDArray[np.bool_], first_rows: NDArray[np.int64]) -> list[NDArray[np.bool_]]:
    """Each shard's part of the masks."""
    if masks.strides[0] == 0:
        masks = masks[:1]  # one mask for all queries goes over once
    return [np.ascontiguousarray(masks[:, start:stop]) for start, stop in pairwise(first_rows)]
