"""Atoms that `banditmips.pack` has written: the rounds read them by coordinate, the finish by row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from banditmips._files import CorruptFileError
from banditmips.atoms.chunks import read_patiently
from banditmips.atoms.facts import AtomFacts
from banditmips.atoms.grid import GridStore
from banditmips.atoms.zarr_arrays import WatchedStore, ZarrGrid
from banditmips.packing.layout import ATTRIBUTE, FORMAT, FORMAT_VERSION, PackLayout
from banditmips.race.kernels import permuted_coordinates

__all__ = ["PackedStore", "is_packed"]

_ATTEMPTS = 3


class PackedStore:
    """Atoms in a packed Zarr group; nothing is read but what a search needs.

    Parameters
    ----------
    group : zarr.Group
    source : str
        Names the group in error messages.
    memory_limit : int
        Bytes that chunks may take which are kept for later or fetched ahead.

    Attributes
    ----------
    shape, dtype
    seed : int
        The seed of the order of coordinates; searches must have the same.
    order : int64, shape (n_coordinates,)
        The coordinates that can be read by coordinate, in the order in which they lie.
    facts : AtomFacts
        What `fit` needs to know, without reading the atoms.
    """

    def __init__(self, group: Any, source: str, memory_limit: int) -> None:
        self._source = source
        self._memory_limit = memory_limit
        self._group = group
        self._journal = _checked_journal(source, group)
        layout = self.layout = PackLayout.from_attributes(self._journal)
        self.seed = layout.seed
        self.shape = (layout.n, layout.d)
        self.dtype: np.dtype[Any] = np.dtype(layout.dtype)
        # Both kinds of chunks may be wanted at the same time.
        self._by_coordinate = self._grid("coordinates", (layout.n_coordinates, layout.n), memory_limit // 2)
        self._by_row = self._grid("rows", self.shape, memory_limit // 2)
        self.order = self._whole("order", layout.n_coordinates)
        if not np.array_equal(self.order, permuted_coordinates(layout.seed, layout.d, 0, layout.n_coordinates)):
            raise CorruptFileError(source, "array 'order'", f"it is not the order of seed {layout.seed}")
        self._sorter = np.argsort(self.order)

    def _grid(self, name: str, shape: tuple[int, int], memory_limit: int) -> GridStore:
        return GridStore(_PackedGrid(self._array(name, shape), self._source, "error"), memory_limit)

    def _array(self, name: str, shape: tuple[int, ...]) -> Any:
        where = f"array {name!r}"
        array = read_patiently(lambda: self._group[name], _ATTEMPTS, self._source, lambda: where)
        if array.shape != shape or (len(shape) == 2 and array.dtype != self.dtype):
            problem = f"it has shape {array.shape} and dtype {array.dtype}, which is not what the attributes say"
            raise CorruptFileError(self._source, where, problem)
        return array

    def _whole(self, name: str, length: int) -> NDArray[Any]:
        """Read an array of one dimension."""
        found = self._array(name, (length,))
        array: Any = zarr.open_array(WatchedStore(found.store), path=found.path, mode="r")
        return read_patiently(lambda: np.asarray(array[:]), _ATTEMPTS, self._source, lambda: f"chunks of {name!r}")

    @cached_property
    def facts(self) -> AtomFacts:
        """What was learnt of the atoms when they were packed."""
        n, d = self.shape
        return AtomFacts(
            squared_norms=self._whole("squared_norms", n),
            means=self._whole("means", n),
            low=self._journal["low"],
            high=self._journal["high"],
            column_squares=self._whole("column_squares", d),
        )

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`, by coordinate where that reads less than by row."""
        places = self._places(rows, columns)
        packed = places >= 0
        if packed.all():
            self._by_coordinate.gather(places, rows, out.T)
        elif not packed.any():
            self._by_row.gather(rows, columns, out)
        else:
            part = np.empty((rows.size, columns.size - np.count_nonzero(packed)), dtype=self.dtype)
            self._by_row.gather(rows, columns[~packed], part)
            out[:, ~packed] = part
            part = np.empty((np.count_nonzero(packed), rows.size), dtype=self.dtype)
            self._by_coordinate.gather(places[packed], rows, part)
            out[:, packed] = part.T

    def _places(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in the order; -1 for a coordinate that is not there, or better read by row with the others."""
        found = np.searchsorted(self.order, columns, sorter=self._sorter)
        places = self._sorter[np.minimum(found, self.order.size - 1)]
        places = np.where(self.order[places] == columns, places, -1)
        by_coordinate = _entries_read(self.layout.coordinates_chunk, places[places >= 0], rows)
        if by_coordinate > _entries_read(self.layout.rows_chunk, rows, columns):
            places[:] = -1
        return places

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        return self._by_row.scores(rows, columns, query, objective)

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, block of rows) over all rows."""
        return self._by_row.blocks(max_entries)


class _PackedGrid(ZarrGrid):
    """Chunks within shards, named by the file that they are in."""

    def fetch(self, i: int, j: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Read and decode one chunk."""
        return np.asarray(self._array[rows, columns])

    def describe(self, i: int, j: int) -> str:
        """Name a chunk by its place in the array and by the file."""
        array = self._array
        shard = array.chunks if array.shards is None else array.shards
        place = tuple(k * size // width for k, size, width in zip((i, j), array.chunks, shard, strict=True))
        return f"chunk ({i}, {j}) of {array.basename!r} (file {array.path}/{array.metadata.encode_chunk_key(place)})"


def _entries_read(chunk: tuple[int, int], first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Entries of all chunks of this shape that hold some of ``first x second``."""
    return np.unique(first // chunk[0]).size * chunk[0] * np.unique(second // chunk[1]).size * chunk[1]


def is_packed(group: Any) -> bool:
    """Whether a Zarr group is one that `banditmips.pack` has written, or has begun to write."""
    journal = group.attrs.get(ATTRIBUTE)
    return isinstance(journal, dict) and journal.get("format") == FORMAT


def _checked_journal(source: str, group: Any) -> dict[str, Any]:
    """Return what the group says of itself, if it is a complete packing of a version that is known."""
    journal: dict[str, Any] = group.attrs[ATTRIBUTE]
    if journal.get("version") != FORMAT_VERSION:
        known = f"this library reads version {FORMAT_VERSION}"
        raise ValueError(f"{source}: packed in format version {journal.get('version')}, but {known}")
    try:
        layout = PackLayout.from_attributes(journal)
    except (KeyError, TypeError) as error:
        raise CorruptFileError(source, "attributes", f"they are not as packing writes them ({error})") from error
    if not journal.get("complete"):
        raise ValueError(
            f"{source}: packing was not finished ({journal.get('finished_blocks')} of {layout.n_blocks} blocks): "
            f"run 'banditmips pack {journal.get('source')} {source}' again, and it goes on from there"
        )
    return journal
