"""Beyond the paper: what a warm start saves, with the making of the index shared out over the queries.

The paper keeps the atoms' values at some random coordinates for a batch of queries. Every query still multiplies its
own numbers with them, so that multiplies are not saved, but time is: values that lie together need not be gathered.
`Row.seconds` is the time of `fit` and of the first m queries, divided by m. Nothing else runs at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from banditmips.baselines._base import inner_products
from banditmips.experiments.entries import Entry, race
from banditmips.experiments.rows import DRAWN, FITTED, OURS, PAPER, Row, identity_key
from banditmips.experiments.today import WARM_START
from banditmips.experiments.trials import Task, blas_seconds, draw, precision

__all__ = ["DELTA", "SIZES", "WARM", "Sizes", "WarmStart", "contestants", "tasks"]

DELTA = 0.001
WARM = "BanditMIPS, warm start"


@dataclass(frozen=True)
class Sizes:
    """How much to run: d for each dataset, atoms, trials, and after how many queries to look."""

    dimensions: Mapping[str, int]
    n: int = 1000
    n_trials: int = 5
    queries: tuple[int, ...] = (1, 3, 10, 30, 100)


SIZES = {
    "full": Sizes({"NORMAL_CUSTOM": 20_000, "Netflix": 20_000, "MovieLens": 5000, "MovieLens-100K": 943}),
    "quick": Sizes({"NORMAL_CUSTOM": 10_000, "MovieLens": 5000, "MovieLens-100K": 943}, n_trials=2, n=500),
}


def contestants(dataset: str) -> tuple[Entry, ...]:
    """Return BanditMIPS with and without the paper's warm start, with its settings and with ours, and our default."""
    printed = race("BanditMIPS", PAPER, dataset, DELTA, 0.0)
    fitted = race("BanditMIPS", FITTED, dataset, DELTA, 0.0)
    warm = replace(printed, algorithm=WARM, method="banditmips", options={**printed.options, **WARM_START})
    ours = replace(fitted, algorithm=WARM, settings=OURS, options={**fitted.options, **WARM_START})
    return printed, warm, race("BanditMIPS", OURS, dataset, DELTA, 0.0), ours, fitted


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial."""
    return [
        WarmStart(dataset, sizes.n, d, trial, sizes.queries, cost=2.0 + 5e-7 * sizes.n * d)
        for dataset, d in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
    ]


@dataclass(frozen=True)
class WarmStart:
    """Many queries of one draw of a dataset, one after another, with the time since the atoms came."""

    dataset: str
    n: int
    d: int
    trial: int
    queries: tuple[int, ...]
    cost: float = 1.0
    origin: str = DRAWN
    alone: bool = True
    figure: str = "beyond_warm_start"
    algorithm: str = "BanditMIPS"

    def keys(self) -> list[str]:
        """Return the keys of all its rows."""
        return [identity_key(**self._identity(entry, m)) for entry in contestants(self.dataset) for m in self.queries]

    def _identity(self, entry: Entry, m: int) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "dataset": self.dataset,
            "origin": self.origin,
            "algorithm": entry.algorithm,
            "settings": entry.settings,
            "n": self.n,
            "d": self.d,
            "k": 1,
            "delta": entry.delta,
            "epsilon": entry.epsilon,
            "parameters": {"queries": m},
            "trial": self.trial,
        }

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield a row for each method and number of queries."""
        sample = draw(self.dataset, (self.n, self.d), max(self.queries), self.trial, self.origin)
        full_product = blas_seconds(sample)
        for entry in contestants(self.dataset):
            if all(identity_key(**self._identity(entry, m)) in done for m in self.queries):
                continue
            once = entry.make(self.d, self.trial)  # for what has to be loaded
            once.fit(sample.atoms)
            once.search(sample.queries[0], 1)
            searcher = entry.make(self.d, self.trial)
            start = time.perf_counter()
            searcher.fit(sample.atoms)
            fit_seconds = time.perf_counter() - start
            results, elapsed = [], []
            for query in sample.queries:
                results.append(searcher.search(query, 1))
                elapsed.append(time.perf_counter() - start)
            accuracies = [
                precision(result.indices, inner_products(sample.atoms, query.astype(np.float64)), 1)
                for result, query in zip(results, sample.queries, strict=True)
            ]
            for m in self.queries:
                if identity_key(**self._identity(entry, m)) not in done:
                    yield Row(
                        **self._identity(entry, m),
                        seed=self.trial,
                        multiplies=float(np.mean([int(result.n_multiplies) for result in results[:m]])),
                        accuracy=float(np.mean(accuracies[:m])),
                        naive=float(self.n * self.d),
                        seconds=elapsed[m - 1] / m,
                        extra={"blas_seconds": full_product, "fit_seconds": fit_seconds},
                    )
