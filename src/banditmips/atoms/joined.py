"""Several stores as one, one after another: what an index becomes when atoms are added to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.protocol import AtomStore

__all__ = ["JoinedStore"]


class JoinedStore:
    """The atoms of several stores of the same width, in their order."""

    def __init__(self, stores: Sequence[AtomStore]) -> None:
        self.stores = tuple(stores)
        self._first_rows = np.cumsum([0, *(store.shape[0] for store in self.stores)])

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return int(self._first_rows[-1]), self.stores[0].shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type that holds the entries of all stores."""
        return np.result_type(*(store.dtype for store in self.stores))

    def _parts(self, rows: NDArray[np.int64]) -> Iterator[tuple[AtomStore, NDArray[np.int64], NDArray[np.int64]]]:
        """Split rows by the store that holds them: (store, positions in `rows`, rows in the store)."""
        owner = np.searchsorted(self._first_rows, rows, side="right") - 1
        for number in np.unique(owner):
            positions = np.flatnonzero(owner == number)
            yield self.stores[number], positions, rows[positions] - self._first_rows[number]

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        for store, positions, own_rows in self._parts(rows):
            part = np.empty((own_rows.size, columns.size), dtype=out.dtype)
            store.gather(own_rows, columns, part)
            out[positions] = part

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        out = np.empty(rows.size)
        for store, positions, own_rows in self._parts(rows):
            out[positions] = store.scores(own_rows, columns, query, objective)
        return out

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, dense block of rows) over all rows."""
        for store, first in zip(self.stores, self._first_rows[:-1], strict=True):
            for start, block in store.blocks(max_entries):
                yield int(first) + start, block
