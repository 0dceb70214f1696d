"""open_atoms(): from a path, or what another library has opened, to a store; the only place that recognises files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banditmips._extras import require
from banditmips._files import open_regular
from banditmips._options import MissingChunks

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.atoms.origin import Origin
    from banditmips.atoms.packed import PackedStore
    from banditmips.atoms.parts import PartStore

__all__ = [
    "DEFAULT_MEMORY_LIMIT",
    "FILE_KINDS",
    "READ_WHOLE",
    "cut_rows",
    "even_cuts",
    "kind_of",
    "open_again",
    "open_atoms",
    "open_rows",
    "shape_of_file",
    "store_of_foreign",
]

DEFAULT_MEMORY_LIMIT = 1 << 28
"""Bytes of atoms that a store may hold: 256 MB."""

FILE_KINDS = {
    ".npy": "npy",
    ".npz": "npz",
    ".csv": "csv",
    ".parquet": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".h5": "hdf5",
    ".hdf5": "hdf5",
    ".zarr": "zarr",
    ".tsv": "csv",
    ".txt": "csv",
}
"""What a file is, by its suffix."""

READ_WHOLE = ("npz", "csv")
"""Files that cannot be searched where they lie."""


def kind_of(path: str | os.PathLike[str]) -> str:
    """Recognise a file, a folder or a URL."""
    text = os.fspath(path)
    if not text:
        raise ValueError("the path of a file must not be empty, got ''")
    if "://" in text or any(os.path.exists(os.path.join(text, name)) for name in ("zarr.json", ".zarray", ".zgroup")):
        return "zarr"
    suffix = Path(text).suffix.lower()
    if suffix not in FILE_KINDS:
        if os.path.isdir(text):
            raise ValueError(f"{text}: is a folder, and holds neither a Zarr array nor a group of them")
        if suffix == ".bm" and os.path.isfile(text):
            raise ValueError(f"{text}: is no file of atoms; a saved index is opened by banditmips.load")
        known = ", ".join(FILE_KINDS)
        raise ValueError(f"{text}: cannot read a file with suffix {suffix!r}; known are {known}")
    return FILE_KINDS[suffix]


def open_atoms(
    path: str | os.PathLike[str],
    *,
    dataset: str | None = None,
    memory_limit: int = DEFAULT_MEMORY_LIMIT,
    missing_chunks: MissingChunks = "error",
    header: bool | None = None,
) -> AtomStore:
    """Open atoms in a file, to be searched or fitted where they lie.

    A matrix that takes at most half of `memory_limit` is read at once and kept: searches are fastest in memory. Of a
    larger one nothing but the header is read, and a search reads what it needs.

    Parameters
    ----------
    path
        ``.npy`` (in either order), ``.h5`` or ``.hdf5``, ``.zarr`` (a folder, or any URL that fsspec knows),
        ``.parquet``, ``.arrow`` or ``.feather``; or ``.npz``, ``.csv``, ``.tsv`` and ``.txt``, which are
        always read whole. What `banditmips.pack` has written is never read whole.
    dataset
        Name of the dataset of an HDF5 file, of the array of a Zarr group or an ``.npz`` file, of the list column of a
        Parquet or Arrow file. Not needed where there is only one.
    memory_limit
        Bytes of atoms to hold in memory, beside what `BanditMIPS` keeps for its searches. (Queries that run side by
        side read a plain file into buffers of their own, each as large as that.)
    missing_chunks : {"error", "fill_value"}
        What a chunk stands for that a Zarr array or HDF5 dataset does not hold. Both libraries take it for one that is
        full of the fill value (and Zarr leaves out such chunks when it writes); here that has to be asked for, because
        a chunk that was lost looks the same.
    header
        Whether a ``.csv`` file begins with a line of names. None looks at it.

    Returns
    -------
    AtomStore
        For the `atoms` of `banditmips.search` and `BanditMIPS.fit`, which also take the path itself.

    Raises
    ------
    CorruptFileError
        If the file is damaged, or has changed since it was opened. Later reads may raise this too.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(100, 1)) + rng.normal(size=(100, 50_000))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "atoms.npy")
    ...     np.save(path, atoms)
    ...     index = bm.BanditMIPS().fit(bm.open_atoms(path, memory_limit=8_000_000))
    ...     result = index.search(2 + rng.normal(size=50_000))
    >>> result.bytes_read < atoms.nbytes / 20
    True
    """
    from banditmips.atoms.origin import Origin
    from banditmips.atoms.parts import PartStore

    kind = kind_of(path)
    _check_options(memory_limit, missing_chunks)
    if missing_chunks != "error" and kind not in ("zarr", "hdf5"):
        raise ValueError(f"missing_chunks is for Zarr and HDF5 only, and {os.fspath(path)} is neither")
    if kind in READ_WHOLE:
        from banditmips._tables import read_matrix
        from banditmips._validate import as_store

        return as_store(read_matrix(path, dataset, header=header))
    if kind != "zarr":
        with open_regular(path):  # what cannot be opened is the system's error, with its own words
            pass
    store = _open_in_place(kind, path, dataset, memory_limit, missing_chunks)
    store.origin = Origin.of(path, dataset, memory_limit, missing_chunks)
    return whole_if_small(store, memory_limit) if isinstance(store, PartStore) else store


def open_again(origin: Origin) -> PartStore | PackedStore:
    """Open atoms as they were opened before; they are read where they lie, however few they are."""
    kind = kind_of(origin.path)
    if kind in READ_WHOLE:
        raise ValueError(f"{origin.path}: a {kind} file can only be read whole, and no index was fitted to such a one")
    store = _open_in_place(kind, origin.path, origin.dataset, origin.memory_limit, origin.missing_chunks)
    if origin.rows is not None:
        store = _rows_of(store, origin.rows)
    store.origin = origin
    return store


def _rows_of(whole: PartStore | PackedStore, rows: tuple[int, int]) -> PartStore | PackedStore:
    from banditmips.atoms.parts import PartStore
    from banditmips.atoms.rows import RowRange

    return RowRange(whole, *rows) if isinstance(whole, PartStore) else whole.row_range(*rows)


def shape_of_file(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return the shape of the matrix in a file, without reading more than has to be."""
    kind = kind_of(path)
    if kind in READ_WHOLE:
        return open_atoms(path).shape
    return _open_in_place(kind, path, None, DEFAULT_MEMORY_LIMIT, "error").shape


def cut_rows(path: str | os.PathLike[str], n_parts: int) -> tuple[list[int], int]:
    """Cut the rows of a file into ranges of about equal size: where they begin, and at last n; and say what d is.

    A chunk that two ranges share is read for both. So cuts are moved to where chunks begin, by a quarter of a range at
    most.
    """
    kind = kind_of(path)
    if kind in READ_WHOLE:
        n, d = open_atoms(path).shape
        return even_cuts(n, n_parts), d
    store = _open_in_place(kind, path, None, DEFAULT_MEMORY_LIMIT, "error")
    n, d = store.shape
    first, *inner, last = even_cuts(n, n_parts)
    return [first, *(store.border_near(row, n // n_parts // 4) for row in inner), last], d


def even_cuts(n: int, n_parts: int) -> list[int]:
    """Where ranges of equal size begin, and at last n."""
    return [n * part // n_parts for part in range(n_parts + 1)]


def open_rows(path: str | os.PathLike[str], rows: tuple[int, int]) -> AtomStore:
    """Open a range of the rows of a file, as `open_atoms` does: a small one is read at once."""
    from banditmips.atoms.origin import Origin
    from banditmips.atoms.parts import PartStore

    if kind_of(path) in READ_WHOLE:
        from banditmips._tables import read_matrix
        from banditmips._validate import as_store

        return as_store(read_matrix(path, None, header=None)[slice(*rows)])
    store = open_again(Origin.of(path, None, DEFAULT_MEMORY_LIMIT, "error", rows))
    return whole_if_small(store, DEFAULT_MEMORY_LIMIT) if isinstance(store, PartStore) else store


def _check_options(memory_limit: object, missing_chunks: object) -> None:
    if isinstance(memory_limit, bool) or not isinstance(memory_limit, (int, np.integer)) or memory_limit < 1:
        raise ValueError(f"memory_limit must be a positive number of bytes, got {memory_limit!r}")
    if missing_chunks not in ("error", "fill_value"):
        raise ValueError(f"missing_chunks must be 'error' or 'fill_value', got {missing_chunks!r}")


def _open_in_place(
    kind: str, path: str | os.PathLike[str], dataset: str | None, memory_limit: int, missing_chunks: str
) -> PartStore | PackedStore:
    purpose = f"reading {os.path.basename(os.fspath(path).rstrip('/'))}"
    if kind == "npy":
        from banditmips.atoms.npy import open_npy

        if dataset is not None:
            raise ValueError(
                f"{os.fspath(path)}: a .npy file holds one table only, so there is no {dataset!r} to choose"
            )
        return open_npy(path, memory_limit)
    if kind == "hdf5":
        require("h5py", extra="hdf5", purpose=purpose)
        from banditmips.atoms.hdf5 import open_hdf5

        return open_hdf5(path, dataset, memory_limit, missing_chunks)
    if kind == "zarr":
        require("zarr", extra="zarr", purpose=purpose)
        from banditmips.atoms.zarr_arrays import open_zarr

        return open_zarr(path, dataset, memory_limit, missing_chunks)
    require("pyarrow.parquet", extra="tables", purpose=purpose)
    from banditmips.atoms.arrow import open_ipc, open_parquet

    return (open_parquet if kind == "parquet" else open_ipc)(path, dataset, memory_limit)


def whole_if_small(store: PartStore, memory_limit: int) -> AtomStore:
    """Read a matrix that takes at most half of the memory at once; leave a larger one where it is."""
    n, d = store.shape
    return store.read_whole() if 2 * n * d * store.dtype.itemsize <= memory_limit else store


def store_of_foreign(atoms: Any, memory_limit: int = DEFAULT_MEMORY_LIMIT) -> AtomStore | None:
    """Make a store of what h5py, Zarr or Arrow have opened; None for anything else."""
    from banditmips.atoms.origin import Origin

    # Whoever has such an object has imported the library that made it; nobody else should wait for that.
    h5py, zarr, pyarrow = (sys.modules.get(name) for name in ("h5py", "zarr", "pyarrow"))
    groups = tuple(library.Group for library in (h5py, zarr) if library is not None)
    if isinstance(atoms, groups):
        names = ", ".join(map(repr, sorted(atoms)[:5])) if atoms else ""
        raise TypeError(
            f"atoms is a group, which may hold many arrays: give one, as group[name]; it holds {names or None}"
        )
    if h5py is not None and isinstance(atoms, h5py.Dataset):
        from banditmips.atoms.hdf5 import hdf5_store

        if not atoms:
            raise ValueError(
                "atoms is an HDF5 dataset whose file is closed: open it again, or give the path of the file"
            )
        store = hdf5_store(atoms, memory_limit)
        if os.path.isfile(atoms.file.filename):
            store.origin = Origin.of(atoms.file.filename, atoms.name, memory_limit, "error")
        return whole_if_small(store, memory_limit)
    if zarr is not None and isinstance(atoms, zarr.Array):
        from banditmips.atoms.zarr_arrays import folder_of, zarr_store

        grid, folder = zarr_store(atoms, memory_limit), folder_of(atoms)
        if folder is not None:
            grid.origin = Origin.of(folder, None, memory_limit, "error")
        return whole_if_small(grid, memory_limit)
    if pyarrow is not None and isinstance(
        atoms, (pyarrow.Table, pyarrow.RecordBatch, pyarrow.Array, pyarrow.ChunkedArray)
    ):
        from banditmips.atoms.arrow import arrow_store

        return arrow_store(atoms)
    return None
