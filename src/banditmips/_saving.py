"""What a saved index holds: from an `AtomSet` to named arrays and back."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from banditmips._files import CorruptFileError, SavedFile, read_file, write_file
from banditmips._query import AtomSet

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore

__all__ = ["load_index", "save_index"]

_KIND = "index"


def save_index(path: str | os.PathLike[str], atom_set: AtomSet, settings: dict[str, Any]) -> None:
    """Write an index: its settings, its atoms, and what was prepared for them."""
    from banditmips.atoms import JoinedStore

    stores = atom_set.store.stores if isinstance(atom_set.store, JoinedStore) else (atom_set.store,)
    arrays: dict[str, NDArray[Any]] = {}
    kinds = [_put_store(arrays, f"atoms{number}", store) for number, store in enumerate(stores)]
    facts, cache = atom_set.facts, atom_set.cache
    if facts is not None:
        arrays["squared_norms"] = facts.squared_norms
        arrays["means"] = facts.means
        arrays["scatter"] = facts.scatter
        arrays["column_squares"] = facts.column_squares
        arrays["range"] = np.array([facts.low, facts.high])
    if cache is not None:
        arrays["cache_order"], arrays["cache_block"], arrays["cache_prefix"] = cache.order, cache.block, cache.prefix
    if atom_set.removed is not None:
        arrays["removed"] = atom_set.removed
    value_range = settings["value_range"]
    plain = {**settings, "value_range": None if value_range is None else [float(x) for x in value_range]}
    metadata = {"kind": _KIND, "stores": kinds, "shape": list(atom_set.store.shape), "settings": plain}
    write_file(path, metadata, arrays)


def _put_store(arrays: dict[str, NDArray[Any]], name: str, store: AtomStore) -> str:
    from banditmips.atoms import DenseStore, SparseStore

    if isinstance(store, DenseStore):
        arrays[name] = store.array
        return "dense"
    if isinstance(store, SparseStore):
        kind, matrix = ("sparse", store.by_row) if store.by_row is not None else ("csc", store.by_column)
        for part in ("data", "indices", "indptr"):
            arrays[_part_name(name, kind, part)] = getattr(matrix, part)
        arrays[f"{name}_shape"] = np.array(store.shape, dtype=np.int64)
        return kind
    raise TypeError(f"atoms in a {type(store).__name__} cannot be saved, only dense arrays and sparse matrices")


def _part_name(name: str, kind: str, part: str) -> str:
    return f"{name}_{part}" if kind == "sparse" else f"{name}_{kind}_{part}"


def load_index(path: str | os.PathLike[str]) -> tuple[SavedFile, dict[str, Any], AtomSet]:
    """Open a file that `save_index` wrote: (the file, the settings, the atoms)."""
    file = read_file(path)
    try:
        if file.metadata.get("kind") != _KIND:
            raise ValueError(f"it holds {file.metadata.get('kind')!r}, not an index")
        if any(kind != "dense" for kind in file.metadata["stores"]):
            file.verify()  # SciPy trusts the indices of a sparse matrix: a damaged one could crash the process
        settings = dict(file.metadata["settings"])
        if settings["value_range"] is not None:
            settings["value_range"] = tuple(settings["value_range"])
        if settings["layout"] == "cache":
            settings["layout"] = "coordinates"  # as the first files called it
        atom_set = _get_atom_set(file.arrays, file.metadata, unchecked=not settings["validate"])
        _check_settings(settings)
    except CorruptFileError:
        raise
    except (KeyError, IndexError, TypeError, ValueError) as error:
        # The checksums fit, so another program wrote this, or another version.
        raise CorruptFileError(
            path, "header", f"it is not a saved index as this version writes it ({error})"
        ) from error
    return file, settings, atom_set


def _check_settings(settings: dict[str, Any]) -> None:
    """Check what `BanditMIPS` will be made with, so that an odd file is an error of the file."""
    from banditmips._index import BanditMIPS

    BanditMIPS(**settings)


def _get_atom_set(arrays: Mapping[str, NDArray[Any]], metadata: dict[str, Any], unchecked: bool) -> AtomSet:
    from banditmips.atoms import JoinedStore
    from banditmips.atoms.cache import WarmCache
    from banditmips.atoms.facts import AtomFacts, derived_scatter

    stores = [_get_store(arrays, f"atoms{number}", kind) for number, kind in enumerate(metadata["stores"])]
    store = stores[0] if len(stores) == 1 else JoinedStore(stores)
    n, d = store.shape
    if [n, d] != metadata["shape"]:
        raise ValueError(f"its atoms have shape {(n, d)}, but it says {metadata['shape']}")
    facts = cache = None
    if "squared_norms" in arrays:
        low, high = arrays["range"].tolist()
        norms, means = _shaped(arrays, "squared_norms", n), _shaped(arrays, "means", n)
        # The first files held no scatter.
        scatter = _shaped(arrays, "scatter", n) if "scatter" in arrays else derived_scatter(norms, means, d)
        facts = AtomFacts(norms, means, scatter, low, high, _shaped(arrays, "column_squares", d))
    if "cache_block" in arrays:
        block, prefix = arrays["cache_block"], arrays["cache_prefix"]
        if block.shape[1] != n or prefix.shape[0] != n or block.shape[0] > prefix.shape[1]:
            raise ValueError(f"its caches have shapes {block.shape} and {prefix.shape}")
        cache = WarmCache(_shaped(arrays, "cache_order", prefix.shape[1]), np.asarray(block), np.asarray(prefix))
    removed = _shaped(arrays, "removed", n) if "removed" in arrays else None
    return AtomSet(store, facts=facts, cache=cache, removed=removed, unchecked=unchecked)


def _shaped(arrays: Mapping[str, NDArray[Any]], name: str, length: int) -> NDArray[Any]:
    array = arrays[name]
    if array.shape != (length,):
        raise ValueError(f"its {name} have shape {array.shape}")
    return np.asarray(array)


def _get_store(arrays: Mapping[str, NDArray[Any]], name: str, kind: str) -> AtomStore:
    from banditmips.atoms import DenseStore, SparseStore

    if kind == "dense":
        return DenseStore(arrays[name])
    n, d = arrays[f"{name}_shape"].tolist()
    parts = tuple(np.asarray(arrays[_part_name(name, kind, part)]) for part in ("data", "indices", "indptr"))
    make = {"sparse": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}[kind]
    return SparseStore(make(parts, shape=(n, d)))
