"""Figure 9: BanditMIPS on SymmetricNormal, whose gaps vanish as d grows, so that its work grows with d.

Sizes, delta and epsilon are those of the authors' logs.
"""

from __future__ import annotations

from dataclasses import dataclass

from banditmips.experiments.entries import in_all_settings
from banditmips.experiments.trials import Task, Trial

__all__ = ["DATASET", "DELTA", "EPSILON", "SIZES", "Sizes", "tasks"]

DATASET, DELTA, EPSILON = "SymmetricNormal", 0.01, 0.001


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of d, atoms, and trials."""

    dimensions: tuple[int, ...]
    n: int = 100
    n_trials: int = 10


SIZES = {
    "full": Sizes(tuple(range(1000, 100_001, 11_000))),
    "quick": Sizes((1000, 12_000, 34_000), n_trials=3),
}


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each trial."""
    return [
        Trial(
            questions=(("figure9", 1),),
            dataset=DATASET,
            entries=in_all_settings("BanditMIPS", DATASET, DELTA, EPSILON),
            sizes=tuple((sizes.n, d) for d in sizes.dimensions),
            trial=trial,
        )
        for trial in range(sizes.n_trials)
    ]
