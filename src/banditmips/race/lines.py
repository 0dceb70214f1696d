"""Sampling lines: groups of neighbouring coordinates that are read together because one costs as much as all.

On disk a coordinate comes with the rest of its page or chunk. Taking them all is cluster sampling: what is sampled are
the m lines, a line's term is the sum of its coordinates' terms, and everything else stays as it is for coordinates.
With N lines seen, without replacement, an atom's score is estimated by ``m/N`` times the sum of
its N terms. Every line, the last and shorter one too, is seen with the same probability N/m, so the estimate is
unbiased whatever the widths. The paired variance is taken over the lines, with N - 1 degrees of freedom and the
factor 1 - N/m: coordinates of a line may be as alike as they like. Weighted lines are drawn bottom-k like weighted
coordinates, by the sum of |q| over the line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.statistics import PRODUCT
from banditmips.race.sampled import Problem

__all__ = ["QueryLines"]


class QueryLines:
    """One query, line by line.

    Parameters
    ----------
    whole : Problem
        The query coordinate by coordinate.
    line_width : int
    column_squares : float32, shape (d,), or None
        What `fit` recorded for Theorem 2, if lines are to be weighted by it.

    Attributes
    ----------
    starts : int64, shape (m,)
        First coordinate of each line.
    widths : int64, shape (m,)
        Number of coordinates.
    weights : float64, shape (m,)
        Sum of |q| over the line (of its root of squares with column norms, where those are given).
    lines : int64
        The lines that can contribute, ascending: the population.
    """

    def __init__(
        self,
        whole: Problem,
        line_width: int,
        column_squares: NDArray[np.float32] | None = None,
    ) -> None:
        query, d = whole.query, whole.query.size
        self._whole, self._width, self._is_product = whole, line_width, whole.objective == PRODUCT
        self.starts = np.arange(0, d, line_width)
        self.widths = np.minimum(line_width, d - self.starts)
        sizes = np.abs(query) if column_squares is None else query**2 * column_squares
        weights = self._sums(sizes)
        self.weights = weights if column_squares is None else np.sqrt(weights)
        self._costs = self.widths
        if self._is_product and np.count_nonzero(query) < d:
            self._costs = self._sums(query != 0.0)
        self.lines = np.flatnonzero(self._costs)

    def _sums(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Sum numbers over each line."""
        n_full = numbers.size // self._width
        sums = numbers[: n_full * self._width].reshape(n_full, self._width).sum(axis=1)
        return sums if n_full == self.starts.size else np.append(sums, numbers[n_full * self._width :].sum())

    @property
    def share(self) -> float:
        """Part of all coordinates that lie in the population."""
        return float(self.widths[self.lines].sum() / self._whole.query.size)

    def costs(self, seen: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Multiplies that each line takes for one atom, but for coordinates that were seen before."""
        if seen is None:
            return self._costs
        again = seen[self._whole.query[seen] != 0.0] if self._is_product else seen
        return self._costs - np.bincount(again // self._width, minlength=self.starts.size)

    def problem(self, seen: NDArray[np.int64] | None) -> Problem:
        """The query line by line: a line's term is the sum of its coordinates' terms; some were seen before."""
        n_seen = 0 if seen is None else self._whole.cost(seen)
        ones, scores = np.ones(self.starts.size), self._whole.scores
        return Problem(ones, PRODUCT, scores, self.share, self.costs(seen), self.widths, n_seen)
