"""How a race reads a store for one query: values for the rounds, exact scores for the finish."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.atoms.cache import WarmCache
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.sparse import SparseStore
from banditmips.core.statistics import PRODUCT
from banditmips.race.sampled import Problem
from banditmips.race.sampling import SamplePrefix

__all__ = ["SparseReader", "StoreReader"]

_LEAST_GATHERED, _LEAST_SUMMED = 1 << 13, 1 << 18
"""Entries in memory that are worth a thread of their own: read one by one, and summed row by row (100 microseconds)."""


class StoreReader:
    """One query's view of a store.

    Parameters
    ----------
    columns : int64 array, or None
        Coordinates that can contribute, where they are few enough for exact scores to visit them alone.
    check_finite : bool
        Whether values have to be checked as they are read, because nobody has looked at them before.
    value_range : (float, float), or None
        What has been said of the values, where nobody has looked whether it is true.
    cache : WarmCache, or None
        Values at the first coordinates of the uniform order, for races in that order.
    """

    def __init__(
        self,
        store: AtomStore,
        problem: Problem,
        columns: NDArray[np.int64] | None = None,
        check_finite: bool = False,
        value_range: tuple[float, float] | None = None,
        cache: WarmCache | None = None,
    ) -> None:
        self._store = store
        self._problem = problem
        self._columns = columns
        self._query = problem.query if columns is None else problem.query[columns]
        self._check_finite = check_finite
        self._value_range = value_range
        self._cache = cache

    @cached_property
    def _row_cost(self) -> int:
        # Where the query is 0 there is nothing to multiply, whether or not the entry is read.
        query = self._problem.query
        return int(np.count_nonzero(query)) if self._problem.objective == PRODUCT else query.size

    def exact_cost(self, rows: NDArray[np.int64]) -> int:
        """Multiplies that the rows' exact scores take."""
        return rows.size * self._row_cost

    def scatters(self, rows: NDArray[np.int64], sample: SamplePrefix) -> NDArray[np.float64] | None:
        """Leave it to the values that were read."""
        return None

    def read(
        self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """Put the rows' values at the sample's coordinates from position `start` on into `out`."""
        columns, counted, n_cached = sample.coordinates[start:], None, 0
        if self._cache is not None:
            n_cached = max(min(self._cache.n_coordinates - start, columns.size), 0)
            self._cache.read(rows, start, start + n_cached, out[:, :n_cached])
        if n_cached < columns.size:
            counted = self._gather(rows, columns[n_cached:], out[:, n_cached:])
        self._check(rows, columns, out)
        return counted

    def _gather(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        if not isinstance(self._store, DenseStore):
            self._store.gather(rows, columns, out)
            return None

        def gather_rows(start: int, stop: int) -> None:
            self._store.gather(rows[start:stop], columns, out[start:stop])

        in_pieces(gather_rows, rows.size, _LEAST_GATHERED // max(columns.size, 1))
        return None

    def _check(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]) -> None:
        if self._check_finite and not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise BadAtomError.of_entry(out[i, j], rows[i], columns[j])
        if self._value_range is None or out.size == 0:
            return
        low, high = self._value_range
        # A comparison with NaN is False: nothing is promised where nobody was to check.
        outside = (out < low) | (out > high)
        if outside.any():
            i, j = np.argwhere(outside)[0]
            text = f"value_range is {self._value_range}, but atoms has {out[i, j]} at row {{row}}, column {columns[j]}"
            raise BadAtomError(text, rows[i])

    def exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows' exact scores."""
        scores = self._problem.scores.of_sums(self._sums(rows), rows)
        if not np.isfinite(scores).all():
            self.complain(int(rows[np.flatnonzero(~np.isfinite(scores))[0]]))
        return scores

    def _sums(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        def sum_rows(start: int, stop: int) -> NDArray[np.float64]:
            return self._store.scores(rows[start:stop], self._columns, self._query, self._problem.objective)

        if not isinstance(self._store, DenseStore):
            return sum_rows(0, rows.size)
        return np.concatenate(in_pieces(sum_rows, rows.size, _LEAST_SUMMED // max(self._query.size, 1)))

    def complain(self, row: int) -> None:
        """Say where a row's score stops being finite."""
        columns = np.arange(self._store.shape[1]) if self._columns is None else self._columns
        values = np.empty((1, columns.size))
        self._store.gather(np.array([row]), columns, values)
        bad = np.flatnonzero(~np.isfinite(values[0]))
        if bad.size:
            raise BadAtomError.of_entry(values[0, bad[0]], row, columns[bad[0]])
        raise BadAtomError.of_score(row)


class SparseReader(StoreReader):
    """One query's view of a sparse matrix: what it counts are stored entries."""

    _store: SparseStore

    def exact_cost(self, rows: NDArray[np.int64]) -> int:
        """Stored entries of the rows where there is something to multiply."""
        query = self._problem.query
        wanted = query != 0.0 if self._problem.objective == PRODUCT else np.ones(query.size, dtype=np.bool_)
        return self._store.count_stored(rows, wanted)

    def _gather(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        return self._store.gather_stored(rows, columns, out)
