"""Races on cached coordinates alone: what they take does not depend on d, because no more of the query is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.cached_source import CachedSource
from banditmips.core.exact import Exact
from banditmips.core.loop import Limits, race
from banditmips.core.outcome import Outcome
from banditmips.core.rule import PairedRule
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.rules import OBJECTIVE_CODES, compares_pairs, least_sample
from banditmips.race.sampled import Problem
from banditmips.race.sampling import EVEN_ENOUGH_FOR_CACHE, UniformSampler
from banditmips.race.schedule import LimitedSchedule

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["CachedSearch"]

_LOOKS = 4
"""Looking at a whole query (is it finite, where is it 0, what are its moments) takes about as long for each entry as so
many cached values do in a race: where it takes less than a race that may come to nothing, it comes first."""
_GROWTH = 4.0
"""From one round to the next: a value that is cached takes less than a nanosecond, a round some thousand."""


class CachedSearch:
    """Queries that cached coordinates may answer, for one set of atoms, one k and one set of options.

    It serves one query at a time: what it holds is that query's.

    Attributes
    ----------
    serves : bool
        Whether that is what is asked for.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options) -> None:
        self.options, cache, (n, d) = options, atoms.cache, atoms.store.shape
        self.serves = (
            cache is not None and k < n and n * cache.n_coordinates <= _LOOKS * d and _is_enough(atoms, options)
        )
        if not self.serves:
            return
        assert cache is not None
        values, objective = cache.values, OBJECTIVE_CODES[options.objective]
        if values.dtype not in (np.float32, np.float64):
            values = values.astype(np.float32 if values.itemsize <= 2 else np.float64)
        self._order, self._is_product = cache.order, objective == PRODUCT
        self._source = CachedSource(
            Survivors(None, n, k, options.absolute),
            atoms.facts,
            Problem(np.zeros(cache.n_coordinates), objective),
            cache.order,
            values,
            UniformSampler(d, options.seed, None),
            LimitedSchedule(limit=cache.n_coordinates, growth=_GROWTH).starting_with(least_sample(options, k, n)),
        )
        self._rule = PairedRule(options.delta, n, k, options.absolute)
        self._limits = Limits(options.delta, options.epsilon, None, options.trace)

    def race(self, row: NDArray[Any]) -> Outcome | None:
        """Race on what is cached; None where that does not suit the query. What it leaves is ``handed_over``.

        Parameters
        ----------
        row : array of shape (d,)
            The query, contiguous floats; only its entries at cached coordinates are looked at.
        """
        unevenness = self._source.look_at(row)
        if not unevenness < (EVEN_ENOUGH_FOR_CACHE if self._is_product else np.inf):
            return None
        return race(self._source, self._rule, _NOBODY, self._limits, 0, _always)


_NOBODY = Exact()
"""What is not decided is left to another way, so that nobody's score is computed."""


def _always(n_survivors: int) -> bool:
    return True


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
