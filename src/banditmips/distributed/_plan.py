"""Which coordinates a query's race samples, and how many of them round by round: the same on every shard."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from banditmips._options import Sampling
from banditmips._validate import Options
from banditmips.race.rules import compares_pairs, resolve_sampling
from banditmips.race.schedule import Schedule

__all__ = ["AtHand", "Rounds", "plan_rounds"]

_MIN_EXPLAINED = 0.1
"""Part of the query's sum of squares that its mean has to account for, before it is taken out."""
_MIN_NONZERO = 0.75
"""Part of the query's entries that must not be 0, if all coordinates are to be sampled from."""
_MIN_COORDINATES = 64
"""Shorter queries may be sampled whole, and scores that are exact should not be put together from two parts."""


@dataclass(frozen=True)
class AtHand:
    """What all shards together have at hand.

    Attributes
    ----------
    cached : bool
        Whether shards keep a warm cache, which decides what ``sampling="auto"`` means.
    n_shared : int, or None
        Coordinates that can be sampled without reading files; None where all atoms are in memory.
    too_sparse : bool
        Whether there are shards that take longer to sample than to multiply out.
    known : bool
        Whether all shards know the means and scatters of their atoms.
    """

    cached: bool
    n_shared: int | None
    too_sparse: bool
    known: bool


@dataclass(frozen=True)
class Rounds:
    """How one query is sampled.

    Attributes
    ----------
    sampling : str
        What ``sampling="auto"`` has become.
    whole : bool
        Whether all coordinates are sampled from, those where the query is 0 too, because those are the cached ones.
    population : int
        How many there are to sample from.
    sizes : tuple of int
        How many coordinates round 1, 2, ... reaches, for all rounds before an exact finish is better.
    screened : bool
        Whether atoms are left out by what `fit` knows before round one.
    shift, level : float
        What is taken from the query everywhere because the atoms' sums are known, and the mean square of what is left;
        0 where nothing is taken.
    """

    sampling: Sampling
    whole: bool
    population: int
    sizes: tuple[int, ...]
    screened: bool = False
    shift: float = 0.0
    level: float = 0.0


def plan_rounds(query: NDArray[Any], options: Options, at_hand: AtHand, first: int) -> Rounds:
    """Plan the rounds of a query, of which the first one reaches `first` coordinates."""
    is_product = options.objective in ("inner_product", "cosine", "correlation")
    with np.errstate(over="ignore"):
        on_support = np.asarray(query[query != 0] if is_product else query, dtype=np.float64)
    if on_support.size == 0:
        return Rounds("uniform", False, 0, ())
    limit = at_hand.n_shared
    if at_hand.too_sparse and options.minimise == "time":
        limit = 0  # every score exactly
    screened = at_hand.known and options.objective == "inner_product"
    resolved = "uniform" if limit is not None else resolve_sampling(options, on_support, at_hand.cached)
    sampling = cast(Sampling, resolved)
    # Cached coordinates are those of the uniform order with nothing passed over: worth a few zeros of the query.
    cached = at_hand.cached and sampling == "uniform" and not options.replacement
    whole = limit is not None or (cached and on_support.size >= _MIN_NONZERO * query.size)
    population = query.size if whole else on_support.size
    sizes = _sizes(population, population if limit is None else limit, first)
    shift = level = 0.0
    if screened and whole and compares_pairs(options) and query.size >= _MIN_COORDINATES:
        shift, level = _known_part(on_support, query.size)
    return Rounds(sampling, whole, population, sizes, screened, shift, level)


def _known_part(query: NDArray[np.float64], d: int) -> tuple[float, float]:
    """The mean of a query, where it explains much of it, and the mean square of the rest."""
    shift = float(query.sum()) / d
    mean_square = float(query @ query) / d
    # What overflows explains nothing.
    return (shift, mean_square - shift**2) if _MIN_EXPLAINED * mean_square <= shift**2 < np.inf else (0.0, 0.0)


@lru_cache
def _sizes(population: int, limit: int, first: int) -> tuple[int, ...]:
    schedule, sizes, size = Schedule().starting_with(first), [], 0
    while size < population:
        size = schedule.next_size(size, population)
        if schedule.should_finish(0, size, population) or size > limit:
            break
        sizes.append(size)
    return tuple(sizes)
