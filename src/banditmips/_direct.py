"""Plain queries by the shortest way: what was prepared for one is kept for the next of its kind."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from banditmips._result import SearchResult, Trace
from banditmips._validate import Options, as_finite
from banditmips.atoms import AtomStore, DenseStore
from banditmips.race.atom_set import AtomSet
from banditmips.race.direct import DirectSearch, plain_row
from banditmips.race.full import can_use_blas
from banditmips.race.query import Query

__all__ = ["bare_directly", "directly"]

_MOST_DIRECT = 64
"""Kinds of plain searches that are remembered for one set of atoms, or for all bare arrays."""
_bare: dict[Any, DirectSearch] = {}


def bare_directly(store: AtomStore, queries: Any, k: Any, options: Options) -> SearchResult | None:
    """Answer a plain query to an array of which nothing is known, where only the full product can be meant."""
    if type(k) is not int or not isinstance(store, DenseStore) or not plain_row(queries, store.shape[1]):
        return None
    atoms = store.array
    if not can_use_blas(atoms):
        return None
    key = (k, options, atoms.shape, atoms.dtype, atoms.flags.c_contiguous)
    return _answered(_bare, key, AtomSet(store), queries)


def directly(atom_set: AtomSet, queries: Any, k: Any, options: Options) -> SearchResult | None:
    """Answer a plain query to an index by the shortest way; None if there is none."""
    if type(k) is not int or not plain_row(queries, atom_set.store.shape[1]):
        return None
    return _answered(atom_set.prepared.setdefault("direct", {}), (k, options), atom_set, queries)


def _answered(
    remembered: dict[Any, DirectSearch], key: tuple[Any, ...], atom_set: AtomSet, row: NDArray[Any]
) -> SearchResult | None:
    # Options are compared by identity: those of an index, and those that `_options` has seen, come again as they are.
    place = (key[0], id(key[1]), *key[2:])
    direct = remembered.get(place)
    if direct is None or direct.options is not key[1]:
        if len(remembered) >= _MOST_DIRECT:
            remembered.clear()
        direct = remembered[place] = DirectSearch(atom_set, key[0], key[1])
    found = direct.answer(atom_set, row) if direct.serves else None
    if found is None:
        return None
    result = SearchResult.of_one_query(
        found.indices,
        found.scores,
        None,
        found.n_multiplies,
        found.n_rounds,
        found.n_survivors,
        found.stop_reason,
        found.delta_spent,
        not atom_set.unchecked,
    )
    if key[1].trace:
        plan = Query(atom_set, as_finite(row, ""), key[0], key[1], None).explain()
        result.__dict__["trace"] = Trace(tuple(found.rounds), plan, found.n_raced)
    return result
