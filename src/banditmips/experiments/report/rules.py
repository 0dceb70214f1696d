"""The rules that judge claims, with their thresholds; `claims` says which rule belongs to which claim."""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import stats

from banditmips.experiments.report.fits import r_squared, slope
from banditmips.experiments.report.judging import Evidence, Finding, Grade, Judge, Line, judge_each, surrogates
from banditmips.experiments.report.points import Point, failure_share, mean_extra, sweep

__all__ = [
    "ACCURATE",
    "AS_ACCURATE",
    "LEVEL",
    "LINEAR",
    "NEARLY",
    "SIGNIFICANT",
    "SIMILAR_FITS",
    "SUBLINEAR",
    "SUBSTANTIAL",
    "WIDE",
    "alpha_needs_fewer",
    "baselines_grow",
    "best_trade_off",
    "every_trial_right",
    "failures_within_delta",
    "fits_alike",
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
SQUARE_ROOT = 0.45
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
    figure: str, datasets: Sequence[str], algorithm: str, axis: str = "d", low: float = -math.inf, high: float = LEVEL
) -> Judge:
    """Claim: multiplies grow with n or d like a power between ``low`` and ``high``."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        fit = slope(sweep(evidence.of(figure, dataset, algorithm), axis), axis)
        if fit is None:
            return None
        reach = f"{axis} from {fit.x_low:,.0f} to {fit.x_high:,.0f}"
        return Line(f"slope {fit}, {reach}", low <= fit.value <= high)

    return judge_each(figure, datasets, judge)


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

    def rule(evidence: Evidence) -> Finding:
        found = {dataset: points for dataset in datasets if (points := evidence.of(figure, dataset, "BanditMIPS"))}
        lines = []
        kept = 0
        for dataset, points in found.items():
            mean = sum(point.accuracy.mean for point in points) / len(points)
            least = min(point.accuracy.mean for point in points)
            allowed = max(point.delta or 0.0 for point in points)
            kept += mean >= 1 - allowed
            text = f"{dataset}: {_percent(mean)} right, at least {_percent(least)} at each d (delta = {allowed:g})"
            lines.append(Line(text, least == 1.0))
        if not lines:
            return Finding(Grade.NOT_RUN)
        missing = [dataset for dataset in datasets if dataset not in found]
        if missing:
            lines.append(Line(f"not run on {', '.join(missing)}"))
        perfect = all(line.agrees for line in lines)
        grade = Grade.REPRODUCED if perfect else Grade.PARTLY if kept else Grade.NOT
        return Finding(grade, tuple(lines), surrogates(evidence, figure, found))

    return rule


def times_ahead(dataset: str, algorithm: str, claimed: float) -> Judge:
    """Claim: at the largest d, the cheapest baseline of figure 2 needs ``claimed`` times as many multiplies."""

    def rule(evidence: Evidence) -> Finding:
        compared = _beside_baselines(evidence, dataset, algorithm)
        if compared is None:
            return Finding(Grade.NOT_RUN)
        own, rivals = compared
        factor, text = _factor(own, rivals)
        lines = [Line(f"{text} at d = {own.d:,}", factor >= NEARLY * claimed)]
        accurate = [rival for rival in rivals if rival.accuracy.mean >= ACCURATE]
        if accurate and min(rivals, key=_multiplies) not in accurate:
            lines.append(Line(f"{_factor(own, accurate)[1]}, the next of those right in {ACCURATE:.0%}"))
        lines.append(Line(f"its own accuracy is {_percent(own.accuracy.mean)}"))
        grade = Grade.REPRODUCED if factor >= NEARLY * claimed else Grade.PARTLY if factor > 1 else Grade.NOT
        return Finding(grade, tuple(lines), surrogates(evidence, "figure2", [dataset]))

    return rule


def outperforms_all(datasets: Sequence[str], algorithms: Sequence[str]) -> Judge:
    """Claim: every baseline needs substantially more multiplies than each of ``algorithms``."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        factors, texts = [], []
        for algorithm in algorithms:
            compared = _beside_baselines(evidence, dataset, algorithm)
            if compared is not None:
                factor, text = _factor(*compared)
                factors.append(factor)
                texts.append(f"{algorithm} {text}")
        return Line("; ".join(texts), min(factors) >= SUBSTANTIAL) if factors else None

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
    return factor, f"{factor:,.3g}× fewer than {best.algorithm} (accuracy {_percent(best.accuracy.mean)})"


def alpha_needs_fewer(datasets: Sequence[str], required: int) -> Judge:
    """Claim: BanditMIPS-alpha outperforms BanditMIPS; less accurate answers do not count as that."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        alpha, plain = (
            sorted(evidence.of("figure2", dataset, name), key=_d) for name in ("BanditMIPS-alpha", "BanditMIPS")
        )
        if not alpha or not plain:
            return None
        factor = plain[-1].multiplies.mean / alpha[-1].multiplies.mean
        accuracies = [sum(point.accuracy.mean for point in points) / len(points) for points in (alpha, plain)]
        agrees = factor > 1 and accuracies[0] >= accuracies[1] - AS_ACCURATE
        told = f"{factor:,.3g}× fewer" if factor > 1 else f"{1 / factor:,.3g}× more"
        return Line(f"{told}, accuracy {_percent(accuracies[0])} against {_percent(accuracies[1])}", agrees)

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
        return Line(f"smallest slope {slopes[least]:.2f} ({least})", slopes[least] >= SQUARE_ROOT)

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
        text = f"{_speed_up(mine)} against {_speed_up(theirs)}"
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
        return Line(f"{_speed_up(low)} against {_speed_up(high)}", agrees)

    return judge_each(figure, datasets, judge)


def _fastest(points: Sequence[Point]) -> Point | None:
    """Return the point of the largest speed-up among those accurate enough."""
    accurate = [point for point in points if point.accuracy.mean >= ACCURATE]
    return max(accurate, key=lambda point: point.speed_up or 0.0, default=None)


def _speed_up(point: Point | None) -> str:
    return "none that accurate" if point is None else f"{point.speed_up:,.3g}× ({point.algorithm})"


def trades_off(figure: str, datasets: Sequence[str]) -> Judge:
    """Claim: hyperparameters trade accuracy for speed, so that settings differ widely in their multiplies."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = sorted(evidence.of(figure, dataset, "BanditMIPS"), key=_multiplies)
        if len(points) < 2:
            return None
        fast, slow = points[0], points[-1]
        factor = slow.multiplies.mean / fast.multiplies.mean
        accuracies = f"accuracy {_percent(fast.accuracy.mean)} to {_percent(slow.accuracy.mean)}"
        return Line(f"multiplies differ {factor:,.3g}×, {accuracies}", factor >= WIDE)

    return judge_each(figure, datasets, judge)


def failures_within_delta() -> Judge:
    """Claim: a search fails with probability delta at most, at every setting that was counted."""

    def rule(evidence: Evidence) -> Finding:
        datasets = evidence.datasets("beyond_failures")
        shares = {
            dataset: [
                (point, share)
                for point in evidence.of("beyond_failures", dataset)
                if point.delta and (share := failure_share(point)) is not None
            ]
            for dataset in datasets
        }
        n_tests = sum(map(len, shares.values()))
        lines, n_beyond = [], 0
        for dataset, counted in shares.items():
            beyond = 0
            for point, share in counted:
                failures = round(share.mean * share.count)
                chance = stats.binomtest(failures, share.count, point.delta or 0.0, alternative="greater").pvalue
                beyond += chance < SIGNIFICANT / n_tests
            n_beyond += beyond
            if counted:
                worst = max(share.mean / (point.delta or 1.0) for point, share in counted)
                text = f"{dataset}: {beyond} of {len(counted)} settings above delta, at most {worst:,.2g} of delta"
                lines.append(Line(text, beyond == 0))
        if not lines:
            return Finding(Grade.NOT_RUN)
        grade = Grade.REPRODUCED if not n_beyond else Grade.NOT if n_beyond == n_tests else Grade.PARTLY
        return Finding(grade, tuple(lines), surrogates(evidence, "beyond_failures", datasets))

    return rule


def within_theorem_1() -> Judge:
    """Claim: the multiplies stay within the bound of Theorem 1."""

    def rule(evidence: Evidence) -> Finding:
        shares: dict[str, list[float]] = {}
        for dataset in evidence.datasets("beyond_theorem1"):
            for point in evidence.of("beyond_theorem1", dataset):
                bound = mean_extra(point, "bound_theorem1")
                if bound is not None:
                    shares.setdefault(dataset, []).append(point.multiplies.mean / bound.mean)
        if not shares:
            return Finding(Grade.NOT_RUN)
        lines = tuple(
            Line(f"{dataset}: {min(of):.2g} to {max(of):.2g} of the bound", max(of) <= 1)
            for dataset, of in shares.items()
        )
        within = [share <= 1 for of in shares.values() for share in of]
        grade = Grade.REPRODUCED if all(within) else Grade.PARTLY if any(within) else Grade.NOT
        return Finding(grade, lines, surrogates(evidence, "beyond_theorem1", shares))

    return rule


def _d(point: Point) -> int:
    return point.d or 0


def _multiplies(point: Point) -> float:
    return point.multiplies.mean


def _percent(share: float) -> str:
    """Return a share in per cent; never 100 % for less than all."""
    text = f"{100 * share:.1f}"
    if text == "100.0":
        return "100 %" if share == 1.0 else "over 99.9 %"
    return f"{text} %"
