"""BoundedME: median elimination over coordinates drawn without replacement (Liu, Wu and Mozafari 2019).

Each round gives every surviving atom more coordinates and drops the worse half. How many coordinates is
settled before the first product is computed: round r, with s atoms left, ``eps_r = epsilon/4 * (3/4)^(r-1)``
and ``delta_r = delta / 2^r``, brings every survivor up to ``m(u_r)`` coordinates, where

    u_r  = 2 * value_range^2 / eps_r^2 * log(2 * (s - k) / (delta_r * (floor((s - k) / 2) + 1)))
    m(u) = min((u + 1) / (1 + u/d), (u + u/d) / (1 + u/d))

u is what Hoeffding's inequality asks for with replacement, and m(u), which never passes d, what suffices
without. The work depends on n, d, k, epsilon, delta and value_range, and on no other number of the atoms.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import Baseline, Candidates, check_real, inner_products

__all__ = ["BoundedME", "elimination_schedule"]


class BoundedME(Baseline):
    """Median elimination with sample sizes fixed in advance.

    With probability at least 1 - delta the atoms returned are within ``epsilon * d`` of the best ones,
    provided that all products of coordinates lie within an interval no longer than `value_range`.

    Parameters
    ----------
    epsilon : float, default 0.1
        Allowed shortfall per coordinate, that is, of the inner product divided by d. 0 reads all coordinates.
    delta : float, default 0.1
        Failure probability.
    value_range : float or "auto", default 1.0
        Length of the interval that holds the products ``query[j] * atoms[i, j]``. The paper's own runs take 1
        on all datasets; where the truth is larger, the guarantee does not hold. "auto" takes the interval that
        the smallest and largest entries of the atoms, seen by `fit`, and of each query allow.
    seed : int, default 0
        Seed of the order in which coordinates are read. It is drawn once, by `fit`, for all queries.

    Notes
    -----
    The scores are estimates (``exact`` is False) with Hoeffding-Serfling intervals at `delta`, unless the
    schedule reached all d coordinates. Nothing is rescored, as in the published counts.

    Fractions of coordinates are cut off in each round, as in the published counts, which this reproduces
    (those of the paper's comparison at epsilon = delta = 0.1 are for k = 5): at n = 100 and d = 449 the first
    rounds read 435, 7, 3 and 1 new coordinates of 100, 52, 28 and 16 atoms, the last ones none; 43,964
    multiplies. A schedule that asks for less than one coordinate reads one.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).uniform(size=(100, 5000))
    >>> atoms[42] += 0.2
    >>> result = BoundedME(epsilon=1.0).fit(atoms).search(np.ones(5000))
    >>> result.indices, result.n_multiplies < atoms.size / 5
    (array([42]), True)
    """

    key: ClassVar[str] = "bounded_me"
    title: ClassVar[str] = "BoundedME"
    effort: ClassVar[str] = "epsilon"

    def __init__(
        self,
        *,
        epsilon: float = 0.1,
        delta: float = 0.1,
        value_range: float | Literal["auto"] = 1.0,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.epsilon = check_real("epsilon", epsilon, at_least=0)
        self.delta = check_real("delta", delta, above=0, below=1)
        self.value_range = value_range if value_range == "auto" else check_real("value_range", value_range, above=0)

    def _build(self, atoms: NDArray[Any]) -> None:
        self._order = np.random.default_rng(self.seed).permutation(atoms.shape[1])
        self._limits = (float(atoms.min()), float(atoms.max())) if self.value_range == "auto" else (0.0, 0.0)

    def _length(self, query: NDArray[np.float64]) -> float:
        """Length of the interval that products are taken to lie in, for this query."""
        if self.value_range != "auto":
            return self.value_range
        corners = np.multiply.outer([query.min(), query.max()], self._limits)
        return float(corners.max() - corners.min())

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        n, d = self._atoms.shape
        if k == n:
            # Nothing can be dropped; only the order is open, and that takes the exact scores.
            return Candidates(np.arange(n), 0)
        length = self._length(query)
        schedule = elimination_schedule(n, d, k, epsilon=self.epsilon, delta=self.delta, value_range=length)
        survivors = np.arange(n)
        sums = np.zeros(n)
        n_read = n_multiplies = 0
        for _, n_new in schedule:
            coordinates = np.sort(self._order[n_read : n_read + n_new])
            sums += inner_products(self._atoms, query, survivors, coordinates)
            n_read += n_new
            n_multiplies += n_new * survivors.size
            n_kept = survivors.size - math.ceil((survivors.size - k) / 2)
            kept = np.sort(np.lexsort((survivors, -sums))[:n_kept])
            survivors, sums = survivors[kept], sums[kept]
        return Candidates(
            survivors,
            n_multiplies,
            scores=sums * (d / n_read),
            n_rounds=len(schedule),
            radii=np.full(k, self._radius(n_read, length)),
            delta_spent=self.delta,
        )

    def _radius(self, n_read: int, length: float) -> float:
        """Half the interval of a score after `n_read` coordinates, valid for all atoms at once."""
        n, d = self._atoms.shape
        if n_read == d:
            return 0.0
        unread = 1.0 - (n_read - 1) / d  # Serfling's correction for drawing without replacement
        per_coordinate = length * math.sqrt(unread * math.log(2 * n / self.delta) / (2 * n_read))
        return float(d * per_coordinate)


def elimination_schedule(
    n: int, d: int, k: int, *, epsilon: float, delta: float, value_range: float = 1.0
) -> list[tuple[int, int]]:
    """Return for each round how many atoms are left and how many new coordinates each of them gets.

    >>> elimination_schedule(8, 100, 1, epsilon=1.0, delta=0.1)
    [(8, 58), (4, 15), (2, 10)]
    """
    rounds: list[tuple[int, int]] = []
    target = 0.0
    round_epsilon, round_delta = epsilon / 4, delta / 2
    while n > k:
        previous = target
        dropped_if_wrong = (n - k) // 2 + 1
        target = _samples_needed(
            value_range, round_epsilon, math.log(2 * (n - k) / (round_delta * dropped_if_wrong)), d
        )
        n_new = int(target - previous)
        rounds.append((n, n_new if rounds else max(n_new, 1)))
        n -= math.ceil((n - k) / 2)
        round_epsilon *= 3 / 4
        round_delta /= 2
    return rounds


def _samples_needed(value_range: float, epsilon: float, log_term: float, d: int) -> float:
    """Return m(u), the coordinates that bring an estimate within epsilon/2, not rounded."""
    if epsilon == 0.0:
        return float(d)
    u = 2 * value_range**2 * log_term / epsilon**2
    return min((u + 1) / (1 + u / d), (u + u / d) / (1 + u / d))
