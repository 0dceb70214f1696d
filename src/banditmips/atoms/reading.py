"""How a race reads a store for one query: values for the rounds, exact scores for the finish."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.protocol import AtomStore
from banditmips.race import kernels
from banditmips.race.sampling import SamplePrefix

__all__ = ["StoreReader"]

_LEAST_GATHERED, _LEAST_SUMMED = 1 << 13, 1 << 18
"""Entries in memory that are worth a thread of their own: read one by one, and summed row by row (100 microseconds)."""


class StoreReader:
    """One query's view of a store.

    Parameters
    ----------
    query : float64, shape (d,)
    support : int64 array, or None
        Coordinates that can contribute, where they are few enough for exact scores to visit them alone.
    row_scale : float64, shape (n,), or None
        Factor on all terms of an atom (for the cosine).
    check_finite : bool
        Whether values have to be checked as they are read, because nobody has looked at them before.
    """

    def __init__(
        self,
        store: AtomStore,
        query: NDArray[np.float64],
        support: NDArray[np.int64] | None,
        objective: int,
        row_scale: NDArray[np.float64] | None,
        check_finite: bool,
    ) -> None:
        self._store = store
        self._columns = support
        self._whole_query = query
        self._query = query if support is None else query[support]
        self._objective = objective
        self._row_scale = row_scale
        self._check_finite = check_finite
        # Where the query is 0 there is nothing to multiply, whether or not the entry is read.
        self._row_cost = int(np.count_nonzero(query)) if objective == kernels.PRODUCT else query.size

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

    def exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows' exact scores."""
        scores = self._sums(rows)
        if self._row_scale is not None:
            scores = scores * self._row_scale[rows]
        if not np.isfinite(scores).all():
            self._complain(int(rows[np.flatnonzero(~np.isfinite(scores))[0]]))
        return scores

    def _sums(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        def sum_rows(start: int, stop: int) -> NDArray[np.float64]:
            return self._store.scores(rows[start:stop], self._columns, self._query, self._objective)

        if not isinstance(self._store, DenseStore):
            return sum_rows(0, rows.size)
        return np.concatenate(in_pieces(sum_rows, rows.size, _LEAST_SUMMED // max(self._query.size, 1)))

    def _complain(self, row: int) -> None:
        """Say where a row's score stops being finite."""
        columns = np.arange(self._store.shape[1]) if self._columns is None else self._columns
        values = np.empty((1, columns.size))
        self._store.gather(np.array([row]), columns, values)
        bad = np.flatnonzero(~np.isfinite(values[0]))
        if bad.size:
            value, column = values[0, bad[0]], columns[bad[0]]
            raise BadAtomError(f"atoms has {value} at row {{row}}, column {column} (argument 'atoms')", row)
        raise BadAtomError("the score of atom {row} overflows double precision (arguments 'atoms' and 'queries')", row)
