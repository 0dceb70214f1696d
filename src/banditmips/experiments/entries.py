"""What takes part in the experiments: the paper's datasets with its constants, and the methods with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from banditmips.compare import Method
from banditmips.experiments.rows import FITTED, OURS, PAPER, VARIANCE
from banditmips.experiments.today import FEWEST_MULTIPLIES, Today

__all__ = [
    "BASELINES",
    "DATASETS",
    "EXACT_NORMS",
    "NORM_COORDINATES",
    "Entry",
    "PaperDataset",
    "baseline",
    "bounded_me",
    "in_all_settings",
    "race",
    "settings_of",
]


@dataclass(frozen=True)
class PaperDataset:
    """A dataset of the paper.

    Attributes
    ----------
    loader
        Its name in `banditmips.datasets`.
    sigma
        The "sub-Gaussianity parameter" that the paper sets for it, taken as sigma of one product.
    from_files
        Whether it is read from files, so that a surrogate may stand in.
    one_query
        Whether its atoms are made for a single query.
    real_only
        Whether it is left out where its files are not there.
    """

    loader: str
    sigma: float
    from_files: bool = False
    one_query: bool = False
    real_only: bool = False


DATASETS = {
    "NORMAL_CUSTOM": PaperDataset("normal_custom", sigma=1.0),
    "CORRELATED_NORMAL_CUSTOM": PaperDataset("correlated_normal_custom", sigma=1.0, one_query=True),
    "Netflix": PaperDataset("netflix", sigma=25.0, from_files=True),
    "MovieLens": PaperDataset("movielens_1m", sigma=25.0, from_files=True),
    # Not in the paper: real ratings that anybody may have, with the constant of the others.
    "MovieLens-100K": PaperDataset("movielens_100k", sigma=25.0, from_files=True, real_only=True),
    "Sift-1M": PaperDataset("sift_1m", sigma=6.25e5, from_files=True),
    "CryptoPairs": PaperDataset("crypto_pairs", sigma=2.5e9, from_files=True),
    # The paper gives no constant of its own for this one; its entries are standard normal like those above.
    "SymmetricNormal": PaperDataset("symmetric_normal", sigma=1.0),
}
"""By the paper's names, and one that it does not have."""

BASELINES = {
    "BoundedME": "bounded_me",
    "Greedy-MIPS": "greedy",
    "LSH-MIPS": "lsh",
    "H2-ALSH-MIPS": "h2_alsh",
    "NEQ-MIPS": "neq",
    "PCA-MIPS": "pca",
    "HNSW-MIPS": "hnsw",
    "NAPG-MIPS": "napg",
    "Naive": "naive",
}
"""Keys of `banditmips.baselines.REGISTRY` by the names in the authors' logs."""

EXACT_NORMS = "Bucket_AE, exact norms"
NORM_COORDINATES = 64
"""Coordinates that norms are estimated from where an index makes no pass over the atoms."""

_BIN_SIZE = 30  # appendix E of the paper
_DEFAULTS = "today"


@dataclass(frozen=True)
class Entry:
    """One method at one setting.

    Attributes
    ----------
    algorithm, settings, delta, epsilon, parameters
        As they come to stand in a `Row`.
    method
        The key of a `banditmips.compare.Method`.
    options
        What the method is made with, but for delta, epsilon and the seed of a race.
    """

    algorithm: str
    settings: str
    method: str
    options: Mapping[str, Any]
    delta: float | None = None
    epsilon: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_race(self) -> bool:
        """Whether this is one of the paper's own algorithms."""
        return self.method == _DEFAULTS or self.method.startswith("banditmips")

    def make(self, d: int, seed: int) -> Any:
        """Return an object with ``fit(atoms)`` and ``search(query, k)`` for atoms of d coordinates."""
        options = {**self.options, "seed": seed}
        if self.is_race:
            # Per coordinate in the paper and in rows, in units of the inner product in a search.
            options |= {"delta": self.delta, "epsilon": (self.epsilon or 0.0) * d}
        return Today(**options) if self.method == _DEFAULTS else Method(self.method, options).make()

    def preparation(self, n: int, d: int) -> dict[str, int]:
        """Return what bins of norms cost before the first query, in multiplies; nothing for other methods."""
        if "bucket_size" not in self.options:
            return {}
        return {"preparation_multiplies": n * (d if self.options["validate"] else min(d, NORM_COORDINATES))}

    def with_parameters(self, **parameters: Any) -> Entry:
        """Return the same entry with more that sets its rows apart."""
        return replace(self, parameters={**self.parameters, **parameters})


def race(algorithm: str, settings: str, dataset: str, delta: float, epsilon: float) -> Entry:
    """Return BanditMIPS, BanditMIPS-alpha, Bucket_AE, or the latter with exact norms; `epsilon` is per coordinate.

    With the paper's settings it has Hoeffding's bound with the dataset's sigma (or its square root, where the constant
    is read as a variance) and samples uniformly (alpha: by falling size of the query's entries). With ours it has the
    defaults (alpha: but for the sampling). All leave out the exact scores of the atoms found, which the paper does not
    count. Bucket_AE estimates norms from a constant number of coordinates, as in the paper.
    """
    options: dict[str, Any] = dict(FEWEST_MULTIPLIES)
    if algorithm == "BanditMIPS" and settings in (OURS, FITTED):
        return Entry(algorithm, settings, _DEFAULTS, {"fitted": settings == FITTED}, delta, epsilon)
    if settings in (PAPER, VARIANCE):
        sigma = DATASETS[dataset].sigma
        printed = {"sigma": sigma if settings == PAPER else sigma**0.5}
        options |= {"bound": "hoeffding", **printed, "sampling": "uniform"}
    if algorithm == "BanditMIPS-alpha":
        options["sampling"] = "sorted"
    method = "banditmips_search"
    if algorithm in ("Bucket_AE", EXACT_NORMS):
        method = "banditmips"
        options |= {"bucket_size": _BIN_SIZE, "layout": "none", "validate": algorithm == EXACT_NORMS}
    return Entry(algorithm, settings, method, options, delta, epsilon)


def settings_of(algorithm: str, dataset: str) -> tuple[str, ...]:
    """Return the settings that an algorithm is run with on a dataset.

    A sigma of 1 is the same number as a variance, and only BanditMIPS itself has a default after `fit`.
    """
    readings = (PAPER,) if DATASETS[dataset].sigma == 1.0 else (PAPER, VARIANCE)
    return (*readings, OURS, FITTED) if algorithm == "BanditMIPS" else (*readings, OURS)


def in_all_settings(algorithm: str, dataset: str, delta: float, epsilon: float) -> tuple[Entry, ...]:
    """Return a race with the paper's settings, which stops within `epsilon` of the best, and with ours, which does not.

    All have the same delta, so that their failures are allowed to be as many.
    """
    return tuple(
        race(algorithm, settings, dataset, delta, epsilon if settings in (PAPER, VARIANCE) else 0.0)
        for settings in settings_of(algorithm, dataset)
    )


def baseline(algorithm: str, parameters: Mapping[str, Any], **options: Any) -> Entry:
    """Return a baseline; what is in `parameters` stands in its rows, what is in `options` does not."""
    return Entry(algorithm, PAPER, BASELINES[algorithm], {**parameters, **options}, parameters=parameters)


def bounded_me(delta: float, epsilon: float, least: float = 0.0) -> tuple[Entry, Entry]:
    """Return BoundedME with products taken to lie within an interval of length 1, as published, and with the true one.

    Where delta or epsilon is smaller than `least`, it runs with that; rows have what was asked.
    """
    options = {"delta": max(delta, least), "epsilon": max(epsilon, least)}
    published = Entry("BoundedME", PAPER, BASELINES["BoundedME"], options, delta, epsilon)
    true_range = {**options, "value_range": "auto"}
    return published, replace(published, algorithm="BoundedME, true range", options=true_range)
