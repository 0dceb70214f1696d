"""Some rows of a store that is read in parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import Part, PartStore, Span

__all__ = ["RowRange"]


class RowRange(PartStore):
    """The rows from `start` up to, but not including, `stop` of another store.

    Parameters
    ----------
    whole : PartStore
    start, stop : int
    """

    def __init__(self, whole: PartStore, start: int, stop: int) -> None:
        n, d = whole.shape
        if not 0 <= start < stop <= n:
            raise ValueError(f"rows must be a range within 0..{n}, got {start}..{stop}")
        self._whole = whole
        self._start = start
        self.shape = (stop - start, d)
        self.dtype = whole.dtype
        self.line_width = whole.line_width
        self.line_cost = whole.line_cost
        self.by_column = whole.by_column
        self.memory_limit = whole.memory_limit
        self.n_files = whole.n_files

    @property
    def line_time(self) -> float:
        """Time of a byte of a line, over that of one that is read with everything."""
        return self._whole.line_time

    @property
    def byte_time(self) -> float:
        """Nanoseconds of a byte of a long read, roughly."""
        return self._whole.byte_time

    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        """Yield the rows at these spans of columns."""
        return self._whole.read_parts(rows + self._start, spans)

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of the files that the atoms are in."""
        return self._whole.states()

    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change."""
        self._whole.expect(states)

    def forget(self) -> None:
        """Let go what was kept in memory of what was read."""
        self._whole.forget()

    def row_groups(self, most: int) -> NDArray[np.int64]:
        """Return where groups of rows begin."""
        return np.unique(np.clip(self._whole.row_groups(most) - self._start, 0, self.shape[0]))

    def read_groups(self, edges: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, whole rows) for each of these groups."""
        for first, block in self._whole.read_groups(edges + self._start):
            yield first - self._start, block

    def spans_of(self, columns: NDArray[np.int64]) -> list[Span]:
        """Return the spans that are best read for the sake of these columns."""
        return self._whole.spans_of(columns)

    def share_of_rows(self, n_rows: int) -> float:
        """Return what part of everything has to be read for so many rows that lie anywhere."""
        return min(self._whole.share_of_rows(n_rows) * self._whole.shape[0] / self.shape[0], 1.0)
