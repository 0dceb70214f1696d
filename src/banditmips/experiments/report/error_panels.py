"""Panels of errors: against the speed-up (figures 3, 5 and 6), and against delta or epsilon alone.

Errors have a logarithmic axis, small ones on top. Answers without any error, which most methods have somewhere, stand
above it in a band with a row for each method, as they would cover one another on a line.
"""

from __future__ import annotations

from collections.abc import Sequence

from banditmips.experiments.report.chart import Axis, Mark, Panel, Series
from banditmips.experiments.report.panels import (
    MULTIPLIES,
    Panels,
    describe,
    held,
    point_groups,
    point_series,
    query_seconds,
)
from banditmips.experiments.report.points import PUBLISHED, Estimate, Point, mean_extra
from banditmips.experiments.report.styles import name_of, style_of

__all__ = ["swept", "trade_off"]

_ROW = 1.13
"""Factor between two rows of the band."""
_TICKS = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


class _Errors:
    """Where the errors of some points stand: on the axis, or in the row of their method in the band above it."""

    def __init__(self, groups: Sequence[Sequence[Point]]) -> None:
        errors = [_error(point) for group in groups for point in group]
        self._floor = min([error for error in errors if error > 0.0], default=0.1) / 1.6
        self._floor = min(self._floor, 0.1)
        self._rows = {_key(group[0]): number for number, group in enumerate(groups, start=1)}

    def place(self, point: Point) -> float:
        error = _error(point)
        return error if error > 0.0 else self._floor / _ROW ** self._rows[_key(point)]

    def axis(self) -> Axis:
        n_rows = len(self._rows)
        ticks = [(value, f"{value:g}") for value in _TICKS if value > self._floor]
        ticks.append((self._floor / _ROW ** ((1 + n_rows) / 2), "none"))
        limits = (1.25, self._floor / _ROW ** (n_rows + 1.5))
        return Axis("error, 1 - accuracy", log=True, limits=limits, unit="", ticks=tuple(ticks))


def _key(point: Point) -> tuple[str, str]:
    return name_of(point.algorithm, point.source), point.source


def _error(point: Point) -> float:
    error = 1.0 - point.accuracy.mean
    return error if error > 1e-12 else 0.0  # a mean of ones may be rounded


def trade_off(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return the error against the speed-up, in multiplies and in time.

    A line joins the points of a method that none of its others beats.
    """
    sizes = held(points, "n") + held(points, "d")
    panels = []
    for in_time in (False, True):
        groups = [[point for point in group if _speed_up(point, in_time)] for group in point_groups(points)]
        groups = [group for group in groups if group]
        if groups:
            errors = _Errors(groups)
            series = tuple(_trade_off_series(group, in_time, errors) for group in groups)
            over = "BLAS, in time" if in_time else "naive, in multiplies"  # no longer than a phone is wide
            x = Axis(f"speed-up over {over}", log=True, unit="")
            panels.append(Panel(title + sizes + (": time" if in_time else ""), x, errors.axis(), series))
    return panels


def _trade_off_series(points: Sequence[Point], in_time: bool, errors: _Errors) -> Series:
    # The intervals of accuracies are left to the text of a point, as in the paper: drawn, they would cover it all.
    marks = []
    for point in points:
        y = errors.place(point)
        marks.append(Mark(_speed_up(point, in_time) or 0.0, y, y, y, describe(point)))
    name, source = _key(points[0])
    path = () if source == PUBLISHED else tuple(_frontier(marks))
    return Series(name, style_of(name), source, tuple(marks), path)


def _speed_up(point: Point, in_time: bool) -> float | None:
    if not in_time:
        return point.speed_up
    full, taken = mean_extra(point, "blas_seconds"), query_seconds(point)
    return None if full is None or taken is None else full.mean / taken.mean


def _frontier(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Return the marks that no other beats in both speed-up and error, from slow to fast."""
    best: list[tuple[float, float]] = []
    for mark in sorted(marks, key=lambda mark: (-mark.x, mark.y)):
        if not best or mark.y < best[-1][1]:
            best.append((mark.x, mark.y))
    return best[::-1]


def swept(name: str) -> Panels:
    """Return a maker of two panels: multiplies, and the error, against delta or epsilon alone."""
    x = Axis("delta (epsilon is 0)" if name == "delta" else "epsilon per coordinate (delta is 0.01)", log=True, unit="")

    def place(point: Point) -> float | None:
        return point.delta if name == "delta" else point.epsilon

    def panels(title: str, points: Sequence[Point]) -> list[Panel]:
        groups = point_groups(points)
        errors = _Errors(groups)
        heading = title + held(points, "n") + held(points, "d")

        def error(point: Point) -> Estimate:
            y = errors.place(point)
            return Estimate(y, y, y, point.accuracy.count)

        return [
            Panel(heading, x, MULTIPLIES, tuple(point_series(group, place) for group in groups)),
            Panel(f"{heading}: error", x, errors.axis(), tuple(point_series(group, place, error) for group in groups)),
        ]

    return panels
