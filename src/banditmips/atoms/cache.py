"""The warm start: cached values of the first coordinates of the uniform order, in the layouts that are read fast.

The paper caches "the atom values for all atoms across a random subset of coordinates" for batches of queries. Here the
subset is the beginning of the seed's uniform order, so a cached race samples exactly what an uncached one would.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.reading import StoreReader
from banditmips.race import kernels
from banditmips.race.sampling import SamplePrefix

__all__ = ["CachedReader", "WarmCache", "build_cache"]

BLOCK_SIZE = 64
PREFIX_SIZE = 512
"""Coordinates kept by coordinate and by atom: together at most 6 % of the atoms where d >= 10,000."""


class WarmCache:
    """The first coordinates of the uniform order for all atoms, in two layouts.

    Attributes
    ----------
    block : shape (s, n), the first s coordinates, one after another: round one reads all atoms at each of them.
    prefix : shape (n, p), the first p >= s coordinates of each atom together: later rounds read few atoms.
    """

    def __init__(self, block: NDArray[Any], prefix: NDArray[Any]) -> None:
        self.block = block
        self.prefix = prefix

    @property
    def n_coordinates(self) -> int:
        """How many coordinates are cached for each atom."""
        return int(self.prefix.shape[1])

    @property
    def nbytes(self) -> int:
        """Memory that both layouts take."""
        return self.block.nbytes + self.prefix.nbytes

    def joined(self, other: WarmCache) -> WarmCache:
        """The cache of these atoms followed by those of `other`."""
        return WarmCache(
            np.concatenate([self.block, other.block], axis=1),
            np.concatenate([self.prefix, other.prefix], axis=0),
        )

    def read(self, rows: NDArray[np.int64], start: int, stop: int, out: NDArray[np.float64]) -> None:
        """Put the rows' values at positions start, ..., stop-1 of the uniform order into `out`."""
        if rows.size == self.block.shape[1] and stop <= self.block.shape[0]:
            out[...] = self.block[start:stop].T
        else:
            out[...] = self.prefix[rows, start:stop]


def build_cache(store: AtomStore, seed: int) -> WarmCache:
    """Cache the beginning of the seed's uniform order: n times a constant, however large d is."""
    n, d = store.shape
    n_prefix = min(PREFIX_SIZE, max(d // 4, 1))
    n_block = min(BLOCK_SIZE, n_prefix)
    coordinates = kernels.permuted_coordinates(seed, d, 0, n_prefix)
    dtype = store.dtype if store.dtype.isnative else store.dtype.newbyteorder("=")
    prefix = np.empty((n, n_prefix), dtype=dtype)
    step = max(1, (1 << 20) // n_prefix)
    for start in range(0, n, step):
        rows = np.arange(start, min(start + step, n))
        values = np.empty((rows.size, n_prefix))
        store.gather(rows, coordinates, values)
        prefix[start : start + rows.size] = values
    return WarmCache(np.ascontiguousarray(prefix[:, :n_block].T), prefix)


class CachedReader(StoreReader):
    """A reader for races in the uniform order, which takes what it can from the cache."""

    cache: WarmCache

    def read(self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]) -> None:
        """Read from the cache as far as it goes, then from the store."""
        stop = sample.coordinates.size
        cached = min(stop, self.cache.n_coordinates)
        if start < cached:
            self.cache.read(rows, start, cached, out[:, : cached - start])
        if stop > max(cached, start):
            begin = max(cached, start)
            super().read(rows, sample, begin, out[:, begin - start :])
