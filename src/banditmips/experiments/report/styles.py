"""How things look, the same in every figure: a colour and a marker for each algorithm, a line for each source."""

from __future__ import annotations

from dataclasses import dataclass

from banditmips.experiments.report.points import PUBLISHED
from banditmips.experiments.rows import OURS, PAPER

__all__ = [
    "OUR_ALGORITHMS",
    "REFERENCE",
    "SOURCES",
    "SourceStyle",
    "Style",
    "bound_style",
    "is_baseline",
    "order_of",
    "style_of",
]

REFERENCE = "reference"
"""The source of lines that nobody measured: the naive count, a bound, the diagonal."""

OUR_ALGORITHMS = ("BanditMIPS", "BanditMIPS-alpha", "Bucket_AE")
"""The paper's own algorithms; all others but the naive one are baselines."""


@dataclass(frozen=True)
class Style:
    """Colour and marker, the latter by matplotlib's name and by Plotly's."""

    colour: str
    marker: str
    symbol: str


@dataclass(frozen=True)
class SourceStyle:
    """Line and marker of a source.

    Attributes
    ----------
    label
        What the legend says.
    dash, plotly_dash
        The line, by matplotlib's name and by Plotly's.
    width
        Of the line, in points.
    hollow
        Whether markers are outlines.
    """

    label: str
    dash: str
    plotly_dash: str
    width: float
    hollow: bool


# Colours of Okabe and Ito (the paper's own algorithms) and of Paul Tol's muted scheme (the baselines), all of which
# people with any kind of colour vision can tell apart in small groups; the markers tell all of them apart.
_STYLES = {
    "BanditMIPS": Style("#0072B2", "o", "circle"),
    "BanditMIPS-alpha": Style("#D55E00", "D", "diamond"),
    "Bucket_AE": Style("#000000", "s", "square"),
    "BoundedME": Style("#332288", "^", "triangle-up"),
    "Greedy-MIPS": Style("#8A8A1F", "v", "triangle-down"),
    "LSH-MIPS": Style("#CC6677", "<", "triangle-left"),
    "H2-ALSH-MIPS": Style("#B07C00", ">", "triangle-right"),
    "NEQ-MIPS": Style("#882255", "p", "pentagon"),
    "PCA-MIPS": Style("#AA4499", "h", "hexagon"),
    "HNSW-MIPS": Style("#2E9284", "X", "x"),
    "NAPG-MIPS": Style("#117733", "P", "cross"),
    "Naive": Style("#6B6B6B", "*", "star"),
}
_UNKNOWN = Style("#6B6B6B", "*", "star")

# Paul Tol's vibrant scheme: not the algorithms' colours, because these are variants of one algorithm.
_BOUNDS = (
    Style("#0077BB", "o", "circle"),
    Style("#CC3311", "D", "diamond"),
    Style("#00806E", "s", "square"),
    Style("#BB4A00", "^", "triangle-up"),
    Style("#EE3377", "v", "triangle-down"),
    Style("#1A87A8", "p", "pentagon"),
)

SOURCES = {
    PAPER: SourceStyle("measured, the paper's settings", "-", "solid", 1.8, False),
    OURS: SourceStyle("measured, this package's defaults", "--", "dash", 1.8, False),
    PUBLISHED: SourceStyle("published by the authors", ":", "dot", 1.2, True),
    REFERENCE: SourceStyle("for comparison", "-.", "dashdot", 1.3, False),
}


def style_of(algorithm: str) -> Style:
    """Return the look of an algorithm."""
    return _STYLES.get(algorithm, _UNKNOWN)


def bound_style(number: int) -> Style:
    """Return the look of the variant of this number, where a figure compares variants of one algorithm."""
    return _BOUNDS[number % len(_BOUNDS)]


def is_baseline(algorithm: str) -> bool:
    """Tell whether an algorithm is one that the paper compares with."""
    return algorithm not in (*OUR_ALGORITHMS, "Naive")


def order_of(algorithm: str) -> int:
    """Return the place of an algorithm in every legend; unknown ones come last."""
    return list(_STYLES).index(algorithm) if algorithm in _STYLES else len(_STYLES)
