"""Saved indices: from an `AtomSet` to named arrays in a file, and back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from banditmips._array_rules import ArrayRule, checked_array, checked_arrays
from banditmips._files import CorruptFileError
from banditmips._ids import Ids
from banditmips._index import BanditMIPS
from banditmips._saved import SavedFile, read_file
from banditmips._saved_atoms import AtomsPlace, as_places, checked_file, describe_file, find_file
from banditmips._saved_format import DTYPES, write_file
from banditmips.race.atom_set import AtomSet

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.atoms.axes import Axes
    from banditmips.core.codes import Codes

__all__ = ["Verify", "load", "save_index"]

_KIND = "index"

Verify = Literal["now", "lazy", "never"]
VERIFY: tuple[Verify, ...] = get_args(Verify)

_SPARSE = ("sparse", "csc")

_REAL = "fiub"
_ATOMS = "type of the atoms"

_FACTS = {
    "squared_norms": ArrayRule("f8", ("n",)),
    "means": ArrayRule("f8", ("n",)),
    "scatter": ArrayRule("f8", ("n",), optional=True),  # the first files held none
    "column_squares": ArrayRule("f4", ("d",)),
    "range": ArrayRule("f8", (2,)),
}
_CACHE = {
    "cache_order": ArrayRule("i8", ("cached",), below="d", distinct=True),
    "cache_prefix": ArrayRule(_ATOMS, ("n", "cached")),  # the first files held a part of it by coordinate, too
}
_CODES = {
    "codes_centre": ArrayRule("f4|f8", ("d",)),
    "codes_along": ArrayRule("f8", ("n",)),
    "codes_scales": ArrayRule("f4", ("rounds", "n")),
    "codes_errors": ArrayRule("f4", ("rounds", "n")),
    "codes_first": ArrayRule("u8", ("n", "words of the first round")),
    "codes_rest": ArrayRule("u8", ("n", "words of later rounds")),
    "codes_finer": ArrayRule("u8", ("n", "words of finer bits")),
}
_AXES = {
    "axes": ArrayRule("f4|f8", ("axes", "d"), optional=True),
    "axes_along": ArrayRule("f4", ("axes", "n"), optional=True),
}
_STATES = ArrayRule("i8", ("files", 2))
_REMOVED = {"removed": ArrayRule("b1", ("n",), optional=True)}
_IDS = {
    "ids": ArrayRule("i8", ("n",), optional=True),
    "ids_text": ArrayRule("u4", ("n", "characters"), below=sys.maxunicode + 1, optional=True),
}
_LOOKED_AT = frozenset((*_FACTS, *_REMOVED, *_IDS, "cache_order", "codes_centre", *_AXES))


def save_index(
    path: str | os.PathLike[str], atom_set: AtomSet, settings: dict[str, Any], check: Callable[[], None]
) -> None:
    """Write an index: its settings, its atoms or where they are, what was prepared for them, what they are called.

    `check` raises if the atoms that were written were not those of their own file.
    """
    from banditmips.atoms import JoinedStore

    stores = atom_set.store.stores if isinstance(atom_set.store, JoinedStore) else (atom_set.store,)
    for store in stores:
        if store.dtype.newbyteorder("<").str not in DTYPES:
            held = "booleans, integers and floats of up to 64 bits"
            raise TypeError(f"atoms of {store.dtype} cannot be saved, only {held}: fit them as one of these")
    arrays: dict[str, NDArray[Any]] = {}
    kinds = [_put_store(arrays, f"atoms{number}", store) for number, store in enumerate(stores)]
    files = [
        describe_file(store, path)  # type: ignore[arg-type]
        for kind, store in zip(kinds, stores, strict=True)
        if kind == "file"
    ]
    facts, cache, codes, ids = atom_set.facts, atom_set.cache, atom_set.codes, atom_set.ids
    if facts is not None:
        arrays["squared_norms"] = facts.squared_norms
        arrays["means"] = facts.means
        arrays["scatter"] = facts.scatter
        arrays["column_squares"] = facts.column_squares
        arrays["range"] = np.array([facts.low, facts.high])
    if atom_set.axes is not None:
        arrays["axes"], arrays["axes_along"] = atom_set.axes.directions, atom_set.axes.along
    if cache is not None:
        arrays["cache_order"], arrays["cache_prefix"] = cache.order, cache.values
    if codes is not None:
        arrays |= {f"codes_{name}": array for name, array in codes.arrays().items()}
    if atom_set.removed is not None:
        arrays["removed"] = atom_set.removed
    if ids is not None:
        name, array = ids.to_array()
        arrays[name] = array
    value_range = settings["value_range"]
    plain = {**settings, "value_range": None if value_range is None else [float(x) for x in value_range]}
    metadata: dict[str, Any] = {"kind": _KIND, "stores": kinds, "shape": list(atom_set.store.shape), "settings": plain}
    if files:
        metadata["files"] = files
    if codes is not None:
        metadata["codes"] = {"n_cells": codes.n_cells, "n_bits": codes.n_bits, "seed": codes.rotation.seed}
    write_file(path, metadata, arrays, check)


def _put_store(arrays: dict[str, NDArray[Any]], name: str, store: AtomStore) -> str:
    from banditmips.atoms import DenseStore, PartStore, SparseStore
    from banditmips.atoms.packed import PackedStore

    if isinstance(store, (PartStore, PackedStore)):
        arrays[f"{name}_states"] = store.states()
        return "file"
    if isinstance(store, DenseStore):
        arrays[name] = store.array
        return "dense"
    if isinstance(store, SparseStore):
        kind, matrix = ("sparse", store.by_row) if store.by_row is not None else ("csc", store.by_column)
        for part in ("data", "indices", "indptr"):
            arrays[_part_name(name, kind, part)] = getattr(matrix, part)
        arrays[f"{name}_shape"] = np.array(store.shape, dtype=np.int64)
        return kind
    raise TypeError(f"atoms in a {type(store).__name__} cannot be saved, only arrays, sparse matrices and files")


def _part_name(name: str, kind: str, part: str) -> str:
    return f"{name}_{part}" if kind == "sparse" else f"{name}_{kind}_{part}"


def load(
    path: str | os.PathLike[str],
    *,
    verify: Verify = "lazy",
    atoms: AtomsPlace | Sequence[AtomsPlace] | None = None,
) -> BanditMIPS:
    """Open a saved index. The atoms stay on disk: memory-mapped, or in the file of their own that they were fitted in.

    Parameters
    ----------
    path
        What `BanditMIPS.save` has written.
    verify : {"lazy", "now", "never"}
        When to compare the file's contents with their checksums: ``lazy`` when the index is first used, ``now`` before
        this returns, ``never`` unless `BanditMIPS.verify` is called. The comparison reads the file once
        (docs/reliability.md says at what speed). ``never`` is for files much larger than memory, of which a search
        shall read a little; they are then trusted to be what was saved.
    atoms : path, optional
        Where the atoms are now, if the index was fitted to a file and that is neither where it was nor, beside the
        index, where it was. (A list of paths, if atoms of several files were added.) A file that is named is taken if
        its shape, its size and a sample of its entries are right; one in its old place must have its old time of
        change.

    Raises
    ------
    FileNotFoundError
        If there is no such file, or the file with the atoms is gone.
    CorruptFileError
        If the file is damaged, or the file with the atoms is not what it was. Searches raise it too: where
        ``verify="lazy"`` finds damage, and whenever one of them has changed since it was opened.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import banditmips as bm
    >>> atoms = np.random.default_rng(0).normal(size=(10, 1000))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "atoms.bm")
    ...     bm.BanditMIPS().fit(atoms).save(path)
    ...     index = bm.load(path, verify="now")
    ...     int(index.search(atoms[3]).indices[0])
    3
    """
    if verify not in VERIFY:
        raise ValueError(f"verify must be one of {', '.join(map(repr, VERIFY))}, got {verify!r}")
    file = read_file(path)
    if verify == "now":
        file.check()
    elif verify == "never":
        file.trust()
    with _as_saved(path):
        if file.metadata.get("kind") != _KIND:
            raise ValueError(f"it holds {file.metadata.get('kind')!r}, not an index")
        # What is looked at here is compared here; the atoms and whatever is as large wait for the first search.
        file.check(name for name in file.arrays if _is_looked_at(name))
        settings = dict(file.metadata["settings"])
        if settings["value_range"] is not None:
            settings["value_range"] = tuple(settings["value_range"])
        if settings["layout"] == "cache":
            settings["layout"] = "coordinates"  # as the first files called it
        told = _files_told(file)
    places = as_places(atoms, len(told))
    in_files = [find_file(path, *one, place) for one, place in zip(told, places, strict=True)]
    with _as_saved(path):
        atom_set = _get_atom_set(file.arrays, file.metadata, in_files, unchecked=not settings["validate"])
        n = atom_set.store.shape[0]
        ids = Ids.from_arrays(checked_arrays(file.arrays, _IDS, {"n": n}, {}), atom_set.removed, n)
        index = BanditMIPS(**settings)
    index._restore(file, atom_set, ids)
    return index


@contextmanager
def _as_saved(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what goes wrong with contents whose checksums fit into an error of the file."""
    try:
        yield
    except CorruptFileError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        # Another program wrote this, or another version.
        problem = f"it is not a saved index as this version writes it ({error})"
        raise CorruptFileError(path, "header", problem) from error


def _is_looked_at(name: str) -> bool:
    """Whether loading reads a block: small ones, and sparse matrices, whose places are as many as their entries."""
    return name in _LOOKED_AT or (name.startswith("atoms") and "_" in name)


def _files_told(file: SavedFile) -> list[tuple[dict[str, Any], NDArray[np.int64]]]:
    """What an index says of the files that its atoms are in, with their states; checked."""
    files, kinds = file.metadata.get("files", []), file.metadata["stores"]
    if not isinstance(kinds, list) or not kinds:
        raise ValueError("it has no stores")
    numbers = [number for number, kind in enumerate(kinds) if kind == "file"]
    if not isinstance(files, list) or len(files) != len(numbers):
        raise ValueError(f"it says of its {len(numbers)} files {files!r}")
    told = []
    for number, one in zip(numbers, files, strict=True):
        name = f"atoms{number}_states"
        told.append((checked_file(one), checked_array(name, file.arrays[name], _STATES, {}, {})))
    return told


def _get_atom_set(
    arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any], in_files: Sequence[AtomStore], unchecked: bool
) -> AtomSet:
    """Put the atoms together with what was prepared for them; `in_files` are those in files of their own."""
    from banditmips.atoms import JoinedStore
    from banditmips.atoms.cache import WarmCache
    from banditmips.atoms.facts import AtomFacts, derived_scatter

    n, d = _checked_shape(metadata["shape"])
    files = iter(in_files)
    stores = [
        next(files) if kind == "file" else _get_store(arrays, f"atoms{number}", kind, d)
        for number, kind in enumerate(metadata["stores"])
    ]
    if any(store.shape[1] != d for store in stores):
        raise ValueError(f"its atoms do not all have {d} columns")
    if sum(store.shape[0] for store in stores) != n:
        raise ValueError(f"its atoms are {sum(store.shape[0] for store in stores)}, but it says {n}")
    store = stores[0] if len(stores) == 1 else JoinedStore(stores)
    sizes, dtypes = {"n": n, "d": d}, {_ATOMS: store.dtype}
    facts = cache = codes = None
    if "squared_norms" in arrays:
        found = checked_arrays(arrays, _FACTS, sizes, dtypes)
        norms, means = found["squared_norms"], found["means"]
        scatter = found["scatter"] if "scatter" in found else derived_scatter(norms, means, d)
        low, high = found["range"].tolist()
        facts = AtomFacts(norms, means, scatter, low, high, found["column_squares"])
    if "cache_prefix" in arrays:
        found = checked_arrays(arrays, _CACHE, sizes, dtypes)
        if sizes["cached"] < 1:
            raise ValueError("its cache_order names no coordinate")
        cache = WarmCache(found["cache_order"], found["cache_prefix"])
    if "codes" in metadata:
        codes = _get_codes(arrays, metadata["codes"], sizes)
    axes = None if facts is None else _get_axes(arrays, sizes)
    removed = checked_arrays(arrays, _REMOVED, sizes, dtypes).get("removed")
    if removed is not None:
        removed = np.array(removed)  # out of the file: whoever asks how many they are does not look at the file first
    return AtomSet(store, facts=facts, axes=axes, codes=codes, cache=cache, removed=removed, unchecked=unchecked)


def _get_axes(arrays: Mapping[str, NDArray[Any]], sizes: dict[str, int]) -> Axes | None:
    """Make axes of their arrays, if there are any."""
    from banditmips.atoms.axes import MOST_AXES, Axes

    found = checked_arrays(arrays, _AXES, sizes, {})
    if not found:
        return None
    if len(found) < len(_AXES) or not 1 <= sizes["axes"] <= MOST_AXES:
        raise ValueError(f"its axes are {sizes['axes']} with {', '.join(found)}: not what belongs together")
    return Axes(found["axes"], found["axes_along"])


def _get_codes(arrays: Mapping[str, NDArray[Any]], told: Any, sizes: dict[str, int]) -> Codes:
    """Make codes of their arrays; `Codes` checks the numbers of cells and bits, and that there are words for them."""
    from banditmips.core.codes import Codes
    from banditmips.core.rotation import Rotation

    names = ("n_cells", "n_bits", "seed")
    if not isinstance(told, dict) or any(type(told.get(name)) is not int for name in names):
        raise ValueError(f"{told!r} does not describe codes")
    n_cells, n_bits, seed = (told[name] for name in names)
    if not 0 <= seed < 1 << 63:
        raise ValueError(f"its codes have the seed {seed}, outside 0..2**63 - 1")
    found = checked_arrays(arrays, _CODES, sizes, {})  # before the rotation takes memory for d coordinates
    held = {name.removeprefix("codes_"): array for name, array in found.items()}
    return Codes.from_arrays(Rotation(sizes["d"], seed), n_cells, n_bits, held)


def _checked_shape(shape: Any) -> tuple[int, int]:
    """Check a shape: whoever reads it may multiply it, and allocate as much."""
    is_shape = isinstance(shape, list) and len(shape) == 2 and all(type(size) is int for size in shape)
    if not is_shape or min(shape) < 1 or shape[0] * shape[1] > sys.maxsize:
        raise ValueError(f"{shape!r} is no shape of atoms")
    return shape[0], shape[1]


def _get_store(arrays: Mapping[str, NDArray[Any]], name: str, kind: str, d: int) -> AtomStore:
    from banditmips.atoms import DenseStore, SparseStore

    sizes = {"d": d}
    if kind == "dense":
        atoms = checked_array(name, arrays[name], ArrayRule(_REAL, ("n", "d")), sizes, {})
        _checked_shape(list(atoms.shape))
        return DenseStore(atoms)
    if kind not in _SPARSE:
        raise ValueError(f"it knows of atoms of the kind {kind!r}")
    shape = checked_array(f"{name}_shape", arrays[f"{name}_shape"], ArrayRule("i8", (2,)), sizes, {})
    n, width = _checked_shape(shape.tolist())
    if width != d:
        raise ValueError(f"its {name}_shape is {(n, width)}, but its atoms have {d} columns")
    rules = {
        "data": ArrayRule(_REAL, ("stored",)),
        "indices": ArrayRule("i", ("stored",)),
        # Before SciPy makes room for as many.
        "indptr": ArrayRule("i", ((n if kind == "sparse" else d) + 1,)),
    }
    parts = []
    for part, rule in rules.items():
        full = _part_name(name, kind, part)
        parts.append(checked_array(full, arrays[full], rule, sizes, {}))
    # Not before there is one: SciPy's matrices take longer to import than most indexes to open.
    from scipy.sparse import csc_array, csr_array

    matrix = (csr_array if kind == "sparse" else csc_array)((n, d))
    # Put in place without a look: SciPy would read all places to choose their type, and `SparseStore` reads them again.
    matrix.data, matrix.indices, matrix.indptr = parts
    store = SparseStore(matrix)
    store.settle()
    return store
