"""The figures: their titles, captions and datasets, and from points to `Chart`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from banditmips.experiments.beyond_sampling import SIZES as SAMPLING
from banditmips.experiments.kinds import KINDS
from banditmips.experiments.report import error_panels, panels
from banditmips.experiments.report.chart import Chart, Panel
from banditmips.experiments.report.fits import fit_table
from banditmips.experiments.report.points import PUBLISHED, Point
from banditmips.experiments.rows import DRAWN, SURROGATE

__all__ = ["FIGURE_TITLES", "make_chart"]

_FOUR = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens", "MovieLens-100K")
_FIVE = (*_FOUR, "SymmetricNormal")


@dataclass(frozen=True)
class _Plan:
    """A figure's title, caption and datasets, and the function that makes the panels of one dataset."""

    title: str
    caption: str
    datasets: tuple[str, ...]
    panels: panels.Panels


def make_chart(figure: str, measured: Sequence[Point], published: Sequence[Point]) -> Chart | None:
    """Return a figure's chart, or None if nothing of it has been measured.

    A dataset of the figure that has only published points is shown with these, and says so.
    """
    plan = _PLANS[figure]
    mine = [point for point in measured if point.figure == figure]
    if not mine:
        return None
    theirs = [point for point in published if point.figure == figure]
    present = {point.dataset for point in (*mine, *theirs)}
    datasets = [name for name in plan.datasets if name in present]
    datasets += sorted(present - set(datasets))
    drawn: list[Panel] = []
    for dataset in datasets:
        own = [point for point in (*mine, *theirs) if point.dataset == dataset]
        drawn += plan.panels(_panel_title(dataset, own), own)
    tables = (fit_table(mine, theirs, datasets),) if figure == "figure1" else ()
    return Chart(figure, _title(figure, mine), plan.caption, tuple(drawn), tables)


def _title(figure: str, measured: Sequence[Point]) -> str:
    surrogates = sorted({point.dataset for point in measured if point.surrogate})
    note = f" (surrogate data for {', '.join(surrogates)})" if surrogates else ""
    return FIGURE_TITLES[figure] + note


def _panel_title(dataset: str, points: Sequence[Point]) -> str:
    measured = [point for point in points if point.source != PUBLISHED]
    if not measured:
        return f"{dataset}: not run yet"
    origin = measured[0].origin
    if origin == DRAWN:
        return dataset
    return f"{dataset} (surrogate)" if origin == SURROGATE else f"{dataset} (real)"


_PLANS = {
    "figure1": _Plan(
        "Figure 1: multiplies of BanditMIPS against d",
        "The paper: the sample complexity does not scale with d. Both axes are logarithmic, so a method whose work is "
        "independent of d is a level line, and the naive algorithm one that rises by one decade in each.",
        _FOUR,
        panels.against("d"),
    ),
    "figure2": _Plan(
        "Figure 2: all algorithms against d",
        "Multiplies of a query; the preprocessing of the baselines is not counted, as in the paper. The published "
        "counts are for k = 5. Fewer multiplies are worth little where the answers are wrong: hover over a point for "
        "its accuracy.",
        _FOUR,
        panels.against("d"),
    ),
    "figure3": _Plan(
        "Figure 3: accuracy against speed-up, k = 1",
        "Every point is one setting of a method's hyperparameters. A line joins the points that no other setting of "
        "the same method beats. Better is further up and further right: errors are drawn on a logarithmic axis, small "
        "ones on top, and points in the rows above had none at all.",
        _FOUR,
        error_panels.trade_off,
    ),
    "figure4": _Plan(
        "Figure 4: Sift-1M and CryptoPairs against d",
        "The paper: BanditMIPS scales as O(1) with d on both.",
        ("Sift-1M", "CryptoPairs"),
        panels.against("d"),
    ),
    "figure5": _Plan(
        "Figure 5: precision@5 against speed-up",
        "As figure 3, for the five best atoms.",
        _FOUR,
        error_panels.trade_off,
    ),
    "figure6": _Plan(
        "Figure 6: precision@10 against speed-up",
        "As figure 3, for the ten best atoms.",
        _FOUR,
        error_panels.trade_off,
    ),
    "figure7": _Plan(
        "Figure 7: scaling with n, with and without buckets, and buckets with d",
        "The paper: BanditMIPS scales linearly with n, Bucket_AE sublinearly, and the latter not with d. Bucket_AE has "
        "norms estimated from 64 coordinates of each atom, as in the paper; beside it is the same with exact norms, "
        "which cost a pass over all entries. Hover over a point for what was multiplied before the first query. The "
        "published runs against n do not tell their d.",
        ("CORRELATED_NORMAL_CUSTOM", "Netflix"),
        panels.buckets,
    ),
    "figure8": _Plan(
        "Figure 8: matching pursuit on SimpleSong against song length",
        "Multiplies to find the five notes of the song, in five queries; the naive count is that of five, too. d is "
        "the length of the song in samples, 44,100 in a second. The paper: it does not scale with that length. "
        "Songs are functions that are never whole in memory, so that there is nothing to fit; MatchingPursuit is this "
        "package's own way.",
        ("SimpleSong",),
        panels.against("d", "song (five queries)"),
    ),
    "figure9": _Plan(
        "Figure 9: SymmetricNormal against d",
        "Atoms that are all alike: the gaps shrink with d, and the paper expects its algorithm to scale linearly.",
        ("SymmetricNormal",),
        panels.against("d"),
    ),
    "beyond_bounds": _Plan(
        "Beyond the paper: other bounds",
        "The paper's Hoeffding bound beside the others that this package has, on the same data.",
        _FIVE,
        panels.bounds,
    ),
    "beyond_clock": _Plan(
        "Beyond the paper: the clock beside the multiplies",
        "Fewer multiplies are not the same factor in time: a full product reads memory in order and uses every unit of "
        "the processor. The grey line is a full product by BLAS on the same machine. Here nothing else of the run ran "
        "at the same time, as it may have in the figures above.",
        _FIVE,
        panels.against("d"),
    ),
    "beyond_delta": _Plan(
        "Beyond the paper: delta alone",
        "Figures 3, 5 and 6 sweep delta and epsilon together. Here delta is swept and epsilon is 0.",
        _FOUR,
        error_panels.swept("delta"),
    ),
    "beyond_epsilon": _Plan(
        "Beyond the paper: epsilon alone",
        "The allowed shortfall is swept, and delta is 0.01. Epsilon is per coordinate, as in the paper.",
        _FOUR,
        error_panels.swept("epsilon"),
    ),
    "beyond_failures": _Plan(
        "Beyond the paper: failure rate against delta",
        "A search may fail with probability delta at most: points belong below the grey line. Intervals are exact "
        "binomial ones. Points on the lower edge had no failure at all.",
        _FIVE,
        panels.failures,
    ),
    "beyond_kinds": _Plan(
        "Beyond the paper: failure rate on data that hide what decides",
        "A handful of kinds on which a sample of coordinates may see nothing of what decides, with the defaults: "
        "points belong below the grey line. Hover over a point for how many searches were decided by estimates.",
        tuple(KINDS),
        panels.failures,
    ),
    "beyond_sampling": _Plan(
        "Beyond the paper: Theorem 2's weights, uniform ones, and a sweep over beta",
        "Weights q^(2 beta) from uniform (beta = 0) to q² (beta = 1), and Theorem 2's as a level line: drawn with "
        "replacement, as in the paper's estimator, and without, as this package does. The variance is computed from "
        "the data, not sampled.",
        tuple(SAMPLING["full"].dimensions),
        panels.sampling,
    ),
    "beyond_theorem1": _Plan(
        "Beyond the paper: Theorem 1's bound beside the measured multiplies",
        "The bound on the multiplies computed from the true gaps of the data, for both readings of the constant. "
        "No term of it exceeds 2 d: where it is twice the naive line, all of them are there, and any algorithm stays "
        "within it.",
        (*_FIVE, "Sift-1M", "CryptoPairs"),
        panels.theorem,
    ),
    "beyond_warm_start": _Plan(
        "Beyond the paper: what a warm start saves",
        "The time of making an index, or the paper's cache of some coordinates, shared out over its queries. "
        "Every query multiplies its own numbers, so that a cache alone saves none of them; but an index also knows the "
        "atoms' means and norms, and drops by these what cannot win.",
        ("NORMAL_CUSTOM", "Netflix", "MovieLens", "MovieLens-100K"),
        panels.warm_start,
    ),
}

FIGURE_TITLES = {figure: plan.title for figure, plan in _PLANS.items()}
"""The title of every figure, in the order of the page."""
