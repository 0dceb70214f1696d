"""Beyond the paper: how often a search is wrong, against the failure probability that it was allowed.

A row stands for many searches: some on each of some draws of a dataset, each search with a seed of its own. If every
search fails with probability at most delta, whatever the data, then the failures of a row are at most as many as
those of a binomial variable with its number of trials and delta.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from banditmips.baselines._base import inner_products
from banditmips.experiments.beyond import variants
from banditmips.experiments.entries import Entry
from banditmips.experiments.rows import Row, identity_key
from banditmips.experiments.trials import Task, draw, precision

__all__ = ["BOUNDS", "DELTAS", "SIZES", "Failures", "Sizes", "contestants", "tasks"]

DELTAS = (0.3, 0.1, 0.03, 0.01)
BOUNDS = (("hoeffding", "uniform"), ("bernstein", "uniform"), ("paired", "auto"))
_DATASETS = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens", "SymmetricNormal")


@dataclass(frozen=True)
class Sizes:
    """How much to run: n and d, rows for each setting, draws of the data in each, and searches of each draw."""

    n: int = 20
    d: int = 1000
    n_batches: int = 10
    n_draws: int = 40
    n_searches: int = 5
    datasets: tuple[str, ...] = _DATASETS


SIZES = {"full": Sizes(), "quick": Sizes(n_batches=2)}


def contestants(dataset: str) -> list[Entry]:
    """Return BanditMIPS with each bound at each delta."""
    chosen = [
        entry for entry in variants(dataset) if (entry.parameters["bound"], entry.parameters["sampling"]) in BOUNDS
    ]
    return [replace(entry, delta=delta) for entry in chosen for delta in DELTAS]


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and batch."""
    per_task = len(DELTAS) * len(BOUNDS) * sizes.n_draws * sizes.n_searches
    return [
        Failures(dataset, sizes.n, sizes.d, batch, sizes.n_draws, sizes.n_searches, cost=2.5e-3 * per_task)
        for dataset in sizes.datasets
        for batch in range(sizes.n_batches)
    ]


@dataclass(frozen=True)
class Failures:
    """Many small searches on one dataset, counted by bound and delta."""

    dataset: str
    n: int
    d: int
    batch: int
    n_draws: int
    n_searches: int
    cost: float = 1.0
    alone: bool = False
    figure: str = "beyond_failures"
    algorithm: str = "BanditMIPS"

    def keys(self) -> list[str]:
        """Return the keys of all its rows."""
        return [identity_key(**self._identity(entry)) for entry in contestants(self.dataset)]

    def _identity(self, entry: Entry) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "dataset": self.dataset,
            "algorithm": entry.algorithm,
            "settings": entry.settings,
            "n": self.n,
            "d": self.d,
            "k": 1,
            "delta": entry.delta,
            "epsilon": entry.epsilon,
            "parameters": dict(entry.parameters),
            "trial": self.batch,
        }

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield a row for each bound and delta."""
        seeds = range(self.batch * self.n_draws, (self.batch + 1) * self.n_draws)
        samples = {seed: draw(self.dataset, self.n, self.d, 1, seed) for seed in seeds}
        truths = {
            seed: inner_products(sample.atoms, sample.queries[0].astype(np.float64)) for seed, sample in samples.items()
        }
        for entry in contestants(self.dataset):
            if identity_key(**self._identity(entry)) in done:
                continue
            multiplies, rights = [], []
            start = time.perf_counter()
            for seed, sample in samples.items():
                for number in range(self.n_searches):
                    searcher = entry.make(self.d, seed * self.n_searches + number)
                    searcher.fit(sample.atoms)
                    result = searcher.search(sample.queries[0], 1)
                    multiplies.append(int(result.n_multiplies))
                    rights.append(precision(result.indices, truths[seed], 1) == 1.0)
            seconds = time.perf_counter() - start
            yield Row(
                **self._identity(entry),
                surrogate=samples[seeds[0]].surrogate,
                seed=seeds[0],
                multiplies=float(np.mean(multiplies)),
                accuracy=float(np.mean(rights)),
                naive=float(self.n * self.d),
                seconds=seconds / len(rights),
                extra={"failures": rights.count(False), "trials": len(rights)},
            )
