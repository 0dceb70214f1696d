"""Queries on their way through a search: begun, waiting for products with all atoms, answered."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._begun import Begun, finish_in_file
from banditmips._direct import batch_directly, on_cache
from banditmips._ends import negative
from banditmips._padding import check_room
from banditmips._result import SearchResult, StopReason, padded
from banditmips._shared import SharedProducts, finish_by_products, misses_norms
from banditmips._threads import helped_by, map_in_order
from banditmips._validate import (
    Options,
    as_finite,
    as_mask,
    as_queries,
    check_k,
)
from banditmips.atoms import PartStore
from banditmips.atoms.metering import metered
from banditmips.core.outcome import Outcome
from banditmips.race.atom_set import AtomSet, check_range, check_seed
from banditmips.race.batch import ASKED_TOGETHER, Account, begin_while_it_pays, race_again
from banditmips.race.code_search import code_search
from banditmips.race.direct import plain_row
from banditmips.race.full import can_stream
from banditmips.race.plan import TOGETHER
from banditmips.race.query import Query
from banditmips.race.rules import check_needs
from banditmips.race.sparse import SparseAnswer, SparseSearch
from banditmips.race.together import Found
from banditmips.race.unsampled import for_products

__all__ = ["also_read", "check_together", "empty_batch", "explain_query", "run_queries"]


_Any = TypeVar("_Any")


def run_queries(
    atom_set: AtomSet,
    queries: ArrayLike,
    k: int,
    options: Options,
    mask: ArrayLike | None,
    n_spent: int | None = None,
) -> SearchResult:
    """Answer one query or a batch, in threads if asked for.

    `n_spent` are the multiplies of a race of the one query on cached coordinates in vain, if there was one.
    """
    if options.n_jobs == 1:
        return _run_queries(atom_set, queries, k, options, mask, n_spent)
    # Threads share the queries of a batch, or the work of a single one.
    with helped_by(options.n_jobs):
        return _run_queries(atom_set, queries, k, options, mask, n_spent)


def _run_queries(
    atom_set: AtomSet, queries: ArrayLike, k: int, options: Options, mask: ArrayLike | None, tried: int | None
) -> SearchResult:
    k = check_k(k)
    n, d = atom_set.store.shape
    rows, single = as_queries(queries, d)
    masks = as_mask(mask, n, len(rows), single)
    if options.budget is not None and options.budget < n:
        raise ValueError(f"budget must allow at least one multiply for each of the {n} atoms, got {options.budget}")
    check_together(atom_set, options)
    checked = not atom_set.unchecked
    check_room(k, len(rows))
    # Whatever form the queries have, they take the same way.
    atom_set, options = for_products(atom_set, k, options, len(rows))
    if len(rows) == 0:
        return empty_batch(k, options.trace, checked)
    codes = code_search(atom_set, k, options)
    if single and codes.serves and codes.pays(atom_set):
        alone = Begun(atom_set, rows[0], k, options, None if masks is None else masks[0])
        alone.begin(tried or 0, codes=codes)
        finish_by_products(atom_set, [alone], k, options)
        return alone.result(k, options, checked)
    shared = SharedProducts(atom_set, rows, masks, k, options)
    if shared.are_all_there_is:
        found = _all_together(atom_set, rows, k, options, masks, shared)
        if found is not None:
            codes.past(len(rows)).leave_out()
            return found[0] if single else found
    short = batch_directly(atom_set, queries, k, options) if masks is None else None
    if short is not None:
        return short
    if misses_norms(atom_set, options):
        with metered() as norms:
            known = _with_norms(atom_set, options)
        return also_read(run_queries(known, queries, k, options, mask), norms.bytes_read)

    sparse = SparseSearch(atom_set, k, options)
    if sparse.serves:
        answers = _by_sparse_products(sparse, rows, single, masks)
        if answers is not None:
            results = [_of_sparse(answer, k, checked) for answer in answers]
            return results[0] if single else SearchResult.stack(results)

    store = atom_set.store
    # Queries that race on codes read rows of a file; those that read all of it read it together.
    may_share = isinstance(store, PartStore) and can_stream(store, k) and atom_set.codes is not None
    n_sharing = len(rows) if may_share and masks is None and atom_set.removed is None else 1
    n_beside = n_sharing if codes.serves or isinstance(store, PartStore) else len(rows)

    account = shared.account()

    def begin(i: int, n_together: int | None = None, races: bool = True) -> Any:
        n_spent = tried or 0
        if tried is None and masks is None and atom_set.cache is not None:
            short, n_spent = on_cache(atom_set, rows[i], k, options)
            if short is not None:
                return short
        excluded = None if masks is None else masks[i]
        n_together = n_beside if n_together is None else n_together
        begun = Begun(atom_set, rows[i], k, options, excluded, n_together)
        begun.where = "" if single else f"row {i}, "
        begun.begin(n_spent, races, codes)
        return begun

    if account is not None and shared.fine.all():
        raced = _raced(begin, account, shared, len(rows), k, options, atom_set)
        if raced is not None:
            return raced
    asked = ASKED_TOGETHER if n_sharing > 1 else len(rows)
    begun = list(_with_progress(_begin_all(begin, len(rows), asked, options.n_jobs), len(rows), options.progress))
    begun_here = [one for one in begun if isinstance(one, Begun)]
    if options.says_how_to_sample or atom_set.cache is not None:
        codes.past(len(rows)).add(sum(-1.0 if one.waits else 1.0 for one in begun_here))
    race_again(begun_here, lambda i, n: begun_here[i].begin_again(n), n_sharing)
    waiting = [one for one in begun_here if one.waits]
    with metered() as read:
        finish_by_products(atom_set, finish_in_file(atom_set, waiting, k, options), k, options)
    if waiting:
        waiting[0].bytes_read += read.bytes_read  # what they read together counts for the first of them
    results = [one if isinstance(one, SearchResult) else one.result(k, options, checked) for one in begun]
    return results[0] if single else SearchResult.stack(results)


def _with_norms(atom_set: AtomSet, options: Options) -> AtomSet:
    """Read all atoms for what nobody knows of them."""
    from banditmips.atoms.collecting import collect_facts

    return replace(atom_set, facts=collect_facts(atom_set.store, n_jobs=options.n_jobs), unchecked=False)


def _begin_all(
    begin: Callable[..., Begun | SearchResult], n_queries: int, asked: int, n_jobs: int
) -> Iterator[Begun | SearchResult]:
    """Begin queries; after so many it is asked again whether races pay."""
    account: Account | None = None
    for start in range(0, n_queries, asked):
        races = account is None or account.allows_more
        numbers = range(start, min(start + asked, n_queries))
        for one in map_in_order(partial(begin, races=races), numbers, n_jobs):
            if races and asked < n_queries and isinstance(one, Begun) and one.full_time > 0.0:
                account = account or Account(one.full_time, n_queries)
                account.add(one.ended.time_spent, one.waits)
            yield one


def _all_together(
    atom_set: AtomSet,
    rows: NDArray[Any],
    k: int,
    options: Options,
    masks: NDArray[np.bool_] | None,
    shared: SharedProducts,
) -> SearchResult | None:
    """Answer queries by products that they share; None if they cannot."""
    fine = shared.fine
    if fine.all():
        found = _find_all(shared, len(rows), options.progress)
        return None if found is None else shared.result(found)
    if not fine.any():
        return None
    others = np.flatnonzero(~fine)
    for i in others:
        as_finite(rows[i], f"row {i}, ")
    results: dict[int, SearchResult] = {}
    for some in (np.flatnonzero(fine), others):
        part = _run_queries(atom_set, rows[some], k, options, None if masks is None else masks[some], None)
        results |= {int(i): part[t] for t, i in enumerate(some)}
    return SearchResult.stack([results[i] for i in range(len(rows))])


def _find_all(shared: SharedProducts, m: int, progress: bool) -> Found | None:
    """Find the best of all queries; some at a time where their progress is to be seen."""
    if not progress:
        return shared.find()
    parts = (shared.find(range(start, min(start + TOGETHER, m))) for start in range(0, m, TOGETHER))
    found = [part for part in _with_progress(parts, -(-m // TOGETHER), progress) if part is not None]
    return Found(*map(np.concatenate, zip(*found, strict=True))) if len(found) == -(-m // TOGETHER) else None


def _raced(
    begin: Callable[[int, int], Begun],
    account: Account,
    shared: SharedProducts,
    m: int,
    k: int,
    options: Options,
    atom_set: AtomSet,
) -> SearchResult | None:
    """Let queries race as long as that pays, and the others share their products; None if they cannot."""
    begun = list(_with_progress(begin_while_it_pays(begin, account, m, options.n_jobs), m, options.progress))
    code_search(atom_set, k, options).past(m).add(account.saved)
    if len(begun) == m:
        race_again(begun, lambda i, n: begun[i].begin_again(n), m)
    places = [i for i in range(m) if i >= len(begun) or begun[i].waits]
    checked = not atom_set.unchecked
    if not places:
        return SearchResult.stack([one.result(k, options, checked) for one in begun])
    found = shared.find(places)
    if found is None:
        return None
    together = _after_races(shared.result(found, places), [begun[i].ended for i in places if i < len(begun)])
    if len(places) == m:
        return together
    waited = iter(range(len(places)))
    return SearchResult.stack(
        [
            together[next(waited)] if i >= len(begun) or begun[i].waits else begun[i].result(k, options, checked)
            for i in range(m)
        ]
    )


def _after_races(together: SearchResult, raced: Sequence[Outcome]) -> SearchResult:
    """What was found for queries by their products, the first of which had raced in vain before."""
    n_multiplies, n_rounds = together.n_multiplies.copy(), together.n_rounds.copy()
    n_survivors, tried = together.n_survivors.copy(), slice(len(raced))
    n_multiplies[tried] += np.array([one.n_multiplies for one in raced], dtype=np.int64)
    n_rounds[tried] = [one.n_rounds for one in raced]
    # Where products of bytes have answered, those that they left are the survivors.
    left = np.array([one.n_survivors for one in raced], dtype=np.int64)
    n_survivors[tried] = np.where(together.delta_spent[tried] > 0.0, n_survivors[tried], left)
    return replace(together, n_multiplies=n_multiplies, n_rounds=n_rounds, n_survivors=n_survivors)


def _by_sparse_products(
    search: SparseSearch, rows: NDArray[Any], single: bool, masks: NDArray[np.bool_] | None
) -> list[SparseAnswer] | None:
    """Answer queries by their products with a sparse matrix; None if some score is not finite."""
    excluded = [None] * len(rows) if masks is None else list(masks)

    def checked(row: NDArray[Any], where: str) -> NDArray[Any]:
        # A copy in double precision would take a fair part of the time.
        plain = plain_row(row, row.size) and bool(np.isfinite(row).all())
        return row if plain else as_finite(row, where)

    if single:
        found = [search.answer(checked(rows[0], ""), excluded[0])]
    else:
        found = search.answers([checked(row, f"row {i}, ") for i, row in enumerate(rows)], excluded)
    answers = [answer for answer in found if answer is not None]
    return answers if len(answers) == len(found) else None


def _of_sparse(answer: SparseAnswer, k: int, checked: bool) -> SearchResult:
    """The result of one query to a sparse matrix."""
    indices, scores = padded(k, answer.indices, answer.scores)
    return SearchResult.of_queries(
        indices,
        scores,
        None,
        answer.n_multiplies,
        n_rounds=0,
        n_survivors=answer.n_candidates,
        stop_reason=StopReason.FINISHED_EXACTLY if answer.n_candidates else StopReason.EXHAUSTED,
        delta_spent=0.0,
        checked=checked,
    )


_OF_CODES = {"sampling": "auto", "replacement": False}


def check_together(atom_set: AtomSet, options: Options) -> None:
    """Check options that only make sense with what is known of the atoms."""
    check_range(atom_set.seen_range, options)
    check_seed(atom_set.store, options)
    n, d = atom_set.store.shape
    # All products need to know nothing, if they are affordable.
    if options.delta > 0.0 or (options.budget is not None and options.budget < n * d):
        check_needs(options, atom_set.known_range, atom_set.facts is not None)
    if options.bound != "codes":
        return
    if atom_set.codes is None:
        raise ValueError(
            "bound='codes' needs an index with codes: BanditMIPS(...).fit(atoms) with layout='auto' or 'codes'"
        )
    sampled = [
        f"{name}={getattr(options, name)!r}" for name, value in _OF_CODES.items() if getattr(options, name) != value
    ]
    if sampled or options.objective == "neg_l1":
        why = sampled[0] if sampled else f"objective={options.objective!r}"
        raise ValueError(f"bound='codes' is about codes, but {why} samples coordinates: use bound='auto'")


def explain_query(atom_set: AtomSet, query: ArrayLike, k: int, options: Options) -> str:
    """Say in words how one query would be answered."""
    rows, single = as_queries(query, atom_set.store.shape[1])
    if not single:
        raise ValueError(f"query must be one query (1-d), got a batch of shape {rows.shape}")
    check_together(atom_set, options)
    row = as_finite(rows[0], "")
    if misses_norms(atom_set, options):
        atom_set = _with_norms(atom_set, options)
    return Query(atom_set, negative(row) if options.ends == "smallest" else row, check_k(k), options, None).explain()


def _with_progress(results: Iterator[_Any], m: int, progress: bool) -> Iterator[_Any]:
    if not progress:
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, description="searching", total=m, console=Console(stderr=True))


def empty_batch(k: int, traced: bool, checked: bool) -> SearchResult:
    """Return the result of no queries."""
    counts = np.empty(0, dtype=np.int64)
    return SearchResult.of_queries(
        np.empty((0, k), dtype=np.int64),
        np.empty((0, k)),
        None,
        counts,
        n_rounds=counts,
        n_survivors=counts,
        stop_reason=(),
        delta_spent=np.empty(0),
        bytes_read=counts,
        checked=checked,
        trace=() if traced else None,
    )


def also_read(result: SearchResult, n_bytes: int) -> SearchResult:
    """Count bytes that were read for all queries together with those of the first."""
    if n_bytes == 0 or result.indices.shape[0] == 0:
        return result
    if result.indices.ndim == 1:
        return replace(result, bytes_read=result.bytes_read + n_bytes)
    return replace(result, bytes_read=result.bytes_read + n_bytes * (np.arange(len(result.indices)) == 0))
