"""Ids: what the user calls the atoms, beside their indices, which say where they lie."""

from __future__ import annotations

from collections.abc import Iterable, Set
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Ids", "joined_ids", "no_id"]

_NO_ATOM: dict[str, Any] = {"i": -1, "U": ""}
"""What stands in a result for an index of -1, by the kind of the ids."""


class Ids:
    """The ids of n atoms by their indices: unique integers, or unique strings, among the atoms that are not removed."""

    def __init__(self, values: NDArray[Any], removed: NDArray[np.bool_] | None = None) -> None:
        self.values = values
        self.values.flags.writeable = False
        self._removed = removed
        self._row_of: dict[Any, int] | None = None

    @classmethod
    def of_user(cls, ids: Any, n: int) -> Ids:
        """Check what a user calls n atoms."""
        values = _as_ids(ids)
        if values.size != n:
            raise ValueError(f"ids must hold one id for each of the {n} atoms, got {values.size}")
        unique, counts = np.unique(values, return_counts=True)
        if unique.size < n:
            twice = unique[counts > 1][0].item()
            rows = np.flatnonzero(values == twice)
            raise ValueError(f"ids must be unique, got {twice!r} for the atoms {rows[0]} and {rows[1]}")
        return cls(values)

    @property
    def nbytes(self) -> int:
        """Memory that the ids take."""
        return int(self.values.nbytes)

    def at(self, indices: NDArray[np.int64]) -> NDArray[Any]:
        """Return the ids of atoms; -1 or an empty string where there is no atom."""
        found: NDArray[Any] = self.values[indices]
        missing = indices < 0
        if missing.any():
            found[missing] = no_id(found)
        return found

    def joined(self, ids: Any, n_new: int) -> Ids:
        """Return these ids followed by those of new atoms."""
        new = Ids.of_user(ids, n_new).values
        if new.dtype.kind != self.values.dtype.kind:
            raise TypeError(f"ids must be {_kind(self.values)} as the index has them, got {_kind(new)}")
        rows = self._rows()
        for value in new.tolist():
            if value in rows:
                raise ValueError(f"ids holds {value!r}, which the index has already (atom {rows[value]})")
        removed = None if self._removed is None else np.append(self._removed, np.zeros(n_new, dtype=np.bool_))
        return Ids(np.concatenate([self.values, new]), removed)

    def rows_of(self, ids: Any) -> NDArray[np.int64]:
        """Return the indices of atoms by their ids."""
        wanted = _as_ids(ids)
        if wanted.size == 0:
            return np.empty(0, dtype=np.int64)
        if wanted.dtype.kind != self.values.dtype.kind:
            raise TypeError(f"ids must be {_kind(self.values)} as the index has them, got {_kind(wanted)}")
        rows = self._rows()
        found = np.empty(wanted.size, dtype=np.int64)
        for place, value in enumerate(wanted.tolist()):
            if value not in rows:
                raise ValueError(f"ids holds {value!r}, which no atom of the index has (any more)")
            found[place] = rows[value]
        return found

    def without(self, removed: NDArray[np.bool_]) -> Ids:
        """Return the same ids, of which those of removed atoms are free again."""
        return Ids(self.values, removed)

    def _rows(self) -> dict[Any, int]:
        """The index of every atom that is not removed, by its id; made when it is first needed."""
        if self._row_of is None:
            if self._removed is None:
                self._row_of = dict(zip(self.values.tolist(), range(self.values.size), strict=True))
            else:
                rows = np.flatnonzero(~self._removed)
                self._row_of = dict(zip(self.values[rows].tolist(), rows.tolist(), strict=True))
        return self._row_of

    def to_array(self) -> tuple[str, NDArray[Any]]:
        """Return the ids as a named array of numbers, to be saved."""
        if self.values.dtype.kind == "i":
            return "ids", self.values
        # The code points of every string, padded with zeros, are how NumPy keeps them in memory.
        return "ids_text", np.ascontiguousarray(self.values).view(np.uint32).reshape(self.values.size, -1)

    @classmethod
    def from_arrays(cls, arrays: Any, removed: NDArray[np.bool_] | None, n: int) -> Ids | None:
        """Find the ids among saved arrays; None if there are none."""
        if "ids" in arrays:
            values = np.array(arrays["ids"])
        elif "ids_text" in arrays:
            points = np.array(arrays["ids_text"])
            values = points.view(f"U{points.shape[1]}").reshape(-1)
        else:
            return None
        if values.shape != (n,):
            raise ValueError(f"its ids have shape {values.shape}")
        return cls(values, removed)


def no_id(ids: NDArray[Any]) -> Any:
    """Return what stands among such ids where there is no atom."""
    return _NO_ATOM[ids.dtype.kind]


def _kind(values: NDArray[Any]) -> str:
    return "integers" if values.dtype.kind == "i" else "strings"


def _as_ids(ids: Any) -> NDArray[Any]:
    """Return integers as int64 and strings as NumPy's, and refuse anything else."""
    if isinstance(ids, (str, Integral)):
        ids = [ids]
    # Of bytes a list would be made of their numbers, and a set has no order.
    if isinstance(ids, (bytes, bytearray, memoryview, Set)) or not isinstance(ids, Iterable):
        raise TypeError(f"ids must be a list of integers or of strings, got {ids!r}")
    if np.ma.is_masked(ids):
        raise TypeError("ids must be there for every atom, got a masked array")
    array = np.ma.getdata(ids) if isinstance(ids, np.ndarray) else np.array(list(ids), dtype=object)
    if array.ndim != 1:
        raise ValueError(f"ids must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind == "T":
        array = array.astype(object)
    if array.dtype.kind == "O" and array.size:
        # NumPy would make strings of a mixture.
        if all(isinstance(value, str) for value in array):
            cut = next((value for value in array if value.endswith("\0")), None)
            if cut is not None:
                raise ValueError(f"ids must not end in a NUL character, which NumPy takes off, got {cut!r}")
            array = array.astype(np.str_)
        elif all(isinstance(value, Integral) and not isinstance(value, (bool, np.bool_)) for value in array):
            array = np.array([_as_int64(int(value)) for value in array], dtype=np.int64)
        else:
            odd = [value for value in array if isinstance(value, bool) or not isinstance(value, (str, Integral))]
            what = repr(odd[0]) if odd else "a mixture of both"
            raise TypeError(f"ids must be integers or strings, got {what}")
    elif array.dtype.kind == "u":
        _as_int64(int(array.max(initial=0)))
    elif array.size and array.dtype.kind not in "iU":
        raise TypeError(f"ids must be integers or strings, got dtype {array.dtype}")
    array = np.array(array, dtype=np.str_ if array.dtype.kind == "U" else np.int64)
    no_atom = _NO_ATOM[array.dtype.kind]
    if (array == no_atom).any():
        raise ValueError(f"ids must not hold {no_atom!r}, which stands for no atom in a result")
    return array


def _as_int64(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"ids must be integers that fit in 64 bits, got {value}")
    return value


def joined_ids(old: Ids | None, new: ArrayLike | None, n_new: int) -> Ids | None:
    """The ids of the atoms of an index followed by those of new ones: all of them have ids, or none."""
    if old is not None and new is not None:
        return old.joined(new, n_new)
    if old is not None:
        raise ValueError(f"ids must be given for the {n_new} new atoms: the atoms of this index have ids")
    if new is not None:
        raise ValueError("ids cannot be given for new atoms alone: the atoms of this index have none (see fit)")
    return None
