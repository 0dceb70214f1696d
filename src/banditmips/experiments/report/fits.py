"""How multiplies grow: the slope on logarithmic axes, and how well four curves fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from banditmips.experiments.report.chart import Table
from banditmips.experiments.report.points import Point
from banditmips.experiments.report.styles import SOURCES

__all__ = ["Slope", "fit_table", "r_squared", "slope"]

_Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]
_CURVES: dict[str, _Curve] = {
    "constant": lambda x: np.zeros_like(x),
    "log": np.log,
    "square root": np.sqrt,
    "linear": lambda x: x,
}


@dataclass(frozen=True)
class Slope:
    """The exponent s of multiplies ~ x^s, with its 95 % interval where there are enough points to tell one."""

    value: float
    low: float | None
    high: float | None
    x_low: float
    x_high: float

    def __str__(self) -> str:
        interval = "" if self.low is None or self.high is None else f" ({_plain(self.low)} to {_plain(self.high)})"
        return _plain(self.value) + interval


def _plain(number: float, digits: int = 2) -> str:
    """Return a rounded number, and never a negative zero."""
    return f"{round(number, digits) + 0.0:.{digits}f}"


def slope(points: Sequence[Point], axis: str) -> Slope | None:
    """Fit a line to log multiplies against log n or log d; None without two values of it.

    Every trial counts where trials are known, and the means where only they were published.
    """
    pairs = [
        (float(getattr(point, axis)), multiplies)
        for point in points
        if getattr(point, axis) is not None
        for multiplies in ([row.multiplies for row in point.rows] or [point.multiplies.mean])
    ]
    if len({x for x, _ in pairs}) < 2:
        return None
    x, y = np.log(np.array(pairs)).T
    # By hand, because SciPy's linregress has NaN for the error where all multiplies are equal.
    spread = float(((x - x.mean()) ** 2).sum())
    value = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    low = high = None
    if x.size > 2:
        error = math.sqrt(_residual(x, y) / (x.size - 2) / spread)
        half = float(stats.t.ppf(0.975, x.size - 2)) * error
        low, high = value - half, value + half
    return Slope(value, low, high, float(np.exp(x.min())), float(np.exp(x.max())))


def r_squared(points: Sequence[Point], axis: str = "d") -> dict[str, float] | None:
    """Return R^2 of the constant, logarithmic, square-root and linear fits to the means; None below three points.

    R^2 of the best constant is 0 by definition. Where all means agree, every curve fits them wholly.

    Examples
    --------
    >>> r_squared([])
    """
    pairs = sorted((float(getattr(point, axis)), point.multiplies.mean) for point in points if getattr(point, axis))
    if len({x for x, _ in pairs}) < 3:
        return None
    x, y = np.array(pairs).T
    total = float(((y - y.mean()) ** 2).sum())
    if total == 0.0:
        return dict.fromkeys(_CURVES, 1.0)
    return {name: 1 - _residual(curve(x), y) / total for name, curve in _CURVES.items()}


def _residual(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    columns = np.column_stack([np.ones_like(x), x])
    coefficients, *_ = np.linalg.lstsq(columns, y, rcond=None)
    return float(((y - columns @ coefficients) ** 2).sum())


def fit_table(measured: Sequence[Point], published: Sequence[Point], datasets: Sequence[str]) -> Table:
    """Return the table under figure 1: R^2 of the four fits, and the slope, for every dataset and source."""
    rows = []
    for dataset in datasets:
        for source, style in SOURCES.items():
            own = [
                point
                for point in (*measured, *published)
                if (point.dataset, point.source, point.algorithm) == (dataset, source, "BanditMIPS")
            ]
            if own:
                fits, exponent = r_squared(own), slope(own, "d")
                cells = [_plain(fits[name], 3) for name in _CURVES] if fits else ["-"] * len(_CURVES)
                surrogate = " (surrogate)" if own[0].surrogate else ""
                rows.append((dataset + surrogate, style.label, *cells, str(exponent) if exponent else "-"))
    caption = (
        "R^2 of four fits to the means (that of a constant is 0 by definition), and the slope of log multiplies "
        "against log d with its 95 % interval: 0 is a level line, 1 a linear one. A dash: too few values of d."
    )
    return Table(caption, ("dataset", "source", *_CURVES, "slope"), tuple(rows))
