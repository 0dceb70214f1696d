"""Charts as pictures, by matplotlib without pyplot: one SVG for each panel, and whole figures as SVG and PNG."""

from __future__ import annotations

import io
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from banditmips._extras import require
from banditmips._result_files import replacing
from banditmips.experiments.report.chart import Axis, Chart, Panel, Series
from banditmips.experiments.report.styles import NEUTRAL, SOURCES, SourceStyle, Style

__all__ = ["panel_svg", "swatch_svg", "write_pictures"]

# In inches: a panel, its margins on the left and below, and what its title takes above it in a whole figure.
_PANEL_SIZE = (5.4, 3.9)
_MARGINS = (0.86, 0.53)
_PANEL_TITLE = 0.3
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
        _draw(_add_axes(figure, 0.0, 0.0), panel)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return _shrink(file.getvalue())


def _shrink(svg: str) -> str:
    """Return a picture in a third of the letters: without prologue, metadata, indentation, and digits beyond a tenth.

    A page has more than a hundred of them. Marks at the same place are drawn once, neighbouring lines of one look are
    one path, and what several elements look like is said once.
    """
    text = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"font-family: [^;\"]*", "font-family: sans-serif", text)
    text = re.sub(r" transform=\"rotate\(-0 [^)]*\)\"", "", text)
    # Of attributes only: between tags stand the numbers of an axis.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d+\.\d)\d+", r"\1", tag[0]), text)
    text = re.sub(r"(?<=[;:]) (?=[^\"]*\")", "", text)
    text = re.sub(r" id=\"[a-zA-Z0-9.]*_\d+\"", "", text)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r"> <", "><", text)
    text = text.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "").replace("xlink:href", "href")
    text = re.sub(r"(?<= d=\")[^\"]*", lambda path: re.sub(r" ?([A-Za-z]) ?", r"\1", path[0]), text)
    text = re.sub(r"<g([^>]*)>((?:<use [^>]*/>)+)</g>", _share_style, text)
    text = re.sub(r"(?:<path d=\"[^\"]*\"[^>]* style=\"fill:none[^\"]*\"/>){2,}", _join_lines, text)
    text = _name_styles(text)
    while text != (text := re.sub(r"<g>((?:(?!</?g[ />]).)*)</g>|<g/>", r"\1", text)):
        pass  # groups of nothing but other elements, from the innermost out
    for number, name in enumerate(dict.fromkeys(re.findall(r"id=\"([mp][0-9a-f]{10})\"", text))):
        text = text.replace(name, f"{name[0]}{number}")
    return text


def _share_style(marks: re.Match[str]) -> str:
    """Give the style that all marks of a group have to the group, and draw each of them once."""
    styles = set(re.findall(r" style=\"([^\"]*)\"", marks[2]))
    if len(styles) != 1:
        return marks[0]
    (style,) = styles
    bare = marks[2].replace(f' style="{style}"', "")
    once = "".join(dict.fromkeys(re.findall(r"<use [^>]*/>", bare)))
    return f'<g{marks[1]} style="{style}">{once}</g>'


def _join_lines(lines: re.Match[str]) -> str:
    """Make one path of neighbouring lines that look alike, as the bars of a series do."""
    looks: dict[str, str] = {}
    for path, look in re.findall(r"<path d=\"([^\"]*)\"([^>]*)/>", lines[0]):
        looks[look] = looks.get(look, "") + path.rstrip()
    return "".join(f'<path d="{path}"{look}/>' for look, path in looks.items())


def _name_styles(text: str) -> str:
    """Say a style that several elements have once, in the picture's style sheet."""
    counts = Counter(re.findall(r" style=\"([^\"]*)\"", text))
    rules = ""
    for style in (style for style, count in counts.items() if count > 1):
        name = f"s{rules.count('{')}"
        text = text.replace(f' style="{style}"', f' class="{name}"')
        rules += f".{name}{{{style}}}"
    return text.replace("</style>", f"{rules}</style>", 1)


def write_pictures(chart: Chart, directory: Path) -> None:
    """Write a whole figure, with title and legend, as ``KEY.svg`` and ``KEY.png``."""
    n_columns = min(2, len(chart.panels))
    n_rows = -(-len(chart.panels) // n_columns)
    n_lines = -(-len(chart.legend()) // (2 * n_columns)) - (-len(chart.sources()) // n_columns)
    title = textwrap.wrap(chart.title, int(12.5 * _PANEL_SIZE[0] * n_columns))
    legend_height, title_height = 0.26 * n_lines + 0.2, 0.15 + 0.22 * len(title)
    row_height = _PANEL_SIZE[1] + _PANEL_TITLE
    width, height = _PANEL_SIZE[0] * n_columns, title_height + row_height * n_rows + legend_height
    with _settings():
        figure = _matplotlib("figure").Figure(figsize=(width, height))
        for number, panel in enumerate(chart.panels):
            row, column = divmod(number, n_columns)
            bottom = height - title_height - row_height * (row + 1)
            axes = _add_axes(figure, column * _PANEL_SIZE[0], bottom)
            _draw(axes, panel)
            axes.set_title(panel.title, fontsize=10.5)
        figure.suptitle("\n".join(title), fontsize=12, fontweight="bold", y=1 - 0.1 / height, va="top")
        _draw_legends(figure, chart, n_columns, legend_height / height)
        with replacing(directory / f"{chart.key}.svg") as file:
            figure.savefig(file, format="svg", metadata={"Date": None})
        with replacing(directory / f"{chart.key}.png") as file:
            figure.savefig(file, format="png", dpi=130, pil_kwargs={"compress_level": 4})


def _add_axes(figure: Any, left: float, bottom: float) -> Any:
    """Add axes at a place in inches, with room for their numbers; the layout engines take seconds for the same."""
    width, height = figure.get_size_inches()
    x, y = left + _MARGINS[0], bottom + _MARGINS[1]
    size = _PANEL_SIZE[0] - _MARGINS[0] - 0.22, _PANEL_SIZE[1] - _MARGINS[1] - 0.1
    return figure.add_axes((x / width, y / height, size[0] / width, size[1] / height))


def _draw_legends(figure: Any, chart: Chart, n_panels: int, top: float) -> None:
    """Draw the names, two to the width of a panel, and below them the sources, which are half sentences: one."""
    line_height = 0.26 / figure.get_size_inches()[1]
    for handles, n_columns in ((_name_handles(chart), 2 * n_panels), (_source_handles(chart), n_panels)):
        figure.legend(
            handles=handles,
            loc="upper center",
            bbox_to_anchor=(0.5, top),
            ncols=n_columns,
            frameon=False,
            fontsize=9.5,
            handlelength=3.2,
        )
        top -= line_height * -(-len(handles) // n_columns)


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
    if axis.ticks is not None:
        places, labels = zip(*axis.ticks, strict=True)
        line.set_major_locator(ticker.FixedLocator(places))
        line.set_major_formatter(ticker.FixedFormatter(labels))
        line.set_minor_locator(ticker.NullLocator())
        return
    if axis.log:
        steps = (1.0, 2.0, 5.0) if max(limits) / min(limits) < 60 else (1.0,)
        line.set_major_locator(ticker.LogLocator(base=10, subs=steps, numticks=9))
        line.set_minor_locator(ticker.NullLocator())
    line.set_major_formatter(ticker.EngFormatter(sep="") if axis.unit else ticker.FormatStrFormatter("%g"))


def _draw_series(axes: Any, series: Series) -> None:
    """Draw a series over those before it."""
    look = SOURCES[series.source]
    if series.path:
        xs, ys = zip(*series.path, strict=True)
        axes.plot(xs, ys, linestyle=_line_style(look), linewidth=look.width, color=series.style.colour)
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
    )
    style = _marker(series.style, look)
    axes.plot([mark.x for mark in marks], [mark.y for mark in marks], linestyle="", **style)


def _line_style(look: SourceStyle) -> Any:
    # Lengths in widths of the line, as matplotlib has them.
    return (0, tuple(length / look.width for length in look.dashes)) if look.dashes else "-"


def _marker(style: Style, look: SourceStyle) -> dict[str, Any]:
    return {
        "marker": style.marker,
        "markersize": 5.0 if look.hollow else 5.5,
        "markeredgecolor": style.colour,
        "markerfacecolor": "white" if look.hollow else style.colour,
        "markeredgewidth": 0.9,
    }


def _name_handles(chart: Chart) -> list[Any]:
    return [_handle(entry.name, entry.style, SOURCES[entry.source], entry.markers) for entry in chart.legend()]


def _source_handles(chart: Chart) -> list[Any]:
    return [_handle(SOURCES[source].label, NEUTRAL, SOURCES[source], True) for source in chart.sources()]


def _handle(label: str, style: Style, look: SourceStyle, markers: bool) -> Any:
    marker = _marker(style, look) if markers else {}
    line = _matplotlib("lines").Line2D
    return line([], [], color=style.colour, label=label, linestyle=_line_style(look), linewidth=look.width, **marker)


def swatch_svg(style: Style, look: SourceStyle, *, marker: bool = True) -> str:
    """Return a piece of line with its marker, for the legend of the page."""
    dashes = " ".join(f"{length:g}" for length in look.dashes)
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
