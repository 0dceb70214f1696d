"""Atoms in a NumPy array of any order and any real dtype, memory-mapped ones included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.race import kernels

__all__ = ["DenseStore"]

_COMPILED_KINDS = {"f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
_NO_COLUMNS = np.empty(0, dtype=np.int64)


class DenseStore:
    """Atoms in an array, used as it is: never copied, never changed."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = np.asarray(array)
        dtype = self.array.dtype
        # Half precision, extended precision and foreign byte order have no compiled loops: NumPy reads those.
        self._compiled = dtype.isnative and dtype.str[1:] in _COMPILED_KINDS
        self._columns_contiguous = abs(self.array.strides[0]) < abs(self.array.strides[1])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        return self.array.dtype

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        if not self._compiled:
            out[...] = self.array[np.ix_(rows, columns)]
        elif self._columns_contiguous:
            kernels.gather(self.array.T, columns, rows, out.T)
        else:
            kernels.gather(self.array, rows, columns, out)

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        out = np.empty(rows.size)
        chosen = _NO_COLUMNS if columns is None else columns
        if not self._compiled:
            for t, row in enumerate(rows):
                values = self.array[row] if columns is None else self.array[row, columns]
                one = values.astype(np.float64)[np.newaxis]
                kernels.exact_scores(one, np.zeros(1, dtype=np.int64), _NO_COLUMNS, query, objective, out[t : t + 1])
        elif self._columns_contiguous:
            kernels.exact_scores_by_column(self.array, rows, chosen, query, objective, out)
        else:
            kernels.exact_scores(self.array, rows, chosen, query, objective, out)
        return out

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, block of rows) over all rows."""
        n, d = self.shape
        step = max(1, max_entries // d)
        for start in range(0, n, step):
            yield start, self.array[start : start + step]
