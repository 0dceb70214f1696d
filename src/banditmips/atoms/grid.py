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


_CALL = 500_000
"""Bytes that are read in the time that it takes to ask for a chunk alone, three times as long as with neighbours."""
_PIECES = 128
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
        Chunks beside each other that `fetch` reads at once for less than one by one.
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

        Where several go `together`, the j-th may be followed by some of its neighbours, as the columns tell.
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
    """A way to read chunks: some that lie beside each other at once.

    Attributes
    ----------
    reader : ChunkReader
        Of pieces, counted from left to right and from top to bottom.
    together : int
        Chunks in each.
    n_across : int
        Pieces beside each other.
    """

    reader: ChunkReader
    together: int
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
        # Rows are read several chunks at a time, lines chunk by chunk.
        own = memory_limit if together == 1 else memory_limit // 2
        self._chunks = self._pieces = self._make_pieces(1, own)
        if together > 1:
            self._pieces = self._make_pieces(together, own)
            self.line_time = (_CALL + largest) / (_CALL / 3 + largest)

    def _make_pieces(self, together: int, memory_limit: int) -> _Pieces:
        grid, n_across = self._grid, -(-self._n_across // together)
        reader = ChunkReader(
            partial(self._fetch, together, n_across),
            (grid.row_edges.size - 1) * n_across,
            describe=partial(self._describe, together, n_across),
            memory_limit=memory_limit,
            source=grid.source,
            fetch_counts=grid.counts_bytes,
        )
        return _Pieces(reader, together, n_across)

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file that chunks are in."""
        return self._grid.states()

    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change."""
        self._grid.expect(states)

    def _describe(self, together: int, n_across: int, piece: int) -> str:
        i, number = divmod(piece, n_across)
        return self._grid.describe(i, number * together)

    def _fetch(self, together: int, n_across: int, piece: int) -> NDArray[Any]:
        """Read a piece at once; chunk by chunk where that fails, so that an error names its chunk."""
        i, number = divmod(piece, n_across)
        chunks = self._chunks_of(number, together)
        for j in chunks:
            self._grid.check_unchanged(i, j)
        rows = slice(*self._grid.row_edges[i : i + 2].tolist())
        columns = slice(self.line(chunks[0])[0], self.line(chunks[-1])[1])
        try:
            array = self._grid.fetch(i, chunks[0], rows, columns)
        except Exception:
            if len(chunks) == 1:
                raise
            return np.concatenate([self._chunks.reader.read(i * self._n_across + j, False) for j in chunks], axis=1)
        expected = rows.stop - rows.start, columns.stop - columns.start
        if array.shape != expected or array.dtype != self.dtype:
            raise ValueError(f"expected {expected} entries of {self.dtype}, got {array.shape} of {array.dtype}")
        return array

    def _chunks_of(self, number: int, together: int) -> range:
        """Return the chunks, counted across, that a piece consists of."""
        return range(number * together, min((number + 1) * together, self._n_across))

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

    def read_groups(self, edges: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, whole rows) for each of these groups; chunks are not kept."""
        spans = [(0, self.shape[1])]
        for first, stop in pairwise(edges.tolist()):
            parts = self._read(self._pieces, np.arange(first, stop), spans, keep=False)
            yield first, self._assembled(stop - first, parts)

    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        """Yield the rows at these spans of columns."""
        pieces = self._pieces if list(spans) == [(0, self.shape[1])] else self._chunks
        # Of all rows nothing is kept, since the last chunks would drive out the first.
        return self._read(pieces, rows, spans, keep=rows.size < self.shape[0] or pieces is self._chunks)

    def _read(self, pieces: _Pieces, rows: NDArray[np.int64], spans: Sequence[Span], keep: bool) -> Iterator[Part]:
        row_edges, width = self._grid.row_edges, pieces.together * self.line_width
        edges = np.searchsorted(rows, row_edges)
        visits, ahead = tee(self._visits(edges, spans, width))
        read = pieces.reader.read_many((visit.i * pieces.n_across + visit.j for visit in ahead), keep)
        for visit, (_, piece) in zip(visits, read, strict=True):
            for j in self._chunks_of(visit.j, pieces.together):
                self._grid.check_unchanged(visit.i, j)  # also where it was kept in memory
            positions = slice(*edges[visit.i : visit.i + 2].tolist())
            wanted = rows[positions] - row_edges[visit.i]
            first_column = visit.j * width
            values = piece[:, visit.start - first_column : visit.stop - first_column]
            yield Part(visit.span, positions, visit.start, values if wanted.size == len(piece) else values[wanted])

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
