"""Atoms in HDF5 datasets, chunked or contiguous."""

from __future__ import annotations

import os
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from banditmips._files import CorruptFileError, FileState, FileWatch, open_regular, reading_as
from banditmips.atoms.grid import ChunkGrid, GridStore, regular_edges
from banditmips.atoms.metering import count_bytes
from banditmips.atoms.parts import PartStore, check_matrix
from banditmips.atoms.raw import RawStore

__all__ = ["hdf5_store", "open_hdf5"]

_SLAB = 1 << 20
"""Bytes read together where the dataset itself has no chunks."""


class _Hdf5Grid(ChunkGrid):
    """The chunks of a dataset."""

    def __init__(self, dataset: Any, missing_chunks: str, memory_limit: int) -> None:
        self.source = f"{dataset.file.filename}: dataset {dataset.name!r}"
        self.dtype = dataset.dtype
        self._dataset = dataset
        self._missing_is_error = missing_chunks == "error"
        # A file that HDF5 keeps in memory, or in several parts, has no times of its own.
        on_disk = dataset.file.driver in ("sec2", "stdio") and os.path.isfile(dataset.file.filename)
        self._watch = FileWatch(dataset.file.filename) if on_disk else None
        self.n_files = int(on_disk)
        n, d = dataset.shape
        self.counts_bytes = dataset.chunks is not None and not dataset.is_virtual
        if self.counts_bytes:
            down, across = dataset.chunks
            _check_chunks(dataset, None if self._watch is None else os.path.getsize(dataset.file.filename))
        else:
            entries = max(min(_SLAB, memory_limit // 8) // self.dtype.itemsize, 1)
            across = min(d, entries)
            down = min(n, max(entries // d, 1))
        self.row_edges, self.column_edges = regular_edges(n, down), regular_edges(d, across)

    def fetch(self, i: int, j: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Read and decode one chunk."""
        if self.counts_bytes:
            stored = self._dataset.id.get_chunk_info_by_coord((rows.start, columns.start))
            if stored.byte_offset is not None:
                count_bytes(stored.size)
            elif self._missing_is_error:
                problem = (
                    "the chunk is missing (HDF5 reads chunks that were never written as the fill value: if that is "
                    "meant, open the atoms with open_atoms(..., missing_chunks='fill_value'))"
                )
                raise CorruptFileError(self.source, self.describe(i, j), problem)
        try:
            return np.asarray(self._dataset[rows, columns])
        except OSError as error:
            # HDF5 has one error for everything: a checksum or a decompression that failed will fail again.
            if "filter" in str(error):
                raise ValueError(str(error)) from error
            raise

    def check_unchanged(self, i: int, j: int) -> None:
        """Raise if the file is not what it was when it was opened."""
        if self._watch is not None:
            self._watch.check()

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of the file, if it is one."""
        return np.array([] if self._watch is None else [self._watch.state], dtype=np.int64).reshape(-1, 2)

    def expect(self, states: NDArray[np.int64]) -> None:
        """Raise if the file is not what it was when an index was fitted to it."""
        if self._watch is not None:
            self._watch.expect(FileState(*states[0].tolist()))

    def describe(self, i: int, j: int) -> str:
        """Name a chunk by its place."""
        return f"chunk ({i}, {j})"


def _check_chunks(dataset: Any, file_size: int | None) -> None:
    """Check HDF5's list of chunks, which it reads by without a look: a damaged one ends the process."""
    where = f"{dataset.file.filename}: dataset {dataset.name!r}"
    (n, d), (down, across) = dataset.shape, dataset.chunks
    seen: set[tuple[int, int]] = set()

    def check(chunk: Any) -> None:
        row, column = chunk.chunk_offset
        place = row // down, column // across
        inside = row < n and column < d and row % down == 0 and column % across == 0
        end = chunk.byte_offset + chunk.size
        if not inside or place in seen or chunk.size == 0 or (file_size is not None and end > file_size):
            problem = f"{chunk.size} bytes at byte {chunk.byte_offset}, for row {row}, column {column}"
            raise CorruptFileError(where, "list of chunks", f"it has one that cannot be: {problem}")
        seen.add(place)

    dataset.id.chunk_iter(check)


def hdf5_store(dataset: Any, memory_limit: int, missing_chunks: str = "error") -> PartStore:
    """Make a store of an open dataset."""
    check_matrix(f"{dataset.file.filename}: dataset {dataset.name!r}", dataset.shape, dataset.dtype)
    offset = _plain_offset(dataset)
    if offset is None:
        return GridStore(_Hdf5Grid(dataset, missing_chunks, memory_limit), memory_limit)
    path = dataset.file.filename
    return RawStore(path, dataset.shape, dataset.dtype, offset=offset, fortran=False, memory_limit=memory_limit)


def _plain_offset(dataset: Any) -> int | None:
    """Return where the entries of a contiguous dataset begin in its file; None if they are not simply there."""
    file = dataset.file
    plain = dataset.chunks is None and not dataset.is_virtual and dataset.external is None
    if not plain or file.driver not in ("sec2", "stdio") or file.userblock_size or not os.path.isfile(file.filename):
        return None
    offset: int | None = dataset.id.get_offset()
    return offset


def open_hdf5(path: str | os.PathLike[str], dataset: str | None, memory_limit: int, missing_chunks: str) -> PartStore:
    """Open the dataset of this name, or the only matrix that the file holds."""
    with open_regular(path):  # what cannot be opened is the system's error, with its own words
        pass
    try:
        file = h5py.File(path, "r")
    except Exception as error:
        raise CorruptFileError(path, "file", f"cannot be read as HDF5: {error}") from error
    try:
        with reading_as(path, "HDF5"):
            return hdf5_store(_choose(file, path, dataset), memory_limit, missing_chunks)
    except BaseException:
        file.close()
        raise


def _choose(file: Any, path: str | os.PathLike[str], name: str | None) -> Any:
    held: list[str] = []

    def note(found: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and (name is not None or item.ndim == 2):
            held.append(found)

    file.visititems(note)
    if name is None and len(held) == 1:
        return file[held[0]]
    if name is not None and name.strip("/") in held:
        return file[name]
    asked = "name one of its datasets" if name is None else f"has no dataset {name!r}"
    raise ValueError(f"{os.fspath(path)}: {asked}; it holds {', '.join(sorted(held)) or 'no matrix'}")
