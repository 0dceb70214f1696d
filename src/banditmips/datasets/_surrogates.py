"""Synthetic stand-ins for real data: the same shape and range of values, and no claim beyond that."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.datasets._random import Role, stream

__all__ = ["prices_like", "sift_like"]

_DESCRIPTORS_PER_BLOCK = 10_000
_LARGEST_SIFT = 218
_LARGEST_PRICE = 60_000.0


def sift_like(count: int, seed: int) -> NDArray[np.uint8]:
    """Return descriptors of 4 x 4 cells with 8 directions each, normalised the way SIFT does it.

    Squared normals, heavier in the middle cells and in the directions that a descriptor favours; scaled to
    length 1, cut at 0.2, scaled again, times 512, rounded down.
    """
    offset = np.arange(4) - 1.5
    cells = np.exp(-np.add.outer(offset**2, offset**2) / 8).reshape(16, 1).astype(np.float32)
    vectors = np.empty((count, 128), dtype=np.uint8)
    for block, start in enumerate(range(0, count, _DESCRIPTORS_PER_BLOCK)):
        generator = stream(seed, Role.ATOM_ROWS, block)
        directions = generator.standard_exponential((_DESCRIPTORS_PER_BLOCK, 1, 8), dtype=np.float32)
        gradients = generator.standard_normal((_DESCRIPTORS_PER_BLOCK, 16, 8), dtype=np.float32) ** 2
        histograms = (gradients * directions * cells).reshape(-1, 128)
        histograms = _unit_length(np.minimum(_unit_length(histograms), np.float32(0.2)))
        whole = np.minimum(512 * histograms, _LARGEST_SIFT).astype(np.uint8)
        vectors[start : start + _DESCRIPTORS_PER_BLOCK] = whole[: count - start]
    return vectors


def _unit_length(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return scaled


def prices_like(n_pairs: int, d: int, seed: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return price paths, one in each row, that start at 0.001 to 40,000 and follow a common market.

    The logarithm of a price takes normal steps, a part of them the market's, and is cut at that of 60,000.
    """
    market = np.cumsum(stream(seed, Role.COORDINATES).normal(0, 7e-4, d))
    parameters = stream(seed, Role.ATOM_PARAMETERS).random((n_pairs, 2))
    prices = np.empty((n_pairs, d), dtype=dtype)
    for i, (level, share) in enumerate(parameters):
        own = np.cumsum(stream(seed, Role.ATOM_ROWS, i).normal(0, 7e-4, d))
        start = np.log(1e-3) + level * np.log(4e4 / 1e-3)
        prices[i] = np.exp(np.minimum(start + share * market + own, np.log(_LARGEST_PRICE)))
    return prices
