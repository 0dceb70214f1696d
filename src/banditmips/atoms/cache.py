"""The warm start: cached values of the first coordinates of the uniform order, in the layouts that are read fast.

The paper caches "the atom values for all atoms across a random subset of coordinates" for batches of queries. Here the
subset is the beginning of the seed's uniform order, so a cached race samples exactly what an uncached one would.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import map_in_order
from banditmips.atoms.parts import PartStore
from banditmips.atoms.pass_kernels import TURNED_ROWS, shown_scatter, turn
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.reading import StoreReader
from banditmips.race import kernels
from banditmips.race.sampling import SamplePrefix

__all__ = ["NO_CACHE", "CacheFiller", "CacheSize", "CachedReader", "WarmCache", "build_cache", "cache_size"]

MIN_BLOCK = 256
MIN_PREFIX, MAX_PREFIX = 512, 4096
"""The least kept by coordinate, and the least and the most kept by atom where d >= 2,048."""
_MOVED_AS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_MOVED_TOGETHER = 1 << 18
"""Entries that one thread moves at a time."""


class CacheSize(NamedTuple):
    """How many of the first coordinates are kept of each atom, by atom and by coordinate."""

    by_atom: int
    by_coordinate: int


NO_CACHE = CacheSize(0, 0)


class WarmCache:
    """The first coordinates of the uniform order for all atoms, in two layouts.

    Attributes
    ----------
    order : int64, shape (p,), the coordinates.
    block : shape (s, n), the first s coordinates, one after another: rounds with many atoms read all of them there, and
        nothing at coordinates where a query is 0.
    prefix : shape (n, p), the first p >= s coordinates of each atom together: later rounds read few atoms.
    """

    def __init__(self, order: NDArray[np.int64], block: NDArray[Any], prefix: NDArray[Any]) -> None:
        self.order = order
        self.block = block
        self.prefix = prefix
        self._scatters: tuple[tuple[int, ...], NDArray[np.float32]] | None = None

    @property
    def n_coordinates(self) -> int:
        """How many coordinates are cached for each atom."""
        return int(self.prefix.shape[1])

    @property
    def size(self) -> CacheSize:
        """How many coordinates are kept, each way."""
        return CacheSize(self.n_coordinates, self.block.shape[0])

    @property
    def nbytes(self) -> int:
        """Memory that both layouts take."""
        return self.order.nbytes + self.block.nbytes + self.prefix.nbytes

    def joined(self, other: WarmCache) -> WarmCache:
        """The cache of these atoms followed by those of `other`: the coordinates that both have."""
        size = min(self.n_coordinates, other.n_coordinates)
        block_size = min(self.block.shape[0], other.block.shape[0])
        return WarmCache(
            self.order[:size],
            np.concatenate([self.block[:block_size], other.block[:block_size]], axis=1),
            np.concatenate([self.prefix[:, :size], other.prefix[:, :size]], axis=0),
        )

    def read(self, rows: NDArray[np.int64], start: int, stop: int, out: NDArray[np.float64]) -> None:
        """Put the rows' values at positions start, ..., stop-1 of the uniform order into `out`."""
        n = self.block.shape[1]
        if rows.size == n and stop <= self.block.shape[0] and np.array_equal(rows, np.arange(n)):
            out[...] = self.block[start:stop].T
        else:
            out[...] = self.prefix[rows, start:stop]

    def scatters(self, sizes: tuple[int, ...], means: NDArray[np.float64], d: int) -> NDArray[np.float32]:
        """Estimate for each round and atom, from the round's sample, the scatter of the atom's entries.

        Uniform samples do not depend on the query, so this is known before any search.
        """
        if self._scatters is None or self._scatters[0] != sizes:
            table = np.empty((len(sizes), self.prefix.shape[0]), dtype=np.float32)
            prefix = self.prefix.view()
            prefix.flags.writeable = False  # as that of a saved index is: machine code for both would be two
            shown_scatter(prefix, np.array(sizes), means, d, table)
            self._scatters = (sizes, table)
        return self._scatters[1]


def cache_size(n: int, d: int, itemsize: int, available: int | None) -> CacheSize:
    """Coordinates to cache of each atom, as far as memory is available (bytes).

    Where d is large, a 22nd part of them each way, which leaves room for the facts within a tenth of the atoms.
    """
    size = min(max(MIN_PREFIX, min(d // 22, MAX_PREFIX)), max(d // 4, 1))
    if available is None:
        return CacheSize(size, size)
    # The prefix comes first, but a short block is worth more than a long prefix.
    affordable = max(available // (n * itemsize + 8), 0)
    prefix = min(size, max(affordable - MIN_BLOCK, affordable // 2))
    return CacheSize(prefix, min(prefix, affordable - prefix))


def build_cache(store: AtomStore, seed: int, size: CacheSize) -> WarmCache:
    """Cache the first coordinates of the seed's uniform order, reading nothing else."""
    from banditmips.atoms.packed import PackedStore

    n = store.shape[0]
    filler = CacheFiller(store, seed, size)
    # Where the entries of a coordinate lie together, they are read together.
    together = isinstance(store, (PackedStore, PartStore)) and store.by_column
    step = n if together else max(1, (1 << 20) // size.by_atom)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        store.gather(rows, filler.order, filler.prefix[start : start + rows.size])
    return filler.cache()


class CacheFiller:
    """The cache while it is being filled, with what a pass over the atoms reads.

    Attributes
    ----------
    order : int64, shape (p,), the coordinates.
    prefix : shape (n, p), which is to be filled.
    """

    def __init__(self, store: AtomStore, seed: int, size: CacheSize) -> None:
        n, d = store.shape
        self._size = size
        self.order = kernels.permuted_coordinates(seed, d, 0, size.by_atom)
        # The same by column: which of them lie in a part is then quickly found.
        self._places = np.argsort(self.order)
        self._columns = self.order[self._places]
        dtype = store.dtype if store.dtype.isnative else store.dtype.newbyteorder("=")
        self.prefix = np.empty((n, size.by_atom), dtype=dtype)

    def places_of(self, first_column: int, stop_column: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Which of these columns are wanted, counted from the first of them, and their places."""
        low, high = np.searchsorted(self._columns, (first_column, stop_column)).tolist()
        return self._columns[low:high] - first_column, self._places[low:high]

    def add(self, first_row: int, values: NDArray[Any], first_column: int) -> None:
        """Take what is wanted of entries, the first of which is at this row and column."""
        wanted, places = self.places_of(first_column, first_column + values.shape[1])
        self.prefix[first_row : first_row + len(values)][:, places] = values[:, wanted]

    def cache(self, n_jobs: int = 1) -> WarmCache:
        """The cache, once everything has been added."""
        n, n_coordinates = len(self.prefix), self._size.by_coordinate
        block = np.empty((n_coordinates, n), dtype=self.prefix.dtype)
        # To be moved, numbers are as good as integers of their size.
        moved = _MOVED_AS.get(block.itemsize)
        if moved is None:
            block[...] = self.prefix[:, :n_coordinates].T
        else:
            source, target = self.prefix.view(moved), block.view(moved)
            step = TURNED_ROWS * max(1, _MOVED_TOGETHER // (TURNED_ROWS * max(n_coordinates, 1)))

            def turn_rows(start: int) -> None:
                turn(source, start, min(start + step, n), target)

            deque(map_in_order(turn_rows, range(0, n, step), n_jobs), maxlen=0)
        return WarmCache(self.order, block, self.prefix)


class CachedReader(StoreReader):
    """A reader for races in the uniform order, which takes what it can from the cache."""

    cache: WarmCache

    def read(
        self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]
    ) -> NDArray[np.int64] | None:
        """Read from the cache as far as it goes, then from the store."""
        stop = sample.coordinates.size
        cached = min(stop, self.cache.n_coordinates)
        if start < cached:
            self.cache.read(rows, start, cached, out[:, : cached - start])
        if stop > max(cached, start):
            begin = max(cached, start)
            super().read(rows, sample, begin, out[:, begin - start :])
        return None
