"""Atoms in a SciPy sparse matrix: columns from CSC for sampling, rows from CSR for exact scores, never densified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.race import kernels

__all__ = ["SparseStore"]


class SparseStore:
    """Atoms in a sparse matrix or array of any SciPy format."""

    def __init__(self, matrix: Any) -> None:
        self.rows = matrix.tocsr()
        self._by_column = matrix.tocsc()

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self.rows.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        dtype: np.dtype[Any] = self.rows.dtype
        return dtype

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        out[...] = self._by_column[:, columns][rows].toarray()

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        chosen = self.rows[rows] if columns is None else self._by_column[:, columns][rows].tocsr()
        chosen = chosen.astype(np.float64)
        if objective == kernels.PRODUCT:
            return np.asarray(chosen @ query)
        # Entries that are not stored are zeros: take the sum for an all-zero atom and set right what is stored.
        stored_query = query[chosen.indices]
        correction = chosen.copy()
        if objective == kernels.NEG_SQUARED_DIFFERENCE:
            correction.data = stored_query**2 - (stored_query - chosen.data) ** 2
            base = -float(query @ query)
        else:
            correction.data = np.abs(stored_query) - np.abs(stored_query - chosen.data)
            base = -float(np.abs(query).sum())
        return base + np.asarray(correction.sum(axis=1)).ravel()

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, dense block of rows) over all rows."""
        n, d = self.shape
        step = max(1, max_entries // d)
        for start in range(0, n, step):
            yield start, self.rows[start : start + step].toarray()
