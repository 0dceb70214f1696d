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
from banditmips.core.certain import ScoreMap
from banditmips.core.statistics import PRODUCT
from banditmips.race.sampling import SamplePrefix

__all__ = ["CachedReader", "SparseReader", "StoreReader", "mapped"]

_LEAST_GATHERED, _LEAST_SUMMED = 1 << 13, 1 << 18
"""Entries in memory that are worth a thread of their own: read one by one, and summed row by row (100 microseconds)."""


def mapped(scores: ScoreMap, sums: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Turn sums of the rows' terms into scores."""
    if scores.factors is not None:
        sums = sums * scores.factors[rows]
    return sums if scores.offsets is None else sums + scores.offsets[rows]


class StoreReader:
    """One query's view of a store.

    Parameters
    ----------
    query : float64, shape (d,)
    support : int64 array, or None
        Coordinates that can contribute, where they are few enough for exact scores to visit them alone.
    scores : ScoreMap
        What becomes of the sum of an atom's terms (for the cosine).
    check_finite : bool
        Whether values have to be checked as they are read, because nobody has looked at them before.
    value_range : (float, float), or None
        What has been said of the values, where nobody has looked whether it is true.
    """

    def __init__(
        self,
        store: AtomStore,
        query: NDArray[np.float64],
        support: NDArray[np.int64] | None,
        objective: int,
        scores: ScoreMap,
        check_finite: bool,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        self._store = store
        self._columns = support
        self._whole_query = query
        self._query = query if support is None else query[support]
        self._objective = objective
        self._scores = scores
        self._check_finite = check_finite
        self._value_range = value_range

    @cached_property
    def _row_cost(self) -> int:
        # Where the query is 0 there is nothing to multiply, whether or not the entry is read.
        query = self._whole_query
        return int(np.count_nonzero(query)) if self._objective == PRODUCT else query.size

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
        columns = sample.coordinates[start:]
        counted = self._gather(rows, columns, out)
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
            text = f"atoms has {out[i, j]} at row {{row}}, column {columns[j]} (argument 'atoms')"
            raise BadAtomError(text, rows[i])
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
        scores = mapped(self._scores, self._sums(rows), rows)
        if not np.isfinite(scores).all():
            self.complain(int(rows[np.flatnonzero(~np.isfinite(scores))[0]]))
        return scores

    def _sums(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        def sum_rows(start: int, stop: int) -> NDArray[np.float64]:
            return self._store.scores(rows[start:stop], self._columns, self._query, self._objective)

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
            value, column = values[0, bad[0]], columns[bad[0]]
            raise BadAtomError(f"atoms has {value} at row {{row}}, column {column} (argument 'atoms')", row)
        raise BadAtomError("the score of atom {row} overflows double precision (arguments 'atoms' and 'queries')", row)


class CachedReader(StoreReader):
    """A reader for races in the uniform order, which takes what it can from the cache."""

    cache: WarmCache

    def read(
        self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """Read from the cache as far as it goes, then from the store."""
        stop = sample.coordinates.size
        cached = min(stop, self.cache.n_coordinates)
        if start < cached:
            self.cache.read(rows, start, cached, out[:, : cached - start])
            self._check(rows, sample.coordinates[start:cached], out[:, : cached - start])
        if stop > max(cached, start):
            begin = max(cached, start)
            super().read(rows, sample, begin, out[:, begin - start :])
        return None


class SparseReader(StoreReader):
    """One query's view of a sparse matrix: what it counts are stored entries."""

    _store: SparseStore

    def _nonzero(self) -> NDArray[np.bool_]:
        return self._whole_query != 0.0 if self._objective == PRODUCT else np.ones(self._whole_query.size, bool)

    def exact_cost(self, rows: NDArray[np.int64]) -> int:
        """Stored entries of the rows where there is something to multiply."""
        return self._store.count_stored(rows, self._nonzero())

    def _gather(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        return self._store.gather_stored(rows, columns, out)
