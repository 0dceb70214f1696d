"""How each kind of figure shows the points of one dataset: from points to `Panel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from banditmips.experiments.report.chart import Axis, Mark, Panel, Series
from banditmips.experiments.report.points import PUBLISHED, Estimate, Point, failure_share, mean_extra, sweep
from banditmips.experiments.report.styles import (
    BOUND,
    BOUND_BY_VARIANCE,
    REFERENCE,
    SOURCES,
    name_of,
    order_of,
    style_of,
)
from banditmips.experiments.rows import PAPER, VARIANCE

__all__ = [
    "MULTIPLIES",
    "Panels",
    "against",
    "bounds",
    "buckets",
    "describe",
    "failures",
    "held",
    "point_groups",
    "point_series",
    "query_seconds",
    "sampling",
    "theorem",
    "warm_start",
]

Panels = Callable[[str, Sequence[Point]], list[Panel]]
"""Makes the panels of one dataset from its title and its points."""

_Value = Callable[[Point], Estimate | None]
_Number = Callable[[Point], float | None]

_D = Axis("coordinates d", log=True)
_N = Axis("atoms n", log=True)
MULTIPLIES = Axis("multiplies per query", log=True)
_SECONDS = Axis("seconds per query", log=True)
_BLAS = "full product (BLAS)"


def against(axis: str, unit: str = "query") -> Panels:
    """Return a maker of two panels: multiplies, and time, against n or d."""

    def panels(title: str, points: Sequence[Point]) -> list[Panel]:
        made = [_scaling_panel(title, points, axis), _time_panel(title, points, axis)]
        return [
            replace(panel, y=replace(panel.y, label=panel.y.label.replace("query", unit)))
            for panel in made
            if panel is not None
        ]

    return panels


def _scaling_panel(title: str, points: Sequence[Point], axis: str) -> Panel:
    series = [point_series(group, _size(axis)) for group in point_groups(points)]
    series += _naive_line(points, axis)
    return Panel(title + held(points, _other(axis)), _D if axis == "d" else _N, MULTIPLIES, tuple(series))


def _time_panel(title: str, points: Sequence[Point], axis: str) -> Panel | None:
    """Return the time of a query against n or d, beside that of a full product; None where nobody has measured any."""
    measured = [point for point in points if point.source != PUBLISHED]
    if not measured:
        return None
    series = [point_series(group, _size(axis), query_seconds) for group in point_groups(measured)]
    series += _blas_line(measured, _size(axis))
    return Panel(f"{title}{held(points, _other(axis))}: time", _D if axis == "d" else _N, _SECONDS, tuple(series))


def query_seconds(point: Point) -> Estimate | None:
    """Return the time of a query: of the defaults, when they are asked for little time and not for few multiplies."""
    return mean_extra(point, "fast_seconds") or point.seconds


def _other(axis: str) -> str:
    return "n" if axis == "d" else "d"


def _size(axis: str) -> _Number:
    return lambda point: getattr(point, axis)


def point_groups(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points by name and source, the published first, so that they are drawn behind the others.

    The naive algorithm has a line of its own, not points.
    """
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        if point.algorithm != "Naive":
            groups.setdefault((name_of(point.algorithm, point.source), point.source), []).append(point)
    keys = sorted(groups, key=lambda key: (key[1] != PUBLISHED, order_of(key[0]), key[1]))
    return [groups[key] for key in keys]


def point_series(points: Sequence[Point], place: _Number, value: _Value | None = None) -> Series:
    """Return the points of one algorithm and source as a line; by default of their multiplies."""
    marks = []
    for point in points:
        x, estimate = place(point), value(point) if value else point.multiplies
        if x is not None and estimate is not None:
            marks.append(Mark(x, estimate.mean, estimate.low, estimate.high, describe(point)))
    name = name_of(points[0].algorithm, points[0].source)
    ordered = tuple(sorted(marks, key=lambda mark: mark.x))
    return _line(Series(name, style_of(name), points[0].source, ordered, ()))


def _blas_line(points: Sequence[Point], place: _Number) -> list[Series]:
    """Return the time of a full product, a mean over all that measured it at the same place."""
    times: dict[float, list[float]] = {}
    for point in points:
        found, x = mean_extra(point, "blas_seconds"), place(point)
        if found is not None and x is not None:
            times.setdefault(x, []).append(found.mean)
    means = {x: sum(found) / len(found) for x, found in sorted(times.items())}
    marks = tuple(Mark(x, y, y, y, f"{_BLAS}: {_time(y)}") for x, y in means.items())
    return [_line(Series(_BLAS, style_of("Naive"), REFERENCE, marks, (), markers=False))] if marks else []


def _line(series: Series) -> Series:
    return replace(series, path=tuple((mark.x, mark.y) for mark in series.marks))


def _naive_line(points: Sequence[Point], axis: str) -> list[Series]:
    """Return n d, at the n (or d) of the measured points: that of the published ones may be another."""
    counts = {
        int(getattr(point, axis)): point.naive
        for point in _measured(points)
        if getattr(point, axis) is not None and point.naive is not None
    }
    if not counts:
        return []
    marks = tuple(Mark(x, y, y, y, f"naive algorithm: n d = {y:,.0f}") for x, y in sorted(counts.items()))
    return [_line(Series("Naive", style_of("Naive"), REFERENCE, marks, (), markers=False))]


def held(points: Sequence[Point], axis: str) -> str:
    """Say which n (or d) all measured points have, and where the published ones have another."""
    mine = {getattr(point, axis) for point in _measured(points)}
    theirs = {getattr(point, axis) for point in points if point.source == PUBLISHED} - {None}
    if len(mine) != 1 or None in mine:
        return ""
    other = f" (published: {theirs.pop():,})" if len(theirs) == 1 and theirs != mine else ""
    return f", {axis}\u00a0=\u00a0{mine.pop():,}{other}"


def _measured(points: Sequence[Point]) -> list[Point]:
    """Return the measured points; where there are none, the published ones."""
    return [point for point in points if point.source != PUBLISHED] or list(points)


def sampling(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return multiplies, and the combined variance, against beta, with Theorem 2's weights as a level line."""
    beta = Axis("beta of the weights q^(2 beta)", log=False, limits=(-0.05, 1.05), unit="")
    variance = Axis("combined variance over the optimum's", log=True, unit="")
    counts = [_weighted(group) for group in _by_source(points)]
    # Both sources have the same weights, and so the same variance.
    first = _by_source(points)[0]
    variances = _weighted(first, lambda point: mean_extra(point, "variance_over_optimal"))
    sizes = held(points, "n") + held(points, "d")
    return [
        Panel(title + sizes, beta, MULTIPLIES, tuple(series for pair in counts for series in pair)),
        Panel(f"{title}{sizes}: variance", beta, variance, tuple(variances)),
    ]


def _by_source(points: Sequence[Point]) -> list[list[Point]]:
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(point.source, []).append(point)
    return list(groups.values())


def _weighted(points: Sequence[Point], value: _Value | None = None) -> list[Series]:
    """Return the weights of each beta as one line, and Theorem 2's as another over all of them."""
    made = []
    for name in ("weighted", "optimal"):
        own = [point for point in points if point.parameters["sampling"] == name]
        if own:
            line = point_series(own, lambda point: point.parameters.get("beta", 0.0), value)
            if name == "optimal":
                line = _line(replace(line, marks=tuple(replace(line.marks[0], x=x) for x in (0.0, 1.0))))
            made.append(replace(line, name=name, style=style_of(name)))
    return made


def warm_start(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return the time of a query, and its multiplies, against the queries that the index is shared by."""

    def place(point: Point) -> float:
        return float(point.parameters["queries"])

    x = Axis("queries that share the index", log=True)
    sizes = held(points, "n") + held(points, "d")
    times = [point_series(group, place, lambda point: point.seconds) for group in point_groups(points)]
    times += _blas_line(points, place)
    counts = tuple(point_series(group, place) for group in point_groups(points))
    return [
        Panel(f"{title}{sizes}: time", x, replace(_SECONDS, label="seconds per query, fit shared out"), tuple(times)),
        Panel(title + sizes, x, MULTIPLIES, counts),
    ]


def buckets(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return multiplies and time against n, and of the buckets alone against d, as in the paper."""
    panels = []
    for axis in ("n", "d"):
        chosen = [point for group in point_groups(points) for point in sweep(group, axis)]
        if axis == "d":
            chosen = [point for point in chosen if point.algorithm.startswith("Bucket_AE")]
        if len({getattr(point, axis) for point in chosen}) > 1 or axis == "n":
            panels += against(axis)(f"{title} against {axis}", chosen)
    return panels


def bounds(title: str, points: Sequence[Point]) -> list[Panel]:
    series = [
        replace(point_series(group, _size("d")), name=name, style=style_of(name))
        for name, group in _variant_groups(points)
    ]
    panel = _scaling_panel(title, points, "d")
    return [replace(panel, series=(*series, *_naive_line(points, "d")))]


def _variant_groups(points: Sequence[Point]) -> list[tuple[str, list[Point]]]:
    """Return the points by variant and source."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        groups.setdefault((_variant(point), point.source), []).append(point)
    return [(name, groups[name, source]) for name, source in sorted(groups, key=lambda key: order_of(key[0]))]


def _variant(point: Point) -> str:
    """Name the variant of BanditMIPS that a row was measured with."""
    named = [str(point.parameters[name]) for name in ("bound", "sampling") if name in point.parameters]
    return ", ".join(named) or point.algorithm


def failures(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return the share of failures against delta, beside the line where both are equal.

    Both axes are logarithmic, so that a share of zero stands at the lower edge.
    """
    counted = [(point, share) for point in points if point.delta and (share := failure_share(point)) is not None]
    if not counted:
        return []
    deltas = [point.delta for point, _ in counted if point.delta]
    floor = min([*deltas, *(share.low for _, share in counted if share.low > 0)]) / 2
    series = []
    for name, group in _variant_groups([point for point, _ in counted]):
        marks = []
        for point in sorted(group, key=lambda point: point.delta or 0.0):
            share = next(share for counted_point, share in counted if counted_point is point)
            text = f"{describe(point)}<br>{share.mean * share.count:.0f} failures in {share.count:,} searches"
            sampled = [int(row.extra["sampled"]) for row in point.rows if "sampled" in row.extra]
            text += f", {sum(sampled):,} of them decided by estimates" if sampled else ""
            ends = max(share.low, floor), max(share.high, floor)
            marks.append(Mark(point.delta or 0.0, max(share.mean, floor), *ends, text))
        series.append(_line(Series(name, style_of(name), group[0].source, tuple(marks), ())))
    diagonal = tuple(Mark(delta, delta, delta, delta, f"delta = {delta:g}") for delta in sorted(set(deltas)))
    promised = Series("as many failures as delta allows", style_of("Naive"), REFERENCE, diagonal, (), markers=False)
    y = Axis("share of failures", log=True, limits=(floor * 0.8, 1.0), unit="")
    return [Panel(title, Axis("delta", log=True, unit=""), y, (*series, _line(promised)))]


def theorem(title: str, points: Sequence[Point]) -> list[Panel]:
    panel = _scaling_panel(title, points, "d")
    bounds = []
    for group in point_groups(points):
        line = point_series(group, _size("d"), lambda point: mean_extra(point, "bound_theorem1"))
        if line.marks and group[0].source in _READINGS:
            name, style = _READINGS[group[0].source]
            bounds.append(replace(line, name=name, style=style, source=REFERENCE))
    return [replace(panel, series=(*panel.series, *bounds))]


_READINGS = {
    PAPER: ("bound of Theorem 1", BOUND),
    VARIANCE: ("bound of Theorem 1, sigma read as a variance", BOUND_BY_VARIANCE),
}


def describe(point: Point) -> str:
    """Return what hovering over a point tells, in lines of HTML."""
    head = f"<b>{point.algorithm}</b>, {SOURCES[point.source].label}"
    size = f"n = {point.n:,}" + (f", d = {point.d:,}" if point.d is not None else "") + f", k = {point.k}"
    trials = "" if point.source == PUBLISHED else f", {point.multiplies.count} trials"
    lines = [head, size, f"{point.multiplies.mean:,.0f} multiplies{_interval(point.multiplies)}{trials}"]
    if point.speed_up is not None:
        lines.append(f"{point.speed_up:,.3g} times fewer than naive")
    lines.append(f"accuracy {point.accuracy.mean:.3f}{_interval(point.accuracy, '.3f')}")
    lines += _timing(point)
    settings: dict[str, Any] = {"delta": point.delta, "epsilon": point.epsilon, **point.parameters}
    told = [f"{name} = {_short(value)}" for name, value in settings.items() if value is not None]
    if told:
        lines.append(", ".join(told))
    return "<br>".join(lines)


def _timing(point: Point) -> list[str]:
    """Say how long a query took, and a full product; and the multiplies where the search was asked for little time."""
    taken, full = query_seconds(point), mean_extra(point, "blas_seconds")
    if taken is None:
        return []
    counted = mean_extra(point, "fast_multiplies")
    how = "" if mean_extra(point, "fast_seconds") is None else " when asked for little time"
    how += "" if counted is None else f" ({counted.mean:,.0f} multiplies)"
    beside = "" if full is None else f", {_BLAS} {_time(full.mean)}"
    prepared = mean_extra(point, "preparation_multiplies")
    lines = [f"{_time(taken.mean)}{how}{beside}"]
    return lines if prepared is None else [*lines, f"{prepared.mean:,.0f} multiplies before the first query"]


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 1e-6:.3g} µs"


def _interval(estimate: Estimate, form: str = ",.0f") -> str:
    return f" ({estimate.low:{form}} to {estimate.high:{form}})" if estimate.low < estimate.high else ""


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
