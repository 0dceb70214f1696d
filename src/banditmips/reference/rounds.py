"""The race as the package runs it: rounds, every rule for who is beaten, atom by atom and pair by pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips.reference.cells import CodedCells, SampledCells

__all__ = ["Rule", "SlowRace", "slow_race"]


@dataclass(frozen=True)
class Rule:
    """Who is beaten after a round. A name of `banditmips.search`'s ``bound``, and what that needs.

    Attributes
    ----------
    sigma, width
        Sub-Gaussian parameter of one term times the population, and length of the interval that holds it.
    """

    name: str
    delta: float
    n_atoms: int
    k: int
    absolute: bool = False
    sigma: float = np.nan
    width: float = np.nan

    def beaten(self, cells: Any, rows: NDArray[np.int64], size: int, number: int) -> NDArray[np.bool_]:
        """Which of the rows are beaten after round `number`, which has read `size` cells of each."""
        estimates = np.array([cells.estimate(i, size) for i in rows])
        if self.name == "paired":
            return self._beaten_by_pairs(cells, rows, estimates, size, number)
        radius = np.array([self.radius(cells, i, size, number) for i in rows])
        ranking = np.abs(estimates) if self.absolute else estimates
        if rows.size <= self.k:
            return np.zeros(rows.size, dtype=np.bool_)
        above = np.array([self.above(cells, i, size, number) for i in rows])
        return np.asarray(ranking + above < np.sort(ranking - radius)[-self.k])

    def above(self, cells: Any, i: int, size: int, number: int) -> float:
        """How far above its estimate one of the best k may be: of codes, half of delta is split over k atoms only."""
        if self.name != "codes":
            return self.radius(cells, i, size, number)
        share = self.delta * 6.0 / (np.pi * number) ** 2 / (self.ways * self.k)
        return float(cells.radius(i, size, np.sqrt(2.0 * np.log(2.0 / share))))

    @property
    def ways(self) -> int:
        """In how many directions a score that is ranked can be missed."""
        return 2 if self.absolute else 1

    def radius(self, cells: Any, i: int, size: int, number: int) -> float:
        """Half the interval of an atom's score, at its share of the round's share of delta."""
        share = self.delta * 6.0 / (np.pi * number) ** 2 / self.n_atoms
        if self.name == "codes":
            return float(cells.radius(i, size, np.sqrt(2.0 * np.log(2.0 * self.ways / share))))
        d, scale = cells.population, 1.0 if cells.factors is None else float(cells.factors[i])
        if self.name == "paired":
            z = -float(stdtrit(size - 1, share / 2.0)) if cells.is_representative(i, size) else np.inf
            return float(z * np.linalg.norm(cells.deviations(i, size)))
        if self.name == "hoeffding":
            return float(scale * self.sigma * np.sqrt(2.0 * np.log(2.0 / share) / size))
        half = (1.0 - (size - 1) / d) if 2 * size <= d else (1.0 - size / d) * (1.0 + 1.0 / size)
        if self.name == "hoeffding_serfling":
            return float(scale * self.sigma * np.sqrt(2.0 * half * np.log(2.0 / share) / size))
        deviation = d * cells.terms(i, cells.sample(size).coordinates).std()
        if cells.with_replacement:
            log_term, rho, kappa = np.log(3.0 / share), 1.0, 3.0
        else:
            log_term, rho, kappa = np.log(10.0 / share), half, 7.0 / 3.0 + 3.0 / np.sqrt(2.0)
        range_term = kappa * scale * self.width * log_term / size
        return float(deviation * np.sqrt(2.0 * rho * log_term / size) + range_term)

    def _beaten_by_pairs(
        self, cells: SampledCells, rows: NDArray[np.int64], estimates: NDArray[np.float64], size: int, number: int
    ) -> NDArray[np.bool_]:
        """Compare every atom with each of the k leaders on the cells that they share."""
        out = np.zeros(rows.size, dtype=np.bool_)
        pairs = max(self.k * (self.n_atoms - self.k), 1) * (2 if self.absolute else 1)
        tail = self.delta * 6.0 / (np.pi * number) ** 2 / pairs
        half = np.inf if cells.with_replacement else cells.population / 2
        if size < min(2.0 * np.log(1.0 / tail), half):
            return out  # too few cells for so small a probability
        trusted = np.array([cells.is_representative(i, size) for i in rows])
        ranking = np.abs(estimates) if self.absolute else estimates
        leaders = np.argsort(-ranking, kind="stable")[: self.k]
        beaters = leaders
        if not trusted[leaders].all():
            if trusted.sum() < self.k:
                return out
            beaters = np.argsort(-np.where(trusted, ranking, -np.inf), kind="stable")[: self.k]
        for place in range(rows.size):
            if trusted[place] and place not in leaders and place not in beaters:
                out[place] = all(
                    self._loses(cells, rows, estimates, place, beater, sign, tail, size)
                    for beater in beaters
                    for sign in ((1.0, -1.0) if self.absolute else (1.0,))
                )
        return out

    def _loses(
        self,
        cells: SampledCells,
        rows: NDArray[np.int64],
        estimates: NDArray[np.float64],
        place: int,
        beater: np.int64,
        sign: float,
        tail: float,
        size: int,
    ) -> bool:
        """Whether `sign` times the score of the one is below that of the other (its size, where the sign is free)."""
        turned = -1.0 if self.absolute and estimates[beater] < 0.0 else 1.0
        gap = turned * estimates[beater] - sign * estimates[place]
        variance, share = 0.0, 0.0
        for parts, of_nothing in ((cells.weighted_terms, 1.0), (cells.deviations, 0.0)):
            squares = (turned * parts(rows[beater], size) - sign * parts(rows[place], size)) ** 2
            variance = squares.sum()
            share = max(share, squares.max() / variance if variance > 0.0 else of_nothing)
        z = -float(stdtrit(size - 1, tail))
        hangs_on_one = share > max(2.0 / np.log(1.0 / tail), 2.0 / size)
        size_of_scores = max(abs(estimates[beater]), abs(estimates[place]))
        is_told = np.sqrt(variance) > 1e-12 * size_of_scores and not hangs_on_one
        return bool(gap > z * np.sqrt(variance) and gap > 1e-140 and is_told)


@dataclass(frozen=True)
class SlowRace:
    """How a race went: (cells read, survivors) after every round, the best k, and all multiplies."""

    rounds: list[tuple[int, NDArray[np.int64]]]
    indices: NDArray[np.int64]
    n_multiplies: int


def slow_race(cells: Any, rule: Rule, sizes: Sequence[int], candidates: NDArray[np.int64]) -> SlowRace:
    """Race the candidates in rounds that reach these numbers of cells, then compute those that are left exactly.

    Where intervals hold for single atoms, one that ends below what k exact scores have reached is left out.
    """
    rows, rounds, n_multiplies, before = candidates, [], 0, 0
    number, exhausted = 0, False
    for number, size in enumerate(sizes, start=1):
        n_multiplies += rows.size * (cells.cost(size) - cells.cost(before) if before else cells.cost(size))
        before = size
        exhausted = size == getattr(cells, "population", -1) and not cells.with_replacement
        if not exhausted:
            rows = rows[~rule.beaten(cells, rows, size, number)]
        rounds.append((size, rows))
        if rows.size <= rule.k or exhausted:
            break
    estimates = np.array([cells.estimate(i, before) for i in rows])
    scores = np.abs(estimates) if rule.absolute else estimates
    if rows.size > rule.k and not exhausted:
        seen = 0 if isinstance(cells, CodedCells) or cells.with_replacement else cells.cost(before)
        upper = scores + np.array([rule.above(cells, i, before, number) for i in rows])
        exact, left = np.full(rows.size, -np.inf), np.argsort(-scores, kind="stable")
        while left.size:
            n_done = int(np.isfinite(exact).sum())
            count = left.size if rule.name == "paired" else max(rule.k, n_done)
            for place in left[:count]:
                score = cells.exact(rows[place])
                exact[place] = abs(score) if rule.absolute else score
                n_multiplies += cells.exact_cost() - seen
            left = left[count:]
            left = left[upper[left] >= np.sort(exact)[-rule.k]]
        scores = exact
    best = np.lexsort((rows, -scores))[: rule.k]
    return SlowRace(rounds, rows[best], n_multiplies)
