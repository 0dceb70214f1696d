"""Races on cached coordinates alone: what they take does not depend on d, because no more of the query is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.certain import ScoreMap
from banditmips.core.loop import Limits, Outcome
from banditmips.core.rule import MIN_SCATTER_SEEN
from banditmips.core.sample_source import PerAtom
from banditmips.core.statistics import PRODUCT
from banditmips.race.readers import CachedReader
from banditmips.race.rules import OBJECTIVE_CODES, compares_pairs, least_sample, make_rule
from banditmips.race.sampled import Contest, Problem, race_on
from banditmips.race.sampling import EVEN_ENOUGH_FOR_CACHE, UniformSampler, unevenness
from banditmips.race.schedule import LimitedSchedule

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["race_on_cache"]

_LOOKS = 4
"""Looking at a whole query (is it finite, where is it 0, what are its moments) takes about as long for each entry as so
many cached values do in a race: where it takes less than a race that may come to nothing, it comes first."""
_GROWTH = 4.0
"""From one round to the next: a value that is cached takes less than a nanosecond, a round some ten thousand."""


def race_on_cache(atoms: AtomSet, row: NDArray[Any], k: int, options: Options) -> Outcome | None:
    """Race on what an index has cached; None where that is not what is asked for. What it leaves is ``handed_over``.

    Parameters
    ----------
    row : array of shape (d,)
        The query; only its entries at cached coordinates are looked at.
    """
    cache, (n, d) = atoms.cache, atoms.store.shape
    if cache is None or n * cache.n_coordinates > _LOOKS * d or not _is_enough(atoms, options):
        return None
    objective = OBJECTIVE_CODES[options.objective]
    seen = row[cache.order].astype(np.float64)
    if not np.isfinite(seen).all() or (
        objective == PRODUCT and not (seen.any() and unevenness(seen) <= EVEN_ENOUGH_FOR_CACHE)
    ):
        return None
    facts = atoms.facts
    known = PerAtom(
        np.ones(n),
        np.zeros(n) if facts is None else facts.means,
        np.full(n, np.nan) if facts is None else MIN_SCATTER_SEEN * facts.scatter,
    )
    limits = Limits(options.delta, options.epsilon, None, options.trace)
    contest = Contest(np.arange(n), known, Problem(row, objective), k, options.absolute, limits)
    reader = CachedReader(atoms.store, row, None, objective, ScoreMap(), check_finite=False)
    reader.cache = cache
    sampler = UniformSampler(d, options.seed, None)
    rule = make_rule(options, sampler, seen, atoms.known_range, options.delta, n, k)
    schedule = LimitedSchedule(limit=cache.n_coordinates, growth=_GROWTH).starting_with(least_sample(options, k, n))
    return race_on(contest, reader, sampler, rule, schedule, hands_over=lambda n_left: n_left > k)


def _is_enough(atoms: AtomSet, options: Options) -> bool:
    """Whether estimates from uniform coordinates are what is asked for, and soon."""
    return (
        not options.rescore
        and options.minimise == "time"
        and options.budget is None
        and options.delta > 0.0
        and options.objective in ("inner_product", "neg_sqeuclidean", "neg_l1")
        and options.sampling in ("auto", "uniform")
        and not options.replacement
        and compares_pairs(options)
        and atoms.removed is None
        and atoms.buckets is None
    )
