"""Reading saved files (`_saved_format` says what they are): checked as they are opened, mapped, and looked after.

A map gives back whatever the file holds at the moment. Two things are done about that, both by `SavedFile.check`, which
whoever uses the arrays calls before: blocks are compared with their checksums before they are first used, and a file
whose size or time of change is not what it was is refused. `SavedFile.check_unchanged` asks the latter again when the
arrays have been used, and whether something was missing; reading beyond the end of the file does not end the
process (`banditmips.atoms.mapped`). What nobody can notice is a file whose bytes change on the disk, without its time,
after they were compared.
"""

from __future__ import annotations

import json
import math
import os
import sys
import weakref
from collections.abc import Iterable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from banditmips._files import CorruptFileError, FileState, open_regular, read_at
from banditmips._saved_format import (
    DTYPES,
    FORMAT_VERSION,
    MAGIC,
    MAX_HEADER_SIZE,
    MAX_NDIM,
    PREFIX,
    PREFIX_SIZE,
    Block,
    aligned,
    new_checksum,
)
from banditmips._threads import ForkedLock
from banditmips.atoms.mapped import MapGuard

__all__ = ["SavedFile", "read_file"]

_PIECE = 1 << 20
"""Bytes compared at a time."""


class SavedFile:
    """An open saved file; `read_file` makes it.

    Attributes
    ----------
    path : Path
    format_version : int
    metadata : dict
        What was given to `write_file`.
    arrays : dict of str to ndarray
        Read-only memory maps (of the file as it was opened, even if another one takes its place later).
    """

    def __init__(self, file: BinaryIO, metadata: dict[str, Any], blocks: list[Block], data_start: int) -> None:
        self.path = Path(file.name)
        self.format_version = FORMAT_VERSION
        self.metadata = metadata
        self.arrays = {block.name: _map_block(file, block, data_start) for block in blocks}
        self._blocks = {block.name: block for block in blocks}
        self._data_start = data_start
        self._unchecked = set(self._blocks)
        self._lock = ForkedLock()
        self._descriptor: int | None = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        self._state = FileState.of(self._descriptor)
        self._guard = MapGuard(self.arrays.values(), self.path)

    def __repr__(self) -> str:
        """Name the file."""
        return f"SavedFile({str(self.path)!r})"

    def verify(self) -> None:
        """Read every block, and raise `CorruptFileError` for the first that does not match its checksum."""
        for name in self._blocks:
            self._compare(name)
        self.check_unchanged()

    def check(self, names: Iterable[str] | None = None) -> None:
        """Compare these blocks (None: all of them) with their checksums, unless that was done before.

        In any case, raise `CorruptFileError` if the file has changed since it was opened.
        """
        if self._unchecked:
            with self._lock:
                for name in self._blocks if names is None else names:
                    if name in self._unchecked:
                        self._compare(name)
        self.check_unchanged()

    def trust(self) -> None:
        """Let `check` take all blocks as they are, and ask no more than whether the file has changed."""
        self._unchecked = set()

    def check_unchanged(self) -> None:
        """Raise `CorruptFileError` if the file has changed since it was opened, or could not be read."""
        if self._descriptor is None:
            return  # the arrays are in memory, and the file is left alone
        status = os.fstat(self._descriptor)
        if (status.st_size, status.st_mtime_ns) != self._state:  # every search comes by here
            self._state.check(FileState.of(self._descriptor), self.path)
        self._guard.check()

    def _compare(self, name: str) -> None:
        block, found = self._blocks[name], new_checksum()
        if self._descriptor is None:
            found.update(self.arrays[name].tobytes(block.order))
        else:
            # Read, not looked at in the map: where the file has become shorter, that is an error and not the end.
            place, left = self._data_start + block.offset, block.size
            room = memoryview(bytearray(min(_PIECE, left)))
            while left:
                count = read_at(self._descriptor, room[:left], place)
                if count == 0:
                    raise CorruptFileError(self.path, block.where, f"the file ends in it, at byte {place:,}")
                found.update(room[:count])
                place, left = place + count, left - count
        if found.hexdigest() != block.checksum:
            raise CorruptFileError(self.path, block.where, "the contents do not match their checksum")
        self._unchecked.discard(name)

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: the arrays themselves, compared before they are copied."""
        self.check()
        arrays = {name: np.array(array, order="K") for name, array in self.arrays.items()}
        state = {name: value for name, value in self.__dict__.items() if name not in ("_lock", "_guard")}
        return {**state, "arrays": arrays, "_descriptor": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the arrays; there is no file there."""
        self.__dict__.update(state)
        self._lock = ForkedLock()


def read_file(path: str | os.PathLike[str]) -> SavedFile:
    """Open a saved file: check its structure, and map its arrays without reading them.

    Raises
    ------
    FileNotFoundError
        If there is none.
    CorruptFileError
        If it is no file of ours (or no regular file at all), or is damaged outside the blocks (`SavedFile.check` and
        `SavedFile.verify` look into these).
    ValueError
        If it is written in a format version that this library does not know.
    """
    with open_regular(path) as file:
        try:
            length = os.fstat(file.fileno()).st_size
            header = _read_header(file, length)
            metadata, blocks = _parse_header(header)
            _check_layout(file, length, len(header), blocks)
        except _DamageError as damage:
            raise CorruptFileError(path, *damage.args) from None
        return SavedFile(file, metadata, blocks, aligned(PREFIX_SIZE + len(header)))


class _DamageError(Exception):
    """Where the damage is, and what it is; `read_file` adds the path."""


def _read_header(file: BinaryIO, length: int) -> bytes:
    prefix = file.read(PREFIX_SIZE)
    if not prefix.startswith(MAGIC):
        if not prefix:
            raise _DamageError("prefix", "not a banditmips file: it is empty")
        found = prefix[: len(MAGIC)]
        raise _DamageError("prefix", f"not a banditmips file (it starts with {found!r}, not {MAGIC!r})")
    if len(prefix) < PREFIX_SIZE:
        raise _DamageError("prefix", f"the file ends in it, at byte {length}")
    stated, checksum = prefix[: PREFIX.size], prefix[PREFIX.size :]
    if new_checksum(stated).digest() != checksum:
        raise _DamageError("prefix", "the contents do not match their checksum")
    _, version, header_size, header_checksum = PREFIX.unpack(stated)
    if version != FORMAT_VERSION:
        known = f"this library reads version {FORMAT_VERSION}"
        raise ValueError(f"{file.name}: written in format version {version}, but {known}")
    if header_size > MAX_HEADER_SIZE:
        raise _DamageError("prefix", f"states a header of {header_size:,} bytes, over {MAX_HEADER_SIZE:,}")
    if PREFIX_SIZE + header_size > length:
        raise _DamageError("header", f"the file ends in it, at byte {length:,}")
    header = file.read(header_size)
    if new_checksum(header).digest() != header_checksum:
        raise _DamageError("header", "the contents do not match their checksum")
    return header


def _parse_header(header: bytes) -> tuple[dict[str, Any], list[Block]]:
    decoder = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_finite, parse_float=_finite)
    try:
        content = decoder.decode(header.decode("ascii"))
    except (ValueError, RecursionError) as error:
        raise _DamageError("header", f"not the JSON it must be: {error}") from None
    if not isinstance(content, dict) or content.keys() != {"metadata", "blocks"}:
        raise _DamageError("header", "must hold 'metadata' and 'blocks', and nothing else")
    metadata, entries = content["metadata"], content["blocks"]
    if not isinstance(metadata, dict) or not isinstance(entries, list):
        raise _DamageError("header", "'metadata' must be an object, and 'blocks' a list")
    blocks = [_parse_block(entry, number) for number, entry in enumerate(entries)]
    names = set()
    for block in blocks:
        if block.name in names:
            raise _DamageError(block.where, "the header has two blocks of this name")
        names.add(block.name)
    return metadata, blocks


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        raise ValueError("an object has the same key twice")
    return result


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


def _parse_block(entry: Any, number: int) -> Block:
    keys = {f.name for f in fields(Block)}
    if not isinstance(entry, dict) or entry.keys() != keys or not isinstance(entry["name"], str):
        raise _DamageError("header", f"entry {number} of 'blocks' must have exactly {sorted(keys)}")
    block = Block(**entry)
    if block.dtype not in DTYPES or block.order not in ("C", "F"):
        raise _DamageError(block.where, f"unknown dtype {block.dtype!r} or order {block.order!r}")
    if not isinstance(entry["shape"], list) or len(block.shape) > MAX_NDIM:
        raise _DamageError(block.where, f"the shape must be a list of at most {MAX_NDIM} sizes")
    for value in (*block.shape, block.offset, block.size):
        # By `type`, since JSON's true would pass for 1.
        if type(value) is not int or not 0 <= value <= sys.maxsize:
            raise _DamageError(block.where, f"{value!r} is no size: expected 0 to {sys.maxsize}")
    itemsize = np.dtype(block.dtype).itemsize
    if math.prod(block.shape) * itemsize != block.size:
        product = f"{block.shape} elements of {itemsize} bytes"
        raise _DamageError(block.where, f"{product} do not make {block.size} bytes")
    # NumPy refuses such shapes even where a 0 among them makes the array empty.
    if math.prod(n for n in block.shape if n) * itemsize > sys.maxsize:
        raise _DamageError(block.where, f"no array can have the shape {block.shape}")
    return replace(block, shape=tuple(block.shape))


def _check_layout(file: BinaryIO, length: int, header_size: int, blocks: list[Block]) -> None:
    """Check that header and blocks, with zeros between them, make up the whole file."""
    header_end = PREFIX_SIZE + header_size
    data_start = aligned(header_end)
    gaps = [("padding after the header", header_end, data_start)]
    offset = 0
    for block in blocks:
        if block.offset != offset:
            raise _DamageError(block.where, f"must have the offset {offset}, got {block.offset}")
        end = data_start + offset + block.size
        if end > length:
            raise _DamageError(block.where, f"goes to byte {end:,}, but the file ends at byte {length:,}")
        offset += aligned(block.size)
        gaps.append((f"padding after {block.where}", end, data_start + offset))
    for where, start, stop in gaps:
        file.seek(start)
        if file.read(stop - start) != bytes(stop - start):
            raise _DamageError(where, f"bytes {start:,} to {stop:,} must be there, and zero")
    surplus = length - data_start - offset
    if surplus:
        raise _DamageError("end of the file", f"{surplus:,} bytes too many")


def _map_block(file: BinaryIO, block: Block, data_start: int) -> NDArray[Any]:
    dtype, shape, order = np.dtype(block.dtype), block.shape, block.order
    if block.size == 0:
        # Nothing of length 0 can be mapped.
        empty: NDArray[Any] = np.empty(shape, dtype, order)
        empty.setflags(write=False)
        return empty
    # From the open file rather than from its name, which may belong to another file by now.
    return np.memmap(file, dtype, "r", data_start + block.offset, shape, order)
