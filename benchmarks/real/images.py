"""Pictures of clothes, pixel by pixel: the most similar one.

Source: Debian's dataset-fashion-mnist (Fashion-MNIST by Zalando Research, MIT): 60,000 pictures for training, 10,000
for testing, 28 x 28, grey.

Query: a test picture. Brightness is as it is, so that bright clothes have an advantage. 60,000 x 784, 188 MB.
"""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.sources import debian_package

__all__ = ["TINY", "build"]

TINY: dict[str, Any] = {"n": 50, "n_queries": 6}
_HEADER = 16


def build(
    rng: np.random.Generator, n: int = 60_000, n_queries: int = 50
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return pixels between 0 and 1."""
    atoms, queries = (
        pictures[np.sort(rng.choice(len(pictures), size, replace=False))].astype(np.float32) / np.float32(255.0)
        for pictures, size in ((_pictures("train"), n), (_pictures("t10k"), n_queries))
    )
    return atoms, queries


def _pictures(part: str) -> NDArray[np.uint8]:
    """Read an IDX file: a header of four numbers, then a byte for each pixel."""
    file = next(debian_package("dataset-fashion-mnist").rglob(f"{part}-images-idx3-ubyte.gz"))
    return np.frombuffer(gzip.decompress(file.read_bytes()), dtype=np.uint8, offset=_HEADER).reshape(-1, 28 * 28)
