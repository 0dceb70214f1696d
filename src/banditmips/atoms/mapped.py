"""Atoms and queries in maps of files, which may become shorter while they are read: `banditmips.core.maps` says how."""

from __future__ import annotations

import copy
import mmap
import os
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._files import CorruptFileError
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.joined import JoinedStore
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.sparse import SparseStore
from banditmips.core import maps
from banditmips.core.maps import map_of

__all__ = ["MapGuard", "MappedSparseStore", "MappedStore", "check_maps", "guard_of", "map_of", "maps_in"]

_ARRAYS_OF_MATRICES = ("data", "indices", "indptr", "row", "col", "offsets")


class MapGuard:
    """Keeps the maps behind some arrays from ending the process, as long as it lives.

    Parameters
    ----------
    arrays
        Those that are in memory of their own need no guard and get none.
    path
        The file, for messages.
    """

    def __init__(self, arrays: Iterable[NDArray[Any]], path: str | os.PathLike[str]) -> None:
        self._path = path
        self._numbers = [_guarded(found) for array in arrays if (found := map_of(array)) is not None]
        weakref.finalize(self, _release, self._numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        """What is sent to another process is in memory there."""
        return MapGuard, ((), self._path)

    def check(self) -> None:
        """Raise `CorruptFileError` if something was missing when it was read: what was computed from it is wrong."""
        if any(map(maps.was_cut, self._numbers)):
            problem = "a part of it could not be read: it has become shorter since it was opened, or its disk fails"
            raise CorruptFileError(self._path, "file", problem)


class MappedStore(DenseStore):
    """Atoms in an array that is a map of a file."""

    def __init__(self, array: NDArray[Any]) -> None:
        super().__init__(array)
        self._guard = MapGuard([array], _name_of_file(array))

    def check_maps(self) -> None:
        """Raise `CorruptFileError` if something of the file was missing when it was read."""
        self._guard.check()


class MappedSparseStore(SparseStore):
    """Atoms in a sparse matrix whose arrays are maps of files.

    Zeros in the place of what is missing are places within the matrix, as far as entries and their indices go. Pointers
    have to agree with each other: they are read at once, and kept in memory.
    """

    def __init__(self, matrix: Any) -> None:
        self._guards = [MapGuard([array], _name_of_file(array)) for array in maps_in(matrix)]
        if hasattr(matrix, "indptr"):
            matrix = copy.copy(matrix)
            matrix.indptr = np.array(matrix.indptr)
            self.check_maps()
        super().__init__(matrix)

    def check_maps(self) -> None:
        """Raise `CorruptFileError` if something of a file was missing when it was read."""
        for guard in self._guards:
            guard.check()


def check_maps(store: AtomStore) -> None:
    """Raise `CorruptFileError` if atoms are in a file of which something was missing when it was read."""
    if isinstance(store, (MappedStore, MappedSparseStore)):
        store.check_maps()
    elif isinstance(store, JoinedStore):
        for part in store.stores:
            check_maps(part)


def guard_of(array: object) -> MapGuard | None:
    """A guard of an array that is a map of a file; None for everything else, which needs none."""
    if not isinstance(array, np.ndarray) or map_of(array) is None:
        return None
    return MapGuard([array], _name_of_file(array))


def maps_in(matrix: Any) -> list[NDArray[Any]]:
    """The arrays of a sparse matrix that are maps of files."""
    arrays = [getattr(matrix, name, None) for name in _ARRAYS_OF_MATRICES]
    return [array for array in arrays if isinstance(array, np.ndarray) and map_of(array) is not None]


def _name_of_file(array: Any) -> str:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.filename is not None:
            return os.fspath(array.filename)
        array = array.base
    return "the file that the array is a map of"


def _guarded(mapped: mmap.mmap) -> int:
    whole = np.frombuffer(mapped, dtype=np.uint8)
    return maps.guard(whole.ctypes.data, whole.size)


def _release(numbers: list[int]) -> None:
    for number in numbers:
        maps.release(number)
