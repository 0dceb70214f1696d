"""What is packed: a file that is opened as a store, and how to tell whether it has changed since."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

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
        """Return a digest of the size and the time of change of each of its files; None for atoms in memory."""
        if self.path is None:
            return None
        digest = hashlib.sha256()
        files = [self.path] if self.path.is_file() else sorted(p for p in self.path.rglob("*") if p.is_file())
        for file in files:
            status = file.stat()
            place = file.relative_to(self.path).as_posix()
            digest.update(f"{place} {status.st_size} {status.st_mtime_ns}\n".encode())
        return digest.hexdigest()


def open_source(source: Any, key: str | None) -> Source:
    """Open a file, or take atoms that are already open."""
    path = None
    name = type(source).__name__
    if isinstance(source, (str, os.PathLike)):
        from banditmips._tables import read_matrix

        path, name = Path(source), os.fspath(source)
        source = read_matrix(path, key)
    store = as_store(source)
    if isinstance(store, SparseStore):
        raise ValueError(f"source {name} is sparse, and packing would write its zeros: search it as it is")
    return Source(name, store, path)
