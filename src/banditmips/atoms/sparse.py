"""Atoms in a SciPy sparse matrix: columns from CSC for sampling, rows from CSR for exact scores, never densified."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.race import kernels

__all__ = ["SparseStore"]


def _canonical(rows: Any, given: Any) -> Any:
    """Add up entries that are stored twice, without changing the caller's matrix."""
    if rows.has_canonical_format:
        return rows
    if rows is given:
        rows = rows.copy()
    rows.sum_duplicates()
    return rows


class SparseStore:
    """Atoms in a sparse matrix or array of any SciPy format."""

    def __init__(self, matrix: Any) -> None:
        self._given = matrix
        self.rows = _canonical(matrix.tocsr(), matrix)

    @cached_property
    def _by_column(self) -> Any:
        """The matrix by columns, made when something is first sampled."""
        if self._given.format == "csc" and self._given.has_canonical_format:
            return self._given
        return self.rows.tocsc()

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

    @property
    def extra_bytes(self) -> int:
        """Memory taken beside the matrix that was given."""
        made = [self.rows] if self.rows is not self._given else []
        if "_by_column" in self.__dict__ and self._by_column is not self._given:
            made.append(self._by_column)
        return sum(int(part.nbytes) for matrix in made for part in (matrix.data, matrix.indices, matrix.indptr))

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
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
