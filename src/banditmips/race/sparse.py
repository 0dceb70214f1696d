"""Queries to a sparse matrix that are answered by their products with all that it stores, which most are.

A product by column looks at the columns where the query is not 0 and at nothing else; a product by row looks at
everything. Both are exact, so that nothing is left to race for. Queries that look at much of the matrix are multiplied
together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import count_threads, in_pieces, map_in_order
from banditmips.atoms.sparse import SparseStore
from banditmips.core.sparse_batch import WIDTH, best_rows, column_products_of_many, roundings, row_products_of_many
from banditmips.core.sparse_products import PlaceError, SparseProducts
from banditmips.race.atom_set import candidates_of
from banditmips.race.situation import why_not_sampled

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["SparseAnswer", "SparseSearch", "products_by_row"]

_LEAST_STORED = 1 << 18
"""Stored entries that are worth a thread of their own."""
_BY_COLUMN = 0.5
"""Part of all entries up to which those of a query's columns are looked at by column, where there are rows too: adding
to the sums of all atoms takes a little longer for each entry than summing one row after another."""
_LEAST_TOGETHER = 6
"""Queries from which on they are faster together by row: `WIDTH` of them take as long as three to nine alone (measured:
nine where a processor reads eight numbers of a query at once)."""
_TURNED, _OF_BLOCK = 8, 4
"""Entries that can be added to the sums of a query alone, by column, while one is put in the order of rows for all
queries, and while it is multiplied with `WIDTH` of them then (measured: 7 to 8, and 4)."""
_ALONE = 0.2
"""Part of all entries up to which a query by its own columns is faster than together with others."""
_MOST_SUMS = 1 << 23
"""Products that are held at a time, 64 MB of them (but those of `WIDTH` queries always)."""


class SparseAnswer(NamedTuple):
    """The best rows of one query, best first, with their scores; how many took part; and what it took.

    Attributes
    ----------
    n_multiplies : int or callable
        A number, or what counts when the number is asked for: that may take as long as the products.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    n_candidates: int
    n_multiplies: int | Callable[[], int]


class _Seen:
    """A query, with where it is not 0 (`columns` is None if it is 0 nowhere) and which rows take part (None: all)."""

    __slots__ = ("columns", "nonzero", "query", "rows")

    def __init__(self, query: NDArray[Any], rows: NDArray[np.int64] | None) -> None:
        self.query, self.rows = query, rows
        self.nonzero = query != 0.0
        # (Of booleans, NumPy finds those that are true in a tenth of the time that it takes for numbers.)
        self.columns = None if self.nonzero.all() else np.flatnonzero(self.nonzero)


class SparseSearch:
    """Queries to one sparse matrix by its products, for one k and one set of options.

    Attributes
    ----------
    serves : bool
        Whether these atoms and options are such that products are the way, and products are all there is to it.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options) -> None:
        self._k, self._absolute, self._n_jobs = k, options.absolute, options.n_jobs
        self._removed = atoms.removed
        store = atoms.store
        self.serves = (
            isinstance(store, SparseStore)
            and options.objective == "inner_product"
            and options.budget is None
            and not options.trace
            and not options.progress
            and (options.delta == 0.0 or (options.minimise == "time" and why_not_sampled(store) is not None))
            and any(products is not None for products in store.products)
        )
        if self.serves:
            assert isinstance(store, SparseStore)
            self._store = store
            self._by_row, self._by_column = store.products

    def answer(self, query: NDArray[Any], excluded: NDArray[np.bool_] | None) -> SparseAnswer | None:
        """Answer a query of native floats; None where a score is not finite, which somebody else has words for."""
        seen = self._look(query, excluded)
        try:
            return self._answer(seen)
        except PlaceError:
            return self._store.complain()

    def answers(
        self, queries: Sequence[NDArray[Any]], excluded: Sequence[NDArray[np.bool_] | None]
    ) -> list[SparseAnswer | None]:
        """Answer several queries: each as `answer` does, but with less work where they can share it."""
        seen = list(map(self._look, queries, excluded))
        try:
            shared = [i for i, one in enumerate(seen) if not self._is_faster_alone(one)]
            groups = [group for group in self._grouped(shared) if self._are_faster_together([seen[i] for i in group])]
            found: dict[int, SparseAnswer | None] = {}
            shares = map_in_order(lambda group: self._share([seen[i] for i in group]), groups, self._n_jobs)
            for group, answers in zip(groups, shares, strict=True):
                found.update(zip(group, answers, strict=True))
            alone = [i for i in range(len(seen)) if i not in found]
            found.update(zip(alone, map_in_order(lambda i: self._answer(seen[i]), alone, self._n_jobs), strict=True))
        except PlaceError:
            self._store.complain()
        return [found[i] for i in range(len(seen))]

    def _grouped(self, queries: list[int]) -> list[list[int]]:
        """Divide queries into groups that are multiplied together: as large as memory allows, and one for a thread."""
        most = min(_MOST_SUMS // self._store.shape[0], -(-len(queries) // count_threads(self._n_jobs)) + WIDTH - 1)
        size = max(most // WIDTH, 1) * WIDTH
        return [queries[first : first + size] for first in range(0, len(queries), size)]

    def _look(self, query: NDArray[Any], excluded: NDArray[np.bool_] | None) -> _Seen:
        return _Seen(query, candidates_of(self._store.shape[0], excluded, self._removed))

    def _answer(self, seen: _Seen) -> SparseAnswer | None:
        by_column = self._chosen_by_column(seen)
        if by_column is not None:
            products, stored = by_column.column_products(seen.query.astype(np.float64, copy=False), seen.columns)
            products = products if seen.rows is None else products[seen.rows]
            return self._best(products, seen.rows, seen, stored if seen.rows is None else None)
        products, stored = self._row_products(seen)
        return self._best(products, seen.rows, seen, stored if seen.columns is None else None)

    def _chosen_by_column(self, seen: _Seen) -> SparseProducts | None:
        """What multiplies by column, if that is the way."""
        if self._by_row is None or self._by_column is None or seen.columns is None:
            return self._by_column if self._by_row is None else None
        few = self._by_column.n_stored_of(seen.columns) <= _BY_COLUMN * self._store.n_stored
        return self._by_column if few else None

    def _row_products(self, seen: _Seen) -> tuple[NDArray[np.float64], int]:
        assert self._by_row is not None
        multiply = self._by_row.row_products
        rows = np.arange(self._store.shape[0]) if seen.rows is None else seen.rows

        def some(start: int, stop: int) -> tuple[NDArray[np.float64], int]:
            return multiply(seen.query, rows[start:stop])

        parts = in_pieces(some, rows.size, _LEAST_STORED * rows.size // max(self._store.n_stored, 1))
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([products for products, _ in parts]), sum(stored for _, stored in parts)

    def _best(
        self,
        products: NDArray[np.float64],
        rows: NDArray[np.int64] | None,
        seen: _Seen,
        n_multiplies: int | None = None,
    ) -> SparseAnswer | None:
        """The best of some rows (None: all) by their products; multiplies are counted later if nobody knows them."""
        best = best_rows(products, self._k, self._absolute)
        if best is None:
            return None
        n_candidates = self._store.shape[0] if seen.rows is None else seen.rows.size
        count = partial(_count, self._store, seen.rows, np.packbits(seen.nonzero))
        return SparseAnswer(
            best if rows is None else rows[best],
            products[best],
            n_candidates,
            count if n_multiplies is None else n_multiplies,
        )

    def _is_faster_alone(self, seen: _Seen) -> bool:
        if self._by_column is None or seen.columns is None:
            return False
        # What is added up by row or by column alone has to be so among others: the sums are not the same to the bit.
        limit = _ALONE if self._by_row is None else _BY_COLUMN
        return self._by_column.n_stored_of(seen.columns) <= limit * self._store.n_stored

    def _are_faster_together(self, group: list[_Seen]) -> bool:
        if self._by_row is not None:
            return len(group) >= _LEAST_TOGETHER
        assert self._by_column is not None
        of_each = [self._n_stored_of(one.columns) for one in group]
        columns = _columns_of_all(group)
        n_blocks = -(-len(group) // WIDTH)
        return sum(of_each) > self._n_stored_of(columns) * (_TURNED + _OF_BLOCK * n_blocks)

    def _n_stored_of(self, columns: NDArray[np.int64] | None) -> int:
        """Stored entries of some columns, or of all."""
        assert self._by_column is not None
        return self._store.n_stored if columns is None else self._by_column.n_stored_of(columns)

    def _share(self, group: list[_Seen]) -> list[SparseAnswer | None]:
        """Multiply with several queries together."""
        vectors = [one.query for one in group]
        columns = _columns_of_all(group)
        if self._by_row is not None:
            sums, slack = row_products_of_many(self._by_row, vectors, columns), roundings(self._by_row)
        else:
            assert self._by_column is not None
            sums, slack = column_products_of_many(self._by_column, vectors, columns), None
        found = []
        for b, one in enumerate(group):
            products = sums[b // WIDTH, :, b % WIDTH]
            products = products.copy() if one.rows is None else products[one.rows]
            if slack is None:
                found.append(self._best(products, one.rows, one))
            else:
                found.append(self._best_by_row(products, slack if one.rows is None else slack[one.rows], one))
        return found

    def _best_by_row(
        self, products: NDArray[np.float64], slack: NDArray[np.float64], seen: _Seen
    ) -> SparseAnswer | None:
        """The best rows, if those that rounding cannot tell from them are summed as they are for a query alone."""
        ranked = np.abs(products) if self._absolute else products
        with np.errstate(over="ignore", invalid="ignore"):
            # The root of the number of coordinates, times the largest, is at least the length.
            width = slack * (np.sqrt(seen.query.size) * max(seen.query.max(), -seen.query.min()))
            leaders = best_rows(ranked - width, self._k, absolute=False)
        if leaders is None or not np.isfinite(ranked).all():
            return self._answer(seen)
        close = np.arange(ranked.size)
        if leaders.size < ranked.size:
            close = np.flatnonzero(ranked + width >= ranked[leaders[-1]] - width[leaders[-1]])
        rows = close if seen.rows is None else seen.rows[close]
        assert self._by_row is not None
        return self._best(self._by_row.row_products(seen.query, rows)[0], rows, seen)


def _columns_of_all(group: list[_Seen]) -> NDArray[np.int64] | None:
    """Where some query is not 0; None if one of them is 0 nowhere."""
    if any(one.columns is None for one in group):
        return None
    return np.flatnonzero(np.logical_or.reduce([one.nonzero for one in group]))


def products_by_row(by_row: SparseProducts, queries: list[NDArray[np.float64]]) -> Iterator[NDArray[np.float64]]:
    """Products of all rows with each query, right but for rounding."""
    for first in range(0, len(queries), WIDTH):
        some = queries[first : first + WIDTH]
        if len(some) < _LEAST_TOGETHER:
            yield from (by_row.row_products(query, np.arange(by_row.n))[0] for query in some)
            continue
        sums = row_products_of_many(by_row, some, None)
        yield from (np.ascontiguousarray(sums[0, :, b]) for b in range(len(some)))


def _count(store: SparseStore, rows: NDArray[np.int64] | None, bits: NDArray[np.uint8]) -> int:
    """Stored entries of the rows (None for all) in the columns whose bit is 1."""
    n, d = store.shape
    where = np.unpackbits(bits, count=d).view(np.bool_)
    return store.count_stored(np.arange(n) if rows is None else rows, where)
