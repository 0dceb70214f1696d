"""Beyond the paper: figure 1 for other bounds, and the bound of Theorem 1 beside the multiplies.

The failure probability is 0.001 everywhere, and no shortfall is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.experiments.entries import DATASETS, Entry, both, race
from banditmips.experiments.rows import OURS, PAPER
from banditmips.experiments.trials import Extra, Task, Trial, Truth, queries_for

__all__ = ["DELTA", "SIZES", "Sizes", "bound_of_theorem_1", "bounds_tasks", "theorem_1_tasks", "variants"]

DELTA = 0.001

_GROWING = (1000, 3000, 10_000, 30_000, 100_000)
_USERS = (1000, 2000, 3000, 4000, 5000)


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of d for each dataset, atoms, trials, and queries in each."""

    dimensions: Mapping[str, tuple[int, ...]]
    n: int = 100
    n_trials: int = 10
    n_queries: int = 3


SIZES = {
    "full": Sizes({name: _USERS if name == "MovieLens" else _GROWING for name in DATASETS}),
    "quick": Sizes({name: (1000, 5000) if name == "MovieLens" else (1000, 10_000) for name in DATASETS}, n_trials=3),
}


def variants(dataset: str) -> tuple[Entry, ...]:
    """Return BanditMIPS with each bound.

    Hoeffding's has the paper's sigma, and its square root as well: (b^2 - a^2)/4 is "sigma" and "a variance proxy" in
    one paragraph of the paper. The others learn the range of the atoms' entries from an index.
    """
    printed = race("BanditMIPS", PAPER, dataset, DELTA, 0.0)
    ours = race("BanditMIPS", OURS, dataset, DELTA, 0.0)
    sigma = DATASETS[dataset].sigma
    made = [printed.with_parameters(bound="hoeffding", sampling="uniform", sigma=sigma)]
    if sigma != 1.0:
        as_variance = replace(printed, options={**printed.options, "sigma": sigma**0.5})
        made.append(as_variance.with_parameters(bound="hoeffding, sigma squared", sampling="uniform", sigma=sigma**0.5))
    for bound in ("hoeffding_serfling", "bernstein"):
        options = {**ours.options, "bound": bound, "sampling": "uniform", "layout": "none"}
        fitted = replace(ours, method="banditmips", options=options)
        made.append(fitted.with_parameters(bound=bound, sampling="uniform"))
    uniform = replace(ours, options={**ours.options, "sampling": "uniform"})
    made.append(uniform.with_parameters(bound="paired", sampling="uniform"))
    made.append(ours.with_parameters(bound="paired", sampling="auto"))
    return tuple(made)


def bounds_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial: BanditMIPS against d with each bound."""
    return _tasks("beyond_bounds", sizes, variants, extra=None)


def theorem_1_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial: multiplies against d, with the theorem's bound in `Row.extra`."""
    return _tasks("beyond_theorem1", sizes, lambda dataset: both("BanditMIPS", dataset, DELTA, 0.0), extra=_theorem_1)


def _tasks(figure: str, sizes: Sizes, entries: Callable[[str], tuple[Entry, ...]], extra: Extra | None) -> list[Task]:
    return [
        Trial(
            questions=((figure, 1),),
            dataset=dataset,
            entries=entries(dataset),
            sizes=tuple((sizes.n, d) for d in dimensions),
            trial=trial,
            n_queries=queries_for(dataset, sizes.n_queries),
            extra=extra,
        )
        for dataset, dimensions in sizes.dimensions.items()
        for trial in range(sizes.n_trials)
    ]


def _theorem_1(dataset: str, entry: Entry, truths: Sequence[Truth], d: int) -> dict[str, Any]:
    c0 = DATASETS[dataset].sigma
    bounds = [bound_of_theorem_1(truth.scores, d, c0, entry.delta or 0.0) for truth in truths]
    return {"bound_theorem1": float(np.mean(bounds)), "c0": c0}


def bound_of_theorem_1(scores: NDArray[np.float64], d: int, c0: float, delta: float) -> float:
    """Return the multiplies that Theorem 1 allows, from the true gaps.

    The sum over the atoms of ``min(16 c0^2 / gap^2 log(n / (delta gap)) + 1, 2 d)``, gaps per coordinate. Its logarithm
    depends on the unit that products are measured in, so that prices in another currency would get another bound;
    here the unit is c0. The theorem leaves open what the gap of the best atom is; it is sampled as long as the second
    best, so that it gets its gap.

    Parameters
    ----------
    scores
        Inner products of all atoms, at least two, with the query.
    d
        Coordinates.
    c0
        Sub-Gaussian parameter of one product.
    delta
        Failure probability.

    Examples
    --------
    >>> bound_of_theorem_1(np.array([100.0, 0.0]), d=100, c0=1.0, delta=0.01) < 2 * 90
    True
    >>> bound_of_theorem_1(np.array([1.0, 1.0, 1.0]), d=100, c0=1.0, delta=0.01)
    600.0
    """
    gaps = (scores.max() - scores) / (d * c0)
    best = int(scores.argmax())
    gaps[best] = np.delete(gaps, best).min()
    needed = np.full(scores.size, 2.0 * d)
    apart = gaps > 0.0
    # Gaps above n / delta would make the logarithm negative: one sample is enough for them.
    logarithms = np.maximum(np.log(scores.size / (delta * gaps[apart])), 0.0)
    needed[apart] = np.minimum(16.0 / gaps[apart] ** 2 * logarithms + 1.0, 2.0 * d)
    return float(needed.sum())
