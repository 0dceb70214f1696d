"""Writing a packed group: block after block of atoms, each entered in the journal when all of it is there."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import Crc32cCodec

from banditmips.atoms import AtomStore, DenseStore, PartStore
from banditmips.atoms.collecting import FactsCollector
from banditmips.core.numbers import permuted_coordinates
from banditmips.packing.layout import ATTRIBUTE, FORMAT, FORMAT_VERSION, PackLayout, order_digest
from banditmips.packing.reading import read_strictly

__all__ = ["PackWriter"]

_LONG_CHUNK = 1 << 20
"""Entries in one chunk of what there is for each coordinate."""


class PackWriter:
    """A packed group that is being written.

    Parameters
    ----------
    about
        What the group says of its source.
    """

    def __init__(self, dest: str, layout: PackLayout, about: dict[str, Any]) -> None:
        self.layout = layout
        self._dest = dest
        self._about = about
        self._order = permuted_coordinates(layout.seed, layout.d, 0, layout.n_coordinates)
        self._facts = FactsCollector(layout.n, layout.d, argument="source")
        self.n_finished = 0

    def begin(self, overwrite: bool) -> None:
        """Make a new group."""
        layout = self.layout
        long = min(layout.d, _LONG_CHUNK)
        with self._writing():
            # The journal is there from the first: a run that is killed here leaves a group that says what it is.
            journal = self._journal(0)
            self._group = zarr.create_group(self._dest, zarr_format=3, attributes=journal, overwrite=overwrite)
            self._create(
                "coordinates",
                (layout.n_coordinates, layout.n),
                layout.dtype,
                layout.coordinates_chunk,
                layout.coordinates_shard,
            )
            self._create("rows", (layout.n, layout.d), layout.dtype, layout.rows_chunk, layout.rows_shard)
            self._create("order", (layout.n_coordinates,), "int64", (layout.n_coordinates,))
            for name in ("squared_norms", "means", "scatter"):
                self._create(name, (layout.n,), "float64", (layout.atoms_per_block,))
            self._create("column_squares", (layout.d,), "float32", (long,))
            self._create("running_squares", (2, layout.d), "float64", (1, long))
            self._open_arrays()
            self._arrays["order"][:] = self._order

    def resume(self, journal: dict[str, Any]) -> None:
        """Go on with a group of which some blocks are finished."""
        self._group = zarr.open_group(self._dest, mode="r+")
        self._open_arrays()
        self.n_finished = journal["finished_blocks"]
        self._facts.range[:] = journal["low"], journal["high"]
        slot = (self.n_finished - 1) % 2
        self._facts.column_squares[:] = read_strictly(self._group["running_squares"], slot, self._dest)
        with self._writing():
            self._delete_unfinished()

    def _delete_unfinished(self) -> None:
        """Delete what a killed run left of unfinished blocks: Zarr would read it before writing over it."""
        first_shard = self.n_finished * self.layout.atoms_per_block // self.layout.rows_shard[0]
        for array, axis, first in (("rows", 0, first_shard), ("coordinates", 1, self.n_finished)):
            folder = Path(self._dest, array, "c")
            for file in [file for file in folder.rglob("*") if file.is_file()]:
                place = file.relative_to(folder).parts
                # A number alone is a chunk; anything else is what Zarr was just writing.
                if not place[-1].isdecimal() or int(place[axis]) >= first:
                    file.unlink()

    def blocks(self, store: AtomStore, memory_limit: int) -> Iterator[int]:
        """Write the blocks that are missing, and yield after each part how many rows it had."""
        layout = self.layout
        step, height = layout.rows_per_read(memory_limit), layout.rows_shard[0]
        gathered = np.empty((layout.n_coordinates, layout.atoms_per_block), dtype=layout.dtype)
        read = _RowReader(store, step)
        while self.n_finished < layout.n_blocks:
            start = self.n_finished * layout.atoms_per_block
            stop = min(start + layout.atoms_per_block, layout.n)
            for first in range(start, stop, step):
                rows = read.rows(first, min(first + step, stop))
                for begin in range(0, len(rows), height):
                    part = rows[begin : begin + height].astype(layout.dtype, copy=False)
                    self._facts.add(first + begin, part)
                    place = first + begin - start
                    gathered[:, place : place + len(part)] = part[:, self._order].T
                    with self._writing():
                        self._write_rows(first + begin, part)
                    yield len(part)
            with self._writing():
                self._finish_block(start, stop, gathered)

    def _write_rows(self, first: int, values: NDArray[Any]) -> None:
        array, width = self._arrays["rows"], self.layout.rows_shard[1]
        for begin in range(0, self.layout.d, width):
            array[first : first + len(values), begin : begin + width] = values[:, begin : begin + width]

    def _finish_block(self, start: int, stop: int, gathered: NDArray[Any]) -> None:
        """Write what there is of the block beside its rows, then enter it in the journal."""
        layout, arrays, facts = self.layout, self._arrays, self._facts
        height = layout.coordinates_shard[0]
        for begin in range(0, layout.n_coordinates, height):
            part = gathered[begin : begin + height, : stop - start]
            arrays["coordinates"][begin : begin + height, start:stop] = part
        arrays["squared_norms"][start:stop] = facts.squared_norms(slice(start, stop))
        arrays["means"][start:stop] = facts.means(slice(start, stop))
        arrays["scatter"][start:stop] = facts.scatter[start:stop]
        # Two places that take turns: the journal's entry says which one holds, so a kill between the two writes does
        # not let the block be counted twice.
        self._write_long("running_squares", facts.column_squares, self.n_finished % 2)
        self._group.update_attributes(self._journal(self.n_finished + 1))
        self.n_finished += 1

    def complete(self) -> None:
        """Write the facts that are known only now, and mark the group as complete."""
        with self._writing():
            self._write_long("column_squares", self._facts.facts().column_squares)
            self._group.update_attributes(self._journal(self.n_finished, complete=True))
            del self._group["running_squares"]

    def _write_long(self, name: str, values: NDArray[Any], *place: int) -> None:
        array: Any = self._arrays[name]
        for begin in range(0, values.size, _LONG_CHUNK):
            array[(*place, slice(begin, begin + _LONG_CHUNK))] = values[begin : begin + _LONG_CHUNK]

    def _journal(self, n_finished: int, complete: bool = False) -> dict[str, Any]:
        return {
            ATTRIBUTE: {
                "format": FORMAT,
                "version": FORMAT_VERSION,
                **self.layout.to_attributes(),
                "order_sha256": order_digest(self._order),
                **self._about,
                "finished_blocks": n_finished,
                "low": self._facts.low if n_finished else None,
                "high": self._facts.high if n_finished else None,
                "complete": complete,
            }
        }

    def _create(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        chunks: tuple[int, ...],
        shards: tuple[int, ...] | None = None,
    ) -> None:
        self._group.create_array(
            name,
            shape=shape,
            dtype=dtype,
            chunks=chunks,
            shards=None if shards == chunks else shards,
            compressors=[Crc32cCodec()],
            fill_value=0,
        )

    def _open_arrays(self) -> None:
        # A chunk of zeros is written like any other, so that one that is not there is always an error. Zarr looks at
        # this setting when an array is opened.
        with zarr.config.set({"array.write_empty_chunks": True}):
            self._arrays = dict(self._group.arrays())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Say what a failed write leaves behind."""
        try:
            yield
        except OSError as error:
            cause = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else str(error.strerror or error)
            kept = f"{self.n_finished} of {self.layout.n_blocks} blocks are packed and kept"
            raise OSError(error.errno, f"{cause}; {kept}: pack again to go on from there", self._dest) from error


class _RowReader:
    """Reads whole rows, always into the same memory."""

    def __init__(self, store: AtomStore, most: int) -> None:
        self._store = store
        shape = (0, 0) if isinstance(store, DenseStore) else (min(most, store.shape[0]), store.shape[1])
        self._buffer = np.empty(shape, dtype=store.dtype)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Read rows start, ..., stop-1."""
        store, d = self._store, self._store.shape[1]
        if isinstance(store, DenseStore):
            return store.array[start:stop]
        numbers, block = np.arange(start, stop), self._buffer[: stop - start]
        if isinstance(store, PartStore):
            for part in store.read_parts(numbers, [(0, d)]):
                block[part.rows, part.first_column : part.stop_column] = part.values
        else:
            store.gather(numbers, np.arange(d), block)
        return block
