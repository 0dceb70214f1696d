"""The rules that judge claims, with their thresholds; `claims` says which rule belongs to which claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from scipy import stats

from banditmips.experiments.report.fits import r_squared, slope
from banditmips.experiments.report.judging import Evidence, Finding, Grade, Judge, Line, judge_each, surrogates
from banditmips.experiments.report.points import Estimate, Point, compact, failure_share, mean_extra, sweep

__all__ = [
    "ACCURATE",
    "AS_ACCURATE",
    "AT_LEAST_SQUARE_ROOT",
    "LEVEL",
    "LINEAR",
    "NEARLY",
    "SIGNIFICANT",
    "SIMILAR_FITS",
    "SQUARE_ROOT",
    "SUBLINEAR",
    "SUBSTANTIAL",
    "WIDE",
    "alpha_needs_fewer",
    "baselines_grow",
    "best_trade_off",
    "every_trial_right",
    "failures_within_delta",
    "fits_alike",
    "grows_linearly",
    "needs_most",
    "outperforms_all",
    "slope_between",
    "times_ahead",
    "trades_off",
    "within_theorem_1",
    "worse_trade_off",
]

LEVEL = 0.1
"""Largest slope that counts as independent: at 0.1 twice the d costs 7 % more multiplies."""
LINEAR = (0.9, 1.1)
"""Slopes that count as linear."""
SUBLINEAR = 0.9
"""Largest slope that counts as sublinear."""
SQUARE_ROOT = 0.5
"""The slope of square-root growth, which the interval of a level line has to exclude."""
AT_LEAST_SQUARE_ROOT = 0.45
"""Smallest slope that counts as growing at least like a square root, a little below 1/2 for noise."""
NEARLY = 0.9
"""Share of a claimed factor that still counts as that factor."""
SUBSTANTIAL = 2.0
"""Factor from which on an algorithm substantially outperforms another."""
ACCURATE = 0.9
"""Accuracy at which speed-ups are compared."""
AS_ACCURATE = 0.05
"""How much less accurate a method may be and still count as faster."""
SIMILAR_FITS = 0.1
"""Largest difference of two R^2 that count as similar."""
WIDE = 2.0
"""Factor between the slowest and the fastest setting that counts as a trade-off."""
SIGNIFICANT = 0.05
"""Level of the binomial tests of failure rates, divided by their number."""


def slope_between(
    figure: str,
    datasets: Sequence[str],
    algorithm: str,
    axis: str = "d",
    *,
    low: float = -math.inf,
    high: float = LEVEL,
    below: float = SQUARE_ROOT,
) -> Judge:
    """Claim: multiplies grow with n or d like a power between ``low`` and ``high``; by default, not at all.

    The interval of the power, where there is one, has to end below ``below``: the growth that the claim denies.
    """

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        fit = slope(sweep(evidence.of(figure, dataset, algorithm), axis), axis)
        if fit is None:
            return None
        reach = f"{axis} {compact(fit.x_low)} to {compact(fit.x_high)}"
        excluded = fit.high is None or fit.high < below
        return Line(f"slope {fit}, {reach}", low <= fit.value <= high and excluded)

    return judge_each(figure, datasets, judge)


def grows_linearly(figure: str, datasets: Sequence[str], algorithm: str, axis: str) -> Judge:
    """Claim: multiplies grow in proportion to n or d."""
    return slope_between(figure, datasets, algorithm, axis, low=LINEAR[0], high=LINEAR[1], below=math.inf)


def fits_alike(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: the logarithmic, square-root and linear fits are equally good."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        fits = r_squared(evidence.of(figure, dataset, "BanditMIPS"))
        if fits is None:
            return None
        told = [fits[name] for name in ("log", "square root", "linear")]
        return Line(f"R² {', '.join(f'{value:.2f}' for value in told)}", max(told) - min(told) <= SIMILAR_FITS)

    return judge_each(figure, datasets, judge)


def every_trial_right(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: BanditMIPS returns the right answer in every trial; partly, where failures stay within delta."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = evidence.of(figure, dataset, "BanditMIPS")
        if not points:
            return None
        least = min(point.accuracy.mean for point in points)
        worst = "" if least == 1.0 else f" ({_percent(least)} at the worst d)"
        return Line(f"{_percent(_mean_accuracy(points))} right{worst}, delta {_allowed(points):g}", least == 1.0)

    each = judge_each(figure, datasets, judge)

    def rule(evidence: Evidence) -> Finding:
        finding = each(evidence)
        groups = [evidence.of(figure, dataset, "BanditMIPS") for dataset in finding.lines]
        kept = any(_mean_accuracy(points) >= 1 - _allowed(points) for points in groups)
        return replace(finding, grade=Grade.PARTLY) if finding.grade is Grade.NOT and kept else finding

    return rule


def _mean_accuracy(points: Sequence[Point]) -> float:
    return sum(point.accuracy.mean for point in points) / len(points)


def _allowed(points: Sequence[Point]) -> float:
    return max(point.delta or 0.0 for point in points)


def times_ahead(dataset: str, algorithm: str, claimed: float) -> Judge:
    """Claim: at the largest d, the cheapest baseline of figure 2 needs ``claimed`` times as many multiplies."""

    def rule(evidence: Evidence) -> Finding:
        compared = _beside_baselines(evidence, dataset, algorithm)
        if compared is None:
            return Finding(Grade.NOT_RUN)
        own, rivals = compared
        factor, text = _factor(own, rivals)
        accurate = [rival for rival in rivals if rival.accuracy.mean >= ACCURATE]
        if accurate and min(rivals, key=_multiplies) not in accurate:
            text += f", {_factor(own, accurate)[1]}"
        own_accuracy = f"itself {_percent(own.accuracy.mean)} right"
        line = Line(f"{text}; {own_accuracy}, d {compact(_d(own))}", factor >= NEARLY * claimed)
        grade = Grade.REPRODUCED if line.agrees else Grade.PARTLY if factor > 1 else Grade.NOT
        return Finding(grade, {dataset: line}, surrogates(evidence, "figure2", [dataset]))

    return rule


def outperforms_all(datasets: Sequence[str], algorithms: Sequence[str]) -> Judge:
    """Claim: every baseline needs substantially more multiplies than each of ``algorithms``."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        factors = {}
        for algorithm in algorithms:
            compared = _beside_baselines(evidence, dataset, algorithm)
            if compared is not None:
                factors[algorithm], _ = _factor(*compared)
        text = ", ".join(f"{algorithm} {_fewer(factor)}" for algorithm, factor in factors.items())
        return Line(text, min(factors.values()) >= SUBSTANTIAL) if factors else None

    return judge_each("figure2", datasets, judge)


def _beside_baselines(evidence: Evidence, dataset: str, algorithm: str) -> tuple[Point, list[Point]] | None:
    """Return an algorithm's point at the largest d where baselines were measured too, and theirs.

    The published d of one figure differ by rounding (20,000 and 19,999), hence the one per cent.
    """
    baselines = evidence.baselines("figure2", dataset)
    for own in sorted(evidence.of("figure2", dataset, algorithm), key=_d, reverse=True):
        rivals = [other for other in baselines if other.k == own.k and abs(_d(other) - _d(own)) <= 0.01 * _d(own)]
        if rivals:
            return own, rivals
    return None


def _factor(own: Point, rivals: Sequence[Point]) -> tuple[float, str]:
    best = min(rivals, key=_multiplies)
    factor = best.multiplies.mean / own.multiplies.mean
    return factor, f"{_fewer(factor)} than {best.algorithm} ({_percent(best.accuracy.mean)} right)"


def _fewer(factor: float) -> str:
    """Say how many times fewer multiplies there are, or how many times more."""
    return f"{factor:,.3g}× fewer" if factor >= 1 else f"{1 / factor:,.3g}× more"


def alpha_needs_fewer(datasets: Sequence[str], required: int) -> Judge:
    """Claim: BanditMIPS-alpha outperforms BanditMIPS; less accurate answers do not count as that."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        alpha, plain = (
            sorted(evidence.of("figure2", dataset, name), key=_d) for name in ("BanditMIPS-alpha", "BanditMIPS")
        )
        if not alpha or not plain:
            return None
        factor = plain[-1].multiplies.mean / alpha[-1].multiplies.mean
        accuracies = [_mean_accuracy(points) for points in (alpha, plain)]
        agrees = factor > 1 and accuracies[0] >= accuracies[1] - AS_ACCURATE
        return Line(f"{_fewer(factor)}, {_percent(accuracies[0])} right against {_percent(accuracies[1])}", agrees)

    return judge_each("figure2", datasets, judge, required=required)


def baselines_grow(datasets: Sequence[str]) -> Judge:
    """Claim: the multiplies of every other algorithm grow at least like the square root of d."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        baselines = evidence.baselines("figure2", dataset)
        slopes = {
            name: fit.value
            for name in dict.fromkeys(point.algorithm for point in baselines)
            if (fit := slope([point for point in baselines if point.algorithm == name], "d")) is not None
        }
        if not slopes:
            return None
        least = min(slopes, key=lambda name: slopes[name])
        return Line(f"slope {slopes[least]:.2f} or more ({least})", slopes[least] >= AT_LEAST_SQUARE_ROOT)

    return judge_each("figure2", datasets, judge)


def needs_most(datasets: Sequence[str], algorithm: str) -> Judge:
    """Claim: an algorithm needs more multiplies than every other, substantially."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        for own in sorted(evidence.of("figure2", dataset, algorithm), key=_d, reverse=True):
            others = [
                other
                for other in evidence.of("figure2", dataset)
                if other.d == own.d and other.k == own.k and other.algorithm not in (algorithm, "Naive")
            ]
            if others:
                worst = max(others, key=_multiplies)
                factor = own.multiplies.mean / worst.multiplies.mean
                return Line(f"{factor:,.2g}× as many as {worst.algorithm}", factor >= SUBSTANTIAL)
        return None

    return judge_each("figure2", datasets, judge)


def best_trade_off(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: the larger speed-up of BanditMIPS and BanditMIPS-alpha exceeds that of all baselines."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        own = [point for name in ("BanditMIPS", "BanditMIPS-alpha") for point in evidence.of(figure, dataset, name)]
        rivals = evidence.baselines(figure, dataset)
        if not own or not rivals:
            return None
        mine, theirs = _fastest(own), _fastest(rivals)
        text = f"{_speed_up(mine)}, {_speed_up(theirs)}"
        return Line(text, mine is not None and (theirs is None or (mine.speed_up or 0) > (theirs.speed_up or 0)))

    return judge_each(figure, datasets, judge)


def worse_trade_off(figure: str, datasets: Sequence[str], worse: str, better: str) -> Judge:
    """Claim: one baseline's trade-off is strictly worse than another's."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = [evidence.of(figure, dataset, name) for name in (worse, better)]
        if not all(points):
            return None
        low, high = (_fastest(group) for group in points)
        agrees = high is not None and (low is None or (low.speed_up or 0) < (high.speed_up or 0))
        return Line(f"{_speed_up(low)}, {_speed_up(high)}", agrees)

    return judge_each(figure, datasets, judge)


def _fastest(points: Sequence[Point]) -> Point | None:
    """Return the point of the largest speed-up among those accurate enough."""
    accurate = [point for point in points if point.accuracy.mean >= ACCURATE]
    return max(accurate, key=lambda point: point.speed_up or 0.0, default=None)


def _speed_up(point: Point | None) -> str:
    return "none that accurate" if point is None else f"{point.algorithm} {point.speed_up:,.3g}×"


def trades_off(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: hyperparameters trade accuracy for speed, so that settings differ widely in their multiplies."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = sorted(evidence.of(figure, dataset, "BanditMIPS"), key=_multiplies)
        if len(points) < 2:
            return None
        fast, slow = points[0], points[-1]
        factor = slow.multiplies.mean / fast.multiplies.mean
        accuracies = f"{_percent(fast.accuracy.mean)} to {_percent(slow.accuracy.mean)} right"
        return Line(f"multiplies {factor:,.3g}× apart, {accuracies}", factor >= WIDE)

    return judge_each(figure, datasets, judge)


def failures_within_delta() -> Judge:
    """Claim: a search fails with probability delta at most, at every setting that was counted."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        n_tests = sum(len(_failure_shares(evidence, name)) for name in evidence.datasets("beyond_failures"))
        shares = _failure_shares(evidence, dataset)
        if not shares:
            return None
        beyond = 0
        for delta, share in shares:
            failures = round(share.mean * share.count)
            chance = stats.binomtest(failures, share.count, delta, alternative="greater").pvalue
            beyond += chance < SIGNIFICANT / n_tests
        worst = max(share.mean / delta for delta, share in shares)
        return Line(f"{beyond} of {len(shares)} settings above delta, worst {worst:,.2g} delta", beyond == 0)

    return judge_each("beyond_failures", None, judge)


def _failure_shares(evidence: Evidence, dataset: str) -> list[tuple[float, Estimate]]:
    points = evidence.of("beyond_failures", dataset)
    return [(point.delta, share) for point in points if point.delta and (share := failure_share(point)) is not None]


def within_theorem_1() -> Judge:
    """Claim: the multiplies stay within the bound of Theorem 1."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        shares = [
            point.multiplies.mean / bound.mean
            for point in evidence.of("beyond_theorem1", dataset)
            if (bound := mean_extra(point, "bound_theorem1")) is not None
        ]
        return Line(f"{min(shares):.2g} to {max(shares):.2g} of the bound", max(shares) <= 1) if shares else None

    return judge_each("beyond_theorem1", None, judge)


def _d(point: Point) -> int:
    return point.d or 0


def _multiplies(point: Point) -> float:
    return point.multiplies.mean


def _percent(share: float) -> str:
    """Return a share in per cent on one line; never 100 % for less than all."""
    number = "100" if share == 1.0 else f"{min(100 * share, 99.9):.1f}"
    return f"{number}\u00a0%"
