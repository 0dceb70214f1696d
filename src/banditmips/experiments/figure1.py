"""Figure 1: multiplies of BanditMIPS against d, on four datasets.

The sizes, delta and epsilon are those of the authors' logs (the text has 0.001 for both, everywhere). On Netflix two
larger d are added, since the text says "up to 400,000". MovieLens-100K, which the paper does not have, is run where its
files are there, so that one set of ratings is real: its 943 users are all there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from banditmips.experiments.entries import in_all_settings
from banditmips.experiments.trials import Task, Trial, queries_for

__all__ = ["SETTINGS", "SIZES", "Sizes", "tasks"]

SETTINGS = {
    "NORMAL_CUSTOM": (0.001, 0.001),
    "CORRELATED_NORMAL_CUSTOM": (0.001, 0.001),
    "Netflix": (0.01, 0.01),
    "MovieLens": (0.01, 0.001),
    "MovieLens-100K": (0.01, 0.001),
}
"""Delta and epsilon."""

_TO_A_MILLION = tuple(range(10_000, 1_000_001, 110_000))


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
            "NORMAL_CUSTOM": _TO_A_MILLION,
            "CORRELATED_NORMAL_CUSTOM": _TO_A_MILLION,
            "Netflix": (
                *(10_000, 24_828, 39_657, 54_486, 69_314, 84_143, 98_972, 113_800, 128_629, 143_458),
                *(250_000, 400_000),
            ),
            "MovieLens": (1000, 1444, 1888, 2333, 2777, 3222, 3666, 4111, 4555, 5000),
            "MovieLens-100K": (100, 200, 300, 450, 600, 750, 943),
        }
    ),
    "quick": Sizes(
        {
            "NORMAL_CUSTOM": (10_000, 100_000, 1_000_000),
            "CORRELATED_NORMAL_CUSTOM": (10_000, 100_000, 1_000_000),
            "Netflix": (10_000, 39_657, 143_458),
            "MovieLens": (1000, 2333, 5000),
            "MovieLens-100K": (100, 300, 943),
        },
        n_trials=3,
    ),
}


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial."""
    return [
        Trial(
            questions=(("figure1", 1),),
            dataset=dataset,
            entries=in_all_settings("BanditMIPS", dataset, *SETTINGS[dataset]),
            sizes=tuple((sizes.n, d) for d in dimensions),
            trial=trial,
            n_queries=queries_for(dataset, sizes.n_queries),
        )
        for dataset, dimensions in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
    ]
