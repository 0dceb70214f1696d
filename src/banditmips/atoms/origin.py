"""Where the atoms of a file came from, and what shows that they are still the same, for indexes that are saved."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import PartStore

if TYPE_CHECKING:
    from banditmips.atoms.packed import PackedStore

__all__ = ["Origin", "sample_of"]

_N_SAMPLES, _SAMPLE_WIDTH = 8, 64


@dataclass(frozen=True)
class Origin:
    """Where a store found its atoms, and how it was told to read them.

    Attributes
    ----------
    path : str
        Absolute, or a URL.
    dataset : str or None
        Which of the matrices that a file holds.
    memory_limit : int
    missing_chunks : str
        As in `banditmips.open_atoms`.
    rows : (start, stop) or None
        Which rows of the matrix, if not all.
    """

    path: str
    dataset: str | None
    memory_limit: int
    missing_chunks: str
    rows: tuple[int, int] | None = None

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        dataset: str | None,
        memory_limit: int,
        missing_chunks: str,
        rows: tuple[int, int] | None = None,
    ) -> Origin:
        """Note where atoms are opened."""
        name = os.fspath(path)
        return cls(name if "://" in name else os.path.abspath(name), dataset, int(memory_limit), missing_chunks, rows)

    @property
    def is_remote(self) -> bool:
        """Whether the path is a URL, about which no system can be asked."""
        return "://" in self.path


def sample_of(store: PartStore | PackedStore) -> str:
    """Return a digest of a few entries from all over the atoms: files of which it differs are different files."""
    rows_of = store if isinstance(store, PartStore) else store.by_row
    n, d = store.shape
    width = min(_SAMPLE_WIDTH, d)
    digest = hashlib.sha256()
    for number in range(_N_SAMPLES):
        row, first = (place * number // (_N_SAMPLES - 1) for place in (n - 1, d - width))
        values: NDArray[np.generic] = np.empty((1, width), dtype=store.dtype)
        rows_of.gather(np.array([row]), np.arange(first, first + width), values)
        digest.update(values.astype(store.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
