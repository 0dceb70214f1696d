"""From rows to points: the trials of one setting become one point, with a 95 % interval of its mean."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from banditmips._result_files import replacing
from banditmips.experiments.beyond_warm_start import WARM
from banditmips.experiments.published import Published
from banditmips.experiments.rows import FITTED, SURROGATE, Row

__all__ = [
    "PUBLISHED",
    "Estimate",
    "Point",
    "aggregate",
    "compact",
    "estimate",
    "failure_share",
    "mean_extra",
    "of_one_origin",
    "percent",
    "proportion",
    "published_points",
    "ratio",
    "sweep",
    "with_extra",
    "write_csv",
]

PUBLISHED = "published"
"""The source of the points of the authors' logs, beside the two values of `Row.settings`."""

_CONFIDENCE = 0.95
_OF_AN_INDEX = ("beyond_bounds", "beyond_sampling")
"""Figures whose bounds and weights are asked of an index, whatever the settings."""


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
        As in `Row.settings`, or "published".
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
    origin: str
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

    @property
    def surrogate(self) -> bool:
        """Whether synthetic numbers stood in for real data."""
        return self.origin == SURROGATE


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


def percent(share: float) -> str:
    r"""Return a share in per cent on one line; never 100 % for less than all.

    Examples
    --------
    >>> percent(1.0), percent(0.99999), percent(0.5)
    ('100\xa0%', '99.9\xa0%', '50.0\xa0%')
    """
    number = "100" if share == 1.0 else f"{min(100 * share, 99.9):.1f}"
    return f"{number}\u00a0%"


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


def of_one_origin(rows: Sequence[Row], origins: Mapping[str, str]) -> tuple[list[Row], list[Row]]:
    """Return the rows to report, of one origin for each figure and dataset, and those to be left out.

    Where a figure has rows of a dataset from several origins, those count which come from where the last run found the
    dataset, or, where there are none of these, those that were written last.

    Parameters
    ----------
    rows
        In the order in which they were written.
    origins
        By dataset, as ``run.json`` has them.
    """
    chosen: dict[tuple[str, str], str] = {}
    for row in rows:
        place = row.figure, row.dataset
        if chosen.get(place) is None or chosen[place] != origins.get(row.dataset):
            chosen[place] = row.origin
    kept = [row for row in rows if row.origin == chosen[row.figure, row.dataset]]
    return kept, [row for row in rows if row.origin != chosen[row.figure, row.dataset]]


def ratio(above: Point, below: Point, value: Callable[[Row], float] = lambda row: row.multiplies) -> Estimate:
    """Return the ratio of the means of two points over their trials, with its 95 % interval.

    The interval is Student's for a linearised ratio: of ``a/mean(a) - b/mean(b)`` where both have the same trials, of
    the two spreads added up where they do not. Points without several trials each have none.

    Examples
    --------
    >>> rows = [Row("figure1", "A", "drawn", "B", "paper", 9, 9, 1, None, None, trial, 0, count, 1.0, 81.0, 1.0)
    ...         for trial, count in enumerate((2.0, 4.0, 6.0))]
    >>> point, = aggregate(rows)
    >>> ratio(point, point)
    Estimate(mean=1.0, low=1.0, high=1.0, count=3)
    """
    if not above.rows or not below.rows:
        mean = above.multiplies.mean / below.multiplies.mean
        return Estimate(mean, mean, mean, 1)
    tops, bottoms = ({row.trial: value(row) for row in point.rows} for point in (above, below))
    means = [math.fsum(values.values()) / len(values) for values in (tops, bottoms)]
    mean = means[0] / means[1]
    count = min(len(tops), len(bottoms))
    if count < 2:
        return Estimate(mean, mean, mean, count)
    if tops.keys() == bottoms.keys():
        spread = np.std([tops[trial] / means[0] - bottoms[trial] / means[1] for trial in tops], ddof=1)
        error = float(spread) / math.sqrt(count)
    else:
        parts = [
            float(np.var(list(values.values()), ddof=1)) / len(values) / centre**2
            for values, centre in zip((tops, bottoms), means, strict=True)
        ]
        error = math.sqrt(sum(parts))
    reach = math.exp(float(stats.t.ppf((1 + _CONFIDENCE) / 2, count - 1)) * error)
    return Estimate(mean, mean / reach, mean * reach, count)


def aggregate(rows: Sequence[Row]) -> list[Point]:
    """Return one point for all trials of the same setting, in the order in which the settings first appear.

    A fitted index may know the answer from what it keeps of every atom's mean and norm, without a multiply. Every atom
    is looked at all the same, so that such a search counts as n: the honest figure, and one that has a logarithm. (Bins
    do leave atoms out.)
    """
    trials: dict[str, list[Row]] = {}
    for row in rows:
        if row.settings == FITTED or row.algorithm == WARM or row.figure in _OF_AN_INDEX:
            row = replace(row, multiplies=max(row.multiplies, float(row.n)))
        trials.setdefault(_setting(row), []).append(row)
    return [_point(group) for group in trials.values()]


def _setting(row: Row) -> str:
    setting = (row.figure, row.dataset, row.algorithm, row.settings, row.origin)
    return json.dumps([*setting, row.n, row.d, row.k, row.delta, row.epsilon, row.parameters], sort_keys=True)


def _point(rows: Sequence[Row]) -> Point:
    first = rows[0]
    return Point(
        figure=first.figure,
        dataset=first.dataset,
        algorithm=first.algorithm,
        source=first.settings,
        origin=first.origin,
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
            origin=PUBLISHED,
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


def with_extra(point: Point, name: str) -> Point | None:
    """Return the point with a count in `Row.extra` added to the multiplies of every trial, or None if none has it."""
    if not any(name in row.extra for row in point.rows):
        return None
    rows = tuple(replace(row, multiplies=row.multiplies + row.extra.get(name, 0)) for row in point.rows)
    return replace(point, rows=rows, multiplies=estimate((row.multiplies for row in rows), low=0.0))


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
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.DictWriter(text, [each.name for each in fields(Row)])
        writer.writeheader()
        for row in rows:
            values = asdict(row)
            for name in ("parameters", "extra"):
                values[name] = json.dumps(values[name], sort_keys=True)
            writer.writerow(values)
        text.detach()  # writes the rest, and leaves the file open to be put in its place
