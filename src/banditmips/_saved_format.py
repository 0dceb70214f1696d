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

This module says what the format is and writes it; `banditmips._saved` reads it.
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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from banditmips._files import check_target

__all__ = ["Block", "aligned", "new_checksum", "write_file"]

FORMAT_VERSION = 1

# As in PNG: the high bit and the line ends show a file that went through a 7-bit or a text-mode transfer.
MAGIC = b"\x89BMIPS\r\n"
PREFIX = struct.Struct("<8sII32s")
PREFIX_SIZE = PREFIX.size + 32
MAX_HEADER_SIZE = 1 << 20
# Far below Python's recursion limit, so that whatever was saved can be parsed from any call depth.
_MAX_DEPTH = 64
# NumPy 1.26 has no arrays of more dimensions.
MAX_NDIM = 32
# A cache line, and the widest vector register: kernels may read a mapped block with aligned loads.
_ALIGNMENT = 64
_PIECE_SIZE = 1 << 20
# The longdouble is not among them: its 16 bytes mean different numbers on different machines.
DTYPES = ("|b1", "|i1", "<i2", "<i4", "<i8", "|u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8")

# SHA-256, which many processors compute in hardware: 1.4 GB/s where BLAKE2b reached 0.6, about what the disk
# takes. CRC-32 (2.3 GB/s) overlooks one damaged block in 2^32.
new_checksum = hashlib.sha256
_NO_CHECKSUM = "0" * 64


@dataclass(frozen=True)
class Block:
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
        """The block as error messages name it."""
        return f"block {self.name!r}"


def write_file(
    path: str | os.PathLike[str],
    metadata: dict[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    check: Callable[[], None] = lambda: None,
) -> None:
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
    check
        Called when everything has been read: if it raises, the old file stays.

    Raises
    ------
    TypeError, ValueError
        If `metadata` or `arrays` holds what the format cannot.
    FileExistsError
        If `path` is a FIFO, a device or a socket: these are no files to be replaced.
    OSError
        If the disk is full, or fails otherwise: names the file and the part that was being written. The old
        file is untouched, unless only the directory could not be synced once the new one was in place.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> from pathlib import Path
    >>> from banditmips._saved import read_file
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
    check_target(path)
    target = os.path.realpath(path)
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {os.path.dirname(target)}", os.fspath(path))
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
        check()
        with _naming_errors(path, "new file in place of the old one"):
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    with _naming_errors(path, "directory (sync)"):
        _sync_directory(os.path.dirname(target))


def aligned(size: int) -> int:
    """Round up to where a block may begin."""
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _pieces(array: NDArray[Any], block: Block) -> Iterator[memoryview]:
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


def _plan_blocks(arrays: Mapping[str, NDArray[Any]]) -> list[Block]:
    blocks: list[Block] = []
    offset = 0
    for name, array in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"arrays must have strings as names, got {name!r}")
        what = f"arrays[{name!r}]"
        if not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray):
            raise TypeError(f"{what} must be a plain NumPy array, got {type(array).__name__}")
        dtype = array.dtype.newbyteorder("<").str
        if dtype not in DTYPES:
            raise TypeError(f"{what} must hold booleans, or integers or floats to 64 bits, got {array.dtype}")
        if array.ndim > MAX_NDIM:
            raise ValueError(f"{what} must have at most {MAX_NDIM} dimensions, got {array.ndim}")
        blocks.append(Block(name, dtype, _order(array), array.shape, offset, array.nbytes, _NO_CHECKSUM))
        offset += aligned(array.nbytes)
    return blocks


def _order(array: NDArray[Any]) -> Literal["C", "F"]:
    """Tell the order that the array lies in; a slice of a Fortran-ordered one counts as Fortran-ordered."""
    if array.flags.c_contiguous:
        return "C"
    steps = [abs(step) for step, n in zip(array.strides, array.shape, strict=True) if step and n > 1]
    return "F" if len(steps) > 1 and steps == sorted(steps) else "C"


def _build_head(metadata: dict[str, Any], blocks: list[Block]) -> bytes:
    """Return prefix, header and the zeros after it."""
    content = {"metadata": metadata, "blocks": [asdict(block) for block in blocks]}
    header = json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(header) > MAX_HEADER_SIZE:
        limit = f"at most {MAX_HEADER_SIZE:,} bytes of JSON, got {len(header):,}"
        raise ValueError(f"metadata and the description of the arrays must take {limit}")
    prefix = PREFIX.pack(MAGIC, FORMAT_VERSION, len(header), new_checksum(header).digest())
    head = prefix + new_checksum(prefix).digest() + header
    return head.ljust(aligned(len(head)), b"\0")


def _write_block(file: io.FileIO, block: Block, array: NDArray[Any]) -> Block:
    checksum = new_checksum()
    for piece in _pieces(array, block):
        checksum.update(piece)
        _write_all(file, piece)
    _write_all(file, bytes(aligned(block.size) - block.size))
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
