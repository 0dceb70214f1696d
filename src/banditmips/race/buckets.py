"""Bucket_AE of the paper: atoms in bins of falling norm, raced bin by bin.

No inner product exceeds the norms' product. Once the best atoms found so far are better for certain than
``norm * ||query||`` of everything in the bins that remain, those bins need not be looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.facts import longest
from banditmips.core.outcome import Outcome
from banditmips.core.quantiles import student_quantile
from banditmips.core.records import StopReason
from banditmips.race.sampled import Contest

__all__ = ["N_NORM_SAMPLES", "Buckets", "race_buckets"]

N_NORM_SAMPLES = 64
"""Coordinates from which norms are estimated: a constant, as in the paper."""


@dataclass(frozen=True)
class Buckets:
    """The atoms' norms, known or estimated, and the order of bins that follows from them.

    Attributes
    ----------
    order : int64, shape (n,)
        The atoms, largest norm first.
    mean_squares, standard_errors : float64, shape (n,)
        Mean square of an atom's entries and the standard error of that mean; 0 where the mean is exact.
    n_sampled : int
        Coordinates behind each mean.
    d : int
        Coordinates of an atom.
    size : int
        Atoms in a bin.
    """

    order: NDArray[np.int64]
    mean_squares: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    n_sampled: int
    d: int
    size: int

    @classmethod
    def from_norms(cls, squared_norms: NDArray[np.float64], d: int, size: int) -> Buckets:
        """Make bins from norms that `fit` has computed exactly."""
        means = squared_norms / d
        return cls(np.argsort(-means, kind="stable"), means, np.zeros(means.size), d, d, size)

    @classmethod
    def from_sample(cls, values: NDArray[np.float64], d: int, size: int) -> Buckets:
        """Make bins from values at uniformly sampled coordinates, as the paper does."""
        n_sampled = values.shape[1]
        # Nobody has looked at these values: where they, or their squares, are not finite, the norm may be anything.
        with np.errstate(over="ignore", invalid="ignore"):
            squares = values**2
            means = squares.mean(axis=1)
            spread = squares.std(axis=1, ddof=1) if n_sampled > 1 else np.full(means.size, np.inf)
            errors = spread * np.sqrt((1.0 - n_sampled / d) / n_sampled) if n_sampled < d else np.zeros(means.size)
        unknown = ~np.isfinite(means)
        means[unknown], errors[unknown] = np.inf, 0.0
        return cls(np.argsort(-means, kind="stable"), means, errors, n_sampled, d, size)

    @property
    def n_bins(self) -> int:
        """Number of bins, the last one perhaps not full."""
        return -(-self.order.size // self.size)

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self.order.nbytes + self.mean_squares.nbytes + self.standard_errors.nbytes

    def norm_bounds(self, delta: float) -> NDArray[np.float64]:
        """Return for each atom what its norm does not exceed, for all together but for probability delta.

        Estimated norms get Student's upper end, which is asymptotic like `paired`.
        """
        means = self.mean_squares
        if self.standard_errors.any():
            z = -student_quantile(max(self.n_sampled - 1, 1), delta / means.size) if delta > 0.0 else np.inf
            means = means + z * self.standard_errors
        return longest(self.d * means, self.d)


def race_buckets(
    contest: Contest,
    buckets: Buckets,
    query_norm: float,
    run: Callable[[Contest], Outcome],
    measure: Callable[[Contest, int], Outcome],
) -> Outcome:
    """Race bin after bin, carrying the best k along, until no bin that remains can hold a better atom.

    Parameters
    ----------
    contest
        The whole contest; each bin gets its own with an equal share of delta.
    run
        Races one contest.
    measure
        Samples a given number of coordinates of a contest's candidates, without dropping any.
    """
    limits = contest.limits
    # A third of delta each for the norms, the races and the leaders' intervals.
    norm_bounds = buckets.norm_bounds(limits.delta / 3.0)
    share = limits.delta / (3.0 * buckets.n_bins)
    takes_part = np.zeros(buckets.order.size, dtype=np.bool_)
    takes_part[contest.candidates] = True
    in_order = buckets.order[takes_part[buckets.order]]
    leaders = np.empty(0, dtype=np.int64)
    bar = -np.inf
    total: Outcome | None = None
    for start in range(0, in_order.size, buckets.size):
        rest = in_order[start:]
        if leaders.size >= contest.k and norm_bounds[rest].max() * query_norm < bar:
            break
        rows = rest[: buckets.size]
        rows = rows[norm_bounds[rows] * query_norm >= bar]
        candidates = np.sort(np.concatenate([leaders, rows]))  # readers take rows that ascend
        left = None if limits.budget is None else limits.budget - (0 if total is None else total.n_multiplies)
        part = contest.part(candidates, share, left)
        if left is not None and left < candidates.size and total is not None:
            total.stop_reason = StopReason.BUDGET
            _fill_up(total, rest[: max(contest.k - total.survivors.size, 0)], norm_bounds * query_norm)
            break
        outcome = run(part)
        best = outcome.best(contest.k, contest.absolute)
        leaders = np.sort(outcome.survivors[best])
        total = _add(total, outcome)
        if leaders.size < contest.k:
            continue
        if not outcome.exact[best].all():
            # k leaders sampled `size` times as long cost no more than a bin did, and a higher bar saves bins.
            sampled = outcome.n_multiplies // max(candidates.size, 1)
            size = buckets.size * max(sampled, 1)
            if limits.budget is not None:
                size = min(size, (limits.budget - total.n_multiplies) // leaders.size)
                if size < 1:
                    continue
            measured = measure(contest.part(leaders, share), size)
            total.n_multiplies += measured.n_multiplies
            outcome = measured
            best = np.arange(leaders.size)
        scores = np.abs(outcome.scores[best]) if contest.absolute else outcome.scores[best]
        bar = max(bar, float((scores - outcome.radius[best]).min()))
    assert total is not None
    return total


def _fill_up(outcome: Outcome, rows: NDArray[np.int64], bounds: NDArray[np.float64]) -> None:
    """Add atoms that nobody has looked at, of which their norms alone are known, to a result that lacks some."""
    outcome.survivors = np.append(outcome.survivors, rows)
    outcome.scores = np.append(outcome.scores, np.zeros(rows.size))
    outcome.radius = np.append(outcome.radius, bounds[rows])
    outcome.exact = np.append(outcome.exact, np.zeros(rows.size, dtype=np.bool_))


def _add(total: Outcome | None, outcome: Outcome) -> Outcome:
    """Add up costs and rounds; survivors and scores are those of the latest race."""
    if total is None:
        return outcome
    reason = outcome.stop_reason
    for weaker in (StopReason.EPSILON, StopReason.BUDGET):
        if weaker in (total.stop_reason, reason):
            reason = weaker
    outcome.stop_reason = reason
    outcome.n_multiplies += total.n_multiplies
    outcome.n_rounds += total.n_rounds
    outcome.delta_spent += total.delta_spent
    outcome.rounds = total.rounds + outcome.rounds
    return outcome
