"""Multiplies of a search beside those that the method's authors published, at the same n, d and delta.

Their logs allow a small epsilon, ours allows none. Counts do not depend on the machine.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import banditmips as bm
from banditmips import datasets, experiments
from benchmarks.goals import Goal, Line
from benchmarks.runner import Outcome
from benchmarks.truth import exact_scores, plausible, shares_found
from benchmarks.workloads import Scale

__all__ = ["NAME", "PUBLISHED", "Point", "read_points", "run_multiplies"]

NAME = "multiplies"
PUBLISHED = Path(experiments.__file__).with_name("published.csv")
_FIGURES = ("figure1_and_9_scaling_d", "figure4_8_high_dim")
_STAND_IN: Mapping[str, Any] = {"surrogate": "if_missing"}
_DATASETS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "NORMAL_CUSTOM": ("normal_custom", {}),
    "CORRELATED_NORMAL_CUSTOM": ("correlated_normal_custom", {}),
    "HIGHLY_SYMMETRIC": ("symmetric_normal", {}),
    "MOVIE_LENS": ("movielens_1m", _STAND_IN),
    "NETFLIX": ("netflix", _STAND_IN),
    "CRYPTO_PAIRS": ("crypto_pairs", _STAND_IN),
    "SIFT_1M": ("sift_1m", _STAND_IN),
}
"""Published name to ours, with parameters. Songs are searched by matching pursuit, which is measured elsewhere."""


@dataclass(frozen=True)
class Point:
    """One published count, and how to make such data."""

    dataset: str
    n: int
    d: int
    delta: float
    multiplies: float
    loader: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


def read_points(path: Path) -> dict[str, list[Point]]:
    """Return the published counts of the searches without an index, by dataset and rising d."""
    points: dict[str, list[Point]] = {name: [] for name in _DATASETS}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["experiment"] in _FIGURES and row["algorithm"] == "BanditMIPS" and row["dataset"] in points:
                points[row["dataset"]].append(
                    Point(
                        row["dataset"],
                        int(row["n"]),
                        int(row["d"]),
                        float(row["delta"]),
                        float(row["multiplies"]),
                        *_DATASETS[row["dataset"]],
                    )
                )
    return {name: sorted(found, key=lambda point: point.d) for name, found in points.items()}


def run_multiplies(scale: Scale, path: Path = PUBLISHED) -> Outcome:
    """Count at the smallest published d of each dataset; in a full run also at the largest."""
    if not path.exists():
        return Outcome(notes=[f"{NAME}: skipped, because {path} is not there"])
    outcome = Outcome()
    entries = 1e8 if scale.quick else 5e8
    for points in read_points(path).values():
        for point in points[:1] + ([] if scale.quick else points[1:][-1:]):
            n_trials = int(np.clip(entries / (point.n * point.d), 5, 40))
            for fitted in (False, True):
                _add(outcome, point, fitted, list(_trials(point, n_trials, fitted)))
    return outcome


@dataclass(frozen=True)
class _Trial:
    n_multiplies: int
    right: bool
    surrogate: bool


def _trials(point: Point, n_trials: int, fitted: bool) -> Iterator[_Trial]:
    for seed in range(n_trials):
        data = datasets.load(point.loader, n=point.n, d=point.d, seed=seed, **point.parameters)
        query = data.queries[0]
        options: dict[str, Any] = {"delta": point.delta, "minimise": "multiplies", "rescore": False, "seed": seed}
        # What a fit reads is not counted, as the paper does not count what its baselines prepare.
        if fitted:
            found = bm.BanditMIPS(**options).fit(data.atoms).search(query)
        else:
            found = bm.search(data.atoms, query, **options)
        shares = shares_found(found.indices[np.newaxis], exact_scores(data.atoms, data.queries[:1]), 1)
        yield _Trial(int(found.n_multiplies), bool(shares[0] == 1.0), data.surrogate)


def _add(outcome: Outcome, point: Point, fitted: bool, trials: Sequence[_Trial]) -> None:
    mean = float(np.mean([trial.n_multiplies for trial in trials]))
    right = [trial.right for trial in trials]
    stand_in = ", surrogate" if trials[0].surrogate else ""
    outcome.lines.append(
        Line(
            f"multiplies, {point.dataset} {point.n:,} x {point.d:,}, delta = {point.delta:g}{stand_in}, "
            f"{'fitted' if fitted else 'no fit'}",
            Goal("of_published", 0.5),
            mean / point.multiplies,
            ours=mean,
            reference=point.multiplies,
            reference_name="published",
            recall=float(np.mean(right)),
            n_answers=len(right),
            answers_plausible=plausible(right, point.delta),
        )
    )
    outcome.counts.append(
        {
            "record": "multiplies",
            "section": NAME,
            "dataset": point.dataset,
            "surrogate": trials[0].surrogate,
            "fitted": fitted,
            "shape": [point.n, point.d],
            "delta": point.delta,
            "published": point.multiplies,
            "multiplies": [trial.n_multiplies for trial in trials],
            "right": right,
        }
    )
