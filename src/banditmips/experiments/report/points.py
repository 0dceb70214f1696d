"""From rows to points: the trials of one setting become one point, with a 95 % interval of its mean."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from banditmips.experiments.published import Published
from banditmips.experiments.rows import Row

__all__ = [
    "PUBLISHED",
    "Estimate",
    "Point",
    "aggregate",
    "compact",
    "estimate",
    "failure_share",
    "mean_extra",
    "proportion",
    "published_points",
    "sweep",
    "write_csv",
]

PUBLISHED = "published"
"""The source of the points of the authors' logs, beside the two values of `Row.settings`."""

_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and its 95 % interval; where there is no telling an interval, both ends are the mean."""

    mean: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Point:
    """The trials of one algorithm at one setting, or one point of the authors' logs.

    Attributes
    ----------
    source
        "paper" or "ours" as in `Row.settings`, or "published".
    d
        None where the authors' logs do not tell it.
    speed_up
        The naive algorithm's multiplies over these; None where the former are not known.
    rows
        The trials themselves; none for a published point.
    """

    figure: str
    dataset: str
    algorithm: str
    source: str
    surrogate: bool
    n: int
    d: int | None
    k: int
    delta: float | None
    epsilon: float | None
    parameters: dict[str, Any]
    naive: float | None
    multiplies: Estimate
    accuracy: Estimate
    seconds: Estimate | None = None
    rows: tuple[Row, ...] = field(default=(), repr=False)

    @property
    def speed_up(self) -> float | None:
        return None if self.naive is None else self.naive / self.multiplies.mean


def estimate(values: Iterable[float], *, low: float = -math.inf, high: float = math.inf) -> Estimate:
    """Return the mean of some trials with Student's 95 % interval, cut off at the limits of what is possible.

    A single trial has no interval, nor have trials that all agree. An interval that would reach zero or less although
    every trial is above it ends at the smallest trial, as there is no zero on a logarithmic axis.

    Examples
    --------
    >>> estimate([1.0, 2.0, 3.0])
    Estimate(mean=2.0, low=1.0, high=4.48..., count=3)
    >>> estimate([5.0])
    Estimate(mean=5.0, low=5.0, high=5.0, count=1)
    """
    trials = np.fromiter(values, dtype=np.float64)
    mean = float(trials.mean())
    if trials.size == 1:
        return Estimate(mean, mean, mean, 1)
    error = float(trials.std(ddof=1)) / math.sqrt(trials.size)
    half = float(stats.t.ppf((1 + _CONFIDENCE) / 2, trials.size - 1)) * error
    bottom = max(mean - half, low)
    smallest = float(trials.min())
    if bottom <= 0 < smallest:
        bottom = smallest
    return Estimate(mean, min(bottom, mean), max(min(mean + half, high), mean), int(trials.size))


def proportion(successes: int, trials: int) -> Estimate:
    """Return a share with its exact binomial (Clopper and Pearson's) 95 % interval.

    Examples
    --------
    >>> proportion(0, 100)
    Estimate(mean=0.0, low=0.0, high=0.036..., count=100)
    """
    interval = stats.binomtest(successes, trials).proportion_ci(_CONFIDENCE)
    return Estimate(successes / trials, float(interval.low), float(interval.high), trials)


def compact(count: float) -> str:
    """Return a count as in 10k and 1.5M.

    Examples
    --------
    >>> compact(950), compact(10_000), compact(999_999), compact(26_000_000)
    ('950', '10k', '1M', '26M')
    """
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= 0.9995 * unit:
            return f"{count / unit:.3g}{name}"
    return f"{count:.3g}"


def aggregate(rows: Sequence[Row]) -> list[Point]:
    """Return one point for all trials of the same setting, in the order in which the settings first appear."""
    trials: dict[str, list[Row]] = {}
    for row in rows:
        trials.setdefault(_setting(row), []).append(row)
    return [_point(group) for group in trials.values()]


def _setting(row: Row) -> str:
    setting = (row.figure, row.dataset, row.algorithm, row.settings, row.surrogate)
    return json.dumps([*setting, row.n, row.d, row.k, row.delta, row.epsilon, row.parameters], sort_keys=True)


def _point(rows: Sequence[Row]) -> Point:
    first = rows[0]
    return Point(
        figure=first.figure,
        dataset=first.dataset,
        algorithm=first.algorithm,
        source=first.settings,
        surrogate=first.surrogate,
        n=first.n,
        d=first.d,
        k=first.k,
        delta=first.delta,
        epsilon=first.epsilon,
        parameters=dict(first.parameters),
        naive=first.naive,
        multiplies=estimate((row.multiplies for row in rows), low=0.0),
        accuracy=estimate((row.accuracy for row in rows), low=0.0, high=1.0),
        seconds=estimate((row.seconds for row in rows), low=0.0),
        rows=tuple(rows),
    )


def published_points(published: Iterable[Published]) -> list[Point]:
    """Return the points of the authors' logs; their trials are not known, so they have no intervals."""
    return [
        Point(
            figure=each.figure,
            dataset=each.dataset,
            algorithm=each.algorithm,
            source=PUBLISHED,
            surrogate=False,
            n=each.n,
            d=each.d,
            k=each.k,
            delta=each.delta,
            epsilon=each.epsilon,
            parameters={},
            naive=each.naive,
            multiplies=estimate([each.multiplies]),
            accuracy=estimate([each.accuracy]),
        )
        for each in published
    ]


def mean_extra(point: Point, name: str) -> Estimate | None:
    """Return the mean over the trials of a number in `Row.extra`, or None if no trial has it."""
    values = [float(row.extra[name]) for row in point.rows if row.extra.get(name) is not None]
    return estimate(values, low=0.0) if values else None


def failure_share(point: Point) -> Estimate | None:
    """Return the share of failures that the trials of a point report, with its binomial interval."""
    failures = [int(row.extra["failures"]) for row in point.rows if "failures" in row.extra]
    trials = [int(row.extra["trials"]) for row in point.rows if "trials" in row.extra]
    return proportion(sum(failures), sum(trials)) if failures and sum(trials) else None


def sweep(points: Sequence[Point], axis: str) -> list[Point]:
    """Return the points of a sweep of "n" or "d", sorted by it.

    A figure that has both says in the parameter "scaling" which one a row belongs to. Published points do not, but
    those against n have no d.
    """
    chosen = []
    for point in points:
        told = "n" if point.d is None else point.parameters.get("scaling", "d" if point.source == PUBLISHED else axis)
        if told == axis:
            chosen.append(point)
    return sorted(chosen, key=lambda point: int(getattr(point, axis)))


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Write all rows as one table; parameters and extras are JSON within their cells."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Row)])
        writer.writeheader()
        for row in rows:
            values = asdict(row)
            for name in ("parameters", "extra"):
                values[name] = json.dumps(values[name], sort_keys=True)
            writer.writerow(values)
