"""Where nothing is going to be sampled, what options and an index say of sampling does not matter."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from banditmips.race.atom_set import AtomSet, check_range
from banditmips.race.batch import may_sample
from banditmips.race.code_search import code_search
from banditmips.race.costs import costs
from banditmips.race.direct import are_plain
from banditmips.race.few_rows import time_of_all
from banditmips.race.known import index_rows
from banditmips.race.plan import REGRET
from banditmips.race.rules import check_needs

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["for_products", "plain_for_products"]

_UNSAID: dict[str, Any] = {
    "bound": "auto", "sampling": "auto", "beta": 0.5, "sigma": None, "value_range": None, "replacement": False
}  # fmt: skip
"""Options that say how to sample, as they are where nobody says anything."""


def for_products(atoms: AtomSet, k: int, options: Options, n_queries: int) -> tuple[AtomSet, Options]:
    """Atoms and options as all products take them, where that is how so many queries are going to be answered.

    Else as they are: where coordinates may be sampled, or certain bounds may leave few rows. What these have come to
    before is remembered; of short products it is a good part what is around them alone.
    """
    if not _are_to_sample(atoms, options) or n_queries == 0:
        return atoms, options
    is_bare = atoms.facts is None and atoms.cache is None and atoms.codes is None
    asks_for_time = options.minimise == "time" and options.budget is None
    # What is asked of a cache alone is answered there, with nothing around it.
    if not asks_for_time or (atoms.cache is not None and not options.rescore):
        return atoms, options
    if options.bound == "codes" or options.objective == "neg_l1" or index_rows(atoms) is None:
        return atoms, options
    check_range(atoms.seen_range, options)
    if options.delta > 0.0:  # all products need to know nothing
        check_needs(options, atoms.known_range, atoms.facts is not None)
    if is_bare:
        return atoms, options if may_sample(atoms, k, options, n_queries) else _unsaid(options)
    past = code_search(atoms, k, options).past(n_queries)
    # A record shows what the plan says, whatever came before.
    if (past.allows_races or options.trace) and _may_try(atoms, n_queries):
        return atoms, options
    past.leave_out()
    whole = atoms.once("all products", lambda: replace(atoms, axes=None, codes=None, cache=None, buckets=None))
    return whole, _unsaid(options)


def plain_for_products(atoms: AtomSet, queries: Any, k: Any, options: Options) -> tuple[AtomSet, Options]:
    """The same before anybody has looked at queries and k, if these are plain; of others somebody has to."""
    if not _are_to_sample(atoms, options) or type(k) is not int or k < 1 or not are_plain(queries) or queries.ndim > 2:
        return atoms, options
    return for_products(atoms, k, options, len(queries) if queries.ndim == 2 else 1)


@lru_cache(maxsize=64)
def _unsaid(options: Options) -> Options:
    # Of equal options the same each time: what is prepared for them is found by identity.
    return replace(options, **_UNSAID)


def _are_to_sample(atoms: AtomSet, options: Options) -> bool:
    """Whether somebody says how to sample."""
    return options.says_how_to_sample or atoms.cache is not None or atoms.buckets is not None


def _may_try(atoms: AtomSet, n_queries: int) -> bool:
    """Whether what is around a try is a small part of the products that so many queries share."""
    here = costs()
    return here.round_overhead + here.probe_overhead <= 2.0 * REGRET * time_of_all(atoms, n_queries)
