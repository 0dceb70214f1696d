"""The claims of the paper and how each is judged, with the reasons that are known where one does not come out."""

from __future__ import annotations

from dataclasses import dataclass

from banditmips.datasets.simple_song import ANSWER
from banditmips.experiments.beyond_sampling import SIZES as SAMPLING
from banditmips.experiments.beyond_warm_start import WARM
from banditmips.experiments.report import rules, theory_rules
from banditmips.experiments.report.causes import Known
from banditmips.experiments.report.factors import MARGIN
from banditmips.experiments.report.judging import Judge
from banditmips.experiments.rows import FITTED, PAPER

__all__ = ["CLAIMS", "Claim"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes
    ----------
    text
        The claim in short.
    where
        Where the paper makes it; "" if it does not.
    figures
        The figures whose rows decide.
    paper
        What the paper's text or caption gives as its figure.
    rule
        When it counts as reproduced, in words; the numbers are those that `judge` uses.
    judge
        The rule itself.
    causes
        Why it may not come out, each with the datasets that it holds for (none: all).
    decided_by
        The source whose grade is the verdict.
    """

    text: str
    where: str
    figures: tuple[str, ...]
    paper: str
    rule: str
    judge: Judge
    causes: tuple[tuple[Known, tuple[str, ...]], ...] = ()
    decided_by: str = PAPER

    @property
    def said(self) -> str:
        """Where the paper says it, and with what figure, as a sentence."""
        return f"The paper, {self.where}: {self.paper}." if self.where else "The paper does not say it."


_FOUR = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM", "Netflix", "MovieLens")
_REAL = ("Sift-1M", "CryptoPairs")
_BUCKETS = ("CORRELATED_NORMAL_CUSTOM", "Netflix")
_LEVEL = (
    f"slope of log multiplies against log d at most {rules.LEVEL:g}, and its interval below {rules.SQUARE_ROOT:g} "
    "(square-root growth)"
)
_RATINGS = ("Netflix", "MovieLens", "MovieLens-100K")
_NORMAL = ("NORMAL_CUSTOM",)
_SYNTHETIC = ("NORMAL_CUSTOM", "CORRELATED_NORMAL_CUSTOM")
_WEIGHTED = tuple(name for name in SAMPLING["full"].dimensions if name != "MovieLens-100K")
_COEFFICIENTS = dict(zip(ANSWER, (3.0, 1.25, 1.0, 0.75, 0.5), strict=True))

_EACH = "on every dataset; partly: on some, or not by the margin"
_INTERVAL = "by its interval over the trials"
_RIGHT = "accuracy 100 % at every d; partly: the mean is at least 1 - delta on some dataset"
_AHEAD = (
    "multiplies of the cheapest baseline, however accurate, over those of {name} at the largest d: at least {least:g}, "
    f"{_INTERVAL}; partly: above 1"
)
_TRADE_OFF = (
    f"largest speed-up at an accuracy of at least {rules.ACCURATE:g}, the better of BanditMIPS and BanditMIPS-alpha "
    f"against the best baseline: larger by a factor of {MARGIN:g}, its interval above 1, {_EACH}"
)
_FAILURES = (
    f"no setting fails significantly more often than delta (binomial tests at {theory_rules.SIGNIFICANT:g} divided by "
    "their number); partly: some do"
)


def _ahead(name: str, claimed: float) -> str:
    return _AHEAD.format(name=name, least=rules.NEARLY * claimed)


CLAIMS = (
    Claim(
        "On MovieLens, BanditMIPS is 20× faster than the next best algorithm",
        "abstract; section 5, figure 2",
        ("figure2",),
        "20×, NEQ-MIPS next",
        _ahead("BanditMIPS", 20),
        rules.times_ahead("MovieLens", "BanditMIPS", 20, "NEQ-MIPS"),
        ((Known.READ_WHOLE, ()), (Known.HASHES, ()), (Known.AUTHORS_RADIUS, ())),
    ),
    Claim(
        "... while returning the same answer",
        "abstract; section 5, figure 2",
        ("figure2",),
        "always",
        _RIGHT,
        rules.every_trial_right("figure2", ("MovieLens",)),
    ),
    Claim(
        "On MovieLens, BanditMIPS-alpha is 27× faster than the closest baseline",
        "section 5, figure 2",
        ("figure2",),
        "27×, NEQ-MIPS next",
        _ahead("BanditMIPS-alpha", 27),
        rules.times_ahead("MovieLens", "BanditMIPS-alpha", 27, "NEQ-MIPS"),
        ((Known.READ_WHOLE, ()), (Known.HASHES, ()), (Known.NARROW_RADIUS, ()), (Known.BIASED_MEAN, ())),
    ),
    Claim(
        "The complexity of BanditMIPS does not scale with d",
        "abstract; section 5, figure 1",
        ("figure1",),
        "O(1) on four datasets",
        f"{_LEVEL}, {_EACH}",
        rules.slope_between("figure1", _FOUR, "BanditMIPS"),
        ((Known.SMALL_GAPS, _NORMAL), (Known.READ_WHOLE, _RATINGS)),
    ),
    Claim(
        "Logarithmic, square-root and linear fits have similar R², which suggests that the scaling is constant",
        "section 5, caption of figure 1",
        ("figure1",),
        "similar on four datasets",
        f"R² of the three fits differ by at most {rules.SIMILAR_FITS:g}, {_EACH}",
        rules.fits_alike("figure1", _FOUR),
        ((Known.NOISE, ()),),
    ),
    Claim(
        "In all trials, BanditMIPS returns the correct answer",
        "section 5, figure 1",
        ("figure1",),
        "100 % on four datasets",
        _RIGHT,
        rules.every_trial_right("figure1", _FOUR),
    ),
    Claim(
        "Existing algorithms scale at least as O(√d)",
        "abstract",
        ("figure2",),
        "slope of 1/2 or more",
        f"slope of every baseline at least {rules.AT_LEAST_SQUARE_ROOT:g}, {_EACH}",
        rules.baselines_grow(_FOUR),
    ),
    Claim(
        "BanditMIPS and BanditMIPS-alpha substantially outperform the other algorithms",
        "abstract; section 5, figure 2",
        ("figure2",),
        "on four datasets",
        f"both need {rules.SUBSTANTIAL:g}× fewer multiplies than the cheapest baseline, however accurate, at the "
        f"largest d, {_INTERVAL}, {_EACH}",
        rules.outperforms_all(_FOUR, ("BanditMIPS", "BanditMIPS-alpha")),
        ((Known.READ_WHOLE, _RATINGS), (Known.HASHES, ())),
    ),
    Claim(
        "BanditMIPS-alpha outperforms BanditMIPS in 3 of 4 datasets",
        "abstract; section 5, figure 2",
        ("figure2",),
        "3 of 4, not Netflix",
        f"fewer multiplies at the largest d by a factor of {MARGIN:g}, the interval of the factor above 1, and at most "
        f"{rules.AS_ACCURATE:g} less accurate, on 3 of 4 datasets; partly: on 1 or 2, or not by the margin",
        rules.alpha_needs_fewer(_FOUR, required=3),
        ((Known.READ_WHOLE, _RATINGS), (Known.BIASED_MEAN, _SYNTHETIC)),
    ),
    Claim(
        "Greedy-MIPS is significantly worse than all other algorithms",
        "section 5, figure 2",
        ("figure2",),
        "left out of the figure",
        f"{rules.SUBSTANTIAL:g}× the multiplies of every other at the largest d, {_INTERVAL}, {_EACH}",
        rules.needs_most(_FOUR, "Greedy-MIPS"),
        ((Known.OPERATIONS, ()),),
    ),
    Claim(
        "HNSW-MIPS is strictly worse than NAPG-MIPS",
        "section 5, figure 2",
        ("figure3",),
        "left out of the figure",
        f"smaller speed-up at an accuracy of at least {rules.ACCURATE:g} in figure 3, by a factor of {MARGIN:g}, its "
        f"interval above 1, {_EACH}",
        rules.worse_trade_off("figure3", _FOUR, "HNSW-MIPS", "NAPG-MIPS"),
        ((Known.GRAPHS, ()),),
    ),
    *(
        Claim(
            f"BanditMIPS and its variant have the best trade-off of speed and accuracy, k = {k}",
            f"section 5, figure {figure[-1]}",
            (figure,),
            "on four datasets",
            _TRADE_OFF,
            rules.best_trade_off(figure, _FOUR),
            (
                (Known.READ_WHOLE, _RATINGS),
                (Known.HASHES, ()),
                (Known.SHORT_RANGE, ()),
                (Known.NARROW_RADIUS, _SYNTHETIC),
            ),
        )
        for figure, k in (("figure3", 1), ("figure5", 5), ("figure6", 10))
    ),
    Claim(
        "A hyperparameter trades off accuracy and runtime",
        "abstract; section 5, figure 3",
        ("figure3",),
        "delta from 1e-10 to 0.99",
        f"the slowest setting of BanditMIPS needs at least {rules.WIDE:g}× the multiplies of the fastest, {_INTERVAL}, "
        f"{_EACH}",
        rules.trades_off("figure3", _FOUR),
        ((Known.READ_WHOLE, _RATINGS),),
    ),
    *(
        Claim(
            f"... {swept} alone trades off accuracy and runtime",
            "section 5, figure 3 (where delta and epsilon are swept together)",
            (figure,),
            "not told apart",
            f"as above, with the other one fixed, {_EACH}",
            rules.trades_off(figure, _FOUR),
            ((Known.READ_WHOLE, _RATINGS),),
        )
        for swept, figure in (("delta", "beyond_delta"), ("epsilon", "beyond_epsilon"))
    ),
    Claim(
        "On Sift-1M and CryptoPairs, BanditMIPS scales as O(1) with d",
        "section 5, figure 4",
        ("figure4",),
        "O(1) on both",
        f"{_LEVEL}, {_EACH}",
        rules.slope_between("figure4", _REAL, "BanditMIPS"),
        ((Known.READ_WHOLE, ()), (Known.SMALL_GAPS, ("CryptoPairs",))),
    ),
    Claim(
        "... and returns the correct solution in each trial",
        "section 5, figure 4",
        ("figure4",),
        "100 % on both",
        _RIGHT,
        rules.every_trial_right("figure4", _REAL),
    ),
    Claim(
        "BanditMIPS scales linearly with n",
        "appendix E, figure 7",
        ("figure7",),
        "linear on both",
        f"slope of log multiplies against log n from {rules.LINEAR[0]:g} to {rules.LINEAR[1]:g}, {_EACH}",
        rules.grows_linearly("figure7", _BUCKETS, "BanditMIPS", "n"),
    ),
    Claim(
        "With buckets (Bucket_AE) it scales sublinearly with n",
        "abstract (preprocessing); appendix E, figure 7",
        ("figure7",),
        "sublinear on both",
        "norms estimated from a constant number of coordinates, as in the paper: slope of log multiplies against log n "
        f"at most {rules.SUBLINEAR:g}, and its interval below 1, {_EACH}",
        rules.slope_between("figure7", _BUCKETS, "Bucket_AE", "n", high=rules.SUBLINEAR, below=1.0),
        ((Known.READ_WHOLE, ("Netflix",)),),
    ),
    Claim(
        "Bucket_AE still scales as O(1) with d",
        "appendix E, figure 7",
        ("figure7",),
        "O(1) on both",
        f"norms estimated from a constant number of coordinates, as in the paper: {_LEVEL}, {_EACH}",
        rules.slope_between("figure7", _BUCKETS, "Bucket_AE"),
        ((Known.SMALL_GAPS, ("CORRELATED_NORMAL_CUSTOM",)), (Known.READ_WHOLE, ("Netflix",))),
    ),
    Claim(
        "Matching pursuit does not scale with the length of the song",
        "abstract; appendix F, figure 8",
        ("figure8",),
        "O(1)",
        _LEVEL,
        rules.slope_between("figure8", ("SimpleSong",), "BanditMIPS"),
    ),
    Claim(
        "... and recovers the notes in each experiment",
        "appendix F, figure 8",
        ("figure8",),
        "100 %",
        _RIGHT,
        rules.every_trial_right("figure8", ("SimpleSong",)),
    ),
    Claim(
        "... and calculates their Fourier coefficients correctly",
        "appendix F",
        ("figure8",),
        "3, 1.25, 1, 0.75, 0.5",
        f"relative error of every coefficient of every trial at most {theory_rules.EXACT_ENOUGH:g} (by exact "
        "projections, which the paper does not count either)",
        theory_rules.coefficients_right(_COEFFICIENTS),
    ),
    Claim(
        "On SymmetricNormal, BanditMIPS scales linearly with d",
        "appendix G, figure 9",
        ("figure9",),
        "linear",
        f"slope of log multiplies against log d from {rules.LINEAR[0]:g} to {rules.LINEAR[1]:g}",
        rules.grows_linearly("figure9", ("SymmetricNormal",), "BanditMIPS", "d"),
    ),
    Claim(
        "BanditMIPS returns the correct answer with probability at least 1 - delta",
        "abstract; Theorem 1",
        ("beyond_failures",),
        "a theorem",
        _FAILURES,
        theory_rules.failures_within_delta("beyond_failures"),
    ),
    Claim(
        "... also on data that hide what decides, with this package's defaults",
        "",
        ("beyond_kinds",),
        "-",
        f"{_FAILURES}; the verdict is that of the default after fit",
        theory_rules.failures_within_delta("beyond_kinds"),
        ((Known.BLIND, ()),),
        decided_by=FITTED,
    ),
    Claim(
        "The multiplies stay within the bound of Theorem 1",
        "Theorem 1",
        ("beyond_theorem1",),
        "a theorem",
        "mean multiplies at most the bound at every d; partly: at some. Where nearly all terms are at their cap of 2 d "
        "the line says so, as the check is then nearly automatic",
        theory_rules.within_theorem_1(),
    ),
    Claim(
        "Theorem 2's weights have the smallest combined variance",
        "Theorem 2",
        ("beyond_sampling",),
        "a theorem",
        f"computed from the data: that of uniform weights and of every q^(2 beta) is no smaller, {_EACH}",
        theory_rules.least_variance(_WEIGHTED),
    ),
    *(
        Claim(
            f"... and need fewer multiplies than {name}",
            "section 3.1; Theorem 2",
            ("beyond_sampling",),
            "not measured",
            f"by a factor of {MARGIN:g}, its interval above 1, {_EACH}",
            theory_rules.optimal_needs_fewer(_WEIGHTED, beta),
            (*causes, (Known.FIRST_ROUND, _RATINGS)),
        )
        for name, beta, causes in (
            ("uniform weights", 0.0, ()),
            (
                "|q| (beta = 1/2, this package's default)",
                0.5,
                ((Known.NEARLY_OPTIMAL, _NORMAL), (Known.STANDS_OUT, ("CORRELATED_NORMAL_CUSTOM",))),
            ),
        )
    ),
    Claim(
        "beta = 1 corresponds to Theorem 2's weights",
        "remark after Theorem 2",
        ("beyond_sampling",),
        "equation 4",
        f"variance at most {MARGIN:g} times the optimum's, {_EACH}",
        theory_rules.beta_is_optimal(_WEIGHTED, 1.0),
        ((Known.FLAT_COLUMNS, ()),),
    ),
    Claim(
        "A warm start increases speed over a batch of queries",
        "section 3.1",
        ("beyond_warm_start",),
        "not measured",
        f"time of a query, its share of making the cache included, smaller by a factor of {MARGIN:g} over the most "
        f"queries, its interval above 1, {_EACH}",
        theory_rules.warm_start_saves(("NORMAL_CUSTOM", "MovieLens"), WARM),
        ((Known.CACHED, ()),),
    ),
)
"""In the order of the table."""
