"""What a chart holds, whoever draws it: `pictures` with matplotlib, `interactive` with Plotly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from banditmips.experiments.report.styles import REFERENCE, SOURCES, Style, order_of
from banditmips.experiments.rows import PAPER

__all__ = ["Axis", "Chart", "Mark", "Panel", "Series", "Table"]


@dataclass(frozen=True)
class Axis:
    """Label and scale of an axis.

    Attributes
    ----------
    limits
        None for an axis that fits the data.
    unit
        How its numbers are written: "SI" as 10k, 1M or 5m (thousandths), "" as they are.
    ticks
        Places and their labels, where they are not those of the numbers.
    """

    label: str
    log: bool
    limits: tuple[float, float] | None = None
    unit: str = "SI"
    ticks: tuple[tuple[float, str], ...] | None = None

    def limits_for(self, values: Iterable[float]) -> tuple[float, float]:
        """Return the limits: the given ones, or a margin around the values, never less than a factor of 4 apart.

        Less than that and the smallest ripple of a level line would fill the whole height.
        """
        if self.limits is not None:
            return self.limits
        low, high = min(values, default=1.0), max(values, default=1.0)
        middle, reach = math.sqrt(low * high), max(math.sqrt(high / low), 2.0) * 1.15
        return middle / reach, middle * reach


@dataclass(frozen=True)
class Mark:
    """A point with the 95 % interval of its y (both ends y where there is none), and what hovering over it tells."""

    x: float
    y: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Series:
    """The points of one algorithm from one source.

    Attributes
    ----------
    name
        What the legend calls it; the same name and style in all panels of a chart.
    path
        The corners of the line drawn with the marks; those of a trade-off join its best marks only.
    markers
        False for a line alone.
    """

    name: str
    style: Style
    source: str
    marks: tuple[Mark, ...]
    path: tuple[tuple[float, float], ...]
    markers: bool = True


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]

    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return the limits of x and of y, with room for every interval."""
        marks = [mark for series in self.series for mark in series.marks]
        heights = [value for mark in marks for value in (mark.low, mark.high)]
        return self.x.limits_for([mark.x for mark in marks]), self.y.limits_for(heights)


@dataclass(frozen=True)
class Table:
    """Rows of text under a head; the first cell of each row is the row's own head.

    Attributes
    ----------
    numbers
        Whether its cells are short and stay on one line.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: bool = True


@dataclass(frozen=True)
class Chart:
    """A figure: panels that share a legend, and tables that belong to them.

    Attributes
    ----------
    key
        The figure as rows have it, for instance "figure1".
    title, caption
        What it shows; the title says where data was a surrogate.
    """

    key: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    tables: tuple[Table, ...] = ()

    def legend(self) -> list[Series]:
        """Return one series of every name, the paper's own algorithms first and lines for comparison last.

        A name has a solid line here, whatever its sources are; those have entries of their own.
        """
        first = {series.name: series for series in reversed(list(self._all_series()))}
        entries = sorted(first.values(), key=lambda series: (series.source == REFERENCE, order_of(series.name)))
        return [entry if entry.source == REFERENCE else replace(entry, source=PAPER) for entry in entries]

    def sources(self) -> list[str]:
        """Return the sources that were measured or published."""
        present = {series.source for series in self._all_series()}
        return [source for source in SOURCES if source in present and source != REFERENCE]

    def _all_series(self) -> Iterator[Series]:
        return (series for panel in self.panels for series in panel.series)
