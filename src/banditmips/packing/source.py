"""What is packed: a file that is opened as a store, and how to tell whether it has changed since."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path
from typing import Any

from banditmips._opening import READ_WHOLE, kind_of, open_atoms
from banditmips._validate import as_store
from banditmips.atoms import AtomStore, SparseStore

__all__ = ["Source", "open_source"]


class Source:
    """Atoms to be packed.

    Attributes
    ----------
    name : str
        The path as the user gave it, or what kind of array it was.
    store : AtomStore
    path : Path or None
        Where it is on disk, if it is.
    """

    def __init__(self, name: str, store: AtomStore, path: Path | None) -> None:
        self.name = name
        self.store = store
        self.path = path

    def fingerprint(self) -> str | None:
        """Return a digest of the size and the time of change of each of its files; None if there are none here."""
        if self.path is None:
            return None
        digest = hashlib.sha256()
        files = [self.path] if self.path.is_file() else sorted(p for p in self.path.rglob("*") if p.is_file())
        for file in files:
            status = file.stat()
            place = file.relative_to(self.path).as_posix()
            digest.update(f"{place} {status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()


def open_source(source: Any, dataset: str | None, memory_limit: int) -> Source:
    """Open a file, or take atoms that are already open; reading them takes no more than this memory."""
    path = None
    name = type(source).__name__
    if isinstance(source, (str, os.PathLike)):
        name = os.fspath(source)
        path = None if "://" in name else Path(name)
        _check_fits(name, memory_limit)
        source = open_atoms(name, dataset=dataset, memory_limit=memory_limit)
    elif dataset is not None:
        raise ValueError(f"dataset chooses from a file, but source is a {name}, so there is no {dataset!r}")
    store = as_store(source)
    if isinstance(store, SparseStore):
        raise ValueError(f"source {name} is sparse, and packing would write its zeros: search it as it is")
    return Source(name, store, path)


def _check_fits(name: str, memory_limit: int) -> None:
    """Refuse files that can only be read whole and would take too much."""
    kind = kind_of(name)
    if kind not in READ_WHOLE or not os.path.isfile(name):
        return
    size = os.path.getsize(name)
    if kind == "npz" and zipfile.is_zipfile(name):
        with zipfile.ZipFile(name) as archive:
            size = max((entry.file_size for entry in archive.infolist()), default=0)
    if size > memory_limit:
        raise ValueError(
            f"source {name} can only be read whole, and its {size:,} bytes are more than a quarter of the memory: "
            "save it as .npy first, or allow more"
        )
