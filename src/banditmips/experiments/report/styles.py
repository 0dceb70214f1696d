"""How things look, the same in every figure: a colour and a marker for each algorithm, a line for each source."""

from __future__ import annotations

from dataclasses import dataclass

from banditmips.experiments.report.points import PUBLISHED
from banditmips.experiments.rows import FITTED, OURS, PAPER, VARIANCE

__all__ = [
    "BASELINES",
    "BOUND",
    "BOUND_BY_VARIANCE",
    "FITTED_NAME",
    "NEUTRAL",
    "REFERENCE",
    "SOURCES",
    "SourceStyle",
    "Style",
    "name_of",
    "order_of",
    "style_of",
]

FITTED_NAME = "BanditMIPS, fitted"
"""What charts call BanditMIPS after `fit`, as it is another thing to most readers."""

REFERENCE = "reference"
"""The source of lines that nobody measured: the naive count, a bound, the diagonal."""

BASELINES = (
    "BoundedME",
    "Greedy-MIPS",
    "LSH-MIPS",
    "H2-ALSH-MIPS",
    "NEQ-MIPS",
    "PCA-MIPS",
    "HNSW-MIPS",
    "NAPG-MIPS",
)
"""The algorithms that the paper compares with."""


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
    dashes
        Lengths of dashes and gaps in points, in turn; none for a solid line.
    width
        Of the line, in points.
    hollow
        Whether markers are outlines.
    """

    label: str
    dashes: tuple[float, ...]
    width: float
    hollow: bool


# Colours of Okabe and Ito (the paper's own algorithms) and of Paul Tol's muted scheme (the baselines), all of which
# people with any kind of colour vision can tell apart in small groups; the markers tell all of them apart.
_STYLES = {
    "BanditMIPS": Style("#0072B2", "o", "circle"),
    "BanditMIPS-alpha": Style("#D55E00", "D", "diamond"),
    "Bucket_AE": Style("#000000", "s", "square"),
    FITTED_NAME: Style("#00806E", "H", "hexagon2"),
    "Bucket_AE, exact norms": Style("#7A6A00", "8", "octagon"),
    "BanditMIPS, warm start": Style("#C2185B", "d", "diamond-tall"),
    "MatchingPursuit": Style("#00806E", "s", "square"),
    "BoundedME": Style("#332288", "^", "triangle-up"),
    "BoundedME, true range": Style("#6A5ACD", "^", "triangle-up"),
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

NEUTRAL = Style("#444444", "o", "circle")
"""What a legend shows a source with, as it belongs to no algorithm."""

# Paul Tol's vibrant scheme, darkened where it was too light for lines: not the algorithms' colours, because these are
# variants of one algorithm. A variant is named by its bound and its sampling.
_VARIANTS = {
    "hoeffding, uniform": Style("#0077BB", "o", "circle"),
    "hoeffding, sigma squared, uniform": Style("#1A87A8", "p", "pentagon"),
    "hoeffding_serfling, uniform": Style("#332288", "^", "triangle-up"),
    "bernstein, uniform": Style("#BB4A00", "v", "triangle-down"),
    "paired, uniform": Style("#C2185B", "D", "diamond"),
    "paired, auto": Style("#7A6A00", "s", "square"),
    "default without an index": Style("#1A1A1A", "P", "cross"),
    "default after fit": Style("#00806E", "H", "hexagon2"),
    "weighted": Style("#0072B2", "o", "circle"),
    "optimal": Style("#C2185B", "D", "diamond"),
}

BOUND, BOUND_BY_VARIANCE = Style("#C2185B", "D", "diamond"), Style("#7A6A00", "s", "square")
"""The looks of a bound that a theorem gives, with the paper's constant as sigma and as a variance."""

SOURCES = {
    PAPER: SourceStyle("measured, the paper's settings", (), 1.8, False),
    VARIANCE: SourceStyle("the same, sigma read as a variance", (10.0, 2.5), 1.5, False),
    OURS: SourceStyle("measured, this package's defaults without an index", (5.0, 3.0), 1.8, False),
    FITTED: SourceStyle("measured, this package's defaults after fit", (5.0, 2.0, 1.5, 2.0), 1.8, False),
    PUBLISHED: SourceStyle("published by the authors", (1.5, 3.0), 1.2, True),
    REFERENCE: SourceStyle("for comparison", (7.0, 3.0, 2.0, 3.0), 1.2, False),
}


def name_of(algorithm: str, source: str) -> str:
    """Return what charts call an algorithm."""
    return FITTED_NAME if (algorithm, source) == ("BanditMIPS", FITTED) else algorithm


def style_of(name: str) -> Style:
    """Return the look of an algorithm, or of a variant of one."""
    return _STYLES.get(name) or _VARIANTS.get(name, _UNKNOWN)


def order_of(name: str) -> int:
    """Return the place of an algorithm or variant in every legend; unknown ones come last."""
    known = [*_STYLES, *_VARIANTS]
    return known.index(name) if name in known else len(known)
