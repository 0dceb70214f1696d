"""Whole rows of a store for `fit`, a panel of them at a time, everything read once.

Where rows cannot be had alone (a file in Fortran order, chunks of many rows) and all that comes with them does not fit
in memory, it is first written to a scratch file, tile by tile, from which rows can be read together::

                 columns that are read together                     one group of rows, as it lies in the scratch file
               +--------+--------+--------+
       stripe  | tile 1 | tile 2 | tile 3 |  written as they come     stripe: tile 1, tile 2, tile 3; next stripe: ...
       stripe  |        |        |        |  from left to right       read back as one piece
               +--------+--------+--------+
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import PartStore
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.raw import GROUPS_AHEAD

__all__ = ["Panel", "Panels"]

Panel = tuple[int, NDArray[Any]]
"""The first row, and whole rows from there on."""

_BLOCK_ENTRIES = 1 << 20
"""Entries of a panel of a store that is not read in parts."""
_PANELS = 16
"""Panels that the memory limit would hold, where rows can be had alone."""
_MOST_WAITING = 4
_SPREAD = 16
"""A look at some rows that lie all over a file may read this part of it."""
_LEAST_ROWS = 8


class Panels:
    """All rows of a store, for one pass.

    Attributes
    ----------
    n_waiting : int
        How many panels may be held, beside the one that is looked at and those that are being read.
    """

    def __init__(self, store: AtomStore) -> None:
        from banditmips.atoms.packed import PackedStore

        self._store: AtomStore = store.by_row if isinstance(store, PackedStore) else store
        self._peeked: list[Panel] = []
        self._rest: Iterator[Panel] | None = None
        self.n_waiting = 0
        if isinstance(self._store, PartStore):
            self._plan(self._store)

    def _plan(self, store: PartStore) -> None:
        row_bytes = store.shape[1] * store.dtype.itemsize
        self._most = max(1, store.memory_limit // (_PANELS * row_bytes))
        self._edges = store.row_groups(self._most)
        panel_bytes = int(np.diff(self._edges).max()) * row_bytes
        self._spills = panel_bytes > max(store.memory_limit // 2, row_bytes)
        if self._spills:
            panel_bytes = self._most * row_bytes
        affordable = 3 * store.memory_limit // 4 // panel_bytes - GROUPS_AHEAD - 1
        self.n_waiting = max(0, min(affordable, _MOST_WAITING))

    def spread_rows(self, most: int) -> NDArray[np.int64] | None:
        """Return rows from all over the store that are had by reading a small part of it; None if there are none."""
        store, n = self._store, self._store.shape[0]
        if not isinstance(store, PartStore):
            return _spread(0, n, most)
        groups = store.row_groups(1)
        n_groups = groups.size - 1
        if n_groups == n:
            return _spread(0, n, min(most, max(n // _SPREAD, _LEAST_ROWS)))
        if n_groups < _SPREAD:
            return None
        chosen = _spread(0, n_groups, n_groups // _SPREAD)
        of_each = -(-most // chosen.size)
        return np.concatenate([_spread(int(groups[g]), int(groups[g + 1]), of_each) for g in chosen])

    def first(self) -> NDArray[Any]:
        """Return the first panel, which stays the first of the pass."""
        if not self._peeked:
            self._rest = self._read(0)
            self._peeked = [next(self._rest)]
        return self._peeked[0][1]

    def from_row(self, first_row: int) -> Iterator[Panel]:
        """Yield the panels, those before this row left out."""
        if self._rest is None or first_row > 0:
            yield from self._read(first_row)
            return
        rest, self._rest = self._rest, None
        yield self._peeked.pop()  # held by nobody else while the next is read
        yield from rest

    def _read(self, first_row: int) -> Iterator[Panel]:
        store = self._store
        if not isinstance(store, PartStore):
            panels = store.blocks(_BLOCK_ENTRIES)
        else:
            store.forget()  # of a look at some rows: it would be held as long as all are read
            begun = int(np.searchsorted(self._edges, first_row, side="right")) - 1
            edges = self._edges[begun:]
            panels = _spilled(store, edges, self._most) if self._spills else store.read_groups(edges)
        for first, values in panels:
            if first + len(values) > first_row:
                skipped = max(first_row - first, 0)
                yield first + skipped, values[skipped:]
            del values  # before memory is taken for the next


def _spread(start: int, stop: int, most: int) -> NDArray[np.int64]:
    """At most so many of the numbers from `start` up to `stop`, equally far apart."""
    return np.unique(np.linspace(start, stop - 1, min(most, stop - start)).astype(np.int64))


def _spilled(store: PartStore, edges: NDArray[np.int64], most: int) -> Iterator[Panel]:
    """Yield at most so many rows at a time of groups that are too large to be held."""
    d = store.shape[1]
    for first, stop in pairwise(edges.tolist()):
        # As many columns as a quarter of the memory holds; of chunks no half ones, which would be read twice.
        room = store.memory_limit // (4 * (stop - first) * store.dtype.itemsize)
        width = max(room // store.line_width * store.line_width, store.line_width)
        columns = np.append(np.arange(0, d, width), d)
        with tempfile.TemporaryFile(prefix="banditmips-") as scratch:
            for span in pairwise(columns.tolist()):
                _write_tiles(scratch, store, (first, stop), span, most)
            for start in range(first, stop, most):
                n_rows = min(most, stop - start)
                offset = (start - first) * d * store.dtype.itemsize
                yield start, _read_stripe(scratch, offset, n_rows, columns, store.dtype)


def _write_tiles(scratch: BinaryIO, store: PartStore, group: tuple[int, int], span: tuple[int, int], most: int) -> None:
    (first, stop), (low, high), d = group, span, store.shape[1]
    values = np.empty((stop - first, high - low), dtype=store.dtype)
    for part in store.read_parts(np.arange(first, stop), [span]):
        values[part.rows, part.first_column - low : part.stop_column - low] = part.values
    for start in range(0, stop - first, most):
        tile = values[start : start + most]
        scratch.seek((start * d + len(tile) * low) * store.dtype.itemsize)
        try:
            scratch.write(tile.view(np.uint8).data)
        except OSError as error:
            problem = f"{error.strerror} (while turning the atoms round in a scratch file; TMPDIR names another place)"
            raise OSError(error.errno, problem, tempfile.gettempdir()) from error


def _read_stripe(
    scratch: BinaryIO, offset: int, n_rows: int, columns: NDArray[np.int64], dtype: np.dtype[Any]
) -> NDArray[Any]:
    values = np.empty((n_rows, int(columns[-1])), dtype=dtype)
    scratch.seek(offset)
    for low, high in pairwise(columns.tolist()):
        tile = np.empty((n_rows, high - low), dtype=dtype)
        if scratch.readinto(tile.view(np.uint8).data) != tile.nbytes:  # type: ignore[attr-defined]
            raise OSError(f"{os.path.join(tempfile.gettempdir(), 'scratch file')}: it ends in the middle of the atoms")
        values[:, low:high] = tile
    return values
