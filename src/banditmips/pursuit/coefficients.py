"""The coefficients of the atoms chosen: exact, or estimated as closely as asked for, with confidence intervals.

An estimate is the least-squares fit on a fresh sample of coordinates, one that the search for the atoms has not seen:
the interval then owes nothing to the choice. Its variance is that of what the fit leaves over, at most that of the
residual itself, whatever the atoms' norms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips.core.rule import share_of_round
from banditmips.pursuit.dictionary import Dictionary
from banditmips.pursuit.race import MAX_BUFFER
from banditmips.race.sampling import SamplePrefix, Sampler

__all__ = ["ExactSystem", "Fit", "fit_sample", "is_dependent"]

_FIRST_LOOK = 512
_MIN_EFFECTIVE = 32.0
"""Coordinates that must carry each atom, in effect, before its coefficient's interval is believed."""
_FINISH_FRACTION = 0.5
"""Fit exactly when the next look would read this part of all coordinates."""
_BLOCK = 1 << 18
_DEPENDENCE = 1e-10
"""Part of an atom's squared norm that the other atoms chosen must leave over."""

Target = Callable[[NDArray[np.int64]], NDArray[np.float64]]


@dataclass(frozen=True)
class Fit:
    """Coefficients of some atoms, in the order of the rows given.

    Attributes
    ----------
    radius
        Half of each coefficient's confidence interval; 0 where it is exact.
    squared_residual
        Squared norm of what the fit leaves over, estimated where the fit is.
    """

    coefficients: NDArray[np.float64]
    radius: NDArray[np.float64]
    squared_residual: float
    delta_spent: float
    exact: bool


class ExactSystem:
    """The normal equations of all atoms chosen, over their units, exact, and extended as atoms are added."""

    def __init__(self, dictionary: Dictionary, signal_at: Target) -> None:
        self._dictionary = dictionary
        self._signal_at = signal_at
        self._gram = np.empty((0, 0))
        self._products = np.empty(0)

    def fit(self, rows: NDArray[np.int64], n_new: int) -> Fit | None:
        """Fit the signal; None if the last `n_new` rows depend on the others, which begin as in the last call."""
        held, d = self._products.size, self._dictionary.d
        gram, products, energy = np.zeros((rows.size - held, rows.size)), np.zeros(rows.size - held), 0.0
        units = self._dictionary.units(rows)
        for start in range(0, d, _BLOCK):
            coordinates = np.arange(start, min(start + _BLOCK, d))
            values = self._dictionary.entries(rows[held:], coordinates) / units[held:, np.newaxis]
            signal = self._signal_at(coordinates)
            gram[:, :held] += self._dictionary.products(rows[:held], coordinates, values) / units[:held]
            # Not by BLAS: a few rows are too little for its threads, which wait for each other where others work too.
            gram[:, held:] += np.einsum("ij,kj->ik", values, values)
            products += np.einsum("ij,j->i", values, signal)
            energy += float(np.einsum("j,j->", signal, signal))
        whole = np.block([[self._gram, gram[:, :held].T], [gram]]) if held else gram
        if is_dependent(whole, n_new):
            return None
        self._gram, self._products = whole, np.append(self._products, products)
        coefficients = np.asarray(np.linalg.lstsq(whole, self._products, rcond=None)[0], dtype=np.float64)
        left = energy - float(coefficients @ self._products)
        return Fit(coefficients / units, np.zeros(rows.size), max(left, 0.0), 0.0, exact=True)


def is_dependent(gram: NDArray[np.float64], n_new: int) -> bool:
    """Whether the last `n_new` atoms add nothing to the span of those before them.

    Examples
    --------
    >>> atoms = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [3.0, 4.0, 0.0]])
    >>> is_dependent(atoms[:2] @ atoms[:2].T, 1), is_dependent(atoms @ atoms.T, 1)
    (False, True)
    """
    size = np.sqrt(np.maximum(np.diagonal(gram), np.finfo(np.float64).tiny))
    cosines = gram / np.outer(size, size)
    old, both = cosines[:-n_new, :-n_new], cosines[:-n_new, -n_new:]
    left = np.diagonal(cosines[-n_new:, -n_new:])
    if old.size:
        left = left - np.sum(both * np.linalg.lstsq(old, both, rcond=None)[0], axis=0)
    return float(left.max()) <= _DEPENDENCE


def fit_sample(
    dictionary: Dictionary,
    rows: NDArray[np.int64],
    target: Target,
    sampler: Sampler,
    *,
    delta: float,
    rtol: float,
    budget: int | None,
) -> Fit | None:
    """Fit a target on a sample until each interval is within `rtol` of the size of the coefficient's own group.

    Returns None where all coordinates would be cheaper, or are needed. The intervals hold together, for all looks at
    the sample that were taken: each look and each coefficient has its own share of delta.
    """
    size, look, spent = _FIRST_LOOK, 0, 0.0
    before = dictionary.n_multiplies
    values, observed = np.empty((rows.size, 0)), np.empty(0)
    fit: Fit | None = None
    while size < _FINISH_FRACTION * sampler.population and size * rows.size <= MAX_BUFFER:
        look += 1
        spent += delta * share_of_round(look)
        prefix = sampler.prefix(size)
        new = prefix.coordinates[observed.size :]
        values = np.concatenate([values, dictionary.entries(rows, new)], axis=1)
        observed = np.append(observed, target(new))
        fit = _look(values, observed, prefix, delta * share_of_round(look), spent)
        next_size = 4 * size
        if fit is not None:
            goal = np.maximum(rtol * _group_sizes(fit.coefficients, dictionary.group_size), np.finfo(np.float64).tiny)
            if (fit.radius <= goal).all():
                return fit
            next_size = _size_needed(fit.radius / goal, size, look, delta / (2.0 * rows.size), sampler.population)
            if budget is not None:
                used = dictionary.n_multiplies - before
                next_size = min(next_size, size + int((budget - used) * size / used))
                if next_size < 1.1 * size:
                    return fit
        size = next_size
    exact_cost = rows.size * dictionary.d
    if fit is not None and budget is not None and dictionary.n_multiplies - before + exact_cost > budget:
        return fit
    return None


def _size_needed(shortfall: NDArray[np.float64], size: int, look: int, tail: float, population: int) -> int:
    """Predict on how large a sample the next look finds all radii small enough: `shortfall` times smaller than now."""
    quantiles = [float(stdtrit(size, tail * share_of_round(number))) for number in (look, look + 1)]
    factor = float(np.max(shortfall) * quantiles[1] / quantiles[0]) ** 2
    # The variance goes with 1/N - 1/population. A little more than it asks for, as a look that just misses is wasted.
    needed = 1.05 / ((1.0 / size - 1.0 / population) / factor + 1.0 / population)
    return int(min(max(needed, 1.1 * size), 64.0 * size)) + 1


def _group_sizes(coefficients: NDArray[np.float64], group_size: int) -> NDArray[np.float64]:
    sizes = np.linalg.norm(coefficients.reshape(-1, group_size), axis=1)
    return np.repeat(sizes, group_size)


def _look(
    values: NDArray[np.float64], target: NDArray[np.float64], prefix: SamplePrefix, delta: float, spent: float
) -> Fit | None:
    """Fit the target on a sample, with intervals for this look's delta; None if the sample shows too little."""
    p, size = values.shape
    weighted = values * prefix.scale
    gram = weighted @ values.T
    energies = weighted * values
    effective = energies.sum(axis=1) ** 2 / np.maximum((energies**2).sum(axis=1), np.finfo(np.float64).tiny)
    if effective.min() < _MIN_EFFECTIVE * p or np.linalg.cond(gram) > 1.0 / _DEPENDENCE:
        return None
    inverse = np.linalg.inv(gram)
    coefficients = inverse @ (weighted @ target)
    left = target - coefficients @ values
    # The sandwich variance: the error of the coefficients is inverse @ (the error of the total of values*left).
    errors = inverse @ (values * left)
    means = (errors @ prefix.scale) / prefix.total_unit
    variances = np.sum((prefix.spread * (errors - means[:, np.newaxis] * prefix.unit)) ** 2, axis=1)
    degrees = size - p
    quantile = -float(stdtrit(degrees, delta / (2.0 * p)))
    radius = quantile * np.sqrt(variances * size / degrees)
    return Fit(coefficients, radius, float(prefix.scale @ left**2) * size / degrees, spent, exact=False)
