"""The figures that the paper's authors published, to be put beside a run of one's own.

``published.csv`` holds what the logs say that the authors published with their code
(github.com/ThrunGroup/BanditMIPS, for "Faster Maximum Inner Product Search in High Dimensions", arXiv:2212.07551):
measured numbers, one line for each point. They are to be read with care, see `Published`.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

__all__ = ["SOURCE", "Published", "load_published"]

SOURCE = "Logs that the authors of arXiv:2212.07551 published with their code, https://github.com/ThrunGroup/BanditMIPS"

_DATASETS = {
    "CORRELATED_NORMAL_CUSTOM": "CORRELATED_NORMAL_CUSTOM",
    "NORMAL_CUSTOM": "NORMAL_CUSTOM",
    "NETFLIX": "Netflix",
    "TRANSPOSED_NETFLIX": "Netflix",
    "MOVIE_LENS": "MovieLens",
    "SIFT_1M": "Sift-1M",
    "CRYPTO_PAIRS": "CryptoPairs",
    "SIMPLE_SONG": "SimpleSong",
    "HIGHLY_SYMMETRIC": "SymmetricNormal",
}
_TRADE_OFF_FIGURES = {1: "figure3", 5: "figure5", 10: "figure6"}
_COMPARISON_K = 5


@dataclass(frozen=True)
class Published:
    """One published point, under the names that `banditmips.experiments.rows.Row` has.

    Their running mean divides by one batch too many, delta is split over the atoms but not over the rounds, and the
    variance proxy was set by hand for each dataset.

    Attributes
    ----------
    figure, dataset, algorithm
        As in `Row`; `dataset_in_log` is the name in the logs. In figure 7, where n grows, Netflix is transposed: its
        atoms are customers.
    n, d, k
        d is None where the logs do not say it (figure 7, against n). Figure 2 says k = 1 in the logs, but its counts
        and accuracies are for k = 5 (see docs/baselines.md), which is what stands here.
    epsilon, delta
        Per coordinate, and None for methods that have none. The trade-off figures (3, 5, 6) swept both and do not say
        which point is which.
    multiplies, accuracy
        Means over trials and queries.
    naive
        n * d, or None where d is.
    """

    figure: str
    dataset: str
    algorithm: str
    n: int
    d: int | None
    k: int
    epsilon: float | None
    delta: float | None
    multiplies: float
    accuracy: float
    naive: float | None
    dataset_in_log: str


@cache
def load_published() -> tuple[Published, ...]:
    """Return all published points, in the order of the file.

    Examples
    --------
    >>> points = load_published()
    >>> wanted = ("figure2", "MovieLens", "NEQ-MIPS", 5000)
    >>> [p.multiplies for p in points if (p.figure, p.dataset, p.algorithm, p.d) == wanted]
    [100508.0]
    """
    text = (resources.files("banditmips.experiments") / "published.csv").read_text(encoding="utf-8")
    return tuple(_point(values) for values in csv.DictReader(text.splitlines()))


def _point(values: dict[str, str]) -> Published:
    figure, k = _figure_and_k(values["experiment"], values["dataset"], int(values["k"]))
    return Published(
        figure=figure,
        dataset=_DATASETS[values["dataset"]],
        algorithm=values["algorithm"],
        n=int(values["n"]),
        d=int(values["d"]) if values["d"] else None,
        k=k,
        epsilon=_number(values["epsilon"]),
        delta=_number(values["delta"]),
        multiplies=float(values["multiplies"]),
        accuracy=float(values["accuracy"]),
        naive=_number(values["naive"]),
        dataset_in_log=values["dataset"],
    )


def _figure_and_k(experiment: str, dataset: str, k: int) -> tuple[str, int]:
    """Return the figure that a point belongs to, and the k that it was made with."""
    if experiment == "figure1_and_9_scaling_d":
        return ("figure9" if dataset == "HIGHLY_SYMMETRIC" else "figure1"), k
    if experiment == "figure2_comparison":
        return "figure2", _COMPARISON_K
    if experiment == "figure3_5_6_tradeoff":
        return _TRADE_OFF_FIGURES[k], k
    if experiment == "figure4_8_high_dim":
        return ("figure8" if dataset == "SIMPLE_SONG" else "figure4"), k
    if experiment == "figure7_buckets":
        return "figure7", k
    raise ValueError(f"published.csv has an unknown experiment {experiment!r}")


def _number(text: str) -> float | None:
    return float(text) if text else None
