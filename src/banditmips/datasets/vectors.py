"""Sift-1M, and the ``fvecs`` files it comes in: records of a 32-bit width and that many 32-bit floats."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._random import check_counts, check_dtype, draw_coordinates, draw_rows
from banditmips.datasets._sources import real_or_surrogate
from banditmips.datasets._surrogates import sift_like

__all__ = ["read_fvecs", "sift_1m"]

_DESCRIPTORS = 1_000_000
_WIDEST = 1_000_000
_VECTORS_PER_BLOCK = 100_000


def read_fvecs(path: str | os.PathLike[str], *, transpose: bool = False) -> NDArray[np.float32]:
    """Return the vectors of an ``fvecs`` file, one in each row, mapped into memory (read-only).

    Parameters
    ----------
    path
        The file.
    transpose
        True gives one row for each coordinate of the vectors instead (a view; nothing is copied).

    Raises
    ------
    ValueError
        If the file ends within a record, or if a record's width differs from the first one's; the message
        says at which byte.

    Examples
    --------
    >>> import numpy as np, pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "two.fvecs"
    ...     record = [("width", "<i4"), ("vector", "<f4", 3)]
    ...     np.array([(3, [1, 2, 3]), (3, [4, 5, 6])], dtype=record).tofile(path)
    ...     read_fvecs(path).tolist()
    [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    """
    path = Path(path)
    size = path.stat().st_size
    if size < 4:
        raise ValueError(f"{path} has {size} bytes: expected records of a 32-bit width and as many floats")
    words = np.memmap(path, dtype="<i4", mode="r", shape=(size // 4,))
    width = int(words[0])
    if not 1 <= width <= _WIDEST:
        raise ValueError(f"{path}, byte 0: expected the width of a vector, from 1 to {_WIDEST:,}, got {width}")
    record = 4 * (1 + width)
    count, rest = divmod(size, record)
    records = words[: count * (1 + width)].reshape(count, 1 + width)
    wrong = np.flatnonzero(records[:, 0] != width)
    if len(wrong):
        first = int(wrong[0])
        raise ValueError(
            f"{path}, byte {first * record}: expected the width {width} of the first vector, got"
            f" {records[first, 0]} (vector {first})"
        )
    if rest:
        raise ValueError(f"{path} is truncated: vector {count}, at byte {count * record}, has {rest} of {record} bytes")
    vectors: NDArray[np.float32] = np.asarray(records[:, 1:]).view("<f4")
    return vectors.T if transpose else vectors


def sift_1m(
    *,
    path: str | os.PathLike[str] | None = None,
    n: int = 100,
    d: int | None = None,
    n_queries: int = 1,
    seed: int = 0,
    dtype: DTypeLike = "float32",
    surrogate: bool | Literal["if_missing"] = False,
) -> Dataset:
    """Return Sift-1M transposed: atoms and queries are entries of the descriptors, coordinates descriptors.

    Parameters
    ----------
    path
        ``sift_base.fvecs``, or the folder with it; by default ``sift/sift_base.fvecs`` in the folder that the
        environment variable BANDITMIPS_DATA names (or in ``~/.cache/banditmips``).
    n, n_queries
        Numbers of rows drawn as atoms, and of others drawn as queries; 128 together at most.
    d
        Number of descriptors drawn; all 1,000,000 by default.
    seed
        Seed of the draws.
    dtype
        float32 or float64; the values are whole numbers from 0 to 255.
    surrogate
        True gives synthetic descriptors instead; "if_missing" does so if the file is not there.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("sift_1m", d=1000, surrogate=True)
    >>> ds.atoms.shape, ds.surrogate
    ((100, 1000), True)
    """
    check_counts(n=n, d=1 if d is None else d, n_queries=n_queries, seed=seed)
    drawn: dict[str, Any] = {"n": n, "n_queries": n_queries, "seed": seed, "dtype": check_dtype(dtype).name}

    def real(files: list[Path]) -> Dataset:
        rows = _draw(read_fvecs(files[0]), d, **drawn)
        return Dataset(
            name="sift_1m",
            atoms=rows[:n],
            queries=rows[n:],
            description="Sift-1M transposed: rows are entries of the descriptors, coordinates descriptors.",
            params={"path": str(files[0]), "d": rows.shape[1], **drawn},
        )

    def stand_in() -> Dataset:
        rows = _draw(sift_like(_DESCRIPTORS if d is None else d, seed), None, **drawn)
        return Dataset(
            name="sift_1m",
            atoms=rows[:n],
            queries=rows[n:],
            description="Surrogate for Sift-1M transposed: synthetic gradient histograms as descriptors.",
            params={"d": rows.shape[1], **drawn},
            surrogate=True,
        )

    return real_or_surrogate("sift_1m", path, surrogate, real, stand_in)


def _draw(vectors: NDArray[Any], d: int | None, *, n: int, n_queries: int, seed: int, dtype: str) -> NDArray[Any]:
    """Return n + n_queries columns of the vectors as rows, in blocks so that a mapped file stays on disk."""
    count, width = vectors.shape
    chosen = np.concatenate(draw_rows(width, n, n_queries, seed, "entries of a descriptor"))
    coordinates = draw_coordinates(count, d, seed, "descriptors")
    rows = np.empty((n + n_queries, len(coordinates)), dtype=dtype)
    for start in range(0, len(coordinates), _VECTORS_PER_BLOCK):
        block = coordinates[start : start + _VECTORS_PER_BLOCK]
        rows[:, start : start + len(block)] = vectors[block][:, chosen].T
    return rows
