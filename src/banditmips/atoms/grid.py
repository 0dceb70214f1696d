"""Atoms in a grid of chunks: Zarr arrays, chunked HDF5 datasets, the row groups of a Parquet file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise, tee
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.chunks import ChunkReader
from banditmips.atoms.parts import Part, PartStore, Span

__all__ = ["ChunkGrid", "GridStore", "regular_edges"]


_PIECES = 32
"""Pieces of several chunks that the memory limit would hold."""


class ChunkGrid(ABC):
    """A matrix that is cut into chunks.

    Attributes
    ----------
    source : str
        Names the whole in error messages.
    dtype
    row_edges, column_edges : int64 arrays
        Where chunks begin, and at last where the matrix ends. Chunks are equally wide, but for the last.
    counts_bytes : bool
        Whether `fetch` counts the bytes that it reads (as they are stored); else the decoded size counts.
    n_files : int
        Files that the chunks are in; 0 where no system can be asked about them.
    together : int
        Chunks beside or below each other that `fetch` reads at once for less than one by one.
    """

    source: str
    dtype: np.dtype[Any]
    row_edges: NDArray[np.int64]
    column_edges: NDArray[np.int64]
    counts_bytes: bool
    n_files = 1
    together = 1

    @abstractmethod
    def fetch(self, i: int, j: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Return the j-th chunk of the i-th row of chunks; `ChunkReader` says what may be raised.

        Where several go `together`, it may be followed by some of its neighbours, as the rows and columns tell.
        """

    @abstractmethod
    def check_unchanged(self, i: int, j: int) -> None:
        """Raise `CorruptFileError` if a chunk is not what it was when it was first read, as far as that shows."""

    @abstractmethod
    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file (one in each row)."""

    @abstractmethod
    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change: an index was fitted to these."""

    @abstractmethod
    def describe(self, i: int, j: int) -> str:
        """Name a chunk in error messages."""


class _Pieces(NamedTuple):
    """A way to read chunks: some that lie beside or below each other at once.

    Attributes
    ----------
    reader : ChunkReader
        Of pieces, counted from left to right and from top to bottom.
    down, across : int
        Chunks in each.
    row_edges : int64 array
        Where pieces begin, and at last where the matrix ends.
    n_across : int
        Pieces beside each other.
    """

    reader: ChunkReader
    down: int
    across: int
    row_edges: NDArray[np.int64]
    n_across: int


class _Visit(NamedTuple):
    """A piece to be read: its place, and the columns that are wanted of it."""

    i: int
    j: int
    span: int
    start: int
    stop: int


class GridStore(PartStore):
    """A matrix in chunks, each of which is read whole or not at all.

    Parameters
    ----------
    grid : ChunkGrid
    memory_limit : int
        Bytes that decoded chunks may take.
    """

    def __init__(self, grid: ChunkGrid, memory_limit: int) -> None:
        self.shape = int(grid.row_edges[-1]), int(grid.column_edges[-1])
        self.dtype = grid.dtype
        self.memory_limit = memory_limit
        self.n_files = grid.n_files
        self.line_width = int(grid.column_edges[1])
        self._grid = grid
        self._n_across = grid.column_edges.size - 1
        largest = int(np.diff(grid.row_edges).max()) * self.line_width * self.dtype.itemsize
        if largest > memory_limit:
            raise ValueError(
                f"memory_limit must hold the largest chunk of {grid.source}, {largest:,} bytes, got "
                f"{memory_limit:,}: allow more, or write the atoms in smaller chunks"
            )
        together = max(1, min(grid.together, memory_limit // (_PIECES * largest)))
        # Rows are read several chunks beside each other at a time, lines several below each other, and what few rows
        # have in a line chunk by chunk.
        self._chunks = self._make_pieces(1, 1, memory_limit if together == 1 else memory_limit // 4)
        self._beside = self._below = self._chunks
        if together > 1:
            self._beside = self._make_pieces(1, together, memory_limit // 4)
            self._below = self._make_pieces(together, 1, memory_limit // 2)

    def _make_pieces(self, down: int, across: int, memory_limit: int) -> _Pieces:
        grid = self._grid
        row_edges = np.append(grid.row_edges[:-1:down], grid.row_edges[-1])
        n_across = -(-self._n_across // across)
        reader = ChunkReader(
            partial(self._fetch, down, across),
            (row_edges.size - 1) * n_across,
            describe=partial(self._describe, down, across),
            memory_limit=memory_limit,
            source=grid.source,
            fetch_counts=grid.counts_bytes,
            # Whoever reads several chunks at once reads them side by side; what each thread has used of the memory is
            # not given back.
            n_threads=4 if down == across == 1 else 2,
        )
        return _Pieces(reader, down, across, row_edges, n_across)

    def forget(self) -> None:
        """Let the chunks go that are kept in memory."""
        for pieces in (self._chunks, self._beside, self._below):
            pieces.reader.close()

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file that chunks are in."""
        return self._grid.states()

    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change."""
        self._grid.expect(states)

    def _describe(self, down: int, across: int, piece: int) -> str:
        rows, columns = self._chunks_of(down, across, piece)
        return self._grid.describe(rows[0], columns[0])

    def _fetch(self, down: int, across: int, piece: int) -> NDArray[Any]:
        """Read a piece at once; chunk by chunk where that fails, so that an error names its chunk."""
        below, beside = self._chunks_of(down, across, piece)
        self._check_unchanged(below, beside)
        rows = slice(int(self._grid.row_edges[below[0]]), int(self._grid.row_edges[below[-1] + 1]))
        columns = slice(self.line(beside[0])[0], self.line(beside[-1])[1])
        try:
            array = self._grid.fetch(below[0], beside[0], rows, columns)
        except Exception:
            if len(below) == len(beside) == 1:
                raise
            one_by_one = self._chunks.reader
            return np.block([[one_by_one.read(i * self._n_across + j, False) for j in beside] for i in below])
        expected = rows.stop - rows.start, columns.stop - columns.start
        if array.shape != expected or array.dtype != self.dtype:
            raise ValueError(f"expected {expected} entries of {self.dtype}, got {array.shape} of {array.dtype}")
        return array

    def _chunks_of(self, down: int, across: int, piece: int) -> tuple[range, range]:
        """Return the chunks, counted down and across, that a piece consists of."""
        i, j = divmod(piece, -(-self._n_across // across))
        last_below, last_beside = self._grid.row_edges.size - 1, self._n_across
        return (
            range(i * down, min((i + 1) * down, last_below)),
            range(j * across, min((j + 1) * across, last_beside)),
        )

    def _check_unchanged(self, below: range, beside: range) -> None:
        for i in below:
            for j in beside:
                self._grid.check_unchanged(i, j)

    def spans_of(self, columns: NDArray[np.int64]) -> list[Span]:
        """Return the columns of the chunks that these columns are in."""
        return [self.line(number) for number in np.unique(columns // self.line_width).tolist()]

    def share_of_rows(self, n_rows: int) -> float:
        """Return the part of the chunks that so many rows can be in."""
        return min(1.0, n_rows / (self._grid.row_edges.size - 1))

    def row_groups(self, most: int) -> NDArray[np.int64]:
        """Return where groups of rows begin: as many rows of chunks as go together."""
        edges = self._grid.row_edges
        chosen = [0]
        while chosen[-1] < edges.size - 1:
            last = int(np.searchsorted(edges, edges[chosen[-1]] + most, side="right")) - 1
            chosen.append(max(last, chosen[-1] + 1))
        return edges[chosen]

    def border_near(self, row: int, within: int) -> int:
        """Return where a row of chunks begins, if one does near enough: else chunks are read on both sides."""
        edges = self._grid.row_edges
        nearest = int(edges[np.abs(edges - row).argmin()])
        return nearest if abs(nearest - row) <= within else row

    def read_groups(self, edges: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, whole rows) for each of these groups; chunks are not kept."""
        spans = [(0, self.shape[1])]
        for first, stop in pairwise(edges.tolist()):
            parts = self._read(self._beside, np.arange(first, stop), spans, keep=False)
            yield first, self._assembled(stop - first, parts)

    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        """Yield the rows at these spans of columns."""
        if list(spans) == [(0, self.shape[1])]:
            # Of all rows nothing is kept, since the last chunks would drive out the first.
            return self._read(self._beside, rows, spans, keep=rows.size < self.shape[0])
        row_edges = self._grid.row_edges
        n_touched = np.count_nonzero(np.diff(np.searchsorted(rows, row_edges)))
        return self._read(self._below if 2 * n_touched >= row_edges.size else self._chunks, rows, spans, keep=True)

    def _read(self, pieces: _Pieces, rows: NDArray[np.int64], spans: Sequence[Span], keep: bool) -> Iterator[Part]:
        row_edges, width = pieces.row_edges, pieces.across * self.line_width
        edges = np.searchsorted(rows, row_edges)
        visits, ahead = tee(self._visits(edges, spans, width))
        read = pieces.reader.read_many(self._numbers(pieces, ahead), keep)
        for visit, (_, piece) in zip(visits, read, strict=True):
            positions = slice(*edges[visit.i : visit.i + 2].tolist())
            wanted = rows[positions] - row_edges[visit.i]
            first_column = visit.j * width
            values = piece[:, visit.start - first_column : visit.stop - first_column]
            yield Part(visit.span, positions, visit.start, values if wanted.size == len(piece) else values[wanted])

    def _numbers(self, pieces: _Pieces, visits: Iterator[_Visit]) -> Iterator[int]:
        """The pieces to be visited; what is kept of one is good as long as its chunks are what they were."""
        for visit in visits:
            number = visit.i * pieces.n_across + visit.j
            if pieces.reader.keeps(number):  # if not, it is looked at where it is fetched
                self._check_unchanged(*self._chunks_of(pieces.down, pieces.across, number))
            yield number

    def _visits(self, edges: NDArray[np.int64], spans: Sequence[Span], width: int) -> Iterator[_Visit]:
        for i in np.flatnonzero(np.diff(edges)).tolist():
            for span, (start, stop) in enumerate(spans):
                for j in range(start // width, -(-stop // width)):
                    yield _Visit(i, j, span, max(start, j * width), min(stop, (j + 1) * width))


_MOST_CHUNKS = 1 << 24
"""Chunks in a row or a column of chunks."""


def regular_edges(length: int, step: int) -> NDArray[np.int64]:
    """Where pieces of equal length begin, and where the last, perhaps shorter, ends."""
    if step < 1 or length > step * _MOST_CHUNKS:
        raise ValueError(f"{length:,} rows or columns in chunks of {step:,} are more than {_MOST_CHUNKS:,} chunks")
    return np.append(np.arange(0, length, step), length)
