"""Stores that are read in parts: everything a store must do, made from one way of reading.

Where single entries cannot be read for less than a page or a chunk, a store says how wide that is (`line_width`), and
whoever reads it takes whole *lines* of neighbouring coordinates.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.dense import DenseStore
from banditmips.atoms.protocol import AtomStore
from banditmips.core.rows import Rows, is_readable

if TYPE_CHECKING:
    from banditmips.atoms.origin import Origin

__all__ = ["Part", "PartStore", "Span", "all_parts", "check_matrix", "joined_runs", "part_sums", "plain_floats"]

Span = tuple[int, int]
"""Columns from the first number up to, but not including, the second."""

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_NO_COLUMNS = np.empty(0, dtype=np.int64)


def check_matrix(where: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Check that what is found in a file can be atoms."""
    if dtype.kind not in "fiub":
        raise ValueError(f"{where}: expected real numbers, got dtype {dtype}")
    if len(shape) != 2:
        raise ValueError(f"{where}: expected a matrix (one atom in each row), got shape {shape}")
    if 0 in shape:
        raise ValueError(f"{where} is empty: shape {shape}")
    if shape[0] * shape[1] * dtype.itemsize > sys.maxsize:
        raise ValueError(f"{where}: no machine holds a matrix of shape {shape}")


def joined_runs(numbers: NDArray[np.int64], gap: int) -> list[Span]:
    """Join ascending numbers to runs; those at most `gap` apart go together."""
    if numbers.size == 0:
        return []
    ends = np.flatnonzero(np.diff(numbers) > gap)
    starts, stops = numbers[np.append(0, ends + 1)], numbers[np.append(ends, numbers.size - 1)] + 1
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


class Part(NamedTuple):
    """Some rows at neighbouring columns.

    Attributes
    ----------
    span : int
        The number of the span, among those asked for, that the columns belong to.
    rows : slice
        Which of the rows asked for these are.
    first_column : int
    values : shape (rows, columns)
    """

    span: int
    rows: slice
    first_column: int
    values: NDArray[Any]

    @property
    def stop_column(self) -> int:
        """The column after the last."""
        return self.first_column + int(self.values.shape[1])


class PartStore(ABC):
    """An `AtomStore` that reads itself in parts.

    Attributes
    ----------
    shape : (n, d)
    dtype : dtype of the entries
    line_width : int
        Coordinates that come with one: 1 where single coordinates can be read.
    line_cost : float
        Bytes read for a line of one row, over those that it takes.
    by_column : bool
        Whether the entries of a coordinate lie together, rather than those of an atom.
    memory_limit : int
        Bytes of atoms that may be held at a time.
    n_files : int
        Files that they are in; 0 where no system can be asked about them.
    origin : Origin, or None
        Where they were found, if they can be found there again.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    memory_limit = 1 << 28
    line_width: int
    n_files = 0
    line_cost = 1.0
    by_column = False
    origin: Origin | None = None

    @property
    def line_time(self) -> float:
        """Time of a byte of a line, over that of one that is read with everything."""
        return 1.0

    @property
    def byte_time(self) -> float:
        """Nanoseconds of a byte of a long read, roughly."""
        return 1.0

    @abstractmethod
    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        """Yield the rows (ascending, each once) at these spans of columns, each entry once, in any order.

        The values of a part are there until the next one is asked for.
        """

    @abstractmethod
    def spans_of(self, columns: NDArray[np.int64]) -> list[Span]:
        """Return the spans that are best read for the sake of these columns (ascending)."""

    @abstractmethod
    def share_of_rows(self, n_rows: int) -> float:
        """Return what part of everything has to be read for so many rows that lie anywhere."""

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file that the atoms are in (one in each row); none behind a URL."""
        return np.empty((0, 2), dtype=np.int64)

    def expect(self, states: NDArray[np.int64]) -> None:  # noqa: B027 (there may be nothing to be looked at)
        """Take other states of the files for a change, now or when they are read: an index was fitted to these."""

    def forget(self) -> None:  # noqa: B027 (there may be nothing that is kept)
        """Let go what was kept in memory of what was read."""

    @property
    def n_lines(self) -> int:
        """Number of lines; the last may be shorter."""
        return -(-self.shape[1] // self.line_width)

    def line(self, number: int) -> Span:
        """Return the columns of a line."""
        start = number * self.line_width
        return start, min(start + self.line_width, self.shape[1])

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        ascending, place = np.unique(rows, return_inverse=True)
        in_order = ascending.size == rows.size and np.array_equal(ascending, rows)
        target = out if in_order else np.empty((ascending.size, columns.size), dtype=out.dtype)
        if rows.size and columns.size:
            order = np.argsort(columns, kind="stable")
            wanted = columns[order]
            for part in self.read_parts(ascending, self.spans_of(wanted)):
                low, high = np.searchsorted(wanted, (part.first_column, part.stop_column)).tolist()
                target[part.rows][:, order[low:high]] = part.values[:, wanted[low:high] - part.first_column]
        if not in_order:
            out[...] = target[place]

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        if columns is None:
            wanted, spans = None, [(0, self.shape[1])]
        else:
            order = np.argsort(columns, kind="stable")
            wanted, query = columns[order], query[order]
            spans = self.spans_of(wanted) if wanted.size else []
        ascending, place = np.unique(rows, return_inverse=True)
        totals = np.zeros(ascending.size)
        if rows.size and spans:
            for part in self.read_parts(ascending, spans):
                totals[part.rows] += part_sums(part, wanted, query, objective)
        return totals[place]

    def read_whole(self) -> DenseStore:
        """Read everything into an array in the order in which it is stored."""
        array = np.empty(self.shape, dtype=self.dtype, order="F" if self.by_column else "C")
        for part in all_parts(self, 0):
            array[part.rows, part.first_column : part.stop_column] = part.values
        return DenseStore(array)

    def row_groups(self, most: int) -> NDArray[np.int64]:
        """Return where groups of rows begin, and at last n: of at most so many rows, if so few can be had alone.

        Groups that are read one after another are read once: no page, and no chunk, is in two of them.
        """
        n = self.shape[0]
        return np.append(np.arange(0, n, most), n)

    def border_near(self, row: int, within: int) -> int:
        """Return where to cut the rows in two, at most so far from this one, so that least is read for both."""
        return row

    def read_groups(self, edges: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, whole rows) for each of these groups of neighbouring rows."""
        for first, stop in pairwise(edges.tolist()):
            yield first, self._assembled(stop - first, self.read_parts(np.arange(first, stop), [(0, self.shape[1])]))

    def _assembled(self, n_rows: int, parts: Iterator[Part]) -> NDArray[Any]:
        block = np.empty((n_rows, self.shape[1]), dtype=self.dtype)
        for part in parts:
            block[part.rows, part.first_column : part.stop_column] = part.values
        return block

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, dense block of rows) over all rows."""
        n, d = self.shape
        return self.read_groups(np.append(np.arange(0, n, max(1, max_entries // d)), n))


def part_sums(
    part: Part, columns: NDArray[np.int64] | None, query: NDArray[np.float64], objective: int
) -> NDArray[np.float64]:
    """Sum the terms of each row of a part.

    `columns` (ascending; None for all) are those that count, and `query` has an entry for each of them.
    """
    low, high = part.first_column, part.stop_column
    chosen = None
    if columns is not None:
        low, high = np.searchsorted(columns, (low, high)).tolist()
        chosen = columns[low:high] - part.first_column
        if chosen.size == 0:
            return np.zeros(len(part.values))
    values, dtype = part.values, part.values.dtype
    if not (is_readable(dtype) and values.flags.aligned and values.strides[1] == dtype.itemsize):
        values = plain_floats(values)
    sums: NDArray[np.float64] = Rows([values]).scores(np.arange(len(values)), chosen, query[low:high], objective)
    return sums


def plain_floats(values: NDArray[Any]) -> NDArray[Any]:
    """Return values as the compiled loops take them: single or double precision, contiguous, of one's own."""
    if values.dtype in _FLOATS and values.dtype.isnative and values.flags.carray:
        return values
    return np.array(values, dtype=np.float64, order="C")


def all_parts(store: AtomStore, max_entries: int) -> Iterator[Part]:
    """Yield all of a store, each entry once, in the order in which it is read fastest."""
    n, d = store.shape
    if isinstance(store, PartStore):
        yield from store.read_parts(np.arange(n), [(0, d)])
        return
    for start, block in store.blocks(max_entries):
        yield Part(0, slice(start, start + len(block)), 0, block)
