"""Plain queries by the shortest way: what was prepared for one is kept for the next of its kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from banditmips._kinds import batch_kind, plain_kinds, put_first, scores_kind, settings_of, use_till_next_race
from banditmips._padding import check_room
from banditmips._result import SearchResult, StopReason, Trace, padded
from banditmips._validate import Options, as_finite
from banditmips.atoms import AtomStore, DenseStore
from banditmips.core.answer import PlainRace
from banditmips.core.batch import PlainBatch
from banditmips.core.certain import MeasuredQuery
from banditmips.core.outcome import Outcome
from banditmips.core.plain import PlainKind, answer_plainly
from banditmips.core.products import PlainProducts
from banditmips.core.scored import PlainScores
from banditmips.core.survivors import Survivors
from banditmips.race.atom_set import AtomSet, describe
from banditmips.race.batch import answer_batch, nothing_to_try
from banditmips.race.cached import CachedSearch
from banditmips.race.code_search import code_search
from banditmips.race.costs import costs
from banditmips.race.direct import DirectSearch, plain_row, plain_rows, squares_of
from banditmips.race.full import can_use_blas, come_from_memory
from banditmips.race.known import first_array
from banditmips.race.plan import fit_one_call
from banditmips.race.query import Query
from banditmips.race.scored import bytes_first, has_scores
from banditmips.race.situation import WITHOUT_LENGTHS

__all__ = ["bare_directly", "batch_directly", "directly", "of_outcome", "on_cache", "plain_kinds", "scored_directly"]

_MOST_DIRECT = 64
"""Kinds of plain searches that are remembered for one set of atoms, or for all bare arrays."""
_bare: dict[Any, DirectSearch] = {}
_other_ways: set[Any] = set()
"""Searches of bare arrays that go another way than by all products, or by what is around these."""


def _remember_plain(
    kinds: list[PlainKind], direct: DirectSearch, asked: tuple[Any, ...], atoms: AtomSet, checked: bool
) -> None:
    """Let the next search that is asked the same go without any of this (`answer_plainly`)."""
    if direct.kind is not None:
        if direct.kind not in kinds:  # others have taken its place since
            put_first(direct.kind, kinds)
        return
    options, n, compiled = direct.options, atoms.store.shape[0], direct.compiled
    served = direct.sweeps or (compiled is not None and direct.contiguous)
    if options.trace or options.ends != "largest":
        return
    if not served:
        if direct.needs_products and not direct.contiguous and atoms.facts is not None and has_scores(atoms, options):
            direct.kind = scores_kind(atoms, direct.dtype, direct.k, options, asked, checked)
            if direct.kind is not None:
                put_first(direct.kind, kinds)
        return
    fields = {"n_rounds": 0, "n_survivors": n, "stop_reason": StopReason.FINISHED_EXACTLY, "delta_spent": 0.0}
    settings = settings_of(fields, asked, direct.k, options, atoms, checked)
    if compiled is None:
        products = direct.kind = PlainProducts(*settings)
        products.squares = squares_of(atoms)
    else:
        race = direct.kind = PlainRace(*settings)
        # What is prepared for atoms must not keep them alive, nor itself.
        race.direct, race.go_on = compiled, partial(_go_on, ref(direct), ref(atoms))
        race.past = code_search(atoms, direct.k, options).past()
    put_first(direct.kind, kinds)


def _plain_batch(
    kinds: list[PlainKind],
    atoms: AtomSet,
    queries: Any,
    k: int,
    options: Options,
    asked: tuple[Any, ...],
    checked: bool,
) -> SearchResult | None:
    """Answer a small batch by all products, and let the next that is asked the same go without any of this."""
    store = atoms.store
    if not isinstance(store, DenseStore) or not plain_rows(queries, store.shape[1]) or queries.dtype != store.dtype:
        return None
    m, array = len(queries), store.array
    if (
        not fit_one_call(m, *store.shape)
        or not array.flags.c_contiguous
        or options.ends != "largest"
        or options.progress
        or options.trace
    ):
        return None
    if not DirectSearch.is_plain(atoms, k, options) or not nothing_to_try(atoms, k, options, m):
        return None
    # Rows that come from memory are read once for all queries that want them, elsewhere.
    if store.rows is None or come_from_memory(store.rows):
        return None
    finished = {"stop_reason": (StopReason.FINISHED_EXACTLY,) * m}
    kind = PlainBatch(*settings_of(finished, asked, k, options, atoms, checked))
    kind.squares, kind.n_queries, kind.turns = squares_of(atoms), m, costs().turns(array.itemsize, by_column=False)
    kind.by_tiles = costs().tiles(m, array.shape[1])
    kind.by_ourselves = costs().multiplies_many(array.itemsize, m, array.shape[1])
    kind.bytes_first = bytes_first(store.rows, m, k, options)
    found: SearchResult | None = answer_plainly([kind], array, queries, k, asked)
    if found is not None:
        use_till_next_race(kind, kinds, code_search(atoms, k, options).past(m))
    return found


def _go_on(
    direct: ref[DirectSearch], atoms: ref[AtomSet], query: MeasuredQuery, alive: Survivors | None, n_certain: int
) -> Outcome | None:
    search, found = direct(), atoms()
    # Whoever searches has the atoms; what was prepared may have been forgotten since, and is prepared again.
    return None if search is None or found is None else search.go_on(found, query, alive, n_certain)


def bare_directly(
    store: AtomStore, queries: Any, k: Any, options: Options, asked: tuple[Any, ...], mask: Any
) -> SearchResult | None:
    """Answer a plain query to an array of which nothing is known, where only the full product can be meant."""
    if type(k) is not int or options.n_jobs != 1 or not isinstance(store, DenseStore):
        return None
    atoms, atom_set, found = store.array, AtomSet(store), None
    if not plain_row(queries, atoms.shape[1]):
        if mask is None:
            found = _plain_batch(plain_kinds, atom_set, queries, k, options, asked, checked=False)
        return _bare_scores(atom_set, queries, k, options, asked, mask) if found is None else found
    is_product = options.objective == "inner_product"
    if not (is_product and can_use_blas(atoms) and atoms.flags.c_contiguous):
        found = _bare_scores(atom_set, queries, k, options, asked, mask)
        if found is not None or not is_product:
            return found
    if not can_use_blas(atoms) or not _is_plain_mask(mask, atoms.shape[0]):
        return None
    key = (k, options, atoms.shape, atoms.dtype, atoms.flags.c_contiguous)
    if mask is not None:
        direct = _remembered(_bare, key, atom_set)
        if not direct.sweeps:
            return None
        _remember_plain(plain_kinds, direct, asked, atom_set, checked=False)
        if direct.kind is None:
            return None
        masked: SearchResult | None = answer_plainly([direct.kind], atoms, queries, k, asked, mask)
        return masked
    found, direct = _answered(_bare, key, atom_set, queries)
    if found is not None:
        _remember_plain(plain_kinds, direct, asked, atom_set, checked=False)
    return found


def _bare_scores(
    atom_set: AtomSet, queries: Any, k: int, options: Options, asked: tuple[Any, ...], mask: Any
) -> SearchResult | None:
    """Answer a plain query, or a small batch, to an array of any type and order by what follows from all products.

    None if it has to go another way. The next that is asked the same goes without any of this.
    """
    store, (n, d) = atom_set.store, atom_set.store.shape
    assert isinstance(store, DenseStore)
    array, is_batch = store.array, not plain_row(queries, d)
    if not 1 <= k <= n or not _is_plain_mask(mask, n) or (is_batch and not plain_rows(queries, d)):
        return None
    m = len(queries) if is_batch else 1
    check_room(k, m)
    place = array.shape, array.dtype, array.flags.c_contiguous, queries.dtype, m, k
    if (options, place) in _other_ways or not (array.flags.c_contiguous or array.flags.f_contiguous):
        return None
    kind = _bare_kind(atom_set, queries.dtype, m, k, options, asked) if has_scores(atom_set, options) else None
    found: SearchResult | None = None
    if kind is not None and nothing_to_try(atom_set, k, options, m):
        found = answer_plainly([kind], array, queries, k, asked, mask)
        if found is not None:
            put_first(kind, plain_kinds)
        if not kind.is_closed:
            return found
    if len(_other_ways) >= _MOST_DIRECT:
        _other_ways.clear()
    _other_ways.add((options, place))
    return found


def _bare_kind(
    atom_set: AtomSet, dtype: np.dtype[Any], m: int, k: int, options: Options, asked: tuple[Any, ...]
) -> PlainScores | None:
    """What answers so many queries of a type to bare arrays of one shape, type and order, if anything does."""
    store, checked = atom_set.store, options.objective in WITHOUT_LENGTHS
    assert isinstance(store, DenseStore)
    if m == 1:
        return scores_kind(atom_set, dtype, k, options, asked, checked)
    if not fit_one_call(m, *store.shape) or store.rows is None or come_from_memory(store.rows):
        return None
    return batch_kind(atom_set, dtype, m, k, options, asked, checked)


def directly(atom_set: AtomSet, queries: Any, k: Any, options: Options) -> tuple[SearchResult | None, int | None]:
    """Answer a plain query to an index by the shortest way; None if there is none.

    Also the multiplies of a race on cached coordinates that came to nothing; None if there was no such race.
    """
    # Threads share the work of one query, which this way does not divide.
    if type(k) is not int or options.n_jobs != 1:
        return None, None
    if not plain_row(queries, atom_set.store.shape[1]):
        kinds = atom_set.prepared.setdefault("plain", [])
        return _plain_batch(kinds, atom_set, queries, k, options, (options,), not atom_set.unchecked), None
    if atom_set.cache is not None:
        return on_cache(atom_set, queries, k, options) if k > 0 else (None, None)
    found, direct = _answered(atom_set.prepared.setdefault("direct", {}), (k, options), atom_set, queries)
    if found is not None and isinstance(atom_set.store, DenseStore):
        kinds = atom_set.prepared.setdefault("plain", [])
        _remember_plain(kinds, direct, (options,), atom_set, checked=not atom_set.unchecked)
    return found, None


def scored_directly(atom_set: AtomSet, queries: Any, k: Any, options: Options, mask: Any) -> SearchResult | None:
    """Answer a plain query to an index by a race on codes, or by scores that follow from all products.

    None if it has to go another way. What needs no race the next time goes without any of this.
    """
    n, d = atom_set.store.shape
    if type(k) is not int or k < 1 or options.n_jobs != 1 or not _is_plain_mask(mask, n):
        return None
    if not plain_row(queries, d):
        return _scored_batch(atom_set, queries, k, options, mask) if plain_rows(queries, d) else None
    remembered = atom_set.prepared.setdefault("scored", {})
    place = (k, id(options), queries.dtype)
    known, kind = remembered.get(place, (None, None))
    if known is not options:
        if len(remembered) >= _MOST_DIRECT:
            remembered.clear()
        kind = None
        if atom_set.facts is not None and has_scores(atom_set, options):
            kind = scores_kind(atom_set, queries.dtype, k, options, (options,), not atom_set.unchecked)
        remembered[place] = (options, kind)
    if kind is None:
        return None
    codes, raced = code_search(atom_set, k, options), None
    if not (codes.serves and codes.pays(atom_set)):
        if not nothing_to_try(atom_set, k, options, 1):
            return None
    elif codes.past().allows_races:
        raced = codes.outcome(atom_set, queries, mask)
        if raced is None:
            return None
        codes.write_down(raced)
        if not raced.handed_over:
            return of_outcome(raced, k, options.absolute, not atom_set.unchecked, None)
    kinds = atom_set.prepared.setdefault("plain", [])
    if kind.n_uses == 0:  # used up
        kinds[:] = [one for one in kinds if one is not kind]
        kind.n_uses = -1
    found: SearchResult | None = answer_plainly([kind], first_array(atom_set), queries, k, (options,), mask)
    if raced is None or found is None:
        if found is not None and kind not in kinds:
            use_till_next_race(kind, kinds, codes.past())
        return found
    n_multiplies = found.n_multiplies + raced.n_multiplies
    return replace(found, n_multiplies=n_multiplies, n_rounds=raced.n_rounds, n_survivors=raced.n_survivors)


def _scored_batch(
    atom_set: AtomSet, queries: NDArray[Any], k: int, options: Options, mask: NDArray[np.bool_] | None
) -> SearchResult | None:
    """Do that for a small batch to atoms that are not far away."""
    m, store = len(queries), atom_set.store
    if not fit_one_call(m, *atom_set.store.shape) or not isinstance(store, DenseStore) or store.rows is None:
        return None
    # Rows that come from memory are read once for all queries that want them, elsewhere.
    if not (store.rows.are_contiguous or store.rows.are_columns) or come_from_memory(store.rows):
        return None
    in_vain = atom_set.prepared.setdefault("scored in vain", set())
    if (k, options.objective, m) in in_vain or atom_set.facts is None or not has_scores(atom_set, options):
        return None
    if not nothing_to_try(atom_set, k, options, m):
        return None
    kind = batch_kind(atom_set, queries.dtype, m, k, options, (options,), not atom_set.unchecked)
    if kind is None:
        return None
    found: SearchResult | None = answer_plainly([kind], store.array, queries, k, (options,), mask)
    if found is not None:
        kinds = atom_set.prepared.setdefault("plain", [])
        use_till_next_race(kind, kinds, code_search(atom_set, k, options).past(m))
    elif options.objective == "neg_sqeuclidean":
        in_vain.add((k, options.objective, m))  # products that tell nothing are not to be computed twice each time
    return found


def _is_plain_mask(mask: Any, n: int) -> bool:
    return mask is None or (type(mask) is np.ndarray and mask.dtype == np.bool_ and mask.shape == (n,))


def _answered(
    remembered: dict[Any, DirectSearch], key: tuple[Any, ...], atom_set: AtomSet, row: NDArray[Any]
) -> tuple[SearchResult | None, DirectSearch]:
    """The result, if there is one, and what was made for it, and is found again."""
    direct = _remembered(remembered, key, atom_set)
    found = direct.answer(atom_set, row) if direct.serves else None
    if found is None:
        return None, direct
    k, options = key[0], key[1]
    trace = _trace_of(atom_set, row, found, k, options) if options.trace else None
    result = of_outcome(found, k, options.absolute, not atom_set.unchecked, trace)
    return result, direct


def _remembered(remembered: dict[Any, DirectSearch], key: tuple[Any, ...], atom_set: AtomSet) -> DirectSearch:
    """What answers such queries; made, if they are the first."""
    # Options are compared by identity: those of an index, and those that `_options` has seen, come again as they are.
    place = (key[0], id(key[1]), *key[2:])
    direct = remembered.get(place)
    if direct is None or direct.options is not key[1]:
        if len(remembered) >= _MOST_DIRECT:
            remembered.clear()
        direct = remembered[place] = DirectSearch(atom_set, key[0], key[1])
    return direct


def on_cache(atom_set: AtomSet, row: NDArray[Any], k: int, options: Options) -> tuple[SearchResult | None, int]:
    """Answer a query by what is cached of the atoms alone; None if that is not enough, and the multiplies it took."""
    kept = atom_set.prepared.setdefault("cached", {})
    # Taken out while it is in use, so that searches of several threads at once do not share it.
    search = kept.pop((k, id(options)), None)
    if search is None or search.options is not options:
        search = CachedSearch(atom_set, k, options)
    try:
        if not search.serves:
            return None, 0
        plain = plain_row(row, atom_set.store.shape[1])
        outcome = search.race(row if plain else np.ascontiguousarray(row, dtype=np.float64))
    finally:
        if len(kept) >= _MOST_DIRECT:
            kept.clear()
        kept[k, id(options)] = search
    if outcome is None or outcome.handed_over:
        return None, 0 if outcome is None else outcome.n_multiplies
    trace = None
    if options.trace:
        plan = f"{describe(atom_set)}\nway: cached coordinates alone"
        trace = Trace(tuple(outcome.rounds), plan, outcome.n_raced)
    return of_outcome(outcome, k, options.absolute, not atom_set.unchecked, trace), outcome.n_multiplies


def of_outcome(
    outcome: Outcome, k: int, absolute: bool, checked: bool, trace: Trace | None, bytes_read: int = 0
) -> SearchResult:
    """Make the result of a query of what came of its race."""
    outcome.keep_best(k, absolute)
    rows, scores, radius, exact = padded(k, outcome.survivors, outcome.scores, outcome.radius, outcome.exact)
    return SearchResult.of_queries(
        rows,
        scores,
        radius,
        outcome.n_multiplies,
        exact=exact,
        n_rounds=outcome.n_rounds,
        n_survivors=outcome.n_survivors,
        stop_reason=outcome.stop_reason,
        delta_spent=outcome.delta_spent,
        bytes_read=bytes_read,
        checked=checked,
        trace=trace,
    )


def _trace_of(atom_set: AtomSet, row: NDArray[Any], found: Outcome, k: int, options: Options) -> Trace:
    plan = Query(atom_set, as_finite(row, ""), k, options, None).explain()
    return Trace(tuple(found.rounds), plan, found.n_raced)


def batch_directly(atom_set: AtomSet, queries: Any, k: int, options: Options) -> SearchResult | None:
    """Answer the plain queries of a batch, whose scores are all exact; None if they have to go another way."""
    if options.progress or not plain_rows(queries, atom_set.store.shape[1]):
        return None
    answers = answer_batch(atom_set, queries, k, options)
    if answers is None:
        return None
    traces = (_trace_of(atom_set, *one, k, options) for one in zip(queries, answers, strict=True))
    return SearchResult.of_queries(
        np.stack([one.survivors for one in answers]),
        np.stack([one.scores for one in answers]),
        None,
        np.array([one.n_multiplies for one in answers], dtype=np.int64),
        n_rounds=np.array([one.n_rounds for one in answers], dtype=np.int64),
        n_survivors=np.array([one.n_survivors for one in answers], dtype=np.int64),
        stop_reason=tuple(one.stop_reason for one in answers),
        delta_spent=np.array([one.delta_spent for one in answers], dtype=np.float64),
        bytes_read=np.zeros(len(answers), dtype=np.int64),
        checked=not atom_set.unchecked,
        trace=tuple(traces) if options.trace else None,
    )
