"""Figure 4: multiplies of BanditMIPS against d on Sift-1M and CryptoPairs, up to a million coordinates.

Sizes, delta and epsilon are those of the authors' logs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from banditmips.experiments.entries import in_all_settings
from banditmips.experiments.trials import Task, Trial

__all__ = ["ATOMS", "SETTINGS", "SIZES", "Sizes", "tasks"]

SETTINGS = {"Sift-1M": (1e-6, 0.0), "CryptoPairs": (0.1, 0.0)}
"""Delta and epsilon."""

ATOMS = {"Sift-1M": 10, "CryptoPairs": 100}


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of d for each dataset, trials, and queries in each."""

    dimensions: Mapping[str, tuple[int, ...]]
    n_trials: int = 5
    n_queries: int = 3


SIZES = {
    "full": Sizes(
        {
            "Sift-1M": (
                *(99_999, 129_154, 166_810, 215_443, 278_255, 359_381, 464_158, 599_484, 774_263),
                1_000_000,
            ),
            "CryptoPairs": (100, 278, 774, 2154, 5994, 16_681, 46_415, 129_154, 359_381, 999_999),
        }
    ),
    "quick": Sizes(
        {"Sift-1M": (10_000, 30_000, 99_999, 300_000), "CryptoPairs": (100, 774, 5994, 46_415, 129_154)},
        n_trials=3,
    ),
}


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial."""
    return [
        Trial(
            questions=(("figure4", 1),),
            dataset=dataset,
            entries=in_all_settings("BanditMIPS", dataset, *SETTINGS[dataset]),
            sizes=tuple((ATOMS[dataset], d) for d in dimensions),
            trial=trial,
            n_queries=sizes.n_queries,
        )
        for dataset, dimensions in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
    ]
