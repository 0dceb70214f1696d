"""pack(): from a matrix in any file to the layout that searches read least of."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from banditmips._extras import require
from banditmips._progress import progress_bar
from banditmips._validate import Options, check_flag, check_positive

if TYPE_CHECKING:
    from banditmips.packing.layout import PackLayout
    from banditmips.packing.source import Source

__all__ = ["PackReport", "pack"]

DEFAULT_MEMORY = 1 << 29


@dataclass(frozen=True)
class PackReport:
    """What `pack` wrote.

    Attributes
    ----------
    path : str
    shape : (n, d)
    dtype : str
    seed : int
    n_coordinates : int
        Coordinates that are there by coordinate as well.
    n_bytes : int
        Bytes of all entries, in both layouts.
    n_blocks, n_resumed : int
        Blocks of atoms, and how many of them an earlier run had packed.
    """

    path: str
    shape: tuple[int, int]
    dtype: str
    seed: int
    n_coordinates: int
    n_bytes: int
    n_blocks: int
    n_resumed: int


def pack(
    source: Any,
    dest: str | os.PathLike[str],
    *,
    seed: int = 0,
    n_coordinates: int | None = None,
    memory_limit: int = DEFAULT_MEMORY,
    dataset: str | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> PackReport:
    """Rewrite a matrix into a Zarr group of which a search reads little: by coordinate for the rounds, by row for the
    finish, with everything that `fit` would have to read the whole matrix for.

    The source is read once, a few rows at a time. A run that was stopped, by whatever, is gone on with by the same
    call: blocks of atoms that are finished are kept. ``banditmips.BanditMIPS().fit(dest)`` and
    ``banditmips.search(dest, queries)`` use the result.

    Parameters
    ----------
    source : path, array or AtomStore
        The atoms, one in each row: a file that `banditmips.open_atoms` knows, or whatever `banditmips.search` takes but
        a sparse matrix. Their dtype is kept. What does not come from a file cannot be gone on with.
    dest : path
        The group to write, by custom named ``*.zarr``. What is there already is an error, unless it is an unfinished
        packing of the same source.
    seed : int
        Seed of the order of coordinates; an index or a search of the packed atoms must have the same.
    n_coordinates : int, optional
        Coordinates to write by coordinate, beside all of them by row: 16,384 by default, or all if there are fewer. A
        search that needs more computes exact scores of the atoms left.
    memory_limit : int
        Bytes that packing may hold.
    dataset : str, optional
        Which array of the source, where it holds several, as in `banditmips.open_atoms`.
    overwrite : bool
        Replace a Zarr group or array that is there already.
    progress : bool
        Show a progress bar with the time left.

    Returns
    -------
    PackReport

    Raises
    ------
    ValueError
        If the atoms hold a NaN or an infinity (named by row and column), if the source is not the one that the
        unfinished packing was begun with, or if it changes while it is packed.
    FileExistsError
        If there is something else at `dest`.
    OSError
        If the disk is full: what is finished stays, and the same call goes on with it.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import banditmips as bm
    >>> atoms = np.random.default_rng(0).normal(size=(50, 2_000)).astype(np.float32)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "atoms.zarr")
    ...     report = bm.pack(atoms, path)
    ...     index = bm.BanditMIPS().fit(path)
    ...     int(index.search(atoms[7]).indices[0]), report.dtype
    (7, 'float32')
    """
    Options(seed=seed)
    memory_limit = check_positive("memory_limit", memory_limit)
    if n_coordinates is not None:
        n_coordinates = check_positive("n_coordinates", n_coordinates)
    check_flag("overwrite", overwrite)
    check_flag("progress", progress)
    require("zarr", extra="zarr", purpose="packing atoms")
    from banditmips.packing.destination import open_writer
    from banditmips.packing.source import open_source

    path = os.fspath(dest)
    opened = open_source(source, dataset, memory_limit // 4)
    layout = _plan(opened, seed, n_coordinates, memory_limit)
    fingerprint = opened.fingerprint()
    writer = open_writer(path, opened, fingerprint, layout, memory_limit, overwrite)
    layout, n_resumed = writer.layout, writer.n_finished
    row, n_done = layout.d * layout.itemsize, min(n_resumed * layout.atoms_per_block, layout.n)
    with progress_bar("packing", layout.n * row, progress, done=n_done * row, in_bytes=True) as advance:
        for n_rows in writer.blocks(opened.store, memory_limit):
            advance(n_rows * row)
    if opened.fingerprint() != fingerprint:
        raise ValueError(
            f"source {opened.name} changed while it was packed, so {path} is of no use: "
            "pack it again with overwrite=True (--overwrite)"
        )
    writer.complete()
    return PackReport(
        path=path,
        shape=(layout.n, layout.d),
        dtype=layout.dtype,
        seed=layout.seed,
        n_coordinates=layout.n_coordinates,
        n_bytes=layout.n_bytes,
        n_blocks=layout.n_blocks,
        n_resumed=n_resumed,
    )


def _plan(source: Source, seed: int, n_coordinates: int | None, memory_limit: int) -> PackLayout:
    from banditmips.packing.layout import plan_layout

    n, d = source.store.shape
    dtype = source.store.dtype
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise ValueError(f"source must hold booleans, or integers or floats to 64 bits, got {dtype} in {source.name}")
    return plan_layout(n, d, dtype, seed, n_coordinates, memory_limit)
