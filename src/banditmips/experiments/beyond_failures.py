"""Beyond the paper: how often a search is wrong, against the failure probability that it was allowed.

On the paper's datasets with several bounds, and with the defaults on kinds of data that hide what decides.

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
from banditmips.experiments.kinds import KINDS
from banditmips.experiments.rows import DRAWN, Row, identity_key
from banditmips.experiments.trials import Task, draw, precision

__all__ = ["DELTAS", "KINDS_SIZES", "SIZES", "Failures", "Sizes", "contestants", "kinds_tasks", "tasks"]

DELTAS = {"beyond_failures": (0.3, 0.1, 0.03, 0.01), "beyond_kinds": (0.1, 0.01)}
_BY_DEFAULT = ("default without an index", "default after fit")
_BOUNDS = {
    "beyond_failures": ("hoeffding", "hoeffding, sigma squared", "bernstein", *_BY_DEFAULT),
    "beyond_kinds": _BY_DEFAULT,
}
_MOST_COORDINATES = {"MovieLens-100K": 943}
_DATASETS = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens", "MovieLens-100K", "SymmetricNormal")


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
KINDS_SIZES = {
    "full": Sizes(n=40, d=2048, n_batches=5, datasets=tuple(KINDS)),
    "quick": Sizes(n=40, d=2048, n_batches=1, n_draws=20, datasets=tuple(KINDS)),
}


def contestants(figure: str, dataset: str) -> list[Entry]:
    """Return BanditMIPS with each bound of a figure at each delta."""
    # The kinds have no sigma of their own, and no bound there needs one.
    entries = variants("NORMAL_CUSTOM" if dataset in KINDS else dataset)
    chosen = [entry for entry in entries if entry.parameters["bound"] in _BOUNDS[figure]]
    return [replace(entry, delta=delta) for entry in chosen for delta in DELTAS[figure]]


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset of the paper and batch."""
    return _tasks("beyond_failures", sizes)


def kinds_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each kind that hides something and batch."""
    return _tasks("beyond_kinds", sizes)


def _tasks(figure: str, sizes: Sizes) -> list[Task]:
    per_task = len(DELTAS[figure]) * len(_BOUNDS[figure]) * sizes.n_draws * sizes.n_searches
    return [
        Failures(
            dataset,
            sizes.n,
            min(sizes.d, _MOST_COORDINATES.get(dataset, sizes.d)),
            batch,
            sizes.n_draws,
            sizes.n_searches,
            figure,
            cost=2.5e-3 * per_task,
        )
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
    figure: str = "beyond_failures"
    cost: float = 1.0
    origin: str = DRAWN
    alone: bool = False
    algorithm: str = "BanditMIPS"

    def keys(self) -> list[str]:
        """Return the keys of all its rows."""
        return [identity_key(**self._identity(entry)) for entry in contestants(self.figure, self.dataset)]

    def _identity(self, entry: Entry) -> dict[str, Any]:
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
            "parameters": dict(entry.parameters),
            "trial": self.batch,
        }

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield a row for each bound and delta."""
        seeds = range(self.batch * self.n_draws, (self.batch + 1) * self.n_draws)
        samples = {seed: draw(self.dataset, (self.n, self.d), 1, seed, self.origin) for seed in seeds}
        truths = {
            seed: inner_products(sample.atoms, sample.queries[0].astype(np.float64)) for seed, sample in samples.items()
        }
        for entry in contestants(self.figure, self.dataset):
            if identity_key(**self._identity(entry)) in done:
                continue
            multiplies, rights, n_sampled = [], [], 0
            start = time.perf_counter()
            for seed, sample in samples.items():
                for number in range(self.n_searches):
                    searcher = entry.make(self.d, seed * self.n_searches + number)
                    searcher.fit(sample.atoms)
                    result = searcher.search(sample.queries[0], 1)
                    multiplies.append(int(result.n_multiplies))
                    rights.append(precision(result.indices, truths[seed], 1) == 1.0)
                    n_sampled += not bool(result.exact.all())
            seconds = time.perf_counter() - start
            yield Row(
                **self._identity(entry),
                seed=seeds[0],
                multiplies=float(np.mean(multiplies)),
                accuracy=float(np.mean(rights)),
                naive=float(self.n * self.d),
                seconds=seconds / len(rights),
                extra={"failures": rights.count(False), "trials": len(rights), "sampled": n_sampled},
            )
