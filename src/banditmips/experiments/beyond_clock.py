"""Beyond the paper: the wall clock beside the multiplies, and the full product by BLAS beside both.

Everything runs on one thread, and nothing else runs at the same time. The defaults are asked for few multiplies, and
again for little time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import inner_products
from banditmips.experiments.entries import Entry, in_all_settings
from banditmips.experiments.rows import DRAWN, Row, identity_key
from banditmips.experiments.today import Today
from banditmips.experiments.trials import Sample, Task, draw, precision, queries_for

__all__ = ["DELTA", "SIZES", "Clock", "Sizes", "contestants", "tasks"]

DELTA = 0.001
_MIN_SEARCHES = 10
"""Searches to take a median over: where a dataset has fewer queries, they are asked again."""


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of d for each dataset, atoms, trials, and queries to take medians over."""

    dimensions: Mapping[str, tuple[int, ...]]
    n: int = 1000
    n_trials: int = 3
    n_queries: int = 10


SIZES = {
    "full": Sizes(
        {
            "NORMAL_CUSTOM": (1000, 10_000, 100_000),
            "CORRELATED_NORMAL_CUSTOM": (1000, 10_000, 100_000),
            "Netflix": (1000, 10_000, 100_000),
            "MovieLens": (1000, 5000),
            "MovieLens-100K": (943,),
            "SymmetricNormal": (1000, 10_000),
        }
    ),
    "quick": Sizes(
        {
            "NORMAL_CUSTOM": (1000, 10_000),
            "CORRELATED_NORMAL_CUSTOM": (1000, 10_000),
            "Netflix": (1000, 10_000),
            "MovieLens": (1000, 5000),
            "MovieLens-100K": (943,),
            "SymmetricNormal": (1000, 10_000),
        },
        n_trials=2,
    ),
}


def contestants(dataset: str) -> tuple[Entry, ...]:
    """Return BanditMIPS in all its settings."""
    return in_all_settings("BanditMIPS", dataset, DELTA, 0.0)


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset, d and trial."""
    return [
        Clock(dataset, sizes.n, d, trial, queries_for(dataset, sizes.n_queries), cost=0.5 + 1e-7 * sizes.n * d)
        for dataset, dimensions in sizes.dimensions.items()
        for d in dimensions
        for trial in range(sizes.n_trials)
    ]


@dataclass(frozen=True)
class Clock:
    """Searches of one draw of a dataset, with the time of each."""

    dataset: str
    n: int
    d: int
    trial: int
    n_queries: int
    cost: float = 1.0
    origin: str = DRAWN
    alone: bool = True
    figure: str = "beyond_clock"
    algorithm: str = "BanditMIPS"

    def keys(self) -> list[str]:
        """Return the keys of all its rows."""
        return [identity_key(**self._identity(entry)) for entry in contestants(self.dataset)]

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
            "trial": self.trial,
        }

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield a row for each method."""
        sample = draw(self.dataset, (self.n, self.d), self.n_queries, self.trial, self.origin)
        truths = [inner_products(sample.atoms, query.astype(np.float64)) for query in sample.queries]
        blas_seconds = _median_seconds(lambda query: (sample.atoms @ query).argmax(), sample)[0]
        for entry in contestants(self.dataset):
            if identity_key(**self._identity(entry)) in done:
                continue
            searcher = entry.make(self.d, self.trial)
            searcher.fit(sample.atoms)  # once for what has to be loaded
            start = time.perf_counter()
            searcher.fit(sample.atoms)
            told = {"blas_seconds": blas_seconds, "fit_seconds": time.perf_counter() - start}
            if isinstance(searcher, Today):
                fast = _measure(searcher.search_fast, sample, truths)
                told |= {f"fast_{name}": value for name, value in fast.items()}
            measured = _measure(searcher.search, sample, truths)
            yield Row(**self._identity(entry), seed=self.trial, **measured, naive=float(self.n * self.d), extra=told)


def _measure(search: Callable[..., Any], sample: Sample, truths: list[NDArray[np.float64]]) -> dict[str, Any]:
    seconds, results = _median_seconds(lambda query: search(query, 1), sample)
    accuracies = [precision(result.indices, scores, 1) for result, scores in zip(results, truths, strict=True)]
    multiplies = float(np.mean([int(result.n_multiplies) for result in results]))
    return {"multiplies": multiplies, "accuracy": float(np.mean(accuracies)), "seconds": seconds}


def _median_seconds(answer: Callable[..., Any], sample: Sample) -> tuple[float, list[Any]]:
    """Return the median time of a query after a warm-up, and the answers."""
    answer(sample.queries[0])
    seconds, answers = [], []
    for repetition in range(-(-_MIN_SEARCHES // len(sample.queries))):
        for query in sample.queries:
            start = time.perf_counter()
            found = answer(query)
            seconds.append(time.perf_counter() - start)
            if repetition == 0:
                answers.append(found)
    return float(np.median(seconds)), answers
