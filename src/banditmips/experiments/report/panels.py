"""How each kind of figure shows the points of one dataset: from points to `Panel`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from banditmips.experiments.report.chart import Axis, Mark, Panel, Series
from banditmips.experiments.report.points import PUBLISHED, Estimate, Point, failure_share, mean_extra, sweep
from banditmips.experiments.report.styles import BOUND, REFERENCE, SOURCES, order_of, style_of

__all__ = ["against", "bounds", "buckets", "clock", "describe", "failures", "theorem", "trade_off"]

_D = Axis("coordinates d", log=True)
_N = Axis("atoms n", log=True)
_MULTIPLIES = Axis("multiplies per query", log=True)


def against(axis: str) -> Callable[[str, Sequence[Point]], list[Panel]]:
    """Return a maker of one panel: multiplies against n or d."""

    def panels(title: str, points: Sequence[Point]) -> list[Panel]:
        return [_scaling_panel(title, points, axis)]

    return panels


def _scaling_panel(title: str, points: Sequence[Point], axis: str) -> Panel:
    series = [_series(group, axis) for group in _groups(points)]
    series += _naive_line(points, axis)
    held = _held(points, "n" if axis == "d" else "d")
    return Panel(title + held, _D if axis == "d" else _N, _MULTIPLIES, tuple(series))


def _groups(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points by algorithm and source, the published first, so that they are drawn behind the others.

    The naive algorithm has a line of its own, not points.
    """
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        if point.algorithm != "Naive":
            groups.setdefault((point.algorithm, point.source), []).append(point)
    keys = sorted(groups, key=lambda key: (key[1] != PUBLISHED, order_of(key[0]), key[1]))
    return [groups[key] for key in keys]


def _series(points: Sequence[Point], axis: str, value: Callable[[Point], Estimate | None] | None = None) -> Series:
    """Return the points of one algorithm and source as a line; by default of their multiplies."""
    marks = []
    for point in sorted(points, key=lambda point: int(getattr(point, axis) or 0)):
        estimate = value(point) if value else point.multiplies
        if getattr(point, axis) is not None and estimate is not None:
            marks.append(Mark(getattr(point, axis), estimate.mean, estimate.low, estimate.high, describe(point)))
    first = points[0]
    return _line(Series(first.algorithm, style_of(first.algorithm), first.source, tuple(marks), ()))


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


def _held(points: Sequence[Point], axis: str) -> str:
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


def trade_off(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return accuracy against speed-up; a line joins the points of a method that none of its others beats."""
    series = []
    for group in _groups(points):
        first = group[0]
        # The intervals of accuracies are left to the text of a point, as in the paper: drawn, they would cover it all.
        marks = tuple(
            Mark(point.speed_up, point.accuracy.mean, point.accuracy.mean, point.accuracy.mean, describe(point))
            for point in group
            if point.speed_up is not None
        )
        path = () if first.source == PUBLISHED else tuple(_frontier(marks))
        series.append(Series(first.algorithm, style_of(first.algorithm), first.source, marks, path))
    speed_up = Axis("speed-up over the naive algorithm", log=True, unit="")
    accuracy = Axis("accuracy", log=False, limits=(-0.04, 1.06), unit="")
    return [Panel(title + _held(points, "n") + _held(points, "d"), speed_up, accuracy, tuple(series))]


def _frontier(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Return the marks that no other beats in both speed-up and accuracy, from slow to fast."""
    best: list[tuple[float, float]] = []
    for mark in sorted(marks, key=lambda mark: (-mark.x, -mark.y)):
        if not best or mark.y > best[-1][1]:
            best.append((mark.x, mark.y))
    return best[::-1]


def buckets(title: str, points: Sequence[Point]) -> list[Panel]:
    panels = []
    for axis in ("n", "d"):
        chosen = [point for group in _groups(points) for point in sweep(group, axis)]
        if axis == "d":  # the paper has only the buckets against d
            chosen = [point for point in chosen if point.algorithm == "Bucket_AE"]
        if len({getattr(point, axis) for point in chosen}) > 1 or axis == "n":
            panels.append(_scaling_panel(f"{title} against {axis}", chosen, axis))
    return panels


def bounds(title: str, points: Sequence[Point]) -> list[Panel]:
    series = [replace(_series(group, "d"), name=name, style=style_of(name)) for name, group in _variant_groups(points)]
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


def clock(title: str, points: Sequence[Point]) -> list[Panel]:
    multiplies = _scaling_panel(f"{title}: multiplies", points, "d")
    times = [_series(group, "d", lambda point: point.seconds) for group in _groups(points)]
    blas: dict[int, Mark] = {}
    for point in points:
        full = mean_extra(point, "blas_seconds")
        if full is not None and point.d is not None:
            blas[point.d] = Mark(point.d, full.mean, full.low, full.high, f"full product by BLAS: {full.mean:.3g} s")
    if blas:
        marks = tuple(blas[d] for d in sorted(blas))
        times.append(_line(Series("full product (BLAS)", style_of("Naive"), REFERENCE, marks, ())))
    seconds = Panel(f"{title}: clock", _D, Axis("seconds per query", log=True), tuple(times))
    return [multiplies, seconds]


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
            text = f"{describe(point)}<br>{share.mean * share.count:.0f} failures in {share.count:,} trials"
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
    for group in _groups(points):
        line = _series(group, "d", lambda point: mean_extra(point, "bound_theorem1"))
        if line.marks:
            bounds.append(replace(line, name="bound of Theorem 1", style=BOUND, source=REFERENCE))
    return [replace(panel, series=(*panel.series, *bounds[:1]))]


def describe(point: Point) -> str:
    """Return what hovering over a point tells, in lines of HTML."""
    head = f"<b>{point.algorithm}</b>, {SOURCES[point.source].label}"
    size = f"n = {point.n:,}" + (f", d = {point.d:,}" if point.d is not None else "") + f", k = {point.k}"
    trials = "" if point.source == PUBLISHED else f", {point.multiplies.count} trials"
    lines = [head, size, f"{point.multiplies.mean:,.0f} multiplies{_interval(point.multiplies)}{trials}"]
    if point.speed_up is not None:
        lines.append(f"{point.speed_up:,.3g} times fewer than naive")
    lines.append(f"accuracy {point.accuracy.mean:.3f}{_interval(point.accuracy, '.3f')}")
    settings: dict[str, Any] = {"delta": point.delta, "epsilon": point.epsilon, **point.parameters}
    told = [f"{name} = {_short(value)}" for name, value in settings.items() if value is not None]
    if told:
        lines.append(", ".join(told))
    return "<br>".join(lines)


def _interval(estimate: Estimate, form: str = ",.0f") -> str:
    return f" ({estimate.low:{form}} to {estimate.high:{form}})" if estimate.low < estimate.high else ""


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
