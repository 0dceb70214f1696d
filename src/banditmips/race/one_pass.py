"""A query that needs the atoms' norms, which nobody knows: products and norms in one pass."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.atoms.facts import AtomFacts
from banditmips.core.loop import Outcome
from banditmips.race.atom_set import AtomSet, candidates_of
from banditmips.race.known import index_rows
from banditmips.race.passes import close_rows
from banditmips.race.query import Query
from banditmips.race.together import facts_of

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["by_one_pass"]


def by_one_pass(
    atoms: AtomSet, query: NDArray[np.float64], k: int, options: Options, excluded: NDArray[np.bool_] | None
) -> Outcome | None:
    """Answer a query that needs norms which nobody knows, with all products and norms in one pass over the atoms.

    None where something else than time is asked for, or where many rows are too close to tell.
    """
    rows, store = index_rows(atoms), atoms.store
    if options.minimise != "time" or options.budget is not None or options.trace:
        return None
    if rows is None or not rows.are_contiguous or not isinstance(store, DenseStore) or not query.any():
        return None
    candidates = candidates_of(rows.n, excluded, atoms.removed)
    every = np.arange(rows.n) if candidates is None else candidates
    close = close_rows(rows, every, query, options.objective, k, options.absolute)
    if 2 * close.size > rows.n:
        return None
    one = Query(replace(atoms, facts=_spread(facts_of(store, close)[1], close, rows.n)), query, k, options, excluded)
    with np.errstate(over="ignore", invalid="ignore"):
        return one.all_products(None, one.handed_over(every.size), close)


def _spread(some: AtomFacts, rows: NDArray[np.int64], n: int) -> AtomFacts:
    """Facts about some of the n atoms, with numbers that mean nothing for the others."""

    def spread(known: NDArray[np.float64]) -> NDArray[np.float64]:
        numbers = np.ones(n)
        numbers[rows] = known
        return numbers

    squared_norms, means, scatter = map(spread, (some.squared_norms, some.means, some.scatter))
    return AtomFacts(squared_norms, means, scatter, some.low, some.high, some.column_squares)
