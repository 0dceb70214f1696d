"""Atoms in a NumPy array of any order and any real dtype, memory-mapped ones included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rows import Rows, is_readable

__all__ = ["DenseStore"]


class DenseStore:
    """Atoms in an array, used as it is: never copied, never changed.

    Attributes
    ----------
    array : ndarray of shape (n, d)
    rows : Rows, or None
        The array as compiled code reads it; None for extended precision and foreign byte order, which NumPy reads.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = np.asarray(array)
        self.rows = Rows([self.array]) if is_readable(self.array.dtype) else None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return self.array.dtype

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the array alone."""
        return DenseStore, (self.array,)

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        if self.rows is not None and out.dtype == np.float64 and out.strides[1] == out.itemsize:
            self.rows.gather(rows, columns, out)
        else:
            out[...] = self.array[np.ix_(rows, columns)]

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        if self.rows is not None:
            sums: NDArray[np.float64] = self.rows.scores(rows, columns, query, objective)
            return sums
        out = np.empty(rows.size)
        for t, row in enumerate(rows):
            values = self.array[row] if columns is None else self.array[row, columns]
            one = Rows([values.astype(np.float64)[np.newaxis]])
            out[t] = one.scores(np.zeros(1, dtype=np.int64), None, query, objective)[0]
        return out

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, block of rows) over all rows."""
        n, d = self.shape
        step = max(1, max_entries // d)
        for start in range(0, n, step):
            yield start, self.array[start : start + step]
