"""Which coordinates, in what order, with what weights.

A sampler lays out one query's coordinates in the order in which the race reads them and says, for every prefix of that
order, how to turn the terms seen into an estimate of the whole sum (`SamplePrefix`). Rounds nest: a longer prefix
contains the shorter ones.

The random numbers belong to the coordinates (and the seed), never to a query's place in a batch, so that a query
alone gives what it gives in a batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips.core import numbers
from banditmips.core.certain import MeasuredQuery

__all__ = [
    "EVEN_ENOUGH",
    "EVEN_ENOUGH_FOR_CACHE",
    "BottomKSampler",
    "ReplacementSampler",
    "SamplePrefix",
    "Sampler",
    "SortedSampler",
    "UniformSampler",
    "power_weights",
    "seen_enough",
    "unevenness",
]

EVEN_ENOUGH = 1.25
"""Up to this unevenness of the query a quarter more coordinates, drawn uniformly, take less time than weights do."""
EVEN_ENOUGH_FOR_CACHE = 4.0
"""Cached coordinates are uniform ones. Up to this unevenness of the query they are still the faster choice: reading
them is at least four times as fast as gathering weighted ones from row-major atoms (a cache line for each product)."""


@dataclass(frozen=True)
class SamplePrefix:
    """How the first N sampled coordinates speak for the whole population.

    With ``x`` the terms at these coordinates, ``sum(scale*x)`` estimates the total, with the variance
    ``sum((spread*(x - R*unit))^2)``, ``R`` being the estimate over ``total_unit``.
    """

    coordinates: NDArray[np.int64]
    scale: NDArray[np.float64]
    unit: NDArray[np.float64]
    spread: NDArray[np.float64]
    total_unit: float


class Sampler(ABC):
    """The order in which one query's coordinates are sampled.

    Attributes
    ----------
    population : int
        How many coordinates there are to sample from.
    follows_uniform_order : bool
        Whether the order is that of `numbers.permuted_coordinates`, the one that an index caches.
    with_replacement : bool
        Whether a coordinate may come again (then a prefix never becomes exact).
    in_words : str
        How the coordinates come, as a user is told.
    """

    in_words: str
    population: int
    follows_uniform_order = False
    with_replacement = False

    @abstractmethod
    def prefix(self, size: int) -> SamplePrefix:
        """Describe the first `size` coordinates."""

    def range_factors(self, query: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return q/w over the population, and the total of the weights w: one draw contributes ``total*(q/w)*v``."""
        return query, float(self.population)


def _equal_weights_prefix(coordinates: NDArray[np.int64], population: int) -> SamplePrefix:
    """A plain sample without replacement: the mean of the terms, scaled up."""
    size = coordinates.size
    scale = population / size
    # Sample variance with N-1 and the finite-population correction 1 - N/d'.
    spread = scale * np.sqrt((1.0 - size / population) * size / max(size - 1, 1))
    return SamplePrefix(coordinates, np.full(size, scale), np.ones(size), np.full(size, spread), float(population))


class UniformSampler(Sampler):
    """Uniform sampling without replacement, in the seed's fixed pseudo-random order.

    Coordinates outside the support are passed over.

    Parameters
    ----------
    in_support : bool array of shape (d,), or None
        The coordinates to sample from; None means all.
    """

    in_words = "sampled uniformly"

    def __init__(self, d: int, seed: int, in_support: NDArray[np.bool_] | None) -> None:
        self._d = d
        self._seed = seed
        self._in_support = in_support
        self.population = d if in_support is None else int(np.count_nonzero(in_support))
        self.follows_uniform_order = in_support is None
        self._order = np.empty(0, dtype=np.int64)
        self._visited = 0

    def _extend(self, size: int) -> None:
        pieces = [self._order]
        found = self._order.size
        while found < size:
            density = self.population / self._d
            stop = min(self._d, self._visited + max(64, int(1.1 * (size - found) / density)))
            piece = numbers.permuted_coordinates(self._seed, self._d, self._visited, stop)
            if self._in_support is not None:
                piece = piece[self._in_support[piece]]
            self._visited = stop
            found += piece.size
            pieces.append(piece)
        self._order = np.concatenate(pieces)

    def prefix(self, size: int) -> SamplePrefix:
        """Describe the first `size` coordinates of the order."""
        if size > self._order.size:
            self._extend(size)
        return _equal_weights_prefix(self._order[:size], self.population)


class SortedSampler(Sampler):
    """BanditMIPS-alpha as the paper has it: coordinates by falling |q|, and the plain mean of their terms.

    The mean over the largest coordinates is not an unbiased estimate of the mean over all, so nothing is promised
    about the answer; `BottomKSampler` with a larger beta is the honest form.
    """

    in_words = "by falling |q|"

    def __init__(self, support: NDArray[np.int64], query: NDArray[np.float64]) -> None:
        self._order = support[np.argsort(-np.abs(query[support]), kind="stable")]
        self.population = support.size

    def prefix(self, size: int) -> SamplePrefix:
        """Describe the `size` coordinates with the largest |q|, as if they had been drawn uniformly."""
        return _equal_weights_prefix(self._order[:size], self.population)


class BottomKSampler(Sampler):
    """Weighted sampling without replacement: the coordinates in the order of Exp(1)/weight.

    With N coordinates seen, coordinate j was included with probability ``pi[j] = 1 - exp(-w[j]*tau)``, where tau is
    such that the probabilities of the whole population sum to N. Terms are divided by pi and the sum is set right by
    the weights, whose total is known (a ratio estimator).
    """

    in_words = "sampled by weight"

    def __init__(self, coordinates: NDArray[np.int64], weights: NDArray[np.float64], seed: int) -> None:
        self.population = coordinates.size
        self._coordinates = coordinates
        self._weights = weights
        self._total_weight = float(weights.sum())
        self._keys = numbers.exponential_keys(seed, coordinates, weights)
        self._group_weight, self._group_count = numbers.weight_profile(weights)
        self._order = np.empty(0, dtype=np.int64)
        self._solved = (0.0, 0.0)

    def _solve_tau(self, size: float) -> float:
        """Find tau with ``sum(1 - exp(-w*tau)) = size``.

        The sum is concave in tau, so Newton's method started below the root climbs to it without overshooting.
        """
        solved_size, solved_tau = self._solved
        tau = max(size / self._total_weight, solved_tau if solved_size <= size else 0.0)
        for _ in range(100):
            missing = self._group_count * np.exp(-self._group_weight * tau)
            step = (size - self.population + float(missing.sum())) / float(missing @ self._group_weight)
            tau += step
            if abs(step) <= 1e-10 * tau:
                break
        self._solved = (size, tau)
        return tau

    def _extend(self, size: int) -> None:
        # Sort only the keys below a threshold that lets about 1.3 times as many pass as are needed.
        passing = 1.3 * size + 32
        while True:
            if passing >= 0.9 * self.population:
                chosen = np.arange(self.population)
            else:
                chosen = np.flatnonzero(self._keys < self._solve_tau(passing))
            if chosen.size >= size:
                break
            passing *= 1.5
        self._order = chosen[np.argsort(self._keys[chosen], kind="stable")]

    def prefix(self, size: int) -> SamplePrefix:
        """Describe the `size` coordinates with the smallest keys."""
        if size > self._order.size:
            self._extend(size)
        chosen = self._order[:size]
        weights = self._weights[chosen]
        if size >= self.population:
            inclusion = np.ones(size)
        else:
            inclusion = -np.expm1(-weights * self._solve_tau(size))
        # Where everything has been seen, the scale is 1 to the last bit: sums of integers stay exact.
        ratio = 1.0 if size >= self.population else self._total_weight / float((weights / inclusion).sum())
        scale = ratio / inclusion
        spread = scale * np.sqrt((1.0 - inclusion) * size / max(size - 1, 1))
        return SamplePrefix(self._coordinates[chosen], scale, weights, spread, self._total_weight)


class ReplacementSampler(Sampler):
    """Weighted sampling with replacement, as in the paper: the mean of ``x / (d*w)`` over independent draws."""

    in_words = "sampled by weight, with replacement"
    with_replacement = True

    def __init__(self, coordinates: NDArray[np.int64], weights: NDArray[np.float64], seed: int) -> None:
        self.population = coordinates.size
        self._coordinates = coordinates
        self._weights = weights
        self._cumulative = np.cumsum(weights)
        self._seed = seed
        self._draws = np.empty(0, dtype=np.int64)

    def range_factors(self, query: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return q/w over the population, and the total of the weights w."""
        return query / self._weights, float(self._cumulative[-1])

    def prefix(self, size: int) -> SamplePrefix:
        """Describe the first `size` draws."""
        if size > self._draws.size:
            drawn = numbers.uniforms(self._seed, self._draws.size, size) * self._cumulative[-1]
            new = np.searchsorted(self._cumulative, drawn, side="right")
            self._draws = np.concatenate([self._draws, np.minimum(new, self.population - 1)])
        chosen = self._draws[:size]
        weights = self._weights[chosen]
        total = float(self._cumulative[-1])
        scale = total / (size * weights)
        spread = scale * np.sqrt(size / max(size - 1, 1))
        return SamplePrefix(self._coordinates[chosen], scale, weights, spread, total)


def power_weights(query: NDArray[np.float64], beta: float) -> NDArray[np.float64]:
    """Return the paper's weights |q|^(2*beta), with mean 1.

    A weight may be tiny but never zero: a coordinate that could not be drawn would make the estimate biased.
    """
    weights = np.abs(query)
    largest = weights.max()
    if largest == 0.0:
        return np.ones(query.size)
    # The query is divided by its largest entry first, so that no power overflows. In place: a query may be long.
    weights /= largest
    if beta != 0.5:
        weights **= 2.0 * beta
    np.maximum(weights, 1e-100, out=weights)
    weights /= weights.mean()
    return weights


LEAST_SHARE = 0.25
"""Part of the weights |q| that those of a larger power are raised to, where atoms are compared by what a sample shows:
with |q|^6, what no sample saw decided, and 10 % of the sampled answers for sparse counts were wrong at delta=1e-12."""


def seen_enough(weights: NDArray[np.float64], query: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights of mean 1 under which no coordinate is drawn much more seldom than by |q|."""
    raised = np.maximum(weights, LEAST_SHARE * power_weights(query, 0.5))
    return np.asarray(raised / raised.mean(), dtype=np.float64)


def unevenness(query: NDArray[np.float64]) -> float:
    """Say how many times more coordinates uniform sampling needs than sampling by |q|, if the atoms are flat.

    It is the ratio of the two variances, ``d * sum(q^2) / sum(|q|)^2``: 1 for a constant query, pi/2 for a normal one.
    """
    measured = MeasuredQuery(np.ascontiguousarray(query))
    if not measured.is_fine:  # by its largest entry, so that no square is too large for a float
        measured = MeasuredQuery(query / np.abs(query).max())
    return query.size * measured.squares / measured.size**2
