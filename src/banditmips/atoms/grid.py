"""Atoms in a grid of chunks: Zarr arrays, chunked HDF5 datasets, the row groups of a Parquet file."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, tee
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.chunks import ChunkReader
from banditmips.atoms.parts import Part, PartStore, Span

__all__ = ["ChunkGrid", "GridStore", "regular_edges"]


_PIECES = 128
"""Pieces that the memory limit would hold, where several chunks are read at once."""


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


class _Visit(NamedTuple):
    """A chunk to be read: its place, and what is wanted of it."""

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
        n_down = grid.row_edges.size - 1
        self._reader = self._make_reader(self._fetch, n_down * self._n_across, self._describe)
        self._together = max(1, min(grid.together, memory_limit // (_PIECES * largest)))
        self._n_pieces = -(-self._n_across // self._together)
        self._pieces = self._make_reader(self._fetch_piece, n_down * self._n_pieces, self._describe_piece)

    def _make_reader(
        self, fetch: Callable[[int], NDArray[Any]], n_chunks: int, describe: Callable[[int], str]
    ) -> ChunkReader:
        grid = self._grid
        return ChunkReader(
            fetch,
            n_chunks,
            describe=describe,
            memory_limit=self.memory_limit,
            source=grid.source,
            fetch_counts=grid.counts_bytes,
        )

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file that chunks are in."""
        return self._grid.states()

    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change."""
        self._grid.expect(states)

    def _describe(self, chunk: int) -> str:
        return self._grid.describe(*divmod(chunk, self._n_across))

    def _fetch(self, chunk: int) -> NDArray[Any]:
        i, j = divmod(chunk, self._n_across)
        self._grid.check_unchanged(i, j)
        return self._fetch_columns(i, j, slice(*self.line(j)))

    def _describe_piece(self, piece: int) -> str:
        i, number = divmod(piece, self._n_pieces)
        return self._grid.describe(i, number * self._together)

    def _fetch_piece(self, piece: int) -> NDArray[Any]:
        """Read some chunks beside each other at once; one by one where that fails, so that an error names its chunk."""
        i, number = divmod(piece, self._n_pieces)
        chunks = range(number * self._together, min((number + 1) * self._together, self._n_across))
        for j in chunks:
            self._grid.check_unchanged(i, j)
        columns = slice(self.line(chunks[0])[0], self.line(chunks[-1])[1])
        try:
            return self._fetch_columns(i, chunks[0], columns)
        except Exception:
            if len(chunks) == 1:
                raise
            return np.concatenate([self._reader.read(i * self._n_across + j, keep=False) for j in chunks], axis=1)

    def _fetch_columns(self, i: int, j: int, columns: slice) -> NDArray[Any]:
        rows = slice(*self._grid.row_edges[i : i + 2].tolist())
        array = self._grid.fetch(i, j, rows, columns)
        expected = rows.stop - rows.start, columns.stop - columns.start
        if array.shape != expected or array.dtype != self.dtype:
            raise ValueError(f"expected {expected} entries of {self.dtype}, got {array.shape} of {array.dtype}")
        return array

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
        for first, stop in pairwise(edges.tolist()):
            yield first, self._assembled(stop - first, self._read_rows(first, stop))

    def _read_rows(self, first: int, stop: int) -> Iterator[Part]:
        row_edges = self._grid.row_edges
        low, high = np.searchsorted(row_edges, (first, stop), side="right").tolist()
        last = high - 1 if stop > row_edges[high - 1] else high - 2
        pieces = range((low - 1) * self._n_pieces, (last + 1) * self._n_pieces)
        for piece, values in self._pieces.read_many(pieces, keep=False):
            i, number = divmod(piece, self._n_pieces)
            begin = int(row_edges[i])
            rows = slice(max(begin, first), min(int(row_edges[i + 1]), stop))
            wanted = values[rows.start - begin : rows.stop - begin]
            first_column = number * self._together * self.line_width
            yield Part(0, slice(rows.start - first, rows.stop - first), first_column, wanted)

    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        """Yield the rows at these spans of columns."""
        if rows.size == self.shape[0] and list(spans) == [(0, self.shape[1])]:
            yield from self._read_rows(0, rows.size)  # all of it: nothing is worth keeping for later
            return
        row_edges = self._grid.row_edges
        edges = np.searchsorted(rows, row_edges)
        visits, ahead = tee(self._visits(edges, spans))
        chunks = self._reader.read_many(visit.i * self._n_across + visit.j for visit in ahead)
        for visit, (_, chunk) in zip(visits, chunks, strict=True):
            self._grid.check_unchanged(visit.i, visit.j)  # also where the chunk was kept in memory
            positions = slice(*edges[visit.i : visit.i + 2].tolist())
            wanted = rows[positions] - row_edges[visit.i]
            first_column = visit.j * self.line_width
            values = chunk[:, visit.start - first_column : visit.stop - first_column]
            yield Part(visit.span, positions, visit.start, values if wanted.size == len(chunk) else values[wanted])

    def _visits(self, edges: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[_Visit]:
        for i in np.flatnonzero(np.diff(edges)).tolist():
            for span, (start, stop) in enumerate(spans):
                for j in range(start // self.line_width, -(-stop // self.line_width)):
                    low, high = self.line(j)
                    yield _Visit(i, j, span, max(start, low), min(stop, high))


_MOST_CHUNKS = 1 << 24
"""Chunks in a row or a column of chunks."""


def regular_edges(length: int, step: int) -> NDArray[np.int64]:
    """Where pieces of equal length begin, and where the last, perhaps shorter, ends."""
    if step < 1 or length > step * _MOST_CHUNKS:
        raise ValueError(f"{length:,} rows or columns in chunks of {step:,} are more than {_MOST_CHUNKS:,} chunks")
    return np.append(np.arange(0, length, step), length)
