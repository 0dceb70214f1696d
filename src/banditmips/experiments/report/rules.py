"""The rules that judge claims of the figures, with their thresholds; `claims` says which belongs to which claim.

Those of the theorems, of sampling and of what the page has beyond the paper are in `theory_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from banditmips.experiments.report.factors import agreement, between, fewer
from banditmips.experiments.report.fits import r_squared, slope
from banditmips.experiments.report.judging import Agreement, Evidence, Finding, Grade, Judge, Line, judge_each
from banditmips.experiments.report.points import Point, compact, percent, ratio, sweep, with_extra
from banditmips.experiments.report.styles import BASELINES

__all__ = [
    "ACCURATE",
    "AS_ACCURATE",
    "AT_LEAST_SQUARE_ROOT",
    "LEVEL",
    "LINEAR",
    "NEARLY",
    "SIMILAR_FITS",
    "SQUARE_ROOT",
    "SUBLINEAR",
    "SUBSTANTIAL",
    "WIDE",
    "alpha_needs_fewer",
    "baselines_grow",
    "best_trade_off",
    "every_trial_right",
    "fits_alike",
    "grows_linearly",
    "needs_most",
    "outperforms_all",
    "slope_between",
    "times_ahead",
    "trades_off",
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

    The interval of the power, where there is one, has to end below ``below``, the growth that the claim denies; if it
    does not, the trials agree but barely. Where something is multiplied before the first query, the power with that
    counted in every query is told as well.
    """

    def prepared(points: Sequence[Point]) -> str:
        whole = [with_extra(point, "preparation_multiplies") for point in points]
        fit = slope([point for point in whole if point is not None], axis)
        return "" if fit is None else f"; {fit.value:.2f} with the norms' multiplies in every query"

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = sweep(evidence.of(figure, dataset, algorithm), axis)
        fit = slope(points, axis)
        if fit is None:
            return None
        reach = f"{axis} {compact(fit.x_low)} to {compact(fit.x_high)}"
        told = prepared(points) if axis == "n" else ""
        agreed = Agreement.YES if fit.high is None or fit.high < below else Agreement.BARELY
        return Line(f"slope {fit}, {reach}{told}", agreed if low <= fit.value <= high else Agreement.NO)

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
        return Line.of(f"R² {', '.join(f'{value:.2f}' for value in told)}", max(told) - min(told) <= SIMILAR_FITS)

    return judge_each(figure, datasets, judge)


def every_trial_right(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: BanditMIPS returns the right answer in every trial; partly, where failures stay within delta."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = evidence.of(figure, dataset, "BanditMIPS")
        if not points:
            return None
        least = min(point.accuracy.mean for point in points)
        worst = "" if least == 1.0 else f" ({percent(least)} at the worst d)"
        trials = sum(len(point.rows) for point in points)
        told = f" in {trials:,} trials" if trials else ""
        return Line.of(
            f"{percent(_mean_accuracy(points))} right{told}{worst}, delta {_allowed(points):g}", least == 1.0
        )

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


def times_ahead(dataset: str, algorithm: str, claimed: float, named: str) -> Judge:
    """Claim: at the largest d, the cheapest baseline of figure 2 needs ``claimed`` times as many multiplies.

    The factor to the baseline that the paper names as the closest is told as well.
    """

    def judge(evidence: Evidence, name: str) -> Line | None:
        compared = _beside_baselines(evidence, name, algorithm)
        if compared is None:
            return None
        own, rivals = compared
        cheapest = min(rivals, key=_multiplies)
        told = [cheapest]
        accurate = [rival for rival in rivals if rival.accuracy.mean >= ACCURATE]
        if accurate and cheapest not in accurate:
            told.append(min(accurate, key=_multiplies))
        told += [rival for rival in rivals if rival.algorithm == named and rival not in told]
        factors = ", ".join(_compared(own, rival) for rival in told)
        line = f"{factors}; itself {percent(own.accuracy.mean)} right, d {compact(_d(own))}"
        return Line(line, agreement(ratio(cheapest, own), NEARLY * claimed))

    return judge_each("figure2", (dataset,), judge)


def outperforms_all(datasets: Sequence[str], algorithms: Sequence[str]) -> Judge:
    """Claim: every baseline needs substantially more multiplies than each of ``algorithms``."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        told, agreements = [], []
        for algorithm in algorithms:
            compared = _beside_baselines(evidence, dataset, algorithm)
            if compared is not None:
                own, rivals = compared
                cheapest = min(rivals, key=_multiplies)
                factor = ratio(cheapest, own)
                told.append(f"{algorithm} {fewer(factor)} than {cheapest.algorithm}")
                agreements.append(agreement(factor, SUBSTANTIAL))
        return Line(", ".join(told), _weakest(agreements)) if told else None

    return judge_each("figure2", datasets, judge)


def _weakest(agreements: Iterable[Agreement]) -> Agreement:
    return max(agreements, key=list(Agreement).index)


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


def _compared(own: Point, rival: Point) -> str:
    return f"{fewer(ratio(rival, own))} than {rival.algorithm} ({percent(rival.accuracy.mean)} right)"


def alpha_needs_fewer(datasets: Sequence[str], required: int) -> Judge:
    """Claim: BanditMIPS-alpha outperforms BanditMIPS; less accurate answers do not count as that."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        alpha, plain = (
            sorted(evidence.of("figure2", dataset, name), key=_d) for name in ("BanditMIPS-alpha", "BanditMIPS")
        )
        if not alpha or not plain:
            return None
        factor = ratio(plain[-1], alpha[-1])
        accuracies = [_mean_accuracy(points) for points in (alpha, plain)]
        as_accurate = accuracies[0] >= accuracies[1] - AS_ACCURATE
        text = f"{fewer(factor)}, {percent(accuracies[0])} right against {percent(accuracies[1])}"
        return Line(text, agreement(factor) if as_accurate else Agreement.NO)

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
        return Line.of(f"slope {slopes[least]:.2f} or more ({least})", slopes[least] >= AT_LEAST_SQUARE_ROOT)

    return judge_each("figure2", datasets, judge)


_COMPARED = ("BanditMIPS", "BanditMIPS-alpha", *BASELINES)


def needs_most(datasets: Sequence[str], algorithm: str) -> Judge:
    """Claim: an algorithm needs more multiplies than every other, substantially."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        for own in sorted(evidence.of("figure2", dataset, algorithm), key=_d, reverse=True):
            others = [
                other
                for other in evidence.of("figure2", dataset)
                if other.d == own.d and other.k == own.k and other.algorithm in _COMPARED and other is not own
            ]
            if others:
                worst = max(others, key=_multiplies)
                factor = ratio(own, worst)
                text = f"{compact(factor.mean)}×{between(factor.low, factor.high)} as many as {worst.algorithm}"
                return Line(text, agreement(factor, SUBSTANTIAL))
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
        return Line(*_ahead(mine, theirs))

    return judge_each(figure, datasets, judge)


def worse_trade_off(figure: str, datasets: Sequence[str], worse: str, better: str) -> Judge:
    """Claim: one baseline's trade-off is strictly worse than another's."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = [evidence.of(figure, dataset, name) for name in (better, worse)]
        return Line(*_ahead(*(_fastest(group) for group in points))) if all(points) else None

    return judge_each(figure, datasets, judge)


def _ahead(own: Point | None, rival: Point | None) -> tuple[str, Agreement]:
    """Compare two speed-ups at equal accuracy; one that is never accurate enough has lost."""
    text = f"{_speed_up(own)}, {_speed_up(rival)}"
    if own is None or rival is None:
        return text, Agreement.NO if own is None else Agreement.YES
    factor = ratio(rival, own)
    return f"{text}: {fewer(factor)} multiplies", agreement(factor)


def _fastest(points: Sequence[Point]) -> Point | None:
    """Return the point of the largest speed-up among those accurate enough."""
    accurate = [point for point in points if point.accuracy.mean >= ACCURATE]
    return max(accurate, key=lambda point: point.speed_up or 0.0, default=None)


def _speed_up(point: Point | None) -> str:
    return "none that accurate" if point is None else f"{point.algorithm} {compact(point.speed_up or 0.0)}×"


def trades_off(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: hyperparameters trade accuracy for speed, so that settings differ widely in their multiplies."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = sorted(evidence.of(figure, dataset, "BanditMIPS"), key=_multiplies)
        if len(points) < 2:
            return None
        fast, slow = points[0], points[-1]
        factor = ratio(slow, fast)
        accuracies = f"{percent(fast.accuracy.mean)} to {percent(slow.accuracy.mean)} right"
        text = f"multiplies {factor.mean:,.3g}×{between(factor.low, factor.high)} apart, {accuracies}"
        return Line(text, agreement(factor, WIDE))

    return judge_each(figure, datasets, judge)


def _d(point: Point) -> int:
    return point.d or 0


def _multiplies(point: Point) -> float:
    return point.multiplies.mean
