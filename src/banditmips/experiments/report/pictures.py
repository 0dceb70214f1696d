"""Charts as pictures, by matplotlib without pyplot: one SVG for each panel, and whole figures as SVG and PNG."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from banditmips._extras import require
from banditmips.experiments.report.chart import Axis, Chart, Panel, Series
from banditmips.experiments.report.styles import SOURCES, SourceStyle, Style

__all__ = ["panel_svg", "swatch_svg", "write_pictures"]

_PANEL_SIZE = (5.4, 3.9)
_TEXT = "#1a1a1a"
_SETTINGS = {
    "font.size": 10.5,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": _TEXT,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "svg.fonttype": "none",  # a third of the size of outlines, and the text stays text
    "svg.hashsalt": "banditmips",  # the same chart gives the same bytes
    "text.color": _TEXT,
    "xtick.color": _TEXT,
    "ytick.color": _TEXT,
}


def _matplotlib(module: str) -> Any:
    return require(f"matplotlib.{module}", extra="experiments", purpose="the report of an experiment")


@contextmanager
def _settings() -> Iterator[None]:
    # Imported by hand: the package itself offers the context, and `require` names the extra if it is missing.
    matplotlib = require("matplotlib", extra="experiments", purpose="the report of an experiment")
    with matplotlib.rc_context(_SETTINGS):
        yield


def panel_svg(panel: Panel) -> str:
    """Return one panel without title or legend, which the page has in HTML beside it."""
    with _settings():
        figure = _matplotlib("figure").Figure(figsize=_PANEL_SIZE)
        axes = figure.add_axes((0.135, 0.135, 0.85, 0.845))
        _draw(axes, panel)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    # The prologue belongs to a file of its own, not to a picture within a page.
    text = file.getvalue()
    return text[text.index("<svg") :]


def write_pictures(chart: Chart, directory: Path) -> None:
    """Write a whole figure, with title and legend, as ``KEY.svg`` and ``KEY.png``."""
    n_columns = min(2, len(chart.panels))
    n_rows = -(-len(chart.panels) // n_columns)
    width, height = max(_PANEL_SIZE[0] * n_columns, 7.5), _PANEL_SIZE[1] * n_rows
    n_legend_columns = 3 if width > 9 else 2
    n_entries = len(chart.names()) + len(chart.sources())
    height += 0.7 + 0.25 * (-(-n_entries // n_legend_columns))
    with _settings():
        figure = _matplotlib("figure").Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
        for axes, panel in zip(grid, chart.panels, strict=False):
            _draw(axes, panel)
            axes.set_title(panel.title, fontsize=11)
        for axes in grid[len(chart.panels) :]:
            axes.set_visible(False)
        title = chart.title.replace(" (", "\n(", 1) if len(chart.title) > 80 else chart.title
        figure.suptitle(title, fontsize=13, fontweight="bold")
        figure.legend(
            handles=_legend_handles(chart), loc="outside lower center", ncols=n_legend_columns, frameon=False
        )
        figure.savefig(directory / f"{chart.key}.svg", metadata={"Date": None})
        figure.savefig(directory / f"{chart.key}.png", dpi=130)


def _draw(axes: Any, panel: Panel) -> None:
    for series in panel.series:
        _draw_series(axes, series)
    x_limits, y_limits = panel.limits()
    for name, axis, limits in (("x", panel.x, x_limits), ("y", panel.y, y_limits)):
        axes.set(**{f"{name}scale": "log" if axis.log else "linear", f"{name}lim": limits, f"{name}label": axis.label})
        _number(getattr(axes, f"{name}axis"), axis, limits)
    axes.grid(color="#e4e4e4", linewidth=0.7)
    axes.set_axisbelow(True)


def _number(line: Any, axis: Axis, limits: tuple[float, float]) -> None:
    """Set an axis' ticks: whole decades, or some steps within where there are too few of them."""
    ticker = _matplotlib("ticker")
    if axis.log:
        steps = (1.0, 2.0, 5.0) if limits[1] / limits[0] < 60 else (1.0,)
        line.set_major_locator(ticker.LogLocator(base=10, subs=steps, numticks=9))
        line.set_minor_locator(ticker.NullLocator())
    if axis.unit == "count":
        line.set_major_formatter(ticker.EngFormatter(sep=""))
    elif axis.unit:
        line.set_major_formatter(ticker.EngFormatter(unit=axis.unit, sep=""))
    else:
        line.set_major_formatter(ticker.FormatStrFormatter("%g"))


def _draw_series(axes: Any, series: Series) -> None:
    look = SOURCES[series.source]
    if series.path:
        xs, ys = zip(*series.path, strict=True)
        axes.plot(xs, ys, linestyle=look.dash, linewidth=look.width, color=series.style.colour, zorder=2)
    if not series.markers:
        return
    marks = series.marks
    bars = [mark for mark in marks if mark.low < mark.high]
    axes.vlines(
        [mark.x for mark in bars],
        [mark.low for mark in bars],
        [mark.high for mark in bars],
        color=series.style.colour,
        linewidth=1.1,
        zorder=2,
    )
    style = _marker(series.style, look)
    axes.plot([mark.x for mark in marks], [mark.y for mark in marks], linestyle="", zorder=3, **style)


def _marker(style: Style, look: SourceStyle) -> dict[str, Any]:
    return {
        "marker": style.marker,
        "markersize": 5.0 if look.hollow else 5.5,
        "markeredgecolor": style.colour,
        "markerfacecolor": "white" if look.hollow else style.colour,
        "markeredgewidth": 0.9,
    }


def _legend_handles(chart: Chart) -> list[Any]:
    line = _matplotlib("lines").Line2D
    handles = [
        line([], [], color=style.colour, label=name, linewidth=1.8, **_marker(style, SOURCES["paper"]))
        for name, style in chart.names().items()
    ]
    for source in chart.sources():
        look = SOURCES[source]
        style = Style("#444444", "o", "circle")
        marker = {} if source == "reference" else _marker(style, look)
        handles.append(
            line([], [], color=style.colour, label=look.label, linestyle=look.dash, linewidth=look.width, **marker)
        )
    return handles


def swatch_svg(style: Style, look: SourceStyle, *, marker: bool = True) -> str:
    """Return a piece of line with its marker, for the legend of the page."""
    dashes = {"-": "", "--": "6 3", ":": "1.5 3", "-.": "6 3 1.5 3"}[look.dash]
    line = (
        f'<line x1="1" y1="7" x2="31" y2="7" stroke="{style.colour}" stroke-width="{look.width}"'
        f' stroke-dasharray="{dashes}"/>'
    )
    fill = "#fff" if look.hollow else style.colour
    shape = f'<polygon points="{_outline(style)}" fill="{fill}" stroke="{style.colour}"/>' if marker else ""
    return f'<svg class="swatch" width="32" height="14" viewBox="0 0 32 14" aria-hidden="true">{line}{shape}</svg>'


def _outline(style: Style) -> str:
    """Return the corners of a marker in the middle of a swatch, taken from matplotlib so that both look alike."""
    marker = _matplotlib("markers").MarkerStyle(style.marker)
    polygon = marker.get_path().transformed(marker.get_transform()).to_polygons()[0]
    scale = 4.2 / abs(polygon).max()
    return " ".join(f"{16 + scale * x:.1f},{7 - scale * y:.1f}" for x, y in polygon)
