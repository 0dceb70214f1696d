"""The warm start: cached values of the first coordinates of the uniform order, in the layouts that are read fast.

The paper caches "the atom values for all atoms across a random subset of coordinates" for batches of queries. Here the
subset is the beginning of the seed's uniform order, so a cached race samples exactly what an uncached one would.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import Part, PartStore
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.reading import StoreReader
from banditmips.race import kernels
from banditmips.race.sampling import SamplePrefix

__all__ = ["CacheFiller", "CachedReader", "WarmCache", "build_cache", "cache_size"]

BLOCK_SIZE = 256
MIN_PREFIX, MAX_PREFIX = 512, 4096
"""Coordinates kept by coordinate, and the least and the most kept by atom: together at most 8 % where d >= 10,000."""


class WarmCache:
    """The first coordinates of the uniform order for all atoms, in two layouts.

    Attributes
    ----------
    order : int64, shape (p,), the coordinates.
    block : shape (s, n), the first s coordinates, one after another: round one reads all atoms at each of them.
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
    def nbytes(self) -> int:
        """Memory that both layouts take."""
        return self.order.nbytes + self.block.nbytes + self.prefix.nbytes

    def joined(self, other: WarmCache) -> WarmCache:
        """The cache of these atoms followed by those of `other`."""
        return WarmCache(
            self.order,
            np.concatenate([self.block, other.block], axis=1),
            np.concatenate([self.prefix, other.prefix], axis=0),
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
            seen, start = np.zeros(self.prefix.shape[0]), 0
            for number, size in enumerate(sizes):
                with np.errstate(over="ignore"):
                    seen += np.square(self.prefix[:, start:size] - means[:, np.newaxis]).sum(axis=1)
                    table[number] = seen * (d / size)
                start = size
            self._scatters = (sizes, table)
        return self._scatters[1]


def cache_size(n: int, d: int, itemsize: int, available: int | None) -> int:
    """Coordinates to cache for each atom: a twentieth of them within limits, as far as memory is available (bytes)."""
    size = min(max(MIN_PREFIX, min(d // 20, MAX_PREFIX)), max(d // 4, 1))
    if available is None:
        return size
    # A block and a prefix of the same length where both are short; else a whole block and what remains.
    affordable = available // (n * itemsize + 8)
    return max(min(size, affordable // 2 if affordable < 2 * BLOCK_SIZE else affordable - BLOCK_SIZE), 0)


def build_cache(store: AtomStore, seed: int, size: int) -> WarmCache:
    """Cache the first `size` coordinates of the seed's uniform order."""
    from banditmips.atoms.packed import PackedStore

    n, d = store.shape
    order = kernels.permuted_coordinates(seed, d, 0, size)
    prefix = np.empty((n, size), dtype=_native(store.dtype))
    # Where the entries of a coordinate lie together, they are read together.
    together = isinstance(store, (PackedStore, PartStore)) and store.by_column
    step = n if together else max(1, (1 << 20) // size)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        store.gather(rows, order, prefix[start : start + rows.size])
    return _cache_of(order, prefix)


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def _cache_of(order: NDArray[np.int64], prefix: NDArray[Any]) -> WarmCache:
    return WarmCache(order, np.ascontiguousarray(prefix[:, : min(BLOCK_SIZE, order.size)].T), prefix)


class CacheFiller:
    """Picks the coordinates to be cached out of what a pass over the atoms reads."""

    def __init__(self, store: AtomStore, seed: int, size: int) -> None:
        n, d = store.shape
        self._order = kernels.permuted_coordinates(seed, d, 0, size)
        # The same by column: which of them lie in a part is then quickly found.
        self._places = np.argsort(self._order)
        self._columns = self._order[self._places]
        self._prefix = np.empty((n, size), dtype=_native(store.dtype))

    def add(self, part: Part) -> None:
        """Take what is wanted of a part."""
        low, high = np.searchsorted(self._columns, (part.first_column, part.stop_column)).tolist()
        values = part.values[:, self._columns[low:high] - part.first_column]
        self._prefix[part.rows][:, self._places[low:high]] = values

    def cache(self) -> WarmCache:
        """The cache, once everything has been added."""
        return _cache_of(self._order, self._prefix)


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
