"""Saved files: a JSON header and the raw bytes of named arrays, every byte of them checked.

A file of version 1 is, byte for byte::

    prefix   80 bytes   magic (8), format version (uint32), size of the header (uint32),
                        SHA-256 of the header (32), SHA-256 of the 48 bytes before this field (32)
    header              ASCII JSON: {"metadata": {...}, "blocks": [{"name", "dtype", "order", "shape",
                        "offset", "size", "checksum"}, ...]}
    blocks              the arrays' elements, little-endian, in the order "C" or "F" that the header states

All integers are little-endian. Zeros follow the header and every block up to the next multiple of 64 bytes,
and nothing else may stand between or behind them; an ``offset`` counts from the end of the header's zeros.
The prefix keeps this form in every later version, so that an older library can tell a newer file from a
damaged one.

`read_file` checks all but the blocks' contents, and maps these; `SavedFile.verify` reads them through.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import secrets
import shutil
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["CorruptFileError", "SavedFile", "read_file", "write_file"]

FORMAT_VERSION = 1

# As in PNG: the high bit and the line ends show a file that went through a 7-bit or a text-mode transfer.
_MAGIC = b"\x89BMIPS\r\n"
_PREFIX = struct.Struct("<8sII32s")
_PREFIX_SIZE = _PREFIX.size + 32
_MAX_HEADER_SIZE = 1 << 20
# Far below Python's recursion limit, so that whatever was saved can be parsed from any call depth.
_MAX_DEPTH = 64
# NumPy 1.26 has no arrays of more dimensions.
_MAX_NDIM = 32
# A cache line, and the widest vector register: kernels may read a mapped block with aligned loads.
_ALIGNMENT = 64
_PIECE_SIZE = 1 << 20
# The longdouble is not among them: its 16 bytes mean different numbers on different machines.
_DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")

# SHA-256, which many processors compute in hardware: 1.4 GB/s where BLAKE2b reached 0.6, about what the disk
# takes. CRC-32 (2.3 GB/s) overlooks one damaged block in 2^32.
_checksum = hashlib.sha256
_NO_CHECKSUM = "0" * 64


class CorruptFileError(ValueError):
    """A saved file is damaged, or is no saved file at all.

    Attributes
    ----------
    path, where, problem : str
        The file, the part of it (as in ``header``, ``block 'atoms'``), and what is wrong there.
    """

    def __init__(self, path: str | os.PathLike[str], where: str, problem: str) -> None:
        # All three go to `args`, without which the error could not be sent between processes.
        super().__init__(os.fspath(path), where, problem)
        self.path, self.where, self.problem = os.fspath(path), where, problem

    def __str__(self) -> str:
        """Name the file, the part and the problem."""
        return f"{self.path}: {self.where}: {self.problem}"


@dataclass(frozen=True)
class _Block:
    """An array as the header describes it."""

    name: str
    dtype: str
    order: Literal["C", "F"]
    shape: tuple[int, ...]
    offset: int
    size: int
    checksum: str

    @property
    def where(self) -> str:
        return f"block {self.name!r}"


@dataclass(frozen=True, eq=False)
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

    path: Path
    format_version: int
    metadata: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(repr=False)
    _mapped: tuple[tuple[_Block, NDArray[Any]], ...] = field(repr=False)

    def verify(self) -> None:
        """Read every block, and raise `CorruptFileError` for the first that does not match its checksum."""
        for block, array in self._mapped:
            checksum = _checksum()
            for piece in _pieces(array, block):
                checksum.update(piece)
            if checksum.hexdigest() != block.checksum:
                raise CorruptFileError(self.path, block.where, "the contents do not match their checksum")


def write_file(path: str | os.PathLike[str], metadata: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Save arrays with JSON metadata; the file appears whole and on disk, or not at all.

    Parameters
    ----------
    path
        Where to. A file of that name is replaced at the very end (its permissions stay), so it may be the one
        that `arrays` are mapped from, except on Windows, which does not let a mapped file go.
    metadata
        Dicts with string keys, lists, strings, integers, finite floats, booleans and None.
    arrays
        Arrays of booleans, integers or floats of up to 64 bits, of any shape, order and byte order. They are
        never copied whole. C or Fortran order is kept; the byte order becomes little-endian.

    Raises
    ------
    TypeError, ValueError
        If `metadata` or `arrays` holds what the format cannot.
    OSError
        If the disk is full, or fails otherwise: names the file and the part that was being written. The old
        file is untouched, unless only the directory could not be synced once the new one was in place.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = Path(directory) / "atoms.bm"
    ...     write_file(path, {"delta": 0.001}, {"atoms": np.eye(3, dtype=np.float32)})
    ...     saved = read_file(path)
    ...     saved.verify()
    ...     saved.metadata["delta"], saved.arrays["atoms"].sum().item()
    ...     del saved  # Windows removes no file that is still mapped
    (0.001, 3.0)
    """
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata must be a dict, got {type(metadata).__name__}")
    _check_json(metadata, "metadata", depth=1)
    blocks = _plan_blocks(arrays)
    # Checksums have a fixed width: the head with the true ones, written last, takes the same space.
    head_size = len(_build_head(metadata, blocks))
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".banditmips-{secrets.token_hex(8)}.tmp")
    try:
        with _naming_errors(path, "temporary file beside it"):
            file = open(temporary, "xb", buffering=0)  # noqa: SIM115 (the next statement closes it)
        with file:
            with _naming_errors(path, "permissions"), suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            file.seek(head_size)
            written = []
            for block in blocks:
                with _naming_errors(path, block.where):
                    written.append(_write_block(file, block, arrays[block.name]))
            with _naming_errors(path, "header"):
                file.seek(0)
                _write_all(file, _build_head(metadata, written))
            with _naming_errors(path, "last changes (sync)"):
                os.fsync(file.fileno())
                file.close()
        with _naming_errors(path, "new file in place of the old one"):
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    with _naming_errors(path, "directory (sync)"):
        _sync_directory(os.path.dirname(target))


def read_file(path: str | os.PathLike[str]) -> SavedFile:
    """Open a saved file: check its structure, and map its arrays without reading them.

    Raises
    ------
    FileNotFoundError
        If there is none.
    CorruptFileError
        If it is no file of ours, or is damaged outside the blocks (`SavedFile.verify` looks into these).
    ValueError
        If it is written in a format version that this library does not know.
    """
    with open(path, "rb") as file:
        try:
            length = os.fstat(file.fileno()).st_size
            header = _read_header(file, length)
            metadata, blocks = _parse_header(header)
            _check_layout(file, length, len(header), blocks)
        except _DamageError as damage:
            raise CorruptFileError(path, *damage.args) from None
        data_start = _aligned(_PREFIX_SIZE + len(header))
        mapped = tuple((block, _map_block(file, block, data_start)) for block in blocks)
    arrays = {block.name: array for block, array in mapped}
    return SavedFile(Path(path), FORMAT_VERSION, metadata, arrays, mapped)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _pieces(array: NDArray[Any], block: _Block) -> Iterator[memoryview]:
    """Yield the bytes of an array as the file holds them, copying at most a piece of it at a time."""
    dtype = np.dtype(block.dtype)
    # NumPy's type hints do not know the flag "contig", nor that a single operand is yielded without a tuple.
    nditer: Any = np.nditer
    for piece in nditer(
        array,
        flags=["external_loop", "buffered", "zerosize_ok"],
        op_flags=[["readonly", "contig"]],
        op_dtypes=[dtype],
        casting="equiv",
        order=block.order,
        buffersize=_PIECE_SIZE // dtype.itemsize,
    ):
        yield piece.view(np.uint8).data


# ------------------------------------------------------------------------------------------------- writing


@contextmanager
def _naming_errors(path: str | os.PathLike[str], part: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        problem = f"{error.strerror or error} (while writing the {part})"
        raise OSError(error.errno, problem, os.fspath(path)) from error


def _check_json(value: Any, where: str, depth: int) -> None:
    """Refuse what JSON cannot hold, or would give back as something else."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"metadata must be nested at most {_MAX_DEPTH} deep, got more at {where[:80]}...")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"{where} must have strings as keys, got {key!r}")
            _check_json(item, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            _check_json(item, f"{where}[{position}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where} must be finite, got {value}")
    elif value is not None and not isinstance(value, str | int):
        kind = type(value).__name__
        raise TypeError(f"{where} must be a dict, list, string, number, boolean or None, got {kind}")


def _plan_blocks(arrays: Mapping[str, NDArray[Any]]) -> list[_Block]:
    blocks: list[_Block] = []
    offset = 0
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"arrays must have strings as names, got {name!r}")
        what = f"arrays[{name!r}]"
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{what} must be a plain NumPy array, got {type(array).__name__}")
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in _DTYPES:
            raise TypeError(f"{what} must hold booleans, or integers or floats to 64 bits, got {array.dtype}")
        if array.ndim > _MAX_NDIM:
            raise ValueError(f"{what} must have at most {_MAX_NDIM} dimensions, got {array.ndim}")
        blocks.append(_Block(name, dtype, _order(array), array.shape, offset, array.nbytes, _NO_CHECKSUM))
        offset += _aligned(array.nbytes)
    return blocks


def _order(array: NDArray[Any]) -> Literal["C", "F"]:
    """Tell the order that the array lies in; a slice of a Fortran-ordered one counts as Fortran-ordered."""
    if array.flags.c_contiguous:
        return "C"
    steps = [abs(step) for step, n in zip(array.strides, array.shape, strict=True) if step and n > 1]
    return "F" if len(steps) > 1 and steps == sorted(steps) else "C"


def _build_head(metadata: dict[str, Any], blocks: list[_Block]) -> bytes:
    """Return prefix, header and the zeros after it."""
    content = {"metadata": metadata, "blocks": [asdict(block) for block in blocks]}
    header = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(header) > _MAX_HEADER_SIZE:
        limit = f"at most {_MAX_HEADER_SIZE:,} bytes of JSON, got {len(header):,}"
        raise ValueError(f"metadata and the description of the arrays must take {limit}")
    prefix = _PREFIX.pack(_MAGIC, FORMAT_VERSION, len(header), _checksum(header).digest())
    head = prefix + _checksum(prefix).digest() + header
    return head.ljust(_aligned(len(head)), b"\0")


def _write_block(file: io.FileIO, block: _Block, array: NDArray[Any]) -> _Block:
    checksum = _checksum()
    for piece in _pieces(array, block):
        checksum.update(piece)
        _write_all(file, piece)
    _write_all(file, bytes(_aligned(block.size) - block.size))
    return replace(block, checksum=checksum.hexdigest())


def _write_all(file: io.FileIO, data: bytes | memoryview) -> None:
    # The file is unbuffered, so that a full disk shows in the block that did not fit; writes may be partial.
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _sync_directory(directory: str) -> None:
    if os.name == "nt":
        return  # Windows cannot open directories.
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems know no such thing; the rename is then as durable as they can make it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


# ------------------------------------------------------------------------------------------------- reading


class _DamageError(Exception):
    """Where the damage is, and what it is; `read_file` adds the path."""


def _read_header(file: BinaryIO, length: int) -> bytes:
    prefix = file.read(_PREFIX_SIZE)
    if not prefix.startswith(_MAGIC):
        found = prefix[: len(_MAGIC)]
        raise _DamageError("prefix", f"not a banditmips file (it starts with {found!r}, not {_MAGIC!r})")
    if len(prefix) < _PREFIX_SIZE:
        raise _DamageError("prefix", f"the file ends in it, at byte {length}")
    stated, checksum = prefix[: _PREFIX.size], prefix[_PREFIX.size :]
    if _checksum(stated).digest() != checksum:
        raise _DamageError("prefix", "the contents do not match their checksum")
    _, version, header_size, header_checksum = _PREFIX.unpack(stated)
    if version != FORMAT_VERSION:
        known = f"this library reads version {FORMAT_VERSION}"
        raise ValueError(f"{file.name}: written in format version {version}, but {known}")
    if header_size > _MAX_HEADER_SIZE:
        raise _DamageError("prefix", f"states a header of {header_size:,} bytes, over {_MAX_HEADER_SIZE:,}")
    if _PREFIX_SIZE + header_size > length:
        raise _DamageError("header", f"the file ends in it, at byte {length:,}")
    header = file.read(header_size)
    if _checksum(header).digest() != header_checksum:
        raise _DamageError("header", "the contents do not match their checksum")
    return header


def _parse_header(header: bytes) -> tuple[dict[str, Any], list[_Block]]:
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


def _parse_block(entry: Any, number: int) -> _Block:
    keys = {f.name for f in fields(_Block)}
    if not isinstance(entry, dict) or entry.keys() != keys or not isinstance(entry["name"], str):
        raise _DamageError("header", f"entry {number} of 'blocks' must have exactly {sorted(keys)}")
    block = _Block(**entry)
    if block.dtype not in _DTYPES or block.order not in ("C", "F"):
        raise _DamageError(block.where, f"unknown dtype {block.dtype!r} or order {block.order!r}")
    if not isinstance(entry["shape"], list) or len(block.shape) > _MAX_NDIM:
        raise _DamageError(block.where, f"the shape must be a list of at most {_MAX_NDIM} sizes")
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


def _check_layout(file: BinaryIO, length: int, header_size: int, blocks: list[_Block]) -> None:
    """Check that header and blocks, with zeros between them, make up the whole file."""
    header_end = _PREFIX_SIZE + header_size
    data_start = _aligned(header_end)
    gaps = [("padding after the header", header_end, data_start)]
    offset = 0
    for block in blocks:
        if block.offset != offset:
            raise _DamageError(block.where, f"must have the offset {offset}, got {block.offset}")
        end = data_start + offset + block.size
        if end > length:
            raise _DamageError(block.where, f"goes to byte {end:,}, but the file ends at byte {length:,}")
        offset += _aligned(block.size)
        gaps.append((f"padding after {block.where}", end, data_start + offset))
    for where, start, stop in gaps:
        file.seek(start)
        if file.read(stop - start) != bytes(stop - start):
            raise _DamageError(where, f"bytes {start:,} to {stop:,} must be there, and zero")
    surplus = length - data_start - offset
    if surplus:
        raise _DamageError("end of the file", f"{surplus:,} bytes too many")


def _map_block(file: BinaryIO, block: _Block, data_start: int) -> NDArray[Any]:
    dtype, shape, order = np.dtype(block.dtype), block.shape, block.order
    if block.size == 0:
        # Nothing of length 0 can be mapped.
        empty: NDArray[Any] = np.empty(shape, dtype, order)
        empty.setflags(write=False)
        return empty
    # From the open file rather than from its name, which may belong to another file by now.
    return np.memmap(file, dtype, "r", data_start + block.offset, shape, order)
