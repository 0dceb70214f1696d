"""Atoms in Zarr arrays, on disk or behind any URL that fsspec knows."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore, WrapperStore

from banditmips._files import CorruptFileError, FileState, reading_as
from banditmips.atoms.chunks import read_patiently
from banditmips.atoms.grid import ChunkGrid, GridStore, regular_edges
from banditmips.atoms.metering import count_bytes
from banditmips.atoms.parts import check_matrix

if TYPE_CHECKING:
    from banditmips.atoms.packed import PackedStore

__all__ = ["WatchedStore", "ZarrGrid", "folder_of", "open_zarr", "zarr_store"]

_METADATA = ("zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata")
_ATTEMPTS = 3
_UNSEEN, _MISSING = -2, -1
"""Instead of the size of a file: one that nobody has looked at, and one that is not there (its fill value is meant)."""


class _CountingStore(WrapperStore[Any]):
    """A Zarr store that counts what is read."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Read a value."""
        value = await super().get(key, prototype, byte_range)
        count_bytes(0 if value is None else len(value))
        return value


class WatchedStore(_CountingStore):
    """A Zarr store that does not pass over chunks that are not there, which Zarr takes for the fill value."""

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Read a value."""
        value = await super().get(key, prototype, byte_range)
        if value is None and key.rsplit("/", 1)[-1] not in _METADATA:
            raise FileNotFoundError(key)
        return value


class ZarrGrid(ChunkGrid):
    """The chunks of a Zarr array (those within the shards, where it has shards)."""

    counts_bytes = True
    together = 256  # a call takes Zarr a millisecond, and a chunk more a sixth of that

    def __init__(self, array: Any, source: str, missing_chunks: str) -> None:
        self.source = source
        self.dtype = array.dtype
        watched = (WatchedStore if missing_chunks == "error" else _CountingStore)(array.store)
        self._array: Any = zarr.open_array(watched, path=array.path, mode="r")
        self._folder = folder_of(array)
        (n, d), (down, across) = array.shape, array.chunks
        self.row_edges, self.column_edges = regular_edges(n, down), regular_edges(d, across)
        self._file_shape = array.chunks if array.shards is None else array.shards
        self._files_across = -(-d // self._file_shape[1])
        self.n_files = 0 if self._folder is None else -(-n // self._file_shape[0]) * self._files_across
        # 16 bytes for each file: there may be millions of them.
        self._states = np.full((self.n_files, 2), _UNSEEN, dtype=np.int64)
        self._fitted = False

    def fetch(self, i: int, j: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Read and decode one chunk."""
        try:
            return np.asarray(self._array[rows, columns])
        except FileNotFoundError as error:
            problem = (
                "the chunk is missing (Zarr leaves out chunks of nothing but the fill value: if that is why, "
                "open the atoms with open_atoms(..., missing_chunks='fill_value'))"
            )
            raise CorruptFileError(self.source, self.describe(i, j), problem) from error

    def check_unchanged(self, i: int, j: int) -> None:
        """Raise if the file that a chunk is in has changed since it was first read; nothing is known of a URL."""
        if self._folder is None:
            return
        place = self._file_of(i, j)
        number = place[0] * self._files_across + place[1]
        now = self._look_at(place)
        before = FileState(*self._states[number].tolist())
        if before.size == _UNSEEN:
            self._states[number] = now
        elif before != now:
            is_there = None if now.size == _MISSING else now
            before.check(is_there, self.source, self.describe(i, j), self._fitted)

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file that chunks are in, as they were when they were first read."""
        for number in np.flatnonzero(self._states[:, 0] == _UNSEEN).tolist():
            self._states[number] = self._look_at(divmod(number, self._files_across))
        return self._states

    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change when one is read."""
        if self._folder is not None:
            self._states, self._fitted = np.array(states), True

    def _look_at(self, place: tuple[int, int]) -> FileState:
        assert self._folder is not None
        try:
            return FileState.of(f"{self._folder}/{self._array.metadata.encode_chunk_key(place)}")
        except OSError:
            return FileState(_MISSING, 0)

    def _file_of(self, i: int, j: int) -> tuple[int, int]:
        """Return which of the files, down and across, holds a chunk."""
        (down, across), (height, width) = self._array.chunks, self._file_shape
        return i * down // height, j * across // width

    def _key(self, i: int, j: int) -> str:
        """Return the name of the file that holds a chunk, or the shard that it is in."""
        key: str = self._array.metadata.encode_chunk_key(self._file_of(i, j))
        return key

    def describe(self, i: int, j: int) -> str:
        """Name a chunk by its key."""
        key = self._array.metadata.encode_chunk_key((i, j))
        if self._array.shards is not None:
            return f"chunk ({i}, {j}) of the shards"
        return f"chunk {self._array.path}/{key}".replace("chunk /", "chunk ")


def folder_of(array: Any) -> str | None:
    """Return the folder that an open array is in; None if it is elsewhere."""
    return str(array.store.root / array.path) if isinstance(array.store, LocalStore) else None


def zarr_store(array: Any, memory_limit: int, source: str | None = None, missing_chunks: str = "error") -> GridStore:
    """Make a store of an open Zarr array."""
    source = str(array.store_path) if source is None else source
    check_matrix(source, array.shape, array.dtype)
    return GridStore(ZarrGrid(array, source, missing_chunks), memory_limit)


def open_zarr(
    path: str | os.PathLike[str], dataset: str | None, memory_limit: int, missing_chunks: str
) -> GridStore | PackedStore:
    """Open packed atoms, an array, or the array of this name in a group; nothing but metadata is read."""
    with reading_as(path, "Zarr"):
        return _open_zarr(os.fspath(path), dataset, memory_limit, missing_chunks)


def _open_zarr(source: str, dataset: str | None, memory_limit: int, missing_chunks: str) -> GridStore | PackedStore:
    from banditmips.packing.reading import is_packed, open_packed

    node = read_patiently(lambda: _open_node(source), _ATTEMPTS, source, lambda: "metadata")
    if isinstance(node, zarr.Group) and dataset is None and is_packed(node):
        return open_packed(node, source, memory_limit)
    if isinstance(node, zarr.Group):
        held = {name: array for name, array in node.members(max_depth=None) if isinstance(array, zarr.Array)}
        if dataset not in held:
            asked = "name one of its arrays" if dataset is None else f"has no array {dataset!r}"
            raise ValueError(f"{source}: {asked}; it holds {', '.join(sorted(held)) or 'nothing'}")
        node = held[dataset]
    elif dataset is not None:
        raise ValueError(f"{source}: is a single array, so there is no {dataset!r} to choose")
    return zarr_store(node, memory_limit, source, missing_chunks)


def _open_node(source: str) -> Any:
    try:
        return zarr.open(source, mode="r")
    except FileNotFoundError as error:
        raise CorruptFileError(source, "metadata", "there is no Zarr array or group here") from error
