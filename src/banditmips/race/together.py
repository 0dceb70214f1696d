"""Queries that are answered together by all their products: nothing is done in Python for each of them.

Products with all atoms come from BLAS or from our own loops (`race.passes`), and scores follow from them by a factor
and an offset of each atom. Whoever rounding cannot tell from the best gets an exact score, that of a query alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import by_row
from banditmips.core.batch import best_of_each, measure_queries
from banditmips.core.byte_products import can_round
from banditmips.core.near_best import close_to_each
from banditmips.core.passes import multiplies_columns, pass_dtype
from banditmips.core.rows import Rows
from banditmips.core.statistics import PRODUCT
from banditmips.race.costs import costs
from banditmips.race.full import BY_COLUMNS, can_use_blas, column_time
from banditmips.race.known import index_rows
from banditmips.race.pair_scores import Measured, exact_scores
from banditmips.race.passes import close_by_differences, pass_products, products_of_blocks
from banditmips.race.plan import TOGETHER, full_time
from banditmips.race.ranking import Ranking
from banditmips.race.rounded import Close, Scores, Settings, are_peaked, close_by_bytes, is_cheap_to_try, times_by_bytes
from banditmips.race.rules import OBJECTIVE_CODES
from banditmips.race.situation import FEW_ENTRIES, WITHOUT_LENGTHS
from banditmips.race.wanted import joined, replaced, without

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["MOST_CLOSE", "Found", "Together"]

MOST_CLOSE = 1 / 8
"""Part of the atoms that norms and products may not tell from the best, where direct differences tell more."""
_MOST_PRODUCTS = 1 << 22
"""Products of a batch that are held at a time, if they are not those of a few queries."""
_MOST_KINDS = 64
_worthwhile: set[tuple[Any, ...]] = set()
"""Kinds of batches that products of bytes have answered, so many at most: the next of a kind is not tried first."""
_LOOKED_UP = 15.0
"""Nanoseconds of a row of one query that is looked up, scaled and compared in arrays (measured: 12 to 20)."""
_SMALL = 1 << 20
"""Entries of a matrix that is converted as a whole, and not once for each use that is made of it."""


_Part = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Rows that can be among the best of some queries, where each begins, and how many products of bytes have left."""


class Found(NamedTuple):
    """What was found for the queries of a batch.

    Attributes
    ----------
    indices, scores : arrays of shape (m, k)
        Best first; -1 and -inf where there are fewer candidates than k.
    n_nonzero : int64 array of shape (m,)
        Entries of the queries that are multiplied.
    n_close : int64 array of shape (m,)
        Rows that were read again; 0 where the products of all atoms were not those of bytes.
    """

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    n_nonzero: NDArray[np.int64]
    n_close: NDArray[np.int64]


class Together:
    """All products for queries that come together, for one set of atoms, one k and one set of options.

    Parameters
    ----------
    n_all : int, optional
        Atoms that delta is split over, if these are a part of them.

    Attributes
    ----------
    serves : bool
        Whether these atoms are served.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options, n_all: int | None = None) -> None:
        self._atoms, self._k, self._options, self._objective = atoms, k, options, options.objective
        self._n_all = n_all
        self._code = OBJECTIVE_CODES[options.objective]
        rows, store = index_rows(atoms), atoms.store
        self.serves = rows is not None
        if rows is None:
            return
        self._rows: Rows = rows
        self._dtype = pass_dtype(rows)
        self._ranking = Ranking(atoms, rows, self._objective, self._dtype)
        if self._objective in WITHOUT_LENGTHS and atoms.facts is None and not isinstance(store, DenseStore):
            self.serves = False

    def measure(self, queries: NDArray[Any]) -> Measured:
        """Look at queries, of native floats in C order; for correlations, less their levels."""
        squares, largest, n_nonzero, fine = measure_queries(queries)
        norms = np.sqrt(squares)
        if self._code == PRODUCT:
            fine &= ~self._are_read_alone(n_nonzero)
        else:
            n_nonzero[:] = self._rows.d
        if self._objective != "inner_product":
            fine &= self._ranking.are_fine(norms)
        return Measured(norms, largest, n_nonzero, fine, self._ranking.centres(queries))

    def _are_read_alone(self, n_nonzero: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which queries have so few entries that reading these columns takes less than a share of all products."""
        rows, m = self._rows, n_nonzero.size
        few: NDArray[np.bool_] = FEW_ENTRIES * n_nonzero <= rows.d
        if self._objective in WITHOUT_LENGTHS and self._atoms.facts is None:
            return np.equal(n_nonzero, 0)  # norms that nobody knows take whole rows
        if not rows.are_contiguous:
            return few
        array = rows.arrays[0]
        share = full_time(costs(), rows.n, rows.d, array.itemsize, can_use_blas(array), m) / rows.n
        few &= n_nonzero * costs().gather <= share
        return few

    def best(self, queries: NDArray[Any], measured: Measured, excluded: NDArray[np.bool_] | None) -> Found | None:
        """Find the best k of each query; None where they have to be answered in another way.

        Parameters
        ----------
        queries : array of shape (m, d)
        measured
            Of which all are fine.
        excluded : bool array of shape (n,) or (m, n), or None
            Atoms that take no part.
        """
        found: list[Found | None] = []
        waiting: list[_Part] = []
        first = start = 0

        def finish_waiting() -> None:
            parts = slice(first, start)
            found.append(self._best(queries[parts], measured.at(parts), waiting))

        self._convert(len(queries))
        asks_bytes = self._may_ask_bytes
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            while start < len(queries):
                # BLAS lays out the atoms anew for each part.
                most = TOGETHER if asks_bytes else max(TOGETHER, _MOST_PRODUCTS // self._rows.n)
                part = slice(start, start + most)
                out = excluded if excluded is None or excluded.ndim == 1 else excluded[part]
                by_bytes = self._close_by_bytes(queries[part], measured.at(part), out) if asks_bytes else None
                if asks_bytes and by_bytes is None:
                    asks_bytes = False
                    continue
                some = self._can_be_best(queries[part], measured.at(part), out, by_bytes)
                if some is None:
                    return None
                # Rows that several queries want are read once for all of them, if they are not too many to be held;
                # but where some queries want all, the others' few are not to be read like these.
                if waiting and self._wants_most(some) != self._wants_most(waiting[-1]):
                    finish_waiting()
                    waiting, first = [], start
                waiting.append(some)
                start = min(start + most, len(queries))
                if start == len(queries) or sum(rows.size for rows, *_ in waiting) >= _MOST_PRODUCTS:
                    finish_waiting()
                    waiting, first = [], start
        done = [one for one in found if one is not None]
        if len(done) < len(found):
            return None
        return done[0] if len(done) == 1 else Found(*map(np.concatenate, zip(*done, strict=True)))

    def _wants_most(self, part: _Part) -> bool:
        """Whether the queries of a part want most of all rows."""
        rows, begins, _ = part
        return 2 * rows.size > self._rows.n * (begins.size - 1)

    def _best(
        self,
        queries: NDArray[Any],
        measured: Measured,
        parts: Sequence[_Part],
    ) -> Found | None:
        """Find the best k by exact scores of the rows that `_can_be_best` gives, for some parts of the queries."""
        close = joined([(rows, begins) for rows, begins, _ in parts])
        scores = exact_scores(self._atoms, self._rows, self._objective, queries, measured, close)
        best = None if scores is None else best_of_each(*close, scores, self._k, self._options.absolute)
        n_close = np.concatenate([n_rows for *_, n_rows in parts])
        return None if best is None else Found(*best, measured.n_nonzero, n_close)

    def _convert(self, n_queries: int) -> None:
        """Convert the atoms, if they are few numbers that BLAS cannot read, for so many queries that it pays."""
        rows = self._rows
        is_small = len(rows.arrays) == 1 and rows.n * rows.d <= _SMALL and not can_use_blas(rows.arrays[0])
        if is_small and self._dtype == np.float32 and not costs().tiles(n_queries, rows.d):
            self._rows = Rows([by_row(rows.arrays[0], self._dtype)])

    def _can_be_best(
        self, queries: NDArray[Any], measured: Measured, excluded: NDArray[np.bool_] | None, by_bytes: Close | None
    ) -> _Part | None:
        """Rows that can be among the best of each query, where they begin, and how many products of bytes have left."""
        n_close = np.zeros(len(queries), dtype=np.int64)
        if by_bytes is None and self.exact_by_columns(len(queries)):
            close = self._everybody(len(queries), excluded)
        elif by_bytes is None:
            close = self._close(queries, measured, excluded)
        else:
            n_close = np.diff(by_bytes[1])
            close = self._with_others(queries, measured, by_bytes, excluded)
        return None if close is None else (*close, n_close)

    def exact_by_columns(self, n_queries: int) -> bool:
        """Whether exact sums of all columns take less than any products and, after them, the rows of the best."""
        rows, here = self._rows, costs()
        if not rows.are_columns or self._code not in BY_COLUMNS:
            return False
        n, d, itemsize, wanted = rows.n, rows.d, rows.arrays[0].itemsize, n_queries * self._k
        # As many as so many draw among all
        n_wanted = n * (1.0 - (1.0 - min(self._k / n, 1.0)) ** n_queries)
        after = here.entries_apart(n, d, itemsize, n_wanted, wanted)
        one, readable = here.column_stream_of(n * d), can_use_blas(rows.arrays[0])
        wide = max(itemsize, 4)
        together = here.together_of(wide, n_queries, by_column=True) * 4 / wide
        rough = n * (min(together, n_queries * one) + (0.0 if readable else here.convert))
        if multiplies_columns(rows):
            by_products = here.column_products_of(n * d, itemsize, n_queries)
            rough = min(rough, n * by_products, n * here.column_sweep_of(n * d, itemsize, n_queries))
        if self._may_ask_bytes and can_round(rows):
            shared, own = times_by_bytes(rows, n_queries, self._k)
            rough = min(rough, (shared + n_queries * own) / d * 4 / max(itemsize, 4))
        everybody = n * column_time(rows, n_queries) + n * n_queries * _LOOKED_UP / d
        if self._objective != "inner_product" and self._atoms.facts is None:
            rough += n * one
            if self._objective in WITHOUT_LENGTHS:
                if not readable:  # a few rows at a time are turned and converted for their norms
                    return False
                after += n_wanted * here.column_facts
                everybody += n * here.column_facts
        return everybody <= rough + after

    def _everybody(
        self, n_queries: int, excluded: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """For each query, all rows that take part, and where they begin."""
        n = self._rows.n
        everybody = np.tile(np.arange(n), n_queries), n * np.arange(n_queries + 1)
        return without(everybody, self._without_removed(excluded))

    def _without_removed(self, excluded: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
        """Atoms that take no part, those that were removed among them."""
        removed = self._atoms.removed
        if removed is None or excluded is None:
            return excluded if removed is None else removed
        return excluded | removed

    def _with_others(
        self, queries: NDArray[Any], measured: Measured, by_bytes: Close, excluded: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Rows that are close by products of bytes, and those by other products for queries that have none."""
        rows, begins, unknown = by_bytes
        left = np.flatnonzero(unknown)
        if left.size == 0:
            return rows, begins
        out = excluded if excluded is None or excluded.ndim == 1 else excluded[left]
        close = self._close(queries[left], measured.at(left), out)
        if close is None:
            return None
        return replaced((rows, begins), left, close)

    @property
    def _may_ask_bytes(self) -> bool:
        """Whether products of bytes can say who is among the best."""
        options, objective = self._options, self._objective
        asks_for_time = options.minimise == "time" and options.budget is None
        if not asks_for_time or objective == "neg_l1":
            return False
        return objective != "correlation" or self._atoms.facts is not None  # of means they tell nothing

    def _close_by_bytes(
        self, queries: NDArray[Any], measured: Measured, excluded: NDArray[np.bool_] | None = None
    ) -> Close | None:
        """Rows that can be among the best of each query by products of bytes; None where BLAS is better."""
        options, objective = self._options, self._objective
        # For one query the atoms are read once, and rounding them would take longer.
        if len(queries) == 1 or not self._may_ask_bytes or self.exact_by_columns(len(queries)):
            return None
        kind = self._kind_of_batch(len(queries))
        tries = kind not in _worthwhile
        if tries and not is_cheap_to_try(self._rows, len(queries)):
            peaks = measured.largest * sqrt(self._rows.d) / measured.norms
            if are_peaked(self._rows, peaks, len(peaks), self._k, options.absolute, options.delta):
                return None

        def ranked(squares: NDArray[np.float64], atoms: NDArray[np.int64]) -> Scores | None:
            return self._ranking.by_bytes(squares, atoms, measured.centres, measured.norms)

        settings = Settings(self._k, options.absolute, options.delta, options.seed, self._n_all)
        asked = None if objective == "inner_product" else ranked
        found = close_by_bytes(self._rows, queries, settings, asked, tries, self._without_removed(excluded))
        if found is None:
            _worthwhile.discard(kind)
        elif tries:
            if len(_worthwhile) >= _MOST_KINDS:
                _worthwhile.clear()
            _worthwhile.add(kind)
        return found

    def _kind_of_batch(self, n_queries: int) -> tuple[Any, ...]:
        """What batches have in common for which products of bytes are likely to be worth as much."""
        rows, options = self._rows, self._options
        shape = rows.n, rows.d, rows.arrays[0].dtype, rows.are_contiguous
        return *shape, n_queries, self._k, options.absolute, options.delta, self._objective

    def _close(
        self,
        queries: NDArray[Any],
        measured: Measured,
        excluded: NDArray[np.bool_] | None,
        in_double: bool = False,
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """For each query, the rows that are among the best or too close to tell, and where they begin."""
        k, objective, excluded = self._k, self._objective, self._without_removed(excluded)
        if objective == "neg_l1":
            return without(close_by_differences(self._rows, queries, objective, k, excluded), excluded)
        ranked = self._ranked(queries, measured, in_double)
        if ranked is None:
            return None
        scores, squares, wide, lost = ranked
        if excluded is not None:
            # Below the k-th best whoever that is, if there are so many.
            lowest = 0.0 if self._options.absolute else scores.min(axis=1, keepdims=True)
            scores = np.where(excluded, lowest, scores)
        close = close_to_each(scores, squares, self._rows, wide, (k, self._options.absolute), lost)
        if close is None or objective != "neg_sqeuclidean":
            return without(close, excluded)
        many = np.flatnonzero(np.diff(close[1]) > k + MOST_CLOSE * self._rows.n)
        if many.size:
            # Products in double precision tell more, and differences all.
            out = excluded if excluded is None or excluded.ndim == 1 else excluded[many]
            if self._dtype == np.float32 and not in_double:
                others = self._close(queries[many], measured.at(many), out, in_double=True)
            else:
                others = close_by_differences(self._rows, queries[many], objective, k, out)
            close = None if others is None else replaced(close, many, others)
        return without(close, excluded)

    def _ranked(
        self, queries: NDArray[Any], measured: Measured, in_double: bool
    ) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[np.float64], NDArray[np.float64] | None] | None:
        """What is ranked by products, the atoms' squares, the queries' norms and what is lost besides.

        They are those of `close_to_each`, as wrong as such products are by these norms; None where nobody knows.
        """
        n, objective, dtype = self._rows.n, self._objective, np.dtype(np.float64) if in_double else self._dtype
        ranking = Ranking(self._atoms, self._rows, objective, dtype) if in_double else self._ranking
        needs_moments = objective != "inner_product" and self._atoms.facts is None
        moments = np.empty((2, n)) if needs_moments else None
        vectors = queries.astype(dtype, copy=False)
        if in_double:
            products = products_of_blocks(self._rows, vectors, moments)
        else:
            products = pass_products(self._rows, vectors, moments, totals=objective == "correlation")
        known = ranking.by_products(None if moments is None else (moments[0], moments[1]))
        if known is None:
            return None
        lost, squares, norms = None, known.squares, measured.norms
        if known.factors is not None:
            products *= known.factors.astype(dtype)
        if known.offsets is not None:
            products -= np.multiply.outer(measured.centres.astype(dtype), known.offsets.astype(dtype))
        if objective != "inner_product":
            longest = 0.0
            if objective == "neg_sqeuclidean":
                longest = known.longest
                lost = ranking.lost(norms, longest) + 2.0 * self._rows.d * float(np.finfo(dtype).tiny)
            norms, squares = known.widened(products, norms, measured.centres, self._rows.d, longest)
        return products, None if squares is None else squares.astype(dtype), norms, lost
