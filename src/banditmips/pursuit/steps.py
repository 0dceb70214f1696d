"""The pursuit itself: search, fit, subtract; and again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from banditmips._result import StopReason
from banditmips.core.rule import share_of_round
from banditmips.pursuit._options import PursuitOptions
from banditmips.pursuit._result import PursuitResult, PursuitStop
from banditmips.pursuit.coefficients import ExactSystem, Fit, fit_sample
from banditmips.pursuit.dictionary import Dictionary
from banditmips.pursuit.race import Race, SampledAtoms, Winner
from banditmips.pursuit.residual import Residual, Signal
from banditmips.race.sampling import BottomKSampler, Sampler, UniformSampler, unevenness

__all__ = ["pursue"]

_NOTHING = 1e-10
"""Part of the signal's norm below which a residual, or a product with it, is rounding error."""
_PROBE = 4096
"""Coordinates from which the norm of a signal is estimated."""
_UNEVEN = 4.0
"""Unevenness from which on coordinates are drawn by the signal's size: as in a search with cached coordinates."""
_SEARCH, _FIT, _NORM = range(3)
_ORDINARY = (1e-100, 1e100)
"""Sizes of entries whose squares, and sums of them, are numbers with all their digits."""


def pursue(dictionary: Dictionary, signal: Signal, options: PursuitOptions) -> PursuitResult:
    """Decompose a signal.

    An array whose squares are no numbers in double precision is brought to an ordinary size before, and what was found
    back to its own afterwards. By powers of two: no digit changes.
    """
    largest = float(np.abs(signal).max()) if isinstance(signal, np.ndarray) else 1.0
    if largest == 0.0 or _ORDINARY[0] <= largest <= _ORDINARY[1]:
        return Pursuit(dictionary, signal, options).run()
    exponent = math.frexp(largest)[1]
    with np.errstate(over="ignore", under="ignore"):
        scaled = np.ldexp(np.asarray(signal, dtype=np.float64), -exponent)
        if options.tol is not None:
            options = replace(options, tol=min(float(np.ldexp(options.tol, -2 * exponent)), np.finfo(np.float64).max))
        found = Pursuit(dictionary, scaled, options).run()
        sizes = ("coefficients", "lower", "upper", "residual_norms", "signal_norm")
        own = {name: np.ldexp(getattr(found, name), exponent) for name in sizes}
    if not all(np.isfinite(size).all() for size in own.values()):
        raise ValueError(
            "signal must have a norm and coefficients that double precision can hold, "
            f"got entries of up to {largest:g} (argument 'signal')"
        )
    return replace(found, **{**own, "signal_norm": float(own["signal_norm"])})


@dataclass
class _Step:
    """What one step has found."""

    rows: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    radius: NDArray[np.float64]
    exact: bool
    residual_norm: float
    n_multiplies: int
    search_stop: StopReason


class Pursuit:
    """One signal's pursuit, to be run once."""

    def __init__(self, dictionary: Dictionary, signal: Signal, options: PursuitOptions) -> None:
        self._dictionary = dictionary.for_one_pursuit()
        self._options = options
        self._residual = Residual(signal, self._dictionary)
        self._system = ExactSystem(self._dictionary, self._residual.signal_at)
        self._weights = self._draw_weights(signal)
        self._n_steps, self._split_evenly = self._plan_steps()
        fitted = self._weights is None and dictionary.sample_seed == options.seed
        # With exact coefficients and one right choice in each step, the residuals that a pursuit meets do not depend on
        # the sample, so that all searches may share one order (each fails with its own share of delta, and the shares
        # add up). Otherwise they depend on the samples so far, and every sample has to be a fresh one.
        self._may_share = options.rescore and options.weakness == 0.0 and options.budget is None
        self._shared = SampledAtoms(self._dictionary, dictionary.sample if fitted else None)
        self._shared_sampler: Sampler | None = None
        self._steps: list[_Step] = []
        self._delta_spent = 0.0
        self._signal_norm = self._measure_signal()

    def _plan_steps(self) -> tuple[int, bool]:
        """How many steps to take at most, and whether each gets the same share of delta."""
        most = min(self._dictionary.n_groups, self._dictionary.d)
        if self._options.n_nonzero is not None:
            return self._options.n_nonzero, True
        if self._options.tol is not None:
            return most, False
        return max(1, self._dictionary.n_groups // 10), True

    def _draw_weights(self, signal: Signal) -> NDArray[np.float64] | None:
        """The weights by which coordinates are drawn, or None for uniform ones."""
        if not isinstance(signal, np.ndarray):
            if self._options.sampling == "weighted":
                raise ValueError("sampling='weighted' needs a signal that is an array; a function's size is not known")
            return None
        if self._options.sampling == "uniform":
            return None
        size = np.abs(signal, dtype=np.float64)
        mean = float(size.mean())
        if mean == 0.0 or (self._options.sampling == "auto" and unevenness(size) <= _UNEVEN):
            return None
        # Later residuals are large elsewhere than the signal was: so no coordinate gets less than half a fair share.
        return 0.5 * size / mean + 0.5

    def _sampler(self, step: int, purpose: int) -> Sampler:
        """The order of the coordinates for one purpose."""
        if purpose == _SEARCH and self._may_share:
            if self._shared_sampler is None:
                self._shared_sampler = self._make_sampler(self._options.seed)
            return self._shared_sampler
        words = np.random.SeedSequence([self._options.seed, step, purpose]).generate_state(1, np.uint64)
        return self._make_sampler(int(words[0] >> np.uint64(1)))

    def _make_sampler(self, seed: int) -> Sampler:
        if self._weights is None:
            return UniformSampler(self._dictionary.d, seed, None)
        return BottomKSampler(np.arange(self._dictionary.d), self._weights, seed)

    def run(self) -> PursuitResult:
        """Take the steps."""
        stop = self._should_stop()
        while stop is None:
            stop = self._take_step() or self._should_stop()
        return self._result(stop)

    def _measure_signal(self) -> float:
        if self._options.rescore or self._residual.is_array:
            return float(np.sqrt(self._residual.squared_norm()))
        prefix = self._sampler(0, _NORM).prefix(min(_PROBE, self._dictionary.d))
        values = self._residual.signal_at(prefix.coordinates)
        return float(np.sqrt(prefix.scale @ values**2))

    @property
    def _norm_left(self) -> float:
        return self._steps[-1].residual_norm if self._steps else self._signal_norm

    def _should_stop(self) -> PursuitStop | None:
        if self._norm_left <= _NOTHING * self._signal_norm:
            return PursuitStop.ZERO_RESIDUAL
        if self._options.tol is not None and self._norm_left**2 <= self._options.tol:
            return PursuitStop.TOL
        return PursuitStop.N_NONZERO if len(self._steps) >= self._n_steps else None

    def _take_step(self) -> PursuitStop | None:
        """Choose one group more, or say why there is none."""
        number, before = len(self._steps) + 1, self._dictionary.n_multiplies
        share = 1.0 / self._n_steps if self._split_evenly else share_of_round(number)
        # Where coefficients are estimated as well, the search and the fit get half of the step's share each.
        delta = self._options.delta * share / (1.0 if self._options.rescore else 2.0)
        if self._options.rescore and self._dictionary.is_small and self._options.budget is None:
            delta = 0.0
        candidates = self._candidates()
        if candidates.size == 0:
            return PursuitStop.UNCORRELATED
        winner = Race(
            self._dictionary,
            self._residual,
            candidates,
            self._sampler(number, _SEARCH),
            self._shared if self._may_share else None,
            delta=delta,
            weakness=self._options.weakness,
            budget=self._options.budget,
        ).run()
        self._delta_spent += winner.delta_spent
        if winner.exact is not None and float(winner.exact.scores()[0]) <= _NOTHING * self._signal_norm:
            return PursuitStop.UNCORRELATED
        rows = self._dictionary.rows(np.array([winner.group]))
        fit = self._fit(winner, rows, delta, self._dictionary.n_multiplies - before)
        if fit is None:
            return PursuitStop.DEPENDENT
        self._delta_spent += fit.delta_spent
        if self._options.method == "omp":
            self._residual.set_weights(np.append(self._residual.rows, rows), fit.coefficients)
        else:
            self._residual.add(rows, fit.coefficients)
        norm = self._residual_norm(fit)
        n_multiplies = self._dictionary.n_multiplies - before
        self._steps.append(_Step(rows, fit.coefficients, fit.radius, fit.exact, norm, n_multiplies, winner.stop_reason))
        return None

    def _candidates(self) -> NDArray[np.int64]:
        """The groups that may be chosen: not those that are 0, and with "omp" not those chosen before."""
        excluded = self._dictionary.are_zero()
        if self._options.method == "omp":
            excluded[self._residual.rows // self._dictionary.group_size] = True
        return np.flatnonzero(~excluded)

    def _fit(self, winner: Winner, rows: NDArray[np.int64], delta: float, used: int) -> Fit | None:
        """Find the coefficients of the winner ("mp"), or of all atoms chosen ("omp"); None if these are dependent."""
        options, residual = self._options, self._residual
        orthogonal = options.method == "omp"
        all_rows = np.append(residual.rows, rows) if orthogonal else rows
        if not options.rescore and winner.exact is None:
            fit = fit_sample(
                self._dictionary,
                all_rows,
                residual.signal_at if orthogonal else residual.at,
                self._sampler(len(self._steps) + 1, _FIT),
                delta=delta,
                rtol=options.coef_rtol,
                budget=None if options.budget is None else options.budget - used,
            )
            if fit is not None:
                return fit
        if orthogonal:
            return self._system.fit(all_rows, rows.size)
        exact = winner.exact
        if exact is None:
            exact = self._dictionary.exact(np.array([winner.group]), residual)
        left = self._norm_left**2 - float(exact.energies()[0])
        return Fit(exact.coefficients()[0], np.zeros(rows.size), max(left, 0.0), 0.0, exact=True)

    def _residual_norm(self, fit: Fit) -> float:
        # Subtracted squares leave rounding errors of about 1e-16 of the signal's: what is small is computed anew.
        if fit.exact and fit.squared_residual <= 1e-10 * self._signal_norm**2:
            return float(np.sqrt(self._residual.squared_norm()))
        return float(np.sqrt(fit.squared_residual))

    def _result(self, stop: PursuitStop) -> PursuitResult:
        steps, g = self._steps, self._dictionary.group_size
        shape = (len(steps),) if g == 1 else (len(steps), g)
        rows = np.array([step.rows for step in steps], dtype=np.int64).reshape(shape)
        if self._options.method == "omp" and steps:
            # Every step fits all coefficients anew: the last fit counts.
            last = steps[-1]
            coefficients, radius = last.coefficients.reshape(shape), last.radius.reshape(shape)
            exact = np.full(len(steps), last.exact)
        else:
            coefficients = np.array([step.coefficients for step in steps], dtype=np.float64).reshape(shape)
            radius = np.array([step.radius for step in steps], dtype=np.float64).reshape(shape)
            exact = np.array([step.exact for step in steps], dtype=np.bool_)
        return PursuitResult(
            indices=rows,
            coefficients=coefficients,
            lower=coefficients - radius,
            upper=coefficients + radius,
            exact=exact,
            residual_norms=np.array([step.residual_norm for step in steps], dtype=np.float64),
            signal_norm=self._signal_norm,
            n_multiplies=np.array([step.n_multiplies for step in steps], dtype=np.int64),
            n_multiplies_total=self._dictionary.n_multiplies,
            search_stops=tuple(step.search_stop for step in steps),
            stop=stop,
            delta_spent=self._delta_spent,
            shape=self._dictionary.store.shape,
            _store=self._dictionary.store,
        )
