"""Which points each figure shows, and how: from points to `Chart`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from banditmips.experiments.report.chart import Axis, Chart, Mark, Panel, Series
from banditmips.experiments.report.fits import fit_table
from banditmips.experiments.report.points import PUBLISHED, Estimate, Point, failure_share, mean_extra, sweep
from banditmips.experiments.report.styles import REFERENCE, SOURCES, bound_style, order_of, style_of

__all__ = ["FIGURE_TITLES", "make_chart"]

_FOUR = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens")
_D = Axis("coordinates d", log=True)
_N = Axis("atoms n", log=True)
_MULTIPLIES = Axis("multiplies per query", log=True)


@dataclass(frozen=True)
class _Plan:
    """A figure's title, caption and datasets, and the function that makes the panels of one dataset."""

    title: str
    caption: str
    datasets: tuple[str, ...]
    panels: Callable[[str, Sequence[Point]], list[Panel]]


def make_chart(figure: str, measured: Sequence[Point], published: Sequence[Point]) -> Chart | None:
    """Return a figure's chart, or None if nothing of it has been measured.

    A dataset of the figure that has only published points is shown with these, and says so.
    """
    plan = _PLANS[figure]
    mine = [point for point in measured if point.figure == figure]
    if not mine:
        return None
    theirs = [point for point in published if point.figure == figure]
    present = {point.dataset for point in (*mine, *theirs)}
    datasets = [name for name in plan.datasets if name in present]
    datasets += sorted(present - set(datasets))
    panels = []
    for dataset in datasets:
        own = [point for point in (*mine, *theirs) if point.dataset == dataset]
        panels += plan.panels(_panel_title(dataset, own), own)
    tables = (fit_table(mine, theirs, datasets),) if figure == "figure1" else ()
    return Chart(figure, _title(figure, mine), plan.caption, tuple(panels), tables)


def _title(figure: str, measured: Sequence[Point]) -> str:
    surrogates = sorted({point.dataset for point in measured if point.surrogate})
    note = f" (surrogate data for {', '.join(surrogates)})" if surrogates else ""
    return FIGURE_TITLES[figure] + note


def _panel_title(dataset: str, points: Sequence[Point]) -> str:
    measured = [point for point in points if point.source != PUBLISHED]
    if not measured:
        return f"{dataset}: not run yet"
    return f"{dataset} (surrogate)" if any(point.surrogate for point in measured) else dataset


def _against(axis: str) -> Callable[[str, Sequence[Point]], list[Panel]]:
    """Return a maker of one panel: multiplies against n or d."""

    def panels(title: str, points: Sequence[Point]) -> list[Panel]:
        return [_scaling_panel(title, points, axis)]

    return panels


def _scaling_panel(title: str, points: Sequence[Point], axis: str) -> Panel:
    series = [_series(group, axis) for group in _groups(points)]
    series += _naive_line(points, axis)
    return Panel(f"{title}{_held(points, axis)}", _D if axis == "d" else _N, _MULTIPLIES, tuple(series))


def _groups(points: Sequence[Point]) -> list[list[Point]]:
    """Return the points by algorithm and source; the naive algorithm has a line of its own, not points."""
    groups: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        if point.algorithm != "Naive":
            groups.setdefault((point.algorithm, point.source), []).append(point)
    order = list(SOURCES)
    return [groups[key] for key in sorted(groups, key=lambda key: (order_of(key[0]), order.index(key[1])))]


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
    counts = {
        int(getattr(point, axis)): point.naive
        for point in points
        if getattr(point, axis) is not None and point.naive is not None
    }
    if not counts:
        return []
    marks = tuple(
        Mark(x, y, y, y, f"naive algorithm: n d = {y:,.0f}") for x, y in sorted(counts.items()) if y is not None
    )
    return [_line(Series("Naive", style_of("Naive"), REFERENCE, marks, (), markers=False))]


def _held(points: Sequence[Point], axis: str) -> str:
    """Say which n (or d) the measured points have, where it is one."""
    other = "n" if axis == "d" else "d"
    values = {getattr(point, other) for point in points if point.source != PUBLISHED}
    values = values or {getattr(point, other) for point in points}
    known = sorted(value for value in values if value is not None)
    return f", {other} = {known[0]:,}" if len(known) == 1 else ""


def _trade_off(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return accuracy against speed-up; a line joins the points of a method that none of its others beats."""
    series = []
    for group in _groups(points):
        marks = [
            Mark(point.speed_up, point.accuracy.mean, point.accuracy.low, point.accuracy.high, describe(point))
            for point in group
            if point.speed_up is not None
        ]
        first = group[0]
        # Accuracies' intervals are left to the text beside a point, as in the paper: drawn, they would cover it all.
        bare = tuple(replace(mark, low=mark.y, high=mark.y) for mark in marks)
        path = () if first.source == PUBLISHED else tuple(_frontier(bare))
        series.append(Series(first.algorithm, style_of(first.algorithm), first.source, bare, path))
    speed_up = Axis("speed-up over the naive algorithm", log=True, unit="")
    measured = [point for point in points if point.source != PUBLISHED] or points
    held = ", ".join(f"{axis} = {measured[0].__getattribute__(axis):,}" for axis in ("n", "d"))
    return [Panel(f"{title}, {held}", speed_up, Axis("accuracy", log=False, limits=(-0.04, 1.06), unit=""), tuple(series))]


def _frontier(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Return the marks that no other beats in both speed-up and accuracy, from slow to fast."""
    best: list[tuple[float, float]] = []
    for mark in sorted(marks, key=lambda mark: (-mark.x, -mark.y)):
        if not best or mark.y > best[-1][1]:
            best.append((mark.x, mark.y))
    return best[::-1]


def _buckets(title: str, points: Sequence[Point]) -> list[Panel]:
    panels = []
    for axis in ("n", "d"):
        chosen = [point for group in _groups(points) for point in sweep(group, axis)]
        if axis == "d":  # the paper has only the buckets against d
            chosen = [point for point in chosen if point.algorithm == "Bucket_AE"]
        if len({getattr(point, axis) for point in chosen}) > 1 or axis == "n":
            panels.append(_scaling_panel(f"{title} against {axis}", chosen, axis))
    return panels


def _bounds(title: str, points: Sequence[Point]) -> list[Panel]:
    labels = sorted({_variant(point) for point in points})
    series = []
    for number, label in enumerate(labels):
        for source in SOURCES:
            chosen = [point for point in points if _variant(point) == label and point.source == source]
            if chosen:
                series.append(replace(_series(chosen, "d"), name=label, style=bound_style(number)))
    panel = _scaling_panel(title, points, "d")
    return [replace(panel, series=(*series, *_naive_line(points, "d")))]


def _variant(point: Point) -> str:
    """Name the variant of BanditMIPS that a row was measured with."""
    named = [str(point.parameters[name]) for name in ("bound", "sampling") if name in point.parameters]
    return ", ".join(named) or point.algorithm


def _clock(title: str, points: Sequence[Point]) -> list[Panel]:
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
    seconds = Panel(f"{title}: clock", _D, Axis("time per query", log=True, unit="s"), tuple(times))
    return [multiplies, seconds]


def _failures(title: str, points: Sequence[Point]) -> list[Panel]:
    """Return the share of failures against delta, beside the line where both are equal.

    Both axes are logarithmic, so that a share of zero stands at the lower edge.
    """
    counted = [(point, share) for point in points if point.delta and (share := failure_share(point)) is not None]
    if not counted:
        return []
    deltas = [point.delta for point, _ in counted if point.delta]
    floor = min(*deltas, *(share.low for _, share in counted if share.low > 0), min(deltas)) / 2
    series = []
    for number, label in enumerate(sorted({_variant(point) for point, _ in counted})):
        for source in SOURCES:
            marks = []
            for point, share in sorted(counted, key=lambda pair: pair[0].delta or 0.0):
                if _variant(point) == label and point.source == source and point.delta:
                    text = f"{describe(point)}<br>{share.mean * share.count:.0f} failures in {share.count:,} trials"
                    ends = max(share.low, floor), max(share.high, floor)
                    marks.append(Mark(point.delta, max(share.mean, floor), *ends, text))
            if marks:
                style = style_of(label) if label == points[0].algorithm else bound_style(number)
                series.append(_line(Series(label, style, source, tuple(marks), ())))
    diagonal = tuple(Mark(delta, delta, delta, delta, f"delta = {delta:g}") for delta in sorted(set(deltas)))
    promised = Series("as many failures as delta allows", style_of("Naive"), REFERENCE, diagonal, (), markers=False)
    y = Axis("share of failures", log=True, limits=(floor * 0.8, 1.0), unit="")
    return [Panel(title, Axis("delta", log=True, unit=""), y, (*series, _line(promised)))]


def _theorem(title: str, points: Sequence[Point]) -> list[Panel]:
    panel = _scaling_panel(title, points, "d")
    bounds = []
    for group in _groups(points):
        line = _series(group, "d", lambda point: mean_extra(point, "bound_theorem1"))
        if line.marks:
            bounds.append(replace(line, name="bound of Theorem 1", style=bound_style(1), source=REFERENCE))
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


_PLANS = {
    "figure1": _Plan(
        "Figure 1: multiplies of BanditMIPS against d",
        "The paper: the sample complexity does not scale with d. Both axes are logarithmic, so a method whose work is "
        "independent of d is a level line, and the naive algorithm one that rises by one decade in each.",
        _FOUR,
        _against("d"),
    ),
    "figure2": _Plan(
        "Figure 2: all algorithms against d",
        "Multiplies of a query; the preprocessing of the baselines is not counted, as in the paper. The published "
        "counts are for k = 5. Fewer multiplies are worth little where the answers are wrong: hover over a point for "
        "its accuracy.",
        _FOUR,
        _against("d"),
    ),
    "figure3": _Plan(
        "Figure 3: accuracy against speed-up, k = 1",
        "Every point is one setting of a method's hyperparameters. A line joins the points that no other setting of "
        "the same method beats. Better is further up and further right.",
        _FOUR,
        _trade_off,
    ),
    "figure5": _Plan(
        "Figure 5: precision@5 against speed-up",
        "As figure 3, for the five best atoms.",
        _FOUR,
        _trade_off,
    ),
    "figure6": _Plan(
        "Figure 6: precision@10 against speed-up",
        "As figure 3, for the ten best atoms.",
        _FOUR,
        _trade_off,
    ),
    "figure4": _Plan(
        "Figure 4: Sift-1M and CryptoPairs against d",
        "The paper: BanditMIPS scales as O(1) with d on both.",
        ("Sift-1M", "CryptoPairs"),
        _against("d"),
    ),
    "figure7": _Plan(
        "Figure 7: scaling with n, with and without buckets, and buckets with d",
        "The paper: BanditMIPS scales linearly with n, Bucket_AE sublinearly, and the latter not with d. The published "
        "runs against n do not tell their d.",
        ("CORRELATED_NORMAL_CUSTOM", "Netflix"),
        _buckets,
    ),
    "figure8": _Plan(
        "Figure 8: matching pursuit on SimpleSong against song length",
        "Multiplies to find the five notes of the song. d is the length of the song in samples, 44,100 in a second. "
        "The paper: it does not scale with the length of the song.",
        ("SimpleSong",),
        _against("d"),
    ),
    "figure9": _Plan(
        "Figure 9: SymmetricNormal against d",
        "Atoms that are all alike: the gaps shrink with d, and the paper expects its algorithm to scale linearly.",
        ("SymmetricNormal",),
        _against("d"),
    ),
    "beyond_bounds": _Plan(
        "Beyond the paper: other bounds",
        "The paper's Hoeffding bound beside the others that this package has, on the same data.",
        (*_FOUR, "SymmetricNormal"),
        _bounds,
    ),
    "beyond_clock": _Plan(
        "Beyond the paper: the clock beside the multiplies",
        "Fewer multiplies are not the same factor in time: a full product reads memory in order and uses every unit of "
        "the processor. The grey line is a full product by BLAS on the same machine.",
        _FOUR,
        _clock,
    ),
    "beyond_failures": _Plan(
        "Beyond the paper: failure rate against delta",
        "A search may fail with probability delta at most: points belong below the grey line. Intervals are exact "
        "binomial ones. Points on the lower edge had no failure at all.",
        _FOUR,
        _failures,
    ),
    "beyond_theorem1": _Plan(
        "Beyond the paper: Theorem 1's bound beside the measured multiplies",
        "The bound on the multiplies computed from the true gaps of the data.",
        (*_FOUR, "SymmetricNormal"),
        _theorem,
    ),
}

FIGURE_TITLES = {figure: plan.title for figure, plan in _PLANS.items()}
"""The title of every figure, in the order of the page."""
