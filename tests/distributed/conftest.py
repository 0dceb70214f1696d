"""The search over shards without a cluster: every task is run at once, where it is submitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import banditmips as bm
from banditmips._validate import Options, as_mask, as_queries
from banditmips.distributed import _shard, _tasks
from banditmips.distributed._batch import BatchSearch
from banditmips.distributed._serving import ByTasks
from distributed import Client, LocalCluster


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """Two workers in this process: quick to start, and all that most tests need."""
    folder = tmp_path_factory.mktemp("threads")
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", local_directory=str(folder)
        ) as cluster,
        Client(cluster) as connected,
    ):
        yield connected


class AtOnce:
    """Runs tasks as they are submitted."""

    def submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Any:
        return function(*arguments)

    def gather(self, futures: Sequence[Any]) -> list[Any]:
        return list(futures)


class Shards:
    """Fitted shards, cut from one matrix."""

    def __init__(self, atoms: Any, cuts: Sequence[int], **settings: Any) -> None:
        edges = np.unique([0, *cuts, atoms.shape[0]])
        self.first_rows = edges
        self.settings = {"layout": "auto", "max_extra_memory": None, "validate": True, "seed": 0, **settings}
        self.shards: list[Any] = [
            _shard.fit_shard(atoms[start:stop], None, int(start), self.settings) for start, stop in pairwise(edges)
        ]
        self.d = atoms.shape[1]
        self.n_first = min(_shard.summarise(shard).n_first for shard in self.shards)
        self.last: BatchSearch | None = None

    def search(self, queries: Any, k: int = 1, *, mask: Any = None, **options: Any) -> bm.SearchResult:
        rows, single = as_queries(queries, self.d)
        self.last = BatchSearch(
            partial(ByTasks, AtOnce(), self.shards, [None] * len(self.shards)),
            self.first_rows,
            rows,
            as_mask(mask, int(self.first_rows[-1]), len(rows), single),
            k,
            Options(seed=self.settings["seed"], **options),
            self.n_first,
        )
        self.last.run()
        results = [race.result(True) for race in self.last.races]
        return results[0] if single else bm.SearchResult.stack(results)


@pytest.fixture
def make_shards(monkeypatch: pytest.MonkeyPatch) -> type[Shards]:
    """``make_shards(atoms, cuts).search(queries, k, ...)``."""
    monkeypatch.setattr(_tasks, "_here", lambda: "here")
    return Shards
