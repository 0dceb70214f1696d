"""From options to a sampler and a rule, for one query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rule import BernsteinRule, HoeffdingRule, PairedRule, Rule, share_of_round
from banditmips.core.statistics import NEG_ABSOLUTE_DIFFERENCE, NEG_SQUARED_DIFFERENCE, PRODUCT
from banditmips.race.sampling import (
    EVEN_ENOUGH,
    EVEN_ENOUGH_FOR_CACHE,
    BottomKSampler,
    ReplacementSampler,
    Sampler,
    SortedSampler,
    UniformSampler,
    power_weights,
    seen_enough,
    unevenness,
)

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = [
    "OBJECTIVE_CODES",
    "check_needs",
    "compares_pairs",
    "indicator",
    "least_sample",
    "make_rule",
    "make_sampler",
    "name_of_bound",
    "resolve_sampling",
]

OBJECTIVE_CODES = {
    "inner_product": PRODUCT,
    "cosine": PRODUCT,
    "correlation": PRODUCT,
    "neg_sqeuclidean": NEG_SQUARED_DIFFERENCE,
    "neg_l1": NEG_ABSOLUTE_DIFFERENCE,
}


def compares_pairs(options: Options) -> bool:
    """Whether sampled atoms are compared pair by pair, which needs to be told nothing."""
    return options.bound in ("auto", "codes", "paired")


def name_of_bound(options: Options) -> str:
    """The bound of a race on samples."""
    return "paired" if compares_pairs(options) else options.bound


def least_sample(options: Options, k: int, n_candidates: int) -> int:
    """Coordinates of the first round: on fewer, comparing pairs drops nobody (`core.rule.PairedRule`)."""
    if not compares_pairs(options) or options.delta == 0.0:
        return 16
    pairs = max(k * (n_candidates - k), 1) * (2 if options.absolute else 1)
    return max(16, int(np.ceil(2.0 * (np.log(pairs / share_of_round(1)) - np.log(options.delta)))))


def check_needs(options: Options, known_range: tuple[float, float] | None, knows_columns: bool) -> None:
    """Refuse a bound or a sampling that needs what nobody knows of the atoms, whichever way the query would take.

    Parameters
    ----------
    known_range
        An interval that holds the atoms' entries, if one is known.
    knows_columns
        Whether `fit` has recorded the column norms.
    """
    if not compares_pairs(options) and options.sigma is None:
        _range_of_entries(options, known_range)
    if options.sampling == "optimal" and not knows_columns:
        raise ValueError(
            "sampling='optimal' needs the column norms that BanditMIPS(...).fit records "
            "(and validate=False does not): fit an index, or use sampling='weighted'"
        )


def _range_of_entries(options: Options, known_range: tuple[float, float] | None) -> tuple[float, float]:
    value_range = options.value_range if options.value_range is not None else known_range
    if value_range is None:
        other = "sigma=..., " if options.bound.startswith("hoeffding") else ""
        raise ValueError(
            f"bound={options.bound!r} needs to know the range of the atoms' entries: give {other}"
            "value_range=(low, high), or fit an index, which records it"
        )
    return value_range


def resolve_sampling(options: Options, query: NDArray[np.float64], has_cache: bool) -> str:
    """Decide what ``sampling="auto"`` means for this query (its entries on the support)."""
    if options.sampling != "auto":
        return options.sampling
    if not compares_pairs(options) or OBJECTIVE_CODES[options.objective] != PRODUCT:
        return "uniform"  # theorems hold for it, and other objectives give no hint what to prefer
    if has_cache and unevenness(query) <= EVEN_ENOUGH_FOR_CACHE:
        return "uniform"
    if options.minimise == "time" and unevenness(query) <= EVEN_ENOUGH:
        return "uniform"
    return "weighted"


def make_sampler(
    query: NDArray[np.float64],
    support: NDArray[np.int64],
    options: Options,
    column_squares: NDArray[np.float32] | None,
    has_cache: bool,
) -> Sampler:
    """Choose the coordinates' order for a query.

    Parameters
    ----------
    support
        The coordinates that can contribute, ascending.
    column_squares
        What `fit` recorded for Theorem 2, if it did.
    has_cache
        Whether uniform coordinates are cached.
    """
    d = query.size
    if support.size == 0:
        return UniformSampler(d, options.seed, indicator(support, d))
    on_support = query if support.size == d else query[support]
    name = resolve_sampling(options, on_support, has_cache)
    if name == "sorted":
        return SortedSampler(support, query)
    if name == "uniform" and not options.replacement:
        return UniformSampler(d, options.seed, None if support.size == d else indicator(support, d))
    if name == "uniform":
        weights = np.ones(support.size)
    elif name == "weighted":
        weights = power_weights(on_support, options.beta)
        if options.beta > 0.5 and compares_pairs(options):
            weights = seen_enough(weights, on_support)
    else:
        assert column_squares is not None  # `check_needs` has seen to it
        # Theorem 2. A coordinate where all atoms are 0 gets a tiny weight rather than none.
        weights = power_weights(on_support * np.sqrt(column_squares[support]), 0.5)
    if options.replacement:
        return ReplacementSampler(support, weights, options.seed)
    return BottomKSampler(support, weights, options.seed)


def indicator(support: NDArray[np.int64], d: int) -> NDArray[np.bool_]:
    """Say of each of d coordinates whether it is one of these."""
    inside = np.zeros(d, dtype=np.bool_)
    inside[support] = True
    return inside


def make_rule(
    options: Options,
    sampler: Sampler,
    query_on_support: NDArray[np.float64],
    known_range: tuple[float, float] | None,
    delta: float,
    n_candidates: int,
    k: int,
) -> Rule:
    """Make the rule that the options name, for `n_candidates` atoms and this share of delta."""
    if options.bound in ("auto", "codes", "paired"):
        return PairedRule(delta, n_candidates, k, options.absolute)
    if options.bound == "bernstein":
        return BernsteinRule(delta, n_candidates, _term_width(options, sampler, query_on_support, known_range))
    sigma: float | None
    per_row = False
    if options.sigma == "estimate":
        sigma = None
    elif options.sigma is not None:
        sigma = float(options.sigma) * sampler.population
    else:
        sigma = _term_width(options, sampler, query_on_support, known_range) / 2.0
        per_row = True
    return HoeffdingRule(delta, n_candidates, sigma, per_row, options.bound == "hoeffding_serfling")


def _term_width(
    options: Options, sampler: Sampler, query: NDArray[np.float64], known_range: tuple[float, float] | None
) -> float:
    """Length of the interval that holds one sampled term, scaled up to the whole sum.

    A product in [l, u] is (u - l)/2-sub-Gaussian; l and u come from the corners of the query's and the atoms' ranges.
    """
    low, high = _range_of_entries(options, known_range)
    if query.size == 0:
        return 0.0
    if OBJECTIVE_CODES[options.objective] == PRODUCT:
        factors, total = sampler.range_factors(query)
        corners = np.outer([factors.min(), factors.max()], [low, high])
        return total * float(corners.max() - corners.min())
    differences = np.array([query.min() - high, query.max() - low])
    sizes = differences**2 if options.objective == "neg_sqeuclidean" else np.abs(differences)
    smallest = 0.0 if differences[0] <= 0.0 <= differences[1] else float(sizes.min())
    return sampler.population * (float(sizes.max()) - smallest)
