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
    """Fit a line to log multiplies against log n or log d; None where no trial has two values of it.

    All trials share the slope, but each has a height of its own: the data of a trial are one draw, cut to several
    sizes, and some draws are harder than others at every size. Of published points only the means are known.
    """
    trials: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        size = getattr(point, axis)
        if size is not None:
            told = [(row.trial, row.multiplies) for row in point.rows] or [(0, point.multiplies.mean)]
            for trial, multiplies in told:
                trials.setdefault(trial, []).append((math.log(size), math.log(multiplies)))
    lines = [np.array(pairs) for pairs in trials.values() if len({x for x, _ in pairs}) > 1]
    if not lines:
        return None
    x, y = np.concatenate([line - line.mean(axis=0) for line in lines]).T
    spread = float((x**2).sum())
    value = float((x * y).sum()) / spread
    low = high = None
    freedom = x.size - len(lines) - 1
    if freedom > 0:
        error = math.sqrt(float(((y - value * x) ** 2).sum()) / freedom / spread)
        half = float(stats.t.ppf(0.975, freedom)) * error
        low, high = value - half, value + half
    sizes = np.exp(np.concatenate(lines)[:, 0])
    return Slope(value, low, high, float(sizes.min()), float(sizes.max()))


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
