"""Queries, one or many, that are answered by their products with all atoms: from their rows to a result of all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._result import SearchResult, StopReason, Trace
from banditmips._validate import Options
from banditmips.atoms import PartStore, SparseStore
from banditmips.race.atom_set import AtomSet, describe
from banditmips.race.batch import Account, account_of, at_places, nothing_to_try, races_on_codes
from banditmips.race.code_search import race_times
from banditmips.race.direct import are_plain
from banditmips.race.full import can_stream, streamed_products
from banditmips.race.pair_scores import Measured
from banditmips.race.plan import TOGETHER
from banditmips.race.query import Multiplied, Query
from banditmips.race.situation import WITHOUT_LENGTHS, less_their_levels
from banditmips.race.sparse import products_by_row
from banditmips.race.together import Found, Together

__all__ = ["SharedProducts", "finish_by_products", "misses_norms"]


class SharedProducts:
    """The queries of a batch, or one alone, if atoms and options allow that they share their products.

    Parameters
    ----------
    rows : array of shape (m, d)
    masks : bool array of shape (m, n), or None
        Atoms that take no part.

    Attributes
    ----------
    serves : bool
        Whether they do.
    """

    def __init__(
        self, atom_set: AtomSet, rows: NDArray[Any], masks: NDArray[np.bool_] | None, k: int, options: Options
    ) -> None:
        self._atoms, self._rows, self._k, self._options = atom_set, rows, k, options
        # One mask for all queries is a view that repeats it.
        self._excluded = masks[0] if masks is not None and masks.strides[0] == 0 else masks
        self._together = Together(atom_set, k, options)
        self.serves = self._together.serves
        if self.serves and not are_plain(rows):
            with np.errstate(over="ignore"):
                self._rows = np.ascontiguousarray(rows, dtype=np.float64)
        if self.serves and options.objective == "correlation":
            self._rows = less_their_levels(self._rows)

    @cached_property
    def _measured(self) -> Measured:
        return self._together.measure(self._rows)

    @property
    def are_all_there_is(self) -> bool:
        """Whether nothing is to be tried before the products."""
        atoms, options, m = self._atoms, self._options, len(self._rows)
        # Norms that nobody knows would take as long as the products of one query, which come along with them.
        asks_for_time = options.minimise == "time" and options.budget is None and not options.trace
        alone = m == 1 and asks_for_time and misses_norms(atoms, options)
        return self.serves and (alone or nothing_to_try(atoms, self._k, options, m))

    @property
    def fine(self) -> NDArray[np.bool_]:
        """Which of the queries can share their products."""
        return self._measured.fine

    def account(self) -> Account | None:
        """What races on codes may cost, if there are to be any."""
        atoms, m = self._atoms, len(self._rows)
        if m == 1 or not self.serves or not races_on_codes(atoms, self._options):
            return None
        return account_of(atoms, self._rows, self._k, self._options, race_times(atoms, self._options, m))

    def find(self, places: Sequence[int] | None = None) -> Found | None:
        """Find the best of all queries, or of those at some places, that are fine; None where each goes its own way."""
        if places is None:
            return self._together.best(self._rows, self._measured, self._excluded)
        rows, measured = at_places(self._rows, places), self._measured.at(places)
        return self._together.best(rows, measured, self._excluded_at(places))

    def _excluded_at(self, places: Sequence[int] | None) -> NDArray[np.bool_] | None:
        """Atoms that take no part: for all queries, or for those at some places."""
        excluded = self._excluded
        return excluded if excluded is None or excluded.ndim == 1 or places is None else excluded[list(places)]

    def result(self, found: Found, places: Sequence[int] | None = None) -> SearchResult:
        """Put together what was found for all queries, or for those at some places."""
        m = len(found.indices)
        n_candidates = self._count_candidates(m, places)
        by_bytes = found.n_close > 0
        finished: tuple[StopReason, ...] = (StopReason.FINISHED_EXACTLY,) * m
        if not n_candidates.all():
            finished = tuple(StopReason.FINISHED_EXACTLY if count else StopReason.EXHAUSTED for count in n_candidates)
        return SearchResult.of_queries(
            found.indices,
            found.scores,
            None,
            n_multiplies=(n_candidates + found.n_close) * found.n_nonzero,
            n_rounds=np.zeros(m, dtype=np.int64),
            n_survivors=np.where(by_bytes, found.n_close, n_candidates),
            stop_reason=finished,
            delta_spent=np.where(by_bytes, self._options.delta, 0.0),
            checked=not self._atoms.unchecked,
            bytes_read=np.zeros(m, dtype=np.int64),
            trace=self._traces(n_candidates, places) if self._options.trace else None,
        )

    def _traces(self, n_candidates: NDArray[np.int64], places: Sequence[int] | None) -> tuple[Trace, ...]:
        """The records of searches without rounds."""
        numbers = range(n_candidates.size) if places is None else places
        return tuple(Trace((), self._plan_of(i), n) for i, n in zip(numbers, n_candidates.tolist(), strict=True))

    def _plan_of(self, i: int) -> str:
        """What the plan says of a query."""
        atoms, options, excluded = self._atoms, self._options, self._excluded
        if misses_norms(atoms, options):
            return f"{describe(atoms)}\nway: all products, and norms of the atoms with them"
        mask = excluded if excluded is None or excluded.ndim == 1 else excluded[i]
        return Query(atoms, self._rows[i], self._k, options, mask).explain()

    def _count_candidates(self, m: int, places: Sequence[int] | None) -> NDArray[np.int64]:
        """How many atoms take part for each query."""
        n, removed, out = self._atoms.store.shape[0], self._atoms.removed, self._excluded_at(places)
        if removed is not None:
            out = removed if out is None else out | removed
        return np.full(m, n) if out is None else np.broadcast_to(n - np.count_nonzero(out, axis=-1), m)


def misses_norms(atom_set: AtomSet, options: Options) -> bool:
    """Whether the objective needs norms that nobody knows."""
    return options.objective in WITHOUT_LENGTHS and atom_set.facts is None


def finish_by_products(atom_set: AtomSet, begun: Sequence[Query], k: int, options: Options) -> None:
    """Let the queries for which sampling does not pay share their products with all atoms."""
    waiting, store = [one for one in begun if one.waits], atom_set.store
    if not waiting:
        return
    by_row = store.products[0] if isinstance(store, SparseStore) else None
    if by_row is not None and atom_set.facts is not None:
        for one, products in zip(waiting, products_by_row(by_row, [one.vector for one in waiting]), strict=True):
            one.finish(Multiplied(products))
    elif isinstance(store, PartStore) and can_stream(store, k):
        _finish_in_one_pass([one for one in waiting if one.takes_products], store)
    else:
        _finish_together(atom_set, waiting, k, options)
    for one in waiting:
        if one.waits:
            one.finish(Multiplied())


def _finish_in_one_pass(queries: Sequence[Query], store: PartStore) -> None:
    """Finish queries by their products with all atoms of a file, some at a time."""
    for start in range(0, len(queries), TOGETHER):
        some = queries[start : start + TOGETHER]
        with np.errstate(over="ignore", invalid="ignore"):
            # One by one, so that no copy of all of them is made in another precision.
            vectors = np.empty((len(some), store.shape[1]), dtype=store.dtype)
            for row, one in zip(vectors, some, strict=True):
                row[:] = one.vector
            found = streamed_products(store, vectors)
        for one, products in zip(some, found, strict=True):
            one.finish(Multiplied(products))


def _finish_together(atom_set: AtomSet, waiting: Sequence[Query], k: int, options: Options) -> None:
    """Finish queries to atoms in memory by products that they share, where they can."""
    together = Together(atom_set, k, options, max(one.n_all for one in waiting))
    for start in range(0, len(waiting) if together.serves else 0, TOGETHER):
        some = waiting[start : start + TOGETHER]
        vectors = np.stack([one.vector for one in some])
        if options.objective in WITHOUT_LENGTHS:
            # They may be longer than single precision can say, and of any length.
            vectors = np.ldexp(vectors, -np.frexp(np.abs(vectors).max(axis=1, keepdims=True))[1])
        excluded = np.ones((len(some), atom_set.store.shape[0]), dtype=np.bool_)
        for row, one in zip(excluded, some, strict=True):
            row[one.candidates] = False
        measured = together.measure(vectors)
        fine = np.flatnonzero(measured.fine)
        if fine.size < len(some):
            some, vectors, excluded = [some[i] for i in fine.tolist()], vectors[fine], excluded[fine]
            measured = measured.at(fine)
        found = together.best(vectors, measured, excluded if excluded.any() else None) if some else None
        if found is None:
            continue
        for one, best, scores, n_close in zip(some, found.indices, found.scores, found.n_close.tolist(), strict=True):
            one.finish(Multiplied(None, best[best >= 0], scores[best >= 0], n_close))
