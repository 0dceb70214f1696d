"""Charts as Plotly's data and layout: plain values, which the page hands to plotly.js as JSON."""

from __future__ import annotations

import math
from typing import Any

from banditmips._extras import require
from banditmips.experiments.report.chart import Axis, Chart, Panel, Series
from banditmips.experiments.report.styles import SOURCES, SourceStyle

__all__ = ["chart_data", "plotly_script"]

_TEXT, _GRID = "#1a1a1a", "#e4e4e4"


def plotly_script() -> str:
    """Return plotly.js itself, as the plotly package brings it."""
    offline = require("plotly.offline", extra="experiments", purpose="the report of an experiment")
    return str(offline.get_plotlyjs())


def chart_data(chart: Chart) -> list[dict[str, Any]]:
    """Return the traces and the layout of every panel."""
    return [{"traces": _traces(panel), "layout": _layout(panel)} for panel in chart.panels]


def _traces(panel: Panel) -> list[dict[str, Any]]:
    traces = []
    for series in panel.series:
        joined = series.path == tuple((mark.x, mark.y) for mark in series.marks)
        if series.path and not joined:
            traces.append(_path_trace(series))
        traces.append(_mark_trace(series, joined))
    return traces


def _path_trace(series: Series) -> dict[str, Any]:
    xs, ys = zip(*series.path, strict=True)
    return {**_common(series), "mode": "lines", "x": xs, "y": ys, "hoverinfo": "skip"}


def _mark_trace(series: Series, joined: bool) -> dict[str, Any]:
    look, marks = SOURCES[series.source], series.marks
    modes = [mode for mode, wanted in (("lines", joined), ("markers", series.markers)) if wanted]
    trace = {
        **_common(series),
        "mode": "+".join(modes),
        "x": [mark.x for mark in marks],
        "y": [mark.y for mark in marks],
        "text": [mark.text for mark in marks],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "color": series.style.colour,
            "symbol": series.style.symbol + ("-open" if look.hollow else ""),
            "size": 7 if look.hollow else 8,
        },
    }
    if any(mark.low < mark.high for mark in marks):
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [mark.high - mark.y for mark in marks],
            "arrayminus": [mark.y - mark.low for mark in marks],
            "thickness": 1.1,
            "width": 0,
        }
    return trace


def _common(series: Series) -> dict[str, Any]:
    """Return what the line and the marks of a series share; ``meta`` is what the page's check boxes go by."""
    look = SOURCES[series.source]
    return {
        "type": "scatter",
        "name": series.name,
        "meta": {"name": series.name, "source": series.source},
        "line": {"color": series.style.colour, "dash": _dash(look), "width": look.width + 0.2},
    }


def _dash(look: SourceStyle) -> str:
    return ",".join(f"{length:g}px" for length in look.dashes) or "solid"


def _layout(panel: Panel) -> dict[str, Any]:
    x_limits, y_limits = panel.limits()
    return {
        "xaxis": _axis(panel.x, x_limits),
        "yaxis": _axis(panel.y, y_limits),
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#ffffff", "font": {"color": _TEXT, "size": 13}, "align": "left"},
        "margin": {"l": 60, "r": 10, "t": 8, "b": 46},
        "paper_bgcolor": "#ffffff",
        "plot_bgcolor": "#ffffff",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": _TEXT},
    }


def _axis(axis: Axis, limits: tuple[float, float]) -> dict[str, Any]:
    return {
        "title": {"text": axis.label, "standoff": 10},
        "type": "log" if axis.log else "linear",
        "range": [math.log10(limit) for limit in limits] if axis.log else list(limits),
        "gridcolor": _GRID,
        "linecolor": "#888888",
        "showline": True,
        "zeroline": False,
        "automargin": True,
        "tickformat": "~s" if axis.unit else "~g",
        **_ticks(axis),
    }


def _ticks(axis: Axis) -> dict[str, Any]:
    if axis.ticks is None:
        return {}
    places, labels = zip(*axis.ticks, strict=True)
    return {"tickmode": "array", "tickvals": places, "ticktext": labels}
