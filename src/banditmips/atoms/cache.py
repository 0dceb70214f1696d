"""The paper's warm start: the first coordinates of the seed's uniform order, kept for every atom."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import PartStore
from banditmips.atoms.protocol import AtomStore
from banditmips.core.numbers import permuted_coordinates

__all__ = ["CacheFiller", "WarmCache", "build_cache", "cache_size"]

MIN_COORDINATES, MAX_COORDINATES = 512, 4096
"""The least and the most kept of each atom where d >= 2,048."""


class WarmCache:
    """The first coordinates of the uniform order of all atoms.

    Attributes
    ----------
    order : int64, shape (p,), the coordinates.
    values : shape (n, p), the atoms' entries there.
    """

    def __init__(self, order: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.order = order
        self.values = values

    @property
    def n_coordinates(self) -> int:
        """How many coordinates are kept of each atom."""
        return int(self.values.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self.order.nbytes + self.values.nbytes

    def joined(self, other: WarmCache) -> WarmCache:
        """The cache of these atoms followed by those of `other`: the coordinates that both have."""
        size = min(self.n_coordinates, other.n_coordinates)
        return WarmCache(self.order[:size], np.concatenate([self.values[:, :size], other.values[:, :size]]))

    def read(self, rows: NDArray[np.int64], start: int, stop: int, out: NDArray[np.float64]) -> None:
        """Put the rows' values at positions start, ..., stop-1 of the uniform order into `out`."""
        if rows.size == len(self.values):
            out[...] = self.values[:, start:stop]  # rows ascend, so these are all
        else:
            out[...] = self.values[rows, start:stop]


def cache_size(n: int, d: int, itemsize: int, available: int | None) -> int:
    """Coordinates to keep of each atom, as far as memory is available (bytes; None for as much as it likes)."""
    size = min(max(MIN_COORDINATES, min(d // 11, MAX_COORDINATES)), max(d // 4, 1))
    return size if available is None else min(size, max(available // (n * itemsize + 8), 0))


def build_cache(store: AtomStore, seed: int, size: int) -> WarmCache:
    """Keep the first coordinates of the seed's uniform order, reading nothing else."""
    from banditmips.atoms.packed import PackedStore

    n = store.shape[0]
    filler = CacheFiller(store, seed, size)
    # Where the entries of a coordinate lie together, they are read together.
    together = isinstance(store, (PackedStore, PartStore)) and store.by_column
    step = n if together else max(1, (1 << 20) // size)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        store.gather(rows, filler.order, filler.values[start : start + rows.size])
    return filler.cache()


class CacheFiller:
    """The cache while it is being filled, with what a pass over the atoms reads.

    Attributes
    ----------
    order : int64, shape (p,), the coordinates.
    values : shape (n, p), which is to be filled.
    """

    looks: Literal[False] = False
    wants_given, wants_rows = True, False

    def __init__(self, store: AtomStore, seed: int, size: int) -> None:
        n, d = store.shape
        self.order = permuted_coordinates(seed, d, 0, size)
        # The same by column: which of them lie in a part is then quickly found.
        self._places = np.argsort(self.order)
        self._columns = self.order[self._places]
        dtype = store.dtype if store.dtype.isnative else store.dtype.newbyteorder("=")
        self.values = np.empty((n, size), dtype=dtype)

    def add(self, first_row: int, values: NDArray[Any], first_column: int) -> None:
        """Take what is wanted of entries, the first of which is at this row and column."""
        low, high = np.searchsorted(self._columns, (first_column, first_column + values.shape[1])).tolist()
        wanted, places = self._columns[low:high] - first_column, self._places[low:high]
        self.values[first_row : first_row + len(values)][:, places] = values[:, wanted]

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the values of the first rows."""
        return {"values": self.values[:n_rows]}

    def cache(self) -> WarmCache:
        """The cache, once everything has been added."""
        return WarmCache(self.order, self.values)
