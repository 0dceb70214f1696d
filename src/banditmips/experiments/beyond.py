"""Beyond the paper: figure 1 for other bounds, and the bound of Theorem 1 beside the multiplies.

The failure probability is 0.001 everywhere, and no shortfall is allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.experiments.entries import DATASETS, Entry, in_all_settings, race, settings_of
from banditmips.experiments.rows import FITTED, OURS, PAPER, VARIANCE
from banditmips.experiments.today import FEWEST_MULTIPLIES
from banditmips.experiments.trials import Extra, Sample, Task, Trial, Truth, queries_for

__all__ = ["DELTA", "SIZES", "Sizes", "bounds_tasks", "needed_by_theorem_1", "theorem_1_tasks", "variants"]

DELTA = 0.001

_GROWING = (1000, 3000, 10_000, 30_000, 100_000)
_USERS = (1000, 2000, 3000, 4000, 5000)
_HOEFFDING = {PAPER: "hoeffding", VARIANCE: "hoeffding, sigma squared"}
_DEFAULTS = {OURS: "default without an index", FITTED: "default after fit"}


@dataclass(frozen=True)
class Sizes:
    """How much to run: the values of d for each dataset, atoms, trials, and queries in each."""

    dimensions: Mapping[str, tuple[int, ...]]
    n: int = 100
    n_trials: int = 10
    n_queries: int = 3


SIZES = {
    "full": Sizes(dict.fromkeys(DATASETS, _GROWING) | {"MovieLens": _USERS, "MovieLens-100K": (300, 600, 943)}),
    "quick": Sizes(
        dict.fromkeys(DATASETS, (1000, 10000)) | {"MovieLens": (1000, 5000), "MovieLens-100K": (300, 943)},
        n_trials=3,
    ),
}


def variants(dataset: str) -> tuple[Entry, ...]:
    """Return BanditMIPS with each bound, and with the defaults.

    Hoeffding's has the paper's sigma, and its square root as well: (b^2 - a^2)/4 is "sigma" and "a variance proxy" in
    one paragraph of the paper. The others learn the range of the atoms' entries from an index.
    """
    made = []
    for settings in settings_of("BanditMIPS", dataset):
        entry = race("BanditMIPS", settings, dataset, DELTA, 0.0)
        if settings in _HOEFFDING:
            told = {"bound": _HOEFFDING[settings], "sampling": "uniform", "sigma": entry.options["sigma"]}
            made.append(entry.with_parameters(**told))
        else:
            made.append(entry.with_parameters(bound=_DEFAULTS[settings]))
    made += [
        _with_bound("banditmips", bound, "uniform", layout="none") for bound in ("hoeffding_serfling", "bernstein")
    ]
    made.append(_with_bound("banditmips_search", "paired", "uniform"))
    made.append(_with_bound("banditmips_search", "paired", "auto"))
    return tuple(made)


def _with_bound(method: str, bound: str, sampling: str, **options: Any) -> Entry:
    told = {"bound": bound, "sampling": sampling}
    return Entry("BanditMIPS", OURS, method, {**FEWEST_MULTIPLIES, **told, **options}, DELTA, 0.0, told)


def bounds_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial: BanditMIPS against d with each bound."""
    return _tasks("beyond_bounds", sizes, variants, extra=None)


def theorem_1_tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each dataset and trial: multiplies against d, with the theorem's bound in `Row.extra`."""

    def entries(dataset: str) -> tuple[Entry, ...]:
        return in_all_settings("BanditMIPS", dataset, DELTA, 0.0)

    return _tasks("beyond_theorem1", sizes, entries, extra=_theorem_1)


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


def _theorem_1(dataset: str, entry: Entry, sample: Sample, truths: Sequence[Truth]) -> dict[str, Any]:
    d = sample.atoms.shape[1]
    sigma = DATASETS[dataset].sigma
    c0 = sigma**0.5 if entry.settings == VARIANCE else sigma
    needed = np.array([needed_by_theorem_1(truth.scores, d, c0, entry.delta or 0.0) for truth in truths])
    return {
        "bound_theorem1": float(needed.sum(axis=1).mean()),
        "capped": float((needed == 2.0 * d).mean()),
        "c0": c0,
    }


def needed_by_theorem_1(scores: NDArray[np.float64], d: int, c0: float, delta: float) -> NDArray[np.float64]:
    """Return the multiplies that Theorem 1 allows each atom, from the true gaps.

    ``min(16 c0^2 / gap^2 log(n / (delta gap)) + 1, 2 d)``, gaps per coordinate. Its logarithm depends on the unit that
    products are measured in, so that prices in another currency would get another bound; here the unit is c0. The
    theorem leaves open what the gap of the best atom is; it is sampled as long as the second best, so that it gets its
    gap.

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
    >>> bool(needed_by_theorem_1(np.array([100.0, 0.0]), d=100, c0=1.0, delta=0.01).sum() < 2 * 90)
    True
    >>> needed_by_theorem_1(np.array([1.0, 1.0, 1.0]), d=100, c0=1.0, delta=0.01)
    array([200., 200., 200.])
    """
    gaps = (scores.max() - scores) / (d * c0)
    best = int(scores.argmax())
    gaps[best] = np.delete(gaps, best).min()
    needed = np.full(scores.size, 2.0 * d)
    apart = gaps > 0.0
    # Gaps above n / delta would make the logarithm negative: one sample is enough for them.
    logarithms = np.maximum(np.log(scores.size / (delta * gaps[apart])), 0.0)
    needed[apart] = np.minimum(16.0 / gaps[apart] ** 2 * logarithms + 1.0, 2.0 * d)
    return needed
