"""Opening a packed group for searches; nothing but metadata is read."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from banditmips._files import CorruptFileError
from banditmips.atoms.chunks import read_patiently
from banditmips.atoms.facts import AtomFacts
from banditmips.atoms.grid import GridStore
from banditmips.atoms.packed import PackedStore
from banditmips.atoms.zarr_arrays import WatchedStore, ZarrGrid
from banditmips.core.numbers import permuted_coordinates
from banditmips.packing.layout import ATTRIBUTE, FORMAT, FORMAT_VERSION, PackLayout, check_progress, order_digest

__all__ = ["is_packed", "open_packed", "read_strictly"]

_ATTEMPTS = 3
_COMPUTED_AT_ONCE = 1 << 24
"""Coordinates whose order is computed in about a second, so that nobody has to wait long for a group that lies."""


def is_packed(group: Any) -> bool:
    """Whether a Zarr group is one that `banditmips.pack` has written, or has begun to write."""
    journal = group.attrs.get(ATTRIBUTE)
    return isinstance(journal, dict) and journal.get("format") == FORMAT


def read_strictly(array: Any, selection: Any, source: str) -> NDArray[Any]:
    """Read a part of a small array, all of whose chunks must be there."""
    watched: Any = zarr.open_array(WatchedStore(array.store), path=array.path, mode="r")
    where = f"chunks of {array.basename!r}"
    return read_patiently(lambda: np.asarray(watched[selection]), _ATTEMPTS, source, lambda: where)


def open_packed(group: Any, source: str, memory_limit: int) -> PackedStore:
    """Open a packed group; `source` names it in error messages.

    Raises
    ------
    ValueError
        If packing was not finished, or is of another version.
    CorruptFileError
        If something is missing or damaged.
    """
    return _PackedGroup(group, source).store(memory_limit)


class _PackedGroup:
    """The arrays of a packed group, checked."""

    def __init__(self, group: Any, source: str) -> None:
        self._group = group
        self._source = source
        self._journal = _checked_journal(source, group.attrs[ATTRIBUTE])
        self._layout = PackLayout.from_attributes(self._journal)

    def store(self, memory_limit: int) -> PackedStore:
        layout = self._layout
        if layout.n_coordinates > _COMPUTED_AT_ONCE:
            self._whole("order", layout.n_coordinates, "int64")  # it must be there, before as much is computed
        order = permuted_coordinates(layout.seed, layout.d, 0, layout.n_coordinates)
        if order_digest(order) != self._journal.get("order_sha256"):
            problem = f"the coordinates are not in the order of seed {layout.seed}"
            raise CorruptFileError(self._source, "attributes", problem)
        by_coordinate = self._chunks("coordinates", (layout.n_coordinates, layout.n), memory_limit)
        by_row = self._chunks("rows", (layout.n, layout.d), memory_limit)
        return PackedStore(layout, order, by_coordinate, by_row, self.facts, memory_limit)

    def facts(self) -> AtomFacts:
        """Read what packing has recorded."""
        now = read_patiently(lambda: _attributes(self._group), _ATTEMPTS, self._source, lambda: "attributes")
        if now != self._journal:
            raise CorruptFileError(self._source, "attributes", "it was packed anew since it was opened: open it anew")
        n, d = self._layout.n, self._layout.d
        return AtomFacts(
            squared_norms=self._whole("squared_norms", n),
            means=self._whole("means", n),
            scatter=self._whole("scatter", n),
            low=float(self._journal["low"]),
            high=float(self._journal["high"]),
            column_squares=self._whole("column_squares", d, "float32"),
        )

    def _chunks(self, name: str, shape: tuple[int, int], memory_limit: int) -> GridStore:
        array = self._array(name, shape)
        if array.dtype != np.dtype(self._layout.dtype):
            problem = f"it holds {array.dtype}, but the attributes say {self._layout.dtype}"
            raise CorruptFileError(self._source, f"array {name!r}", problem)
        # Half of the memory for each kind of chunks, unless that is too little for a single one.
        one = math.prod(array.chunks) * array.dtype.itemsize
        own = max(memory_limit // 2, min(one, memory_limit))
        return GridStore(_PackedGrid(array, self._source, missing_chunks="error"), own)

    def _whole(self, name: str, length: int, dtype: str = "float64") -> NDArray[Any]:
        """Read an array of one dimension."""
        array = self._array(name, (length,))
        if array.dtype != dtype:
            raise CorruptFileError(self._source, f"array {name!r}", f"it holds {array.dtype}, not {dtype}")
        return read_strictly(array, slice(None), self._source)

    def _array(self, name: str, shape: tuple[int, ...]) -> Any:
        where = f"array {name!r}"
        array = read_patiently(lambda: self._group[name], _ATTEMPTS, self._source, lambda: where)
        if not isinstance(array, zarr.Array):
            raise CorruptFileError(self._source, where, "it is a group, not an array")
        if array.shape != shape:
            raise CorruptFileError(self._source, where, f"it has shape {array.shape}, but the attributes say {shape}")
        return array


class _PackedGrid(ZarrGrid):
    """Chunks within shards, named by the file that they are in."""

    def fetch(self, i: int, j: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Read and decode one chunk."""
        return np.asarray(self._array[rows, columns])

    def describe(self, i: int, j: int) -> str:
        """Name a chunk by its place in the array and by the file."""
        return f"chunk ({i}, {j}) of {self._array.basename!r} (file {self._array.path}/{self._key(i, j)})"


def _attributes(group: Any) -> Any:
    return zarr.open_group(group.store, path=group.path, mode="r").attrs.get(ATTRIBUTE)


def _checked_journal(source: str, journal: dict[str, Any]) -> dict[str, Any]:
    """Return what a group says of itself, if it is a complete packing of a version that is known."""
    if journal.get("version") != FORMAT_VERSION:
        known = f"this library reads version {FORMAT_VERSION}"
        raise ValueError(f"{source}: packed in format version {journal.get('version')}, but {known}")
    try:
        layout = PackLayout.from_attributes(journal)
        check_progress(journal, layout)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(source, "attributes", f"they are not as packing writes them ({error})") from error
    if not journal["complete"]:
        raise ValueError(
            f"{source}: packing was not finished ({journal['finished_blocks']} of {layout.n_blocks} blocks): "
            f"run 'banditmips pack {journal.get('source')} {source}' again, and it goes on from there"
        )
    return journal
