"""Beyond the paper: Theorem 2's weights beside uniform ones and q^(2 beta), in multiplies and in variance.

The paper proves which weights have the smallest combined variance, but measures none of them: its experiments sample
uniformly, or take the coordinates by falling size of the query. Here are the weights themselves, with its estimator
(coordinates drawn with replacement, "paper") and with ours (without, "ours"). Both have the paired bound, whose
intervals follow the variance that was sampled: Hoeffding's know nothing of the weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.experiments.entries import Entry
from banditmips.experiments.kinds import UNEVEN_COLUMNS
from banditmips.experiments.rows import OURS, PAPER
from banditmips.experiments.today import FEWEST_MULTIPLIES
from banditmips.experiments.trials import Sample, Task, Trial, Truth, queries_for

__all__ = ["BETAS", "DELTA", "OPTIMAL", "SIZES", "Sizes", "combined_variance", "contestants", "tasks", "weights"]

BETAS = (0.0, 0.25, 0.5, 0.75, 1.0)
DELTA = 0.001
OPTIMAL = "optimal"


@dataclass(frozen=True)
class Sizes:
    """How much to run: d for each dataset, atoms, trials, and queries in each."""

    dimensions: Mapping[str, int]
    n: int = 100
    n_trials: int = 10
    n_queries: int = 3


_DIMENSIONS = {
    "NORMAL_CUSTOM": 10_000,
    "CORRELATED_NORMAL_CUSTOM": 10_000,
    "MovieLens": 5000,
    "MovieLens-100K": 943,
    UNEVEN_COLUMNS: 10_000,
}
SIZES = {"full": Sizes(_DIMENSIONS), "quick": Sizes(_DIMENSIONS, n_trials=3)}


def contestants() -> tuple[Entry, ...]:
    """Return BanditMIPS with each weighting, with replacement and without; an index knows the norms of the columns."""
    weightings: list[dict[str, Any]] = [{"sampling": "weighted", "beta": beta} for beta in BETAS]
    weightings.append({"sampling": OPTIMAL})
    return tuple(
        Entry(
            "BanditMIPS",
            settings,
            "banditmips",
            {**FEWEST_MULTIPLIES, "bound": "paired", "layout": "none", "replacement": settings == PAPER, **weighting},
            DELTA,
            0.0,
            weighting,
        )
        for settings in (PAPER, OURS)
        for weighting in weightings
    )


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial."""
    return [
        Trial(
            questions=(("beyond_sampling", 1),),
            dataset=dataset,
            entries=contestants(),
            sizes=((sizes.n, d),),
            trial=trial,
            n_queries=queries_for(dataset, sizes.n_queries),
            extra=_variance,
        )
        for dataset, d in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
    ]


def _variance(dataset: str, entry: Entry, sample: Sample, truths: Sequence[Truth]) -> dict[str, Any]:
    atoms = sample.atoms.astype(np.float64)
    ratios = []
    for query in sample.queries.astype(np.float64):
        betas = (entry.parameters.get("beta"), None)
        mine, best = (combined_variance(atoms, query, weights(atoms, query, beta)) for beta in betas)
        ratios.append(mine / best)
    return {"variance_over_optimal": float(np.mean(ratios))}


def weights(atoms: NDArray[np.float64], query: NDArray[np.float64], beta: float | None) -> NDArray[np.float64]:
    """Return the weights |q|^(2 beta) of the coordinates, or those of Theorem 2 where beta is None; they sum to 1.

    Coordinates at which the query is 0 add nothing, and get no weight.
    """
    support = query != 0.0
    sizes = np.abs(query) * np.sqrt((atoms**2).sum(axis=0)) if beta is None else np.abs(query) ** (2 * beta)
    sizes = np.where(support, sizes, 0.0)
    return np.asarray(sizes / sizes.sum())


def combined_variance(atoms: NDArray[np.float64], query: NDArray[np.float64], chosen: NDArray[np.float64]) -> float:
    """Return what Theorem 2 minimises: the sum over the atoms of Var[q_J v_iJ / (d w_J)], J drawn with the weights w.

    Examples
    --------
    >>> atoms, query = np.array([[1.0, 2.0]]), np.array([1.0, 1.0])
    >>> combined_variance(atoms, query, np.array([0.5, 0.5])), combined_variance(atoms, query, np.array([1 / 3, 2 / 3]))
    (0.25, 0.0)
    """
    d = query.size
    seen = chosen > 0.0
    squares = (query[seen] ** 2 * (atoms[:, seen] ** 2).sum(axis=0) / chosen[seen]).sum() / d**2
    return float(squares - ((atoms @ query / d) ** 2).sum())
