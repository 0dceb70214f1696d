"""Radii of confidence intervals, and the only place where delta is split.

Every bound answers the same two questions about the atoms still in the race after a round:

- `Bound.score_radius`: within what radius of its estimate does each atom's score lie?
- `Bound.beaten`: which atoms lose to k others for certain, up to the bound's share of delta?

=====================  ==========================================================================================
bound                  what backs it
=====================  ==========================================================================================
``hoeffding``          Hoeffding's inequality for sigma-sub-Gaussian terms (the paper, section 3.2), two-sided.
``hoeffding_serfling`` Serfling's inequality for sampling without replacement, in the form of Bardenet and
                       Maillard (2015), corollary 2.5.
``bernstein``          Empirical Bernstein inequality: Audibert, Munos and Szepesvari (2009), theorem 1, with
                       replacement; Bardenet and Maillard (2015), theorem 4.3, without.
``paired``             Student's t on the differences to the leader at the same coordinates. Asymptotic: no theorem.
=====================  ==========================================================================================

Where the atoms live in several places (`race.parts`), delta is split over all of them at once: `n_atoms` is the number
of candidates in all places, and round r is the same round, with the same coordinates, everywhere. What a bound may get
wrong is then an event that belongs to one atom, or to one pair of atoms, and to one round; where it is looked at, how
often, and in whose company makes no difference to it. So the events of all places and exchanges are among those that
one place would have, and their shares sum to delta however many places there are. An atom that k atoms of its own place
beat, or k leaders sent from elsewhere, or some of each, has lost to k others all the same.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips.race import kernels
from banditmips.race.rounds import LEAST_DIFFERENCE
from banditmips.race.sampling import SamplePrefix

__all__ = ["MIN_SCATTER_SEEN", "BernsteinBound", "Bound", "HoeffdingBound", "PairedBound", "RoundView", "round_share"]

MIN_SCATTER_SEEN = 0.25
"""Part of the scatter of an atom's entries that the sample must show before `paired` may speak about the atom.

Sixteen coordinates of normal or ratings-like atoms show a quarter in all but one case in a thousand; an atom whose
weight sits in a few entries (a needle, or a default value with rare exceptions) shows next to nothing until one of
those is drawn.
"""


def round_share(round_number: int) -> float:
    """Return the part of delta that round r = 1, 2, ... may spend: 6/(pi r)^2, which sums to 1 over all rounds."""
    return 6.0 / (np.pi * round_number) ** 2


@dataclass(frozen=True)
class RoundView:
    """What a bound sees after a round: the survivors' sampled values and the statistics made from them.

    ``scatters`` holds what the sample shows of the scatter of each atom's entries about their mean, and
    ``needed_scatter`` what it has to show, or NaN where `fit` recorded nothing. Where part of the scores was known
    before, ``offsets`` is that part of the estimates, and a difference of two atoms varies at least by the sum of
    their ``least_variances``.
    """

    number: int
    sample: SamplePrefix
    population: int
    values: NDArray[np.float64]
    query: NDArray[np.float64]
    row_scale: NDArray[np.float64]
    objective: int
    absolute: bool
    estimates: NDArray[np.float64]
    variances: NDArray[np.float64]
    scatters: NDArray[np.float64]
    needed_scatter: NDArray[np.float64]
    offsets: NDArray[np.float64] | None = None
    least_variances: NDArray[np.float64] | None = None

    @property
    def size(self) -> int:
        """Coordinates sampled so far."""
        return self.sample.coordinates.size

    @property
    def ranking_scores(self) -> NDArray[np.float64]:
        """The estimates as they are ranked: by size where ``absolute`` is asked for."""
        return np.abs(self.estimates) if self.absolute else self.estimates


class Bound(ABC):
    """A way to tell, from a sample, which atoms cannot be among the best k."""

    @abstractmethod
    def score_radius(self, view: RoundView) -> NDArray[np.float64]:
        """Return the radius of each survivor's confidence interval, valid for all atoms and rounds together."""

    @abstractmethod
    def beaten(self, view: RoundView, leaders: NDArray[np.int64], slack: float) -> NDArray[np.bool_]:
        """Return which survivors lose to k others even if `slack` is added to each of those.

        `leaders` are the k best survivors by estimate, best first.
        """


class IntervalBound(Bound):
    """A bound on each atom's own score; an atom is beaten when k lower ends lie above its upper end."""

    def __init__(self, delta: float, n_atoms: int, with_replacement: bool) -> None:
        self._delta = delta
        self._n_atoms = n_atoms
        self._with_replacement = with_replacement

    def _log_share(self, view: RoundView) -> float:
        """Log of one atom's share of delta in this round, for both ends of its interval together."""
        if self._delta == 0.0:
            return -np.inf
        return float(np.log(self._delta) + np.log(round_share(view.number)) - np.log(self._n_atoms))

    def beaten(self, view: RoundView, leaders: NDArray[np.int64], slack: float) -> NDArray[np.bool_]:
        """Compare upper ends with the k-th largest lower end."""
        radius = self.score_radius(view)
        scores = view.ranking_scores
        if slack > 0.0:
            # The caller returns the leaders, so it is their lower ends that count.
            bar = float((scores[leaders] - radius[leaders]).min())
        else:
            bar = float(np.partition(scores - radius, -leaders.size)[-leaders.size])
        beaten = scores + radius < bar + slack
        beaten[leaders] = False
        return beaten


def _serfling_factor(size: int, population: int) -> float:
    """What sampling without replacement takes off the variance (rho_n of Bardenet and Maillard 2015)."""
    if 2 * size <= population:
        return 1.0 - (size - 1) / population
    return (1.0 - size / population) * (1.0 + 1.0 / size)


class HoeffdingBound(IntervalBound):
    """Hoeffding's radius for sigma-sub-Gaussian terms; Serfling's where the sample is without replacement.

    Parameters
    ----------
    sigma : float, or None
        Sub-Gaussian parameter of one sampled term times the population (so, in units of the score).
        None takes the largest sample deviation of the first round.
    per_row : bool
        Whether sigma is to be multiplied by each atom's row scale (a range of the entries, for the cosine).
    serfling : bool
        Use the finite-population factor.
    """

    def __init__(
        self,
        delta: float,
        n_atoms: int,
        with_replacement: bool,
        sigma: float | None,
        per_row: bool,
        serfling: bool,
    ) -> None:
        super().__init__(delta, n_atoms, with_replacement)
        self._sigma = sigma
        self._per_row = per_row
        self._serfling = serfling

    def score_radius(self, view: RoundView) -> NDArray[np.float64]:
        """Return sigma * sqrt(2 log(2/delta') / N) for each survivor."""
        if self._sigma is None and view.size < 2:
            return np.full(view.row_scale.size, np.inf)
        if self._sigma is None:
            # Variances are those of the estimate: times N, and without the finite-population factor, of one term.
            shrink = 1.0 if self._with_replacement else max(1.0 - view.size / view.population, 1e-12)
            self._sigma = float(np.sqrt(view.variances.max() * view.size / shrink))
        factor = _serfling_factor(view.size, view.population) if self._serfling else 1.0
        radius = self._sigma * np.sqrt(2.0 * factor * (np.log(2.0) - self._log_share(view)) / view.size)
        return np.asarray(radius * (view.row_scale if self._per_row else np.ones(view.row_scale.size)))


class BernsteinBound(IntervalBound):
    """Empirical Bernstein radius: the sample's own deviation, plus a term for what the range could still hide.

    Parameters
    ----------
    width : float
        Length of the interval that holds one sampled term times the population, before the row scale.
    """

    def __init__(self, delta: float, n_atoms: int, with_replacement: bool, width: float) -> None:
        super().__init__(delta, n_atoms, with_replacement)
        self._width = width

    def score_radius(self, view: RoundView) -> NDArray[np.float64]:
        """Return sd * sqrt(2 rho log(c/delta') / N) + kappa * width * log(c/delta') / N for each survivor."""
        size = view.size
        # The variance that the theorems mean: of one term, with 1/N.
        shrink = 1.0 if self._with_replacement else max(1.0 - size / view.population, 1e-300)
        one_term = view.variances * (size - 1) / shrink
        if self._with_replacement:
            rho, kappa = 1.0, 3.0
            log_term = np.log(3.0) - self._log_share(view)
        else:
            rho, kappa = _serfling_factor(size, view.population), 7.0 / 3.0 + 3.0 / np.sqrt(2.0)
            log_term = np.log(10.0) - self._log_share(view)
        deviation = np.sqrt(one_term * 2.0 * rho * log_term / size)
        return np.asarray(deviation + kappa * self._width * view.row_scale * log_term / size)


class PairedBound(Bound):
    """Student's t on differences at the same coordinates.

    The error that must not happen is a true top-k atom losing to one that is not. An atom is dropped only if k others
    beat it; if it is a true top-k atom, one of those k is not. So delta is split over the k*(n-k) pairs of a true
    top-k atom and another atom (twice as many where the sign is free), and over rounds, however the leaders
    were chosen.
    """

    def __init__(self, delta: float, n_atoms: int, k: int, absolute: bool) -> None:
        pairs = max(k * (n_atoms - k), 1) * (2 if absolute else 1)
        self._delta_pair = delta / pairs
        self._delta_score = delta / n_atoms

    @staticmethod
    def _quantile(tail: float, view: RoundView) -> float:
        if view.size < 2:
            return np.inf
        return -float(stdtrit(view.size - 1, tail))

    def score_radius(self, view: RoundView) -> NDArray[np.float64]:
        """Return the two-sided Student radius of each survivor's own estimate."""
        z = self._quantile(self._delta_score * round_share(view.number) / 2.0, view)
        radius = z * np.sqrt(view.variances) if np.isfinite(z) else np.full(view.variances.size, np.inf)
        return np.where(self._unrepresentative(view), np.inf, radius)

    @staticmethod
    def _unrepresentative(view: RoundView) -> NDArray[np.bool_]:
        """Atoms of which the sample has not seen their fair share (a comparison with NaN is False: nothing known)."""
        return view.scatters < view.needed_scatter

    def beaten(self, view: RoundView, leaders: NDArray[np.int64], slack: float) -> NDArray[np.bool_]:
        """Test each survivor against the leaders, the weakest first, on the coordinates that they share."""
        z = self._quantile(self._delta_pair * round_share(view.number), view)
        result = np.zeros(view.estimates.size, dtype=np.bool_)
        representative = ~self._unrepresentative(view)
        beaters = self._beaters(view, leaders, representative, slack)
        if not np.isfinite(z) or beaters is None:
            return result
        representative[leaders] = False
        representative[beaters] = False
        rows = np.flatnonzero(representative)
        for beater in beaters[::-1]:
            for sign in (1.0, -1.0) if view.absolute else (1.0,):
                rows = rows[self._loses(view, int(beater), rows, sign, z, slack)]
        result[rows] = True
        return result

    @staticmethod
    def _beaters(
        view: RoundView, leaders: NDArray[np.int64], representative: NDArray[np.bool_], slack: float
    ) -> NDArray[np.int64] | None:
        """Choose the k atoms that others must lose to: the best whose sample can be trusted, if there are k."""
        if representative[leaders].all():
            return leaders
        if slack > 0.0 or int(representative.sum()) < leaders.size:
            return None
        scores = np.where(representative, view.ranking_scores, -np.inf)
        return np.argsort(-scores, kind="stable")[: leaders.size]

    @staticmethod
    def _loses(
        view: RoundView, leader: int, rows: NDArray[np.int64], sign: float, z: float, slack: float
    ) -> NDArray[np.bool_]:
        """Test `sign` times each row's score against the leader's (its size, where the sign is free)."""
        leading = view.estimates[leader]
        if view.absolute and leading < 0.0:
            leading, sign_used = -leading, -sign
        else:
            sign_used = sign
        difference = leading - sign * view.estimates[rows]
        variance = kernels.paired_variances(
            view.values,
            view.row_scale,
            view.query,
            view.sample.unit,
            view.sample.spread,
            view.sample.total_unit,
            view.objective,
            view.estimates if view.offsets is None else view.estimates - view.offsets,
            leader,
            sign_used,
            rows,
        )
        if view.least_variances is not None:
            variance = np.maximum(variance, view.least_variances[leader] + view.least_variances[rows])
        ahead = difference + slack
        return np.asarray((ahead > z * np.sqrt(variance)) & (ahead > LEAST_DIFFERENCE[1]))
