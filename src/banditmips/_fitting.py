"""What goes along with a long `fit`: a bar that shows how far it is, and a file from which it goes on after a kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._files import check_target
from banditmips._progress import progress_bar
from banditmips._saved import SavedFile, read_file
from banditmips._saved_format import write_file

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.atoms.collecting import FactsCollector
    from banditmips.atoms.packed import PackedStore
    from banditmips.atoms.parts import PartStore

__all__ = ["following"]

_KIND = "checkpoint of fit"
_SECONDS = 30.0
"""Time between two checkpoints: what a kill costs at most."""
_SHARE = 20.0
"""A checkpoint that took a second to write is not written again for so many."""

Advance = Callable[[int], None]


class Checkpoint:
    """What a fit has learnt so far, in a file that is replaced as a whole every now and then.

    Parameters
    ----------
    path
        Where the file is, or will be.
    store
        The atoms, in a file of their own.
    settings
        What decides what is learnt: a fit with others does not go on from here.
    """

    def __init__(self, path: str | os.PathLike[str], store: PartStore | PackedStore, settings: dict[str, Any]) -> None:
        from banditmips.atoms.origin import sample_of

        check_target(path)
        self._path = os.fspath(path)
        self._states = np.array(store.states())
        self._told = {
            **settings,
            "shape": list(store.shape),
            "dtype": store.dtype.str,
            "sample of the atoms": sample_of(store),
        }
        self._last, self._took = time.monotonic(), 0.0
        self._found: SavedFile | None = None
        if os.path.lexists(self._path):
            self._found = read_file(self._path)
            self._found.verify()
            self._check_same(self._found)

    def _check_same(self, found: SavedFile) -> None:
        metadata = found.metadata
        if metadata.get("kind") != _KIND:
            raise ValueError(f"{self._path}: is no checkpoint of fit, and stays as it is: name another file")
        changed = [
            f"{name} was {metadata['told'].get(name)!r}, is {value!r}"
            for name, value in self._told.items()
            if metadata["told"].get(name) != value
        ]
        if not changed and not np.array_equal(found.arrays["states"], self._states):
            changed = ["the atoms have changed, as size or time of their files show"]
        if changed:
            problem = f"it is the checkpoint of another fit ({'; '.join(changed)}): remove it, or name another file"
            raise ValueError(f"{self._path}: {problem}")

    @property
    def looked(self) -> dict[str, NDArray[Any]] | None:
        """What the first look of a fit that was broken off has shown."""
        if self._found is None:
            return None
        arrays = self._found.arrays
        return {name: np.array(arrays[name]) for name in ("centre", "axes") if name in arrays}

    def restore(self, collector: FactsCollector) -> int:
        """Give back what is known, and say of how many rows."""
        if self._found is None:
            return 0
        n_rows = int(self._found.metadata["n_rows"])
        collector.restore(n_rows, self._found.arrays)
        self._found = None
        return n_rows

    def write(self, collector: FactsCollector, n_rows: int) -> None:
        """Write down what is known of so many rows, if it is time to."""
        start = time.monotonic()
        if start - self._last < max(_SECONDS, _SHARE * self._took):
            return
        about = {"kind": _KIND, "told": self._told, "n_rows": n_rows}
        write_file(self._path, about, {**collector.known_of(n_rows), "states": self._states})
        self._last = time.monotonic()
        self._took = self._last - start

    def remove(self) -> None:
        """Remove the file, which nobody needs any more."""
        with suppress(FileNotFoundError):
            os.unlink(self._path)


class FitFollower:
    """Follows a pass over the atoms (`banditmips.atoms.following.Follower`)."""

    def __init__(self, checkpoint: Checkpoint | None, advance: Advance, row_bytes: int, itemsize: int) -> None:
        self._checkpoint, self._advance = checkpoint, advance
        self._row_bytes, self._itemsize = row_bytes, itemsize
        self._collector: FactsCollector | None = None

    @property
    def resumes(self) -> bool:
        """Whether there is a file from which a fit goes on."""
        return self._checkpoint is not None

    @property
    def looked(self) -> dict[str, NDArray[Any]] | None:
        """What a first look at some atoms has shown, if it is known from before."""
        return None if self._checkpoint is None else self._checkpoint.looked

    def begin(self, collector: FactsCollector) -> int:
        """Go on where a fit was broken off."""
        self._collector = collector
        n_rows = 0 if self._checkpoint is None else self._checkpoint.restore(collector)
        self._advance(n_rows * self._row_bytes)
        return n_rows

    def seen(self, n_entries: int, n_rows: int | None) -> None:
        """Show how far it is, and write it down."""
        self._advance(n_entries * self._itemsize)
        if self._checkpoint is not None and n_rows is not None:
            assert self._collector is not None
            self._checkpoint.write(self._collector, n_rows)


@contextmanager
def following(
    store: AtomStore, progress: bool, checkpoint: str | os.PathLike[str] | None, settings: dict[str, Any]
) -> Iterator[FitFollower]:
    """Follow the fit of a store; the checkpoint is removed when the fit is complete."""
    n, d = store.shape
    row_bytes, itemsize = d * store.dtype.itemsize, store.dtype.itemsize
    kept = None if checkpoint is None else Checkpoint(checkpoint, _in_file(store), settings)
    with progress_bar("fitting", n * row_bytes, progress, in_bytes=True) as advance:
        yield FitFollower(kept, advance, row_bytes, itemsize)
    if kept is not None:
        kept.remove()


def _in_file(store: AtomStore) -> PartStore | PackedStore:
    from banditmips.atoms.packed import PackedStore
    from banditmips.atoms.parts import PartStore

    if not isinstance(store, (PartStore, PackedStore)):
        raise ValueError("checkpoint is for atoms in a file that are read where they lie; these are in memory")
    return store
