"""Files of NumPy's own kind: their headers, and the atoms behind these."""

from __future__ import annotations

import math
import os
import sys
from typing import Any, BinaryIO

import numpy as np

from banditmips._files import open_regular
from banditmips.atoms.parts import check_matrix
from banditmips.atoms.raw import RawStore

__all__ = ["open_npy", "read_npy_header"]


def read_npy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a ``.npy`` file: (shape, whether in Fortran order, type of the entries)."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise ValueError(f"it is of version {version[0]}.{version[1]}, which nobody knows")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file)
    except (MemoryError, RecursionError) as error:
        raise ValueError(f"{file.name}: cannot be read as .npy: {type(error).__name__} in its header") from error
    except Exception as error:
        # NumPy reads the header as a Python expression, and a damaged one fails in as many ways as Python knows.
        raise ValueError(f"{file.name}: cannot be read as .npy: {error}") from error
    for size in shape:
        if isinstance(size, bool) or not 0 <= size <= sys.maxsize:
            raise ValueError(f"{file.name}: cannot be read as .npy: {size!r} in the shape {shape} is no size")
    # NumPy refuses such shapes even where a 0 among them makes the array empty.
    if math.prod(size for size in shape if size) * max(dtype.itemsize, 1) > sys.maxsize:
        raise ValueError(f"{file.name}: cannot be read as .npy: no array can have the shape {shape}")
    return shape, fortran, dtype


def open_npy(path: str | os.PathLike[str], memory_limit: int) -> RawStore:
    """Open a ``.npy`` file; nothing but its header is read."""
    with open_regular(path) as file:
        shape, fortran, dtype = read_npy_header(file)
        offset = file.tell()
    check_matrix(os.fspath(path), shape, dtype)
    return RawStore(path, (shape[0], shape[1]), dtype, offset=offset, fortran=fortran, memory_limit=memory_limit)
