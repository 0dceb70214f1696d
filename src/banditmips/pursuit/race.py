"""One step's search: which group explains most of the residual?

A group (an atom, or a pair that is ranked together) explains as much as the norm of the residual's projection on it:
``|<atom, residual>| / norm`` for a single atom. The race samples coordinates, projects on the sample, drops the groups
that cannot be the best, and samples on.

How sure it is rests on first-order expansions: the error of a projection is a sum over the sampled coordinates
(`banditmips.pursuit.projections`), the norms' own errors included where they are estimated from the same sample. Like
the bound ``paired`` of a search this is asymptotic. Groups are compared on the same coordinates:

- Single atoms: Student's t on the differences, once for each sign of the two products.
- Pairs: their projections are vectors in a plane, whose direction is not known either. Simultaneous (Scheffe) bounds
  hold for every direction of the leader's vector, for a fixed one of the other's (the true one, whichever it is). That
  is three dimensions, so the quantile is Hotelling's with three. A group is dropped if it loses in every direction of
  its own; as the bound is convex in that direction, the corners of a polygon around the unit circle decide.

delta is split over the groups, and over the rounds as in `banditmips.core.rule`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtri, stdtrit

from banditmips._result import StopReason
from banditmips.core.rule import share_of_round
from banditmips.pursuit.dictionary import Dictionary, Exact
from banditmips.pursuit.projections import Projections
from banditmips.pursuit.residual import Residual
from banditmips.race.sampling import SamplePrefix, Sampler

__all__ = ["Race", "SampledAtoms", "Winner"]

MAX_BUFFER = 1 << 25
"""Finish exactly rather than hold more sampled values than this at once (256 MB)."""
MIN_ENERGY_SEEN = 0.25
"""Part of an atom's squared norm, where it is known, that the sample must show before anything is concluded."""
MIN_EFFECTIVE = 8.0
"""Coordinates that must carry a group, in effect, before anything is concluded about it."""
TWINS_FROM = 4096
"""Groups that span the same line or plane on this many sampled coordinates are taken for the same."""


@dataclass(frozen=True)
class Winner:
    """The group that a step chooses.

    Attributes
    ----------
    exact
        Its exact products, where the race ended with them.
    """

    group: int
    exact: Exact | None
    stop_reason: StopReason
    delta_spent: float


class SampledAtoms:
    """All atoms' values at the first coordinates of one order, as far as they have been read.

    Steps whose races follow the same order share them.
    """

    def __init__(self, dictionary: Dictionary, fitted: NDArray[np.float64] | None) -> None:
        self._dictionary = dictionary
        self._values = np.empty((dictionary.store.shape[0], 0)) if fitted is None else fitted

    def read(self, rows: NDArray[np.int64], coordinates: NDArray[np.int64], start: int) -> NDArray[np.float64]:
        """Return the rows' values at the coordinates from position `start` on."""
        held = self._values.shape[1]
        if rows.size == self._values.shape[0] and held < coordinates.size:
            new = self._dictionary.entries(rows, coordinates[held:])
            self._dictionary.n_multiplies -= new.size
            self._values, held = np.concatenate([self._values, new], axis=1), coordinates.size
        begin = min(max(held, start), coordinates.size)
        known = self._values[:, start:begin] if rows.size == len(self._values) else self._values[rows, start:begin]
        # A product counts in every step, wherever its factors come from.
        self._dictionary.n_multiplies += known.size
        if begin == coordinates.size:
            return known
        return np.concatenate([known, self._dictionary.entries(rows, coordinates[begin:])], axis=1)


class Race:
    """One step's search among the candidate groups.

    Parameters
    ----------
    candidates : int64 array
        The groups that take part.
    shared : SampledAtoms, or None
        Values that other steps have read at the same coordinates.
    weakness : float in [0, 1)
        A group that explains ``1 - weakness`` of the best may be chosen.
    budget : int, or None
        Multiplies allowed.
    """

    def __init__(
        self,
        dictionary: Dictionary,
        residual: Residual,
        candidates: NDArray[np.int64],
        sampler: Sampler,
        shared: SampledAtoms | None,
        *,
        delta: float,
        weakness: float,
        budget: int | None,
    ) -> None:
        self._dictionary = dictionary
        self._residual = residual
        self._sampler = sampler
        self._shared = shared
        self._delta = delta
        self._delta_group = delta / max(candidates.size - 1, 1)
        self._weakness = weakness
        self._budget = budget
        self._groups = candidates
        self._values = np.empty((candidates.size, dictionary.group_size, 0))
        self._residual_values = np.empty(0)
        self._multiplies_before = dictionary.n_multiplies

    def run(self) -> Winner:
        """Race until one group is left, or the rest is settled exactly."""
        size, number, leader, spent = 0, 0, 0, 0.0
        reason: StopReason | None = StopReason.SEPARATED if self._groups.size == 1 else None
        if self._delta == 0.0:
            reason = StopReason.FINISHED_EXACTLY
        while reason is None:
            size, reason = self._next_step(size)
            if reason is not None:
                break
            number += 1
            spent += self._delta * share_of_round(number)
            prefix = self._sampler.prefix(size)
            self._read(prefix)
            leader, reason = self._play(prefix, number)
        if reason is StopReason.FINISHED_EXACTLY:
            return self._finish(spent)
        return Winner(int(self._groups[leader]), None, reason, spent)

    def _next_step(self, size: int) -> tuple[int, StopReason | None]:
        """Choose how many coordinates to reach next, or say why to stop sampling."""
        n_rows = self._groups.size * self._dictionary.group_size
        population = self._sampler.population
        following = min(max(self._dictionary.first_round, int(size * self._dictionary.growth)), population)
        exact_cost = int(self._dictionary.exact_costs(self._groups).sum())
        left = self._left()
        if following * n_rows >= self._dictionary.finish_fraction * exact_cost or following * n_rows > MAX_BUFFER:
            if exact_cost <= left:
                return size, StopReason.FINISHED_EXACTLY
            following = min(following, population - 1)
        if (following - size) * n_rows > left:
            following = size + int(left // n_rows)
        # Without two more coordinates there is nothing to learn, and without two there is no variance.
        return (following, None) if following > size + 1 else (size, StopReason.BUDGET)

    def _left(self) -> float:
        """Multiplies that the budget still allows."""
        if self._budget is None:
            return np.inf
        return self._budget - (self._dictionary.n_multiplies - self._multiplies_before)

    def _read(self, prefix: SamplePrefix) -> None:
        start, coordinates = self._residual_values.size, prefix.coordinates
        rows = self._dictionary.rows(self._groups)
        if self._shared is not None:
            new = self._shared.read(rows, coordinates, start)
        else:
            new = self._dictionary.entries(rows, coordinates[start:])
        new = new.reshape(self._groups.size, self._dictionary.group_size, -1)
        self._values = np.concatenate([self._values, new], axis=2) if start else new
        self._residual_values = np.append(self._residual_values, self._residual.at(coordinates[start:]))

    def _play(self, prefix: SamplePrefix, number: int) -> tuple[int, StopReason | None]:
        """Drop the groups that cannot win; return the leader's place among the others, and why to stop if one may."""
        found = Projections(self._values, self._residual_values, prefix)
        energies = found.energies
        known = self._dictionary.squared_norms[self._dictionary.rows(self._groups)].reshape(energies.shape)
        fair = (found.effective >= MIN_EFFECTIVE) & ~(energies < MIN_ENERGY_SEEN * known).any(axis=1)
        stretch, norm_noise = np.ones(self._groups.size), np.full(self._groups.size, 0.5)
        if self._dictionary.group_size == 1:
            is_known = (known[:, 0] > 0.0) & (energies[:, 0] > 0.0)
            stretch[is_known] = np.sqrt(known[is_known, 0] / energies[is_known, 0])
            norm_noise[is_known] = 0.0
        scaled = stretch[:, np.newaxis] * found.beta
        scores = np.linalg.norm(scaled, axis=1)
        if not fair.any():
            return int(np.argmax(scores)), None
        leader = int(np.argmax(np.where(fair, scores, -1.0)))
        own, shared = found.covariances(stretch, norm_noise, leader)
        twins = self._twins(found.mixing, scores, leader, prefix.scale)
        radius = self._quantile(prefix.coordinates.size, number)
        comparison = _Comparison(scaled, own, shared, leader, 1.0)
        kept = ~fair | (comparison.margins(radius) <= 0.0) | twins
        reason = self._reason_to_stop(kept, twins, prefix.coordinates.size)
        if reason is None and self._weakness > 0.0 and fair[kept].all():
            weaker = _Comparison(scaled, own, shared, leader, 1.0 - self._weakness).margins(radius)
            if (weaker[kept & ~twins] >= 0.0).all():
                reason = StopReason.EPSILON
        if reason is None:
            factors = np.where(fair, comparison.factors_needed(radius), 1.0)
            factors[twins] = TWINS_FROM / prefix.coordinates.size
            factors[leader] = 1.0
            if self._is_hopeless(factors[kept], self._groups[kept]):
                reason = StopReason.FINISHED_EXACTLY
        if reason is not StopReason.FINISHED_EXACTLY:
            leader = int(np.flatnonzero(twins)[0])
        if not kept.all():
            self._groups, self._values = self._groups[kept], self._values[kept]
        return int(kept[:leader].sum()), reason

    def _twins(
        self, mixing: NDArray[np.float64], scores: NDArray[np.float64], leader: int, scale: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Which groups span the leader's line or plane on the sample, so that nothing tells them apart.

        The squared cosines between two orthonormal bases add up to the dimension where both span the same space.
        """
        likely = np.flatnonzero(scores >= (1.0 - 1e-6) * scores[leader])
        orthonormal = np.matmul(mixing[likely], self._values[likely])
        of_leader = np.matmul(mixing[leader], self._values[leader]) * scale
        cosines = np.matmul(orthonormal, of_leader.T)
        dimension = int(np.count_nonzero(np.diagonal(mixing[leader])))
        twins = np.zeros(scores.size, dtype=np.bool_)
        twins[likely] = np.sum(cosines**2, axis=(1, 2)) >= dimension - 1e-9
        twins[leader] = True
        return twins

    @staticmethod
    def _reason_to_stop(kept: NDArray[np.bool_], twins: NDArray[np.bool_], size: int) -> StopReason | None:
        if int(kept.sum()) == 1:
            return StopReason.SEPARATED
        return StopReason.EPSILON if size >= TWINS_FROM and twins[kept].all() else None

    def _is_hopeless(self, factors: NDArray[np.float64], groups: NDArray[np.int64]) -> bool:
        """Whether sampling until these groups are dropped would take about as much as their exact products."""
        predicted = np.minimum(self._residual_values.size * factors, self._sampler.population).sum()
        exact_cost = int(self._dictionary.exact_costs(groups).sum())
        enough = self._dictionary.finish_fraction * exact_cost
        return exact_cost <= self._left() and bool(predicted * self._dictionary.group_size >= enough)

    def _quantile(self, size: int, number: int) -> float:
        """How many standard deviations a difference must have, for this round's share of delta."""
        tail = self._delta_group * share_of_round(number)
        if self._dictionary.group_size == 1:
            return -float(stdtrit(size - 1, tail / 2.0)) if size > 1 else np.inf
        if size <= 3:
            return np.inf
        return float(np.sqrt(3.0 * (size - 1) / (size - 3) * fdtri(3, size - 3, 1.0 - tail)))

    def _finish(self, spent: float) -> Winner:
        """Settle the rest exactly; of equals the first."""
        exact = self._dictionary.exact(self._groups, self._residual)
        scores = exact.scores()
        best = int(np.flatnonzero(scores >= scores.max() * (1.0 - 1e-12))[0])
        return Winner(int(self._groups[best]), exact.only(best), StopReason.FINISHED_EXACTLY, spent)


class _Comparison:
    """How far the leader is ahead of `factor` times each group, in each direction that the group may have."""

    def __init__(
        self,
        beta: NDArray[np.float64],
        own: NDArray[np.float64],
        shared: NDArray[np.float64],
        leader: int,
        factor: float,
    ) -> None:
        ahead = float(np.linalg.norm(beta[leader]))
        direction = beta[leader] / ahead if ahead > 0.0 else np.eye(beta.shape[1])[0]
        corners = factor * _corners(beta.shape[1], beta.shape[0])
        self._leads = ahead - beta @ corners
        variances = (
            float(direction @ own[leader] @ direction)
            - 2.0 * (shared @ direction) @ corners
            + np.sum(corners * (own @ corners), axis=1)
        )
        self._deviations = np.sqrt(np.maximum(variances, 0.0))

    def margins(self, radius: float) -> NDArray[np.float64]:
        """By how much the leader is ahead for certain: by `radius` deviations less, in the worst direction."""
        if not np.isfinite(radius):
            return np.full(self._leads.shape[0], -np.inf)
        return np.asarray((self._leads - radius * self._deviations).min(axis=1))

    def factors_needed(self, radius: float) -> NDArray[np.float64]:
        """How many times as many coordinates it would take to drop each group, if all else stayed the same."""
        ratios = np.full(self._leads.shape, np.inf)
        np.divide(radius * self._deviations, self._leads, out=ratios, where=self._leads > 0.0)
        return np.asarray(ratios.max(axis=1) ** 2)


def _corners(group_size: int, n_groups: int) -> NDArray[np.float64]:
    """Corners of a polygon around the unit circle (of the interval around [-1, 1]), one in each column.

    With few groups left a finer polygon is affordable: it lies 0.5 % outside the circle with 32 corners, and 3e-7 with
    4,096.
    """
    if group_size == 1:
        return np.array([[1.0, -1.0]])
    n_corners = min(max((1 << 16) // n_groups, 32), 4096)
    angles = 2.0 * np.pi * np.arange(n_corners) / n_corners
    return np.asarray(np.stack([np.cos(angles), np.sin(angles)]) / np.cos(np.pi / n_corners))
