"""Figure 7: BanditMIPS with and without bins of norms against n, and with bins against d.

n, d, delta and epsilon are those of the authors' logs, which do not say the d of the runs against n: here it is 800.
Netflix against n is transposed, as there: atoms and queries are customers, coordinates movies.

Bucket_AE has norms that are estimated from a constant number of coordinates, as in the paper; what that costs before
the first query is in `Row.extra`. Beside it is the same with exact norms, which take a pass over all entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from banditmips.experiments.entries import EXACT_NORMS, in_all_settings
from banditmips.experiments.trials import Task, Trial, queries_for

__all__ = ["DELTA", "EPSILON", "SIZES", "Sizes", "tasks"]

DELTA, EPSILON = 0.1, 0.0
_BINNED = ("Bucket_AE", EXACT_NORMS)


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of n for each dataset and the d there, the values of d and the n there, trials."""

    atoms: Mapping[str, tuple[int, ...]]
    d: int
    dimensions: Mapping[str, tuple[int, ...]]
    n: int
    n_trials: int
    n_queries: int = 3


_DIMENSIONS = (1000, 4500, 8000, 15_000, 22_000, 29_000, 36_000, 43_000, 50_000)

SIZES = {
    "full": Sizes(
        atoms={
            "CORRELATED_NORMAL_CUSTOM": (5000, 10_000, 20_000, 40_000, 60_000, 80_000, 100_000),
            "Netflix": (100, 5357, 10_615, 21_131, 42_163, 63_194, 84_226, 100_000),
        },
        d=800,
        dimensions={"CORRELATED_NORMAL_CUSTOM": _DIMENSIONS, "Netflix": _DIMENSIONS},
        n=1000,
        n_trials=10,
        n_queries=1,
    ),
    "quick": Sizes(
        atoms={"CORRELATED_NORMAL_CUSTOM": (1000, 3000, 10_000), "Netflix": (100, 1000, 10_000)},
        d=800,
        dimensions={"CORRELATED_NORMAL_CUSTOM": (1000, 4500, 15_000), "Netflix": (1000, 4500, 15_000)},
        n=1000,
        n_trials=3,
        n_queries=1,
    ),
}


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset, way of growing, and trial."""
    made: list[Task] = []
    for trial in range(sizes.n_trials):
        for dataset, atoms in sizes.atoms.items():
            entries = [
                entry
                for algorithm in ("BanditMIPS", *_BINNED)
                for entry in in_all_settings(algorithm, dataset, DELTA, EPSILON)
            ]
            made.append(
                Trial(
                    questions=(("figure7", 1),),
                    dataset=dataset,
                    entries=tuple(entry.with_parameters(scaling="n") for entry in entries),
                    sizes=tuple((n, sizes.d) for n in atoms),
                    trial=trial,
                    n_queries=queries_for(dataset, sizes.n_queries),
                    transposed=dataset == "Netflix",
                )
            )
        for dataset, dimensions in sizes.dimensions.items():
            entries = [entry for name in _BINNED for entry in in_all_settings(name, dataset, DELTA, EPSILON)]
            made.append(
                Trial(
                    questions=(("figure7", 1),),
                    dataset=dataset,
                    entries=tuple(entry.with_parameters(scaling="d") for entry in entries),
                    sizes=tuple((sizes.n, d) for d in dimensions),
                    trial=trial,
                    n_queries=queries_for(dataset, sizes.n_queries),
                )
            )
    return made
