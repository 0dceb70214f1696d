"""Queries that need the atoms' norms, which nobody knows: products and norms in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.facts import AtomFacts, collect_facts
from banditmips.core.loop import Outcome
from banditmips.race.atom_set import AtomSet, candidates_of
from banditmips.race.known import index_rows
from banditmips.race.passes import close_rows
from banditmips.race.plan import TOGETHER
from banditmips.race.query import Query

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["by_one_pass"]


def by_one_pass(
    atoms: AtomSet, queries: Sequence[NDArray[np.float64]], k: int, options: Options, excluded: NDArray[np.bool_] | None
) -> list[Outcome] | None:
    """Answer queries that need norms which nobody knows, with all products and norms in one pass over the atoms.

    None where something else than time is asked for, or where many rows are too close to tell.
    """
    rows, store = index_rows(atoms), atoms.store
    if options.minimise != "time" or options.budget is not None or options.trace or not 0 < len(queries) <= TOGETHER:
        return None
    if rows is None or not rows.are_contiguous or not isinstance(store, DenseStore):
        return None
    if not all(query.any() for query in queries):
        return None
    candidates = candidates_of(rows.n, excluded, atoms.removed)
    every = np.arange(rows.n) if candidates is None else candidates
    close = close_rows(rows, every, queries, options.objective, k, options.absolute)
    needed = np.unique(np.concatenate(close))
    if 2 * needed.size > rows.n:
        return None
    known = replace(atoms, facts=_facts_of(store, needed))
    outcomes = []
    for query, some in zip(queries, close, strict=True):
        one = Query(known, query, k, options, excluded)
        with np.errstate(over="ignore", invalid="ignore"):
            outcomes.append(one.all_products(None, one.handed_over(every.size), some))
    return outcomes


def _facts_of(store: DenseStore, rows: NDArray[np.int64]) -> AtomFacts:
    """Facts about some of the atoms, and numbers that mean nothing for the others."""
    try:
        some = collect_facts(DenseStore(store.array[rows]))
    except BadAtomError as error:
        text, row = error.args
        raise BadAtomError(text, int(rows[row])) from None

    def spread(known: NDArray[np.float64]) -> NDArray[np.float64]:
        numbers = np.ones(store.shape[0])
        numbers[rows] = known
        return numbers

    squared_norms, means, scatter = map(spread, (some.squared_norms, some.means, some.scatter))
    return AtomFacts(squared_norms, means, scatter, some.low, some.high, some.column_squares)
