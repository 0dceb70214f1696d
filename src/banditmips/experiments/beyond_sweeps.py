"""Beyond the paper: delta and epsilon swept one at a time, where its figures 3, 5 and 6 sweep both together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from banditmips.experiments import tradeoffs
from banditmips.experiments.entries import Entry, race, settings_of
from banditmips.experiments.trials import Task, Trial, queries_for

__all__ = ["DELTA", "SIZES", "Sizes", "delta_tasks", "epsilon_tasks"]

DELTA = 0.01
"""That of the sweep of epsilon; epsilon is 0 in that of delta."""
_DELTAS = (1e-10, 0.99)
_EPSILONS = (1e-3, 3.0)
"""Per coordinate: from what changes nothing to what the paper ends with."""


@dataclass(frozen=True)
class Sizes:
    """How much to run: d for each dataset, steps of each sweep, atoms, trials, and queries in each."""

    dimensions: Mapping[str, int]
    n_steps: int = 8
    n: int = 1000
    n_trials: int = 10
    n_queries: int = 3


SIZES = {
    "full": Sizes(tradeoffs.SIZES["full"].dimensions),
    "quick": Sizes(tradeoffs.SIZES["quick"].dimensions, n_steps=5, n=400, n_trials=3),
}


def delta_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial: delta swept, epsilon 0."""
    return _tasks(
        "beyond_delta", sizes, _DELTAS, lambda settings, name, at: race("BanditMIPS", settings, name, at, 0.0)
    )


def epsilon_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial: epsilon swept, delta fixed."""
    return _tasks(
        "beyond_epsilon", sizes, _EPSILONS, lambda settings, name, at: race("BanditMIPS", settings, name, DELTA, at)
    )


def _tasks(
    figure: str, sizes: Sizes, ends: tuple[float, float], entry: Callable[[str, str, float], Entry]
) -> list[Task]:
    steps = np.geomspace(*ends, sizes.n_steps).tolist()
    return [
        Trial(
            questions=((figure, 1),),
            dataset=dataset,
            entries=tuple(
                entry(settings, dataset, step) for settings in settings_of("BanditMIPS", dataset) for step in steps
            ),
            sizes=((sizes.n, d),),
            trial=trial,
            n_queries=queries_for(dataset, sizes.n_queries),
        )
        for dataset, d in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
    ]
