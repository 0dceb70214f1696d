"""From what a user calls atoms to the parts that shards are made of."""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse

from banditmips._extras import require
from banditmips._opening import cut_rows, even_cuts, open_rows, shape_of_file
from banditmips._validate import as_store

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.distributed._cluster import Cluster

__all__ = ["Part", "find_parts", "is_delayed", "open_part"]


@dataclass(frozen=True)
class Part:
    """Where a shard's atoms come from.

    Attributes
    ----------
    source
        An array, a path, a future of an array, or a delayed one; anything else comes as `Sent`.
    rows
        Which rows of the source, if not all.
    shape
        (n, d) of the part.
    home
        The worker that it is on already, if any.
    """

    source: Any
    rows: tuple[int, int] | None
    shape: tuple[int, ...]
    home: str | None = None


@dataclass(frozen=True)
class Sent:
    """A store on its way to a worker, where it is made anew by the task that needs it.

    Stores open their files when they are unpickled. If a file has changed or is gone, that raises; and where Dask
    itself unpickles what a worker is to do, it takes the error for a broken connection, and one worker after another
    ends.
    """

    pickled: bytes

    @classmethod
    def of(cls, source: Any) -> Sent:
        """Pack a source."""
        cloudpickle = require("cloudpickle", extra="dask", purpose="banditmips.distributed")
        return cls(cloudpickle.dumps(source))

    def unpacked(self) -> Any:
        """Make the source anew."""
        return pickle.loads(self.pickled)


def find_parts(cluster: Cluster, atoms: Any, n_shards: int | None) -> list[Part]:
    """Cut a user's atoms into parts, without reading them.

    Parts without rows are left out.
    """
    dask_array = require("dask.array", extra="dask", purpose="banditmips.distributed")
    if isinstance(atoms, dask_array.Array):
        parts = _blocks(atoms, n_shards)
    elif isinstance(atoms, (str, os.PathLike)):
        parts = _row_ranges(cluster, os.fspath(atoms), n_shards)
    elif isinstance(atoms, (list, tuple)):
        if n_shards is not None:
            raise ValueError(f"n_shards cuts a Dask array or a file; a list of {len(atoms)} shards is cut already")
        parts = _given(cluster, atoms)
    else:
        raise TypeError(
            "atoms must be a Dask array, the path of a file, or a list of shards (arrays, paths, delayed loaders or "
            f"futures), got {type(atoms).__name__}; dask.array.from_array makes a Dask array of an array"
        )
    return _checked(parts)


def is_delayed(source: Any) -> bool:
    """Whether a source is still to be computed."""
    delayed: type = require("dask.delayed", extra="dask", purpose="banditmips.distributed").Delayed
    return isinstance(source, delayed)


def _blocks(atoms: Any, n_shards: int | None) -> list[Part]:
    """The blocks of a Dask array, made to hold whole rows."""
    if atoms.ndim != 2:
        raise ValueError(
            f"atoms must be a matrix (one atom in each row), got {atoms.ndim} dimensions, shape {atoms.shape}"
        )
    n, d = atoms.shape
    if np.isnan(n) or np.isnan(d):
        raise ValueError(f"atoms has a shape that Dask does not know, {atoms.shape}: call its compute_chunk_sizes()")
    cuts = atoms.chunks[0] if n_shards is None else tuple(np.diff(even_cuts(n, n_shards)).tolist())
    blocks = atoms.rechunk((cuts, -1)).to_delayed().ravel()
    return [Part(block, None, (rows, d)) for block, rows in zip(blocks, cuts, strict=True)]


def _row_ranges(cluster: Cluster, path: str, n_shards: int | None) -> list[Part]:
    """Ranges of the rows of a file, one for each worker unless more are wanted."""
    n_parts = n_shards or max(len(cluster.workers()), 1)
    ((cuts, d),) = cluster.gather([cluster.submit(cut_rows, path, n_parts)])
    return [Part(path, (start, stop), (stop - start, d)) for start, stop in pairwise(cuts)]


def _given(cluster: Cluster, shards: Sequence[Any]) -> list[Part]:
    """Shards as they are given: arrays here, or somewhere that a worker has to look at."""
    future_type = require("distributed", extra="dask", purpose="banditmips.distributed").Future
    workers = cluster.workers()
    # What a loader returns has no shape before it is there: it is loaded where it will stay.
    sources = [
        cluster.compute(shard, workers[number % len(workers)] if workers else None) if is_delayed(shard) else shard
        for number, shard in enumerate(shards)
    ]
    away = [number for number, source in enumerate(sources) if isinstance(source, (str, os.PathLike, future_type))]
    looks = [cluster.submit(_shape_of, sources[number]) for number in away]
    shapes = dict(zip(away, cluster.gather(looks, limited=False), strict=True))
    futures = {number: source for number, source in enumerate(sources) if isinstance(source, future_type)}
    held = cluster.client.who_has(list(futures.values())) if futures else {}
    homes = {number: next(iter(held.get(future.key, ())), None) for number, future in futures.items()}
    return [
        Part(
            source if number in shapes or _is_plain(source) else Sent.of(source),
            None,
            shapes[number] if number in shapes else _shape_of(source),
            homes.get(number),
        )
        for number, source in enumerate(sources)
    ]


def _is_plain(source: Any) -> bool:
    """Whether unpickling a source only fills memory."""
    return isinstance(source, (np.ndarray, list)) or scipy.sparse.issparse(source)


def _shape_of(source: Any) -> tuple[int, ...]:
    """Look at a source, on a worker where it is a file or a future."""
    if isinstance(source, (str, os.PathLike)):
        return shape_of_file(source)
    return tuple(source.shape if hasattr(source, "shape") else np.shape(source))


def open_part(source: Any, rows: tuple[int, int] | None) -> AtomStore:
    """Open a part's source as a store."""
    given = source.unpacked() if isinstance(source, Sent) else source
    return as_store(given) if rows is None else open_rows(given, rows)


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
