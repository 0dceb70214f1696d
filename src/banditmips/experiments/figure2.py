"""Figure 2: the multiplies of all algorithms against d, on four datasets, for the five best atoms.

Sizes, delta and epsilon are those of the authors' logs, whose column k says 1 although the counts are for 5
(docs/baselines.md). The baselines have the settings of the authors' program as that page lists them. Greedy-MIPS,
HNSW-MIPS and H2-ALSH-MIPS, which the paper leaves out, are in: the first and the last with settings from the middle of
the paper's sweeps, HNSW-MIPS with those of NAPG-MIPS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from banditmips.experiments.entries import Entry, baseline, bounded_me, in_all_settings
from banditmips.experiments.trials import Task, Trial, queries_for

__all__ = ["SETTINGS", "SIZES", "K", "Sizes", "contestants", "tasks"]

K = 5

SETTINGS = {
    "NORMAL_CUSTOM": (0.1, 0.1),
    "CORRELATED_NORMAL_CUSTOM": (0.001, 0.001),
    "Netflix": (0.01, 0.01),
    "MovieLens": (0.1, 0.1),
    "MovieLens-100K": (0.1, 0.1),
}
"""Delta and epsilon of BanditMIPS."""

_ALPHA_AND_BOUNDED_ME = {**SETTINGS, "Netflix": (0.1, 0.1)}
"""The logs of Netflix have other settings, and other d, for these two."""

_TO_TWENTY_THOUSAND = (449, 685, 1045, 1593, 2429, 3703, 5646, 8606, 13_120, 19_999)


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of d for each dataset, atoms, trials, and queries in each."""

    dimensions: Mapping[str, tuple[int, ...]]
    n: int = 100
    n_trials: int = 10
    n_queries: int = 3


SIZES = {
    "full": Sizes(
        {
            "NORMAL_CUSTOM": _TO_TWENTY_THOUSAND,
            "CORRELATED_NORMAL_CUSTOM": tuple(range(1000, 10_001, 1000)),
            "Netflix": _TO_TWENTY_THOUSAND,
            "MovieLens": (449, 588, 768, 1004, 1312, 1714, 2240, 2928, 3826, 5000),
            "MovieLens-100K": (200, 300, 449, 588, 768, 943),
        }
    ),
    "quick": Sizes(
        {
            "NORMAL_CUSTOM": (449, 1593, 5646),
            "CORRELATED_NORMAL_CUSTOM": (1000, 4000, 10_000),
            "Netflix": (449, 1593, 5646),
            "MovieLens": (449, 1312, 5000),
            "MovieLens-100K": (300, 943),
        },
        n_trials=3,
    ),
}


def contestants(dataset: str) -> list[tuple[Entry, ...]]:
    """Return all methods with their settings; those in one group share a task."""
    delta, epsilon = _ALPHA_AND_BOUNDED_ME[dataset]
    graph = {"M": 8, "ef_construction": 8, "ef_search": 4}
    return [
        in_all_settings("BanditMIPS", dataset, *SETTINGS[dataset]),
        in_all_settings("BanditMIPS-alpha", dataset, delta, epsilon),
        bounded_me(delta, epsilon),
        (baseline("LSH-MIPS", {"n_functions": 3, "n_tables": 5}),),
        # By products, since the published count of 20 d is that of product quantisation.
        (baseline("NEQ-MIPS", {"codebooks": 3, "codewords": 20, "rerank": 1, "method": "pq"}),),
        (baseline("PCA-MIPS", {"depth": 2, "boost": False}),),
        (baseline("NAPG-MIPS", graph),),
        (baseline("HNSW-MIPS", graph),),
        (baseline("Greedy-MIPS", {"budget": 14}),),
        (baseline("H2-ALSH-MIPS", {"delta": 0.169, "c0": 2.375, "c": 0.438, "scan_limit": 10}),),
        (baseline("Naive", {}),),
    ]


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset, trial and group of methods."""
    return [
        Trial(
            questions=(("figure2", K),),
            dataset=dataset,
            entries=entries,
            sizes=tuple((sizes.n, d) for d in dimensions),
            trial=trial,
            n_queries=queries_for(dataset, sizes.n_queries),
        )
        for dataset, dimensions in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
        for entries in contestants(dataset)
    ]
