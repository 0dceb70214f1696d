"""What takes part in the experiments: the paper's datasets with its constants, and the methods with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from banditmips.compare import Method
from banditmips.experiments.rows import OURS, PAPER

__all__ = ["BASELINES", "DATASETS", "Entry", "PaperDataset", "baseline", "both", "bounded_me", "race"]


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
    """

    loader: str
    sigma: float
    from_files: bool = False
    one_query: bool = False


DATASETS = {
    "NORMAL_CUSTOM": PaperDataset("normal_custom", sigma=1.0),
    "CORRELATED_NORMAL_CUSTOM": PaperDataset("correlated_normal_custom", sigma=1.0, one_query=True),
    "Netflix": PaperDataset("netflix", sigma=25.0, from_files=True),
    "MovieLens": PaperDataset("movielens_1m", sigma=25.0, from_files=True),
    "Sift-1M": PaperDataset("sift_1m", sigma=6.25e5, from_files=True),
    "CryptoPairs": PaperDataset("crypto_pairs", sigma=2.5e9, from_files=True),
    # The paper gives no constant of its own for this one; its entries are standard normal like those above.
    "SymmetricNormal": PaperDataset("symmetric_normal", sigma=1.0),
}
"""By the paper's names."""

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

_BIN_SIZE = 30  # appendix E of the paper


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
        return self.method.startswith("banditmips")

    def make(self, d: int, seed: int) -> Any:
        """Return an object with ``fit(atoms)`` and ``search(query, k)`` for atoms of d coordinates."""
        options = {**self.options, "seed": seed}
        if self.is_race:
            # Per coordinate in the paper and in rows, in units of the inner product in a search.
            options |= {"delta": self.delta, "epsilon": (self.epsilon or 0.0) * d}
        return Method(self.method, options).make()

    def with_parameters(self, **parameters: Any) -> Entry:
        """Return the same entry with more that sets its rows apart."""
        return replace(self, parameters={**self.parameters, **parameters})


def race(algorithm: str, settings: str, dataset: str, delta: float, epsilon: float) -> Entry:
    """Return BanditMIPS, BanditMIPS-alpha or Bucket_AE.

    With the paper's settings it has Hoeffding's bound with the dataset's sigma and samples uniformly (alpha: by falling
    size of the query's entries). With ours it has the defaults (alpha: but for the sampling). Both leave out the exact
    scores of the atoms found, which the paper does not count. `epsilon` is per coordinate.
    """
    options: dict[str, Any] = {"rescore": False}
    if settings == PAPER:
        options |= {"bound": "hoeffding", "sigma": DATASETS[dataset].sigma, "sampling": "uniform"}
    if algorithm == "BanditMIPS-alpha":
        options["sampling"] = "sorted"
    method = "banditmips_search"
    if algorithm == "Bucket_AE":
        method = "banditmips"
        options |= {"bucket_size": _BIN_SIZE, "layout": "none"}
    return Entry(algorithm, settings, method, options, delta, epsilon)


def both(algorithm: str, dataset: str, delta: float, epsilon: float) -> tuple[Entry, Entry]:
    """Return a race with the paper's settings, which stops within `epsilon` of the best, and with ours, which does not.

    Both have the same delta, so that their failures are allowed to be as many.
    """
    return race(algorithm, PAPER, dataset, delta, epsilon), race(algorithm, OURS, dataset, delta, 0.0)


def baseline(algorithm: str, parameters: Mapping[str, Any], **options: Any) -> Entry:
    """Return a baseline; what is in `parameters` stands in its rows, what is in `options` does not."""
    return Entry(algorithm, PAPER, BASELINES[algorithm], {**parameters, **options}, parameters=parameters)


def bounded_me(delta: float, epsilon: float, least: float = 0.0) -> Entry:
    """Return BoundedME. Where delta or epsilon is smaller than `least`, it runs with that; rows have what was asked."""
    options = {"delta": max(delta, least), "epsilon": max(epsilon, least)}
    return Entry("BoundedME", PAPER, BASELINES["BoundedME"], options, delta, epsilon)
