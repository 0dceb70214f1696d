"""The rules for the theorems, for weights and warm starts, and for what the page has beyond the paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scipy import stats

from banditmips.experiments.report.factors import MARGIN, agreement, between, fewer
from banditmips.experiments.report.judging import Evidence, Judge, Line, judge_each
from banditmips.experiments.report.points import Estimate, Point, failure_share, mean_extra, percent, ratio

__all__ = [
    "CAPPED",
    "EXACT_ENOUGH",
    "SIGNIFICANT",
    "beta_is_optimal",
    "coefficients_right",
    "failures_within_delta",
    "least_variance",
    "optimal_needs_fewer",
    "warm_start_saves",
    "within_theorem_1",
]

CAPPED = 0.9
"""Share of the terms of Theorem 1's bound at their cap from which on its check is nearly automatic."""
ROUNDING = 1e-9
"""Relative error of a variance that was computed and not sampled."""
EXACT_ENOUGH = 0.01
"""Largest relative error of a coefficient that counts as correct."""
SIGNIFICANT = 0.05
"""Level of the binomial tests of failure rates, divided by their number."""


def failures_within_delta(figure: str) -> Judge:
    """Claim: a search fails with probability delta at most, at every setting that was counted."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        n_tests = sum(len(_failure_shares(evidence, figure, name)) for name in evidence.datasets(figure))
        shares = _failure_shares(evidence, figure, dataset)
        if not shares:
            return None
        beyond = 0
        for delta, share in shares:
            failures = round(share.mean * share.count)
            chance = stats.binomtest(failures, share.count, delta, alternative="greater").pvalue
            beyond += chance < SIGNIFICANT / n_tests
        failed, asked = (sum(round(f(share)) for _, share in shares) for f in (_n_failures, lambda each: each.count))
        worst = max(share.mean / delta for delta, share in shares)
        told = f"{failed:,} of {asked:,} searches wrong, {beyond} of {len(shares)} settings above delta"
        return Line.of(f"{told}, worst {worst:,.2g} delta", beyond == 0)

    return judge_each(figure, None, judge)


def _n_failures(share: Estimate) -> float:
    return share.mean * share.count


def _failure_shares(evidence: Evidence, figure: str, dataset: str) -> list[tuple[float, Estimate]]:
    points = evidence.of(figure, dataset)
    return [(point.delta, share) for point in points if point.delta and (share := failure_share(point)) is not None]


def within_theorem_1() -> Judge:
    """Claim: the multiplies stay within the bound of Theorem 1.

    Where nearly all of its terms are at their cap of 2 d, the bound is 2 n d, which no algorithm here can exceed.
    """

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = [point for point in evidence.of("beyond_theorem1", dataset) if mean_extra(point, "bound_theorem1")]
        if not points:
            return None
        shares = [point.multiplies.mean / _extra(point, "bound_theorem1") for point in points]
        capped = min(_extra(point, "capped") for point in points)
        text = f"{min(shares):.2g} to {max(shares):.2g} of the bound"
        if capped >= CAPPED:
            share = "all" if capped == 1.0 else f"{percent(capped)} or more"
            text += f"; {share} of its terms at their cap of 2 d, so that it says little"
        return Line.of(text, max(shares) <= 1)

    return judge_each("beyond_theorem1", None, judge)


def _extra(point: Point, name: str) -> float:
    found = mean_extra(point, name)
    return 0.0 if found is None else found.mean


def least_variance(datasets: Sequence[str]) -> Judge:
    """Claim: no other weights have a smaller combined variance than Theorem 2's; computed, not sampled."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        others = {
            float(point.parameters["beta"]): _extra(point, "variance_over_optimal")
            for point in evidence.of("beyond_sampling", dataset)
            if "beta" in point.parameters
        }
        if not others:
            return None
        text = ", ".join(f"{_weighting(beta)} {value:,.3g}×" for beta, value in sorted(others.items()))
        return Line.of(f"{text} its variance", min(others.values()) >= 1.0 - ROUNDING)

    return judge_each("beyond_sampling", datasets, judge)


def _weighting(beta: float) -> str:
    return "uniform" if beta == 0 else f"beta {beta:g}"


def optimal_needs_fewer(datasets: Sequence[str], beta: float) -> Judge:
    """Claim: a race needs fewer multiplies with Theorem 2's weights than with q^(2 beta)."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        points = evidence.of("beyond_sampling", dataset)
        best = [point for point in points if "beta" not in point.parameters]
        other = [point for point in points if point.parameters.get("beta") == beta]
        if not best or not other:
            return None
        factor = ratio(other[0], best[0])
        return Line(f"{fewer(factor)}, {percent(best[0].accuracy.mean)} right", agreement(factor))

    return judge_each("beyond_sampling", datasets, judge)


def beta_is_optimal(datasets: Sequence[str], beta: float) -> Judge:
    """Claim: the weights q^(2 beta) are those of Theorem 2, so that they have its variance."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        for point in evidence.of("beyond_sampling", dataset):
            if point.parameters.get("beta") == beta:
                times = _extra(point, "variance_over_optimal")
                return Line.of(f"{times:,.3g}× the variance of the optimum", times <= MARGIN)
        return None

    return judge_each("beyond_sampling", datasets, judge)


def warm_start_saves(datasets: Sequence[str], warm: str) -> Judge:
    """Claim: with a warm start, many queries take less time, that of making it included."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        kept, cold = (
            sorted(evidence.of("beyond_warm_start", dataset, name), key=lambda point: point.parameters["queries"])
            for name in (warm, "BanditMIPS")
        )
        if not kept or not cold:
            return None
        factor = ratio(cold[-1], kept[-1], lambda row: row.seconds)
        multiplies = ratio(cold[-1], kept[-1])
        times = f"{factor.mean:,.3g}×{between(factor.low, factor.high)} as fast"
        text = f"{times} over {kept[-1].parameters['queries']} queries, {fewer(multiplies)} multiplies"
        return Line(text, agreement(factor))

    return judge_each("beyond_warm_start", datasets, judge)


def coefficients_right(expected: Mapping[str, float]) -> Judge:
    """Claim: the coefficients of the notes are found; the largest relative error of any trial counts."""

    def judge(evidence: Evidence, dataset: str) -> Line | None:
        rows = [row for point in evidence.of("figure8", dataset, "BanditMIPS") for row in point.rows]
        errors = [
            abs(value / expected[note] - 1.0) if note in expected else math.inf
            for row in rows
            for note, value in zip(row.extra.get("notes", ()), row.extra.get("coefficients", ()), strict=True)
        ]
        if not errors:
            return None
        return Line.of(f"largest error {max(errors):.1g} of {len(errors)} coefficients", max(errors) <= EXACT_ENOUGH)

    return judge_each("figure8", ("SimpleSong",), judge)
