"""Which coordinates a query's race samples, and how many of them round by round: the same on every shard."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options
from banditmips.race.planner import Schedule
from banditmips.race.setup import resolve_sampling

__all__ = ["AtHand", "Rounds", "plan_rounds"]


@dataclass(frozen=True)
class AtHand:
    """What all shards together have at hand.

    Attributes
    ----------
    cached : bool
        Whether shards keep a warm cache, which decides what ``sampling="auto"`` means.
    n_shared : int, or None
        Coordinates that can be sampled without reading files; None where all atoms are in memory.
    """

    cached: bool
    n_shared: int | None


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
    """

    sampling: str
    whole: bool
    population: int
    sizes: tuple[int, ...]


def plan_rounds(query: NDArray[Any], options: Options, at_hand: AtHand) -> Rounds:
    """Plan the rounds of a query."""
    is_product = options.objective in ("inner_product", "cosine")
    with np.errstate(over="ignore"):
        on_support = np.asarray(query[query != 0] if is_product else query, dtype=np.float64)
    if on_support.size == 0:
        return Rounds("uniform", False, 0, ())
    limit = at_hand.n_shared
    if limit is not None:
        return Rounds("uniform", True, query.size, _sizes(query.size, limit))
    sampling = resolve_sampling(options, on_support, at_hand.cached)
    return Rounds(sampling, False, on_support.size, _sizes(on_support.size, on_support.size))


@lru_cache
def _sizes(population: int, limit: int) -> tuple[int, ...]:
    schedule, sizes, size = Schedule(), [], 0
    while size < population:
        size = schedule.next_size(size, population)
        if schedule.should_finish(0, size, population) or size > limit:
            break
        sizes.append(size)
    return tuple(sizes)
