"""From what a user calls atoms to the parts that shards are made of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from banditmips._extras import require
from banditmips._opening import open_rows, shape_of_file
from banditmips._validate import as_store

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore

__all__ = ["Part", "find_parts", "open_part"]


@dataclass(frozen=True)
class Part:
    """Where a shard's atoms come from.

    Attributes
    ----------
    source
        An array, a path, or a future of an array.
    rows
        Which rows of the source, if not all.
    shape
        (n, d) of the part.
    """

    source: Any
    rows: tuple[int, int] | None
    shape: tuple[int, int]


def find_parts(client: Any, atoms: Any, n_shards: int | None) -> list[Part]:
    """Cut a user's atoms into parts, without reading them.

    Parts without rows are left out.
    """
    dask_array = require("dask.array", extra="dask", purpose="banditmips.distributed")
    if isinstance(atoms, dask_array.Array):
        parts = _blocks(client, atoms, n_shards)
    elif isinstance(atoms, (str, os.PathLike)):
        parts = _row_ranges(client, os.fspath(atoms), n_shards)
    elif isinstance(atoms, (list, tuple)):
        if n_shards is not None:
            raise ValueError(f"n_shards cuts a Dask array or a file; a list of {len(atoms)} shards is cut already")
        parts = _given(client, atoms)
    else:
        raise TypeError(
            "atoms must be a Dask array, the path of a file, or a list of shards (arrays, paths or futures of "
            f"arrays), got {type(atoms).__name__}; dask.array.from_array makes a Dask array of an array"
        )
    return _checked(parts)


def _blocks(client: Any, atoms: Any, n_shards: int | None) -> list[Part]:
    """The blocks of a Dask array, made to hold whole rows."""
    if atoms.ndim != 2:
        raise ValueError(
            f"atoms must be a matrix (one atom in each row), got {atoms.ndim} dimensions, shape {atoms.shape}"
        )
    n, d = atoms.shape
    if np.isnan(n) or np.isnan(d):
        raise ValueError(f"atoms has a shape that Dask does not know, {atoms.shape}: call its compute_chunk_sizes()")
    cuts = atoms.chunks[0] if n_shards is None else tuple(np.diff(_even_cuts(n, n_shards)).tolist())
    whole_rows = atoms.rechunk((cuts, -1))
    futures = client.compute(list(whole_rows.to_delayed().ravel()))
    return [Part(future, None, (rows, d)) for future, rows in zip(futures, cuts, strict=True)]


def _row_ranges(client: Any, path: str, n_shards: int | None) -> list[Part]:
    """Ranges of the rows of a file, one for each worker unless more are wanted."""
    n, d = client.submit(_shape_of, path, pure=False).result()
    cuts = _even_cuts(n, n_shards or len(client.nthreads()))
    return [Part(path, (start, stop), (stop - start, d)) for start, stop in pairwise(cuts)]


def _even_cuts(n: int, n_parts: int) -> list[int]:
    return [n * part // n_parts for part in range(n_parts + 1)]


def _given(client: Any, shards: Sequence[Any]) -> list[Part]:
    future_type = require("distributed", extra="dask", purpose="banditmips.distributed").Future
    shapes: list[Any] = []
    for shard in shards:
        if isinstance(shard, (str, os.PathLike, future_type)):
            shapes.append(client.submit(_shape_of, shard, pure=False))
        else:
            shapes.append(_shape_of(shard))
    return [Part(shard, None, shape) for shard, shape in zip(shards, client.gather(shapes), strict=True)]


def _shape_of(source: Any) -> tuple[int, ...]:
    """Look at a source, on a worker where it is a file or a future."""
    if isinstance(source, (str, os.PathLike)):
        return shape_of_file(source)
    return tuple(source.shape if hasattr(source, "shape") else np.shape(source))


def open_part(source: Any, rows: tuple[int, int] | None) -> AtomStore:
    """Open a part's source as a store."""
    return as_store(source) if rows is None else open_rows(source, rows)


def _checked(parts: list[Part]) -> list[Part]:
    """Check that all parts are matrices of the same width, and leave out those that are empty."""
    for number, part in enumerate(parts):
        if len(part.shape) != 2:
            raise ValueError(f"atoms must be matrices, but shard {number} has shape {tuple(part.shape)}")
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(f"atoms has {part.shape[1]} columns in shard {number}, but {parts[0].shape[1]} in shard 0")
    filled = [part for part in parts if part.shape[0]]
    if not filled or filled[0].shape[1] == 0:
        raise ValueError("atoms is empty: there is no shard with a row and a column")
    return filled
