"""Atoms that stay in their own file: what a saved index says about it, and how it is found again."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._files import CorruptFileError, FileState

if TYPE_CHECKING:
    from banditmips.atoms import PartStore
    from banditmips.atoms.origin import Origin
    from banditmips.atoms.packed import PackedStore

__all__ = ["AtomsPlace", "as_places", "checked_file", "describe_file", "find_file"]

AtomsPlace = str | os.PathLike[str]
_TYPES = {
    "path": str,
    "beside": (str, type(None)),
    "dataset": (str, type(None)),
    "memory_limit": int,
    "missing_chunks": str,
    "shape": list,
    "dtype": str,
    "sample": str,
}
_ROWS = "rows"
"""What only a range of rows says of its file; other files are as the first versions wrote them."""


def describe_file(store: PartStore | PackedStore, index_path: str | os.PathLike[str]) -> dict[str, Any]:
    """Say where the atoms are, how they were opened, and what they look like; their states are saved as an array."""
    from banditmips.atoms.origin import sample_of

    origin = store.origin
    if origin is None:
        raise TypeError(f"atoms in a {type(store).__name__} that was not opened by its path cannot be saved")
    about = asdict(origin)
    rows = about.pop(_ROWS)
    return {
        **about,
        **({} if rows is None else {_ROWS: list(rows)}),
        # So that a folder with both can be moved.
        "beside": None if origin.is_remote else _relative(origin.path, index_path),
        "shape": list(store.shape),
        "dtype": store.dtype.str,
        "sample": sample_of(store),
    }


def _relative(path: str, index_path: str | os.PathLike[str]) -> str | None:
    try:
        return os.path.relpath(path, os.path.dirname(os.path.abspath(index_path)))
    except ValueError:  # another drive
        return None


def as_places(atoms: AtomsPlace | Sequence[AtomsPlace] | None, n_files: int) -> list[AtomsPlace | None]:
    """Return where each of an index's files is said to be."""
    if atoms is None:
        return [None] * n_files
    if n_files == 0:
        raise ValueError(f"atoms must be left out: this index holds its atoms itself, got {atoms!r}")
    places = [atoms] if isinstance(atoms, (str, os.PathLike)) else list(atoms)
    if len(places) != n_files or not all(isinstance(place, (str, os.PathLike)) for place in places):
        raise ValueError(f"atoms must be the path of each of the {n_files} files of this index, got {atoms!r}")
    return list(places)


def find_file(
    index_path: str | os.PathLike[str], told: dict[str, Any], states: NDArray[np.int64], given: AtomsPlace | None
) -> PartStore | PackedStore:
    """Open the file that an index was fitted to: where it was, beside the index as it was, or where it is said to be.

    Raises
    ------
    OSError
        If there is nothing, or the system does not open it.
    CorruptFileError
        If it is not what it was. Of a file in its old place size and time of change tell that; of one in another
        place, whose time means nothing, its size and a sample of its entries.
    """
    with _naming_index(index_path):
        return _find_file(index_path, told, states, given)


_ADVICE = "say where they are, as in load(..., atoms=...), or fit anew"


@contextmanager
def _naming_index(index_path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors about the file with the atoms begin with the index that was to be loaded, and end with what to do."""
    name = os.fspath(index_path)
    try:
        yield
    except OSError as error:
        if error.filename == name:
            raise
        problem = f"{error.filename}: {error.strerror}" if error.filename is not None else str(error)
        problem = f"its atoms cannot be read: {problem}: {_ADVICE}"
        raise type(error)(error.errno or errno.EIO, problem, name) from error
    except ImportError as error:
        raise ImportError(f"{name}: its atoms: {error}") from error
    except ValueError as error:
        has_advice = "fit anew" in str(error)
        raise CorruptFileError(name, "its atoms", str(error) if has_advice else f"{error}: {_ADVICE}") from error


def _find_file(
    index_path: str | os.PathLike[str], told: dict[str, Any], states: NDArray[np.int64], given: AtomsPlace | None
) -> PartStore | PackedStore:
    from banditmips._opening import open_again
    from banditmips.atoms.origin import sample_of

    origin = _origin(told)
    place = _place_of(index_path, origin, told["beside"], given)
    store = open_again(replace(origin, path=place))
    _check_shape(store, told)
    if store.n_files != len(states):
        raise CorruptFileError(place, "file", f"it was {len(states)} files, and is {store.n_files}: fit anew")
    if given is None and place == origin.path and store.n_files:
        store.expect(states)
        return store
    if store.n_files == 1:
        before, now = (FileState(*found[0].tolist()) for found in (states, store.states()))
        replace_time = FileState(now.size, before.changed)
        before.check(replace_time, place, fitted=True)
    if sample_of(store) != told["sample"]:
        raise CorruptFileError(place, "sample of its entries", "they are not those that the index was fitted to")
    return store


def checked_file(told: Any) -> dict[str, Any]:
    """Check what a file says of another: anybody may have written it."""
    if not isinstance(told, dict) or told.keys() - {_ROWS} != _TYPES.keys():
        raise ValueError(f"it says of a file of atoms {told!r}")
    for name, types in _TYPES.items():
        if not isinstance(told[name], types) or isinstance(told[name], bool):  # type: ignore[arg-type]
            raise ValueError(f"it says of a file of atoms that its {name} is {told[name]!r}")
    if not 0 < told["memory_limit"] <= sys.maxsize or told["missing_chunks"] not in ("error", "fill_value"):
        raise ValueError(f"it says that a file of atoms was opened in a way that cannot be: {told!r}")
    if _ROWS in told and not _is_range(told[_ROWS]):
        raise ValueError(f"it says of a file of atoms that its rows are {told[_ROWS]!r}")
    return told


def _is_range(rows: Any) -> bool:
    is_pair = isinstance(rows, list) and len(rows) == 2 and all(type(row) is int for row in rows)
    return is_pair and 0 <= rows[0] < rows[1] <= sys.maxsize


def _origin(told: dict[str, Any]) -> Origin:
    from banditmips.atoms.origin import Origin

    rows = tuple(told[_ROWS]) if _ROWS in told else None
    return Origin(told["path"], told["dataset"], told["memory_limit"], told["missing_chunks"], rows)


def _place_of(index_path: str | os.PathLike[str], origin: Origin, beside: str | None, given: AtomsPlace | None) -> str:
    if given is not None:
        name = os.fspath(given)
        if "://" not in name and not os.path.exists(name):
            raise FileNotFoundError(errno.ENOENT, "there are no atoms here (argument 'atoms')", name)
        return name if "://" in name else os.path.abspath(name)
    if origin.is_remote or os.path.exists(origin.path):
        return origin.path
    folder = os.path.dirname(os.path.abspath(index_path))
    near = None if beside is None else os.path.normpath(os.path.join(folder, beside))
    if near is not None and os.path.exists(near):
        return near
    looked = origin.path if near in (None, origin.path) else f"{origin.path} or {near}"
    problem = f"its atoms are gone from {looked}: say where they are, as in load(..., atoms=...)"
    raise FileNotFoundError(errno.ENOENT, problem, os.fspath(index_path))


def _check_shape(store: PartStore | PackedStore, told: dict[str, Any]) -> None:
    assert store.origin is not None
    found = list(store.shape), store.dtype.str
    if found != (told["shape"], told["dtype"]):
        now = f"{tuple(store.shape)} entries of {store.dtype.str}"
        problem = f"it holds {now}, but the index was fitted to {tuple(told['shape'])} of {told['dtype']}"
        raise CorruptFileError(store.origin.path, "file", problem)
