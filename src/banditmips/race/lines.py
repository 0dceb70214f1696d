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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from banditmips.race import kernels
from banditmips.race.elimination import Contest
from banditmips.race.planner import Schedule

__all__ = ["FIRST_LINES", "MOST_LINES", "LimitedSchedule", "LineSchedule", "QueryLines"]

FIRST_LINES, _GROWTH = 32, 1.5
"""Lines in the first round: their terms are few, and sums of many alike coordinates may have heavy tails. Rounds grow
faster than those of coordinates, because each waits for the disk."""
MOST_LINES, _WITHOUT_SUCCESS = 0.5, 0.25
"""Part of all bytes that sampling lines reads at most, and part after which half of the atoms must be gone: reading all
the survivors is one long read, sampling is many short ones."""


@dataclass(frozen=True)
class LineSchedule(Schedule):
    """Rounds of lines.

    Attributes
    ----------
    n_candidates
        Atoms at the beginning.
    line_cost
        Bytes read for a line over those that it takes.
    """

    first: int = FIRST_LINES
    growth: float = _GROWTH
    n_candidates: int = 0
    line_cost: float = 1.0

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` lines."""
        hopeless = size > self.first and 2 * n_survivors > self.n_candidates
        most = _WITHOUT_SUCCESS if hopeless else MOST_LINES
        return size * self.line_cost > most * population or self.exceeds_buffer(n_survivors, size)


@dataclass(frozen=True)
class LimitedSchedule(Schedule):
    """Rounds of coordinates as far as they are at hand.

    Attributes
    ----------
    limit
        Coordinates at hand.
    """

    limit: int = 0

    def next_size(self, size: int, population: int) -> int:
        """Stop once at the limit, before going beyond it."""
        following = super().next_size(size, population)
        return min(following, self.limit) if size < self.limit else following

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` coordinates."""
        return size > self.limit or super().should_finish(n_survivors, size, population)


class QueryLines:
    """One query, line by line.

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
        query: NDArray[np.float64],
        line_width: int,
        objective: int,
        column_squares: NDArray[np.float32] | None = None,
    ) -> None:
        d = query.size
        self._is_product = objective == kernels.PRODUCT
        self._query = query
        self.starts = np.arange(0, d, line_width)
        self.widths = np.minimum(line_width, d - self.starts)
        sizes = np.abs(query) if column_squares is None else query**2 * column_squares
        weights = np.add.reduceat(sizes, self.starts)
        self.weights = weights if column_squares is None else np.sqrt(weights)
        self.lines = np.flatnonzero(self.costs()) if self._is_product else np.arange(self.starts.size)

    @property
    def share(self) -> float:
        """Part of all coordinates that lie in the population."""
        return float(self.widths[self.lines].sum() / self._query.size)

    def costs(self, seen: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Multiplies that each line takes for one atom, but for coordinates that were seen before."""
        fresh = self._query != 0.0 if self._is_product else np.ones(self._query.size, dtype=np.bool_)
        if seen is not None:
            fresh[seen] = False
        return np.add.reduceat(fresh, self.starts, dtype=np.int64)

    def contest(self, contest: Contest, seen: NDArray[np.int64] | None) -> Contest:
        """Turn a contest about coordinates into one about lines, whose terms are sums of terms."""
        return replace(
            contest,
            query=np.ones(self.starts.size),
            unit_costs=self.costs(seen),
            objective=kernels.PRODUCT,
            widths=self.widths,
        )
