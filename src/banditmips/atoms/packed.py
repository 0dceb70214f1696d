"""Atoms that `banditmips.pack` has written: the rounds read them by coordinate, the finish by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.facts import AtomFacts
from banditmips.atoms.parts import PartStore
from banditmips.atoms.rows import RowRange
from banditmips.packing.layout import PackLayout

if TYPE_CHECKING:
    from banditmips.atoms.origin import Origin

__all__ = ["PackedStore"]


class PackedStore:
    """Atoms of which the first coordinates of a seed's uniform order are stored by coordinate, and all by row.

    Parameters
    ----------
    layout : PackLayout
    order : int64, shape (n_coordinates,)
        The coordinates that are stored by coordinate, in the order in which they lie.
    by_coordinate : PartStore of shape (n_coordinates, n)
    by_row : PartStore of shape (n, d)
    load_facts : callable
        Reads the facts that packing has recorded.
    memory_limit : int
        Bytes that the two stores hold at most.
    first_row : int
        The row of `by_coordinate`'s atoms that is the first of `by_row`.

    Attributes
    ----------
    seed : int
        The seed of the order of coordinates; searches must have the same.
    by_row : PartStore
        All of them by row.
    origin : Origin, or None
        Where they were found.
    facts : AtomFacts
        What `fit` needs to know, without reading the atoms.
    """

    by_column = True
    origin: Origin | None = None

    def __init__(
        self,
        layout: PackLayout,
        order: NDArray[np.int64],
        by_coordinate: PartStore,
        by_row: PartStore,
        load_facts: Callable[[], AtomFacts],
        memory_limit: int,
        first_row: int = 0,
    ) -> None:
        self.layout = layout
        self.order = order
        self.shape = by_row.shape
        self.dtype = by_row.dtype
        self.seed = layout.seed
        self.memory_limit = memory_limit
        self._by_coordinate = by_coordinate
        self.by_row = by_row
        self._load_facts = load_facts
        self._first_row = first_row
        self._sorter = np.argsort(order)

    @cached_property
    def facts(self) -> AtomFacts:
        """What was learnt of the atoms when they were packed."""
        return self._load_facts()

    def row_range(self, start: int, stop: int) -> PackedStore:
        """The atoms from `start` up to, but not including, `stop`."""
        return PackedStore(
            replace(self.layout, n=stop - start),
            self.order,
            self._by_coordinate,
            RowRange(self.by_row, start, stop),
            partial(_facts_of_rows, self._load_facts, start, stop),
            self.memory_limit,
            self._first_row + start,
        )

    def border_near(self, row: int, within: int) -> int:
        """Return where a block of atoms begins, if one does near enough; else where a chunk of rows does, if any."""
        block = self.layout.atoms_per_block
        nearest = min((row + block // 2) // block * block, self.shape[0])
        return nearest if abs(nearest - row) <= within else self.by_row.border_near(row, within)

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of each file that the atoms are in."""
        return np.concatenate([self.by_row.states(), self._by_coordinate.states()])

    def expect(self, states: NDArray[np.int64]) -> None:
        """Take other states of the files for a change when one is read."""
        self.by_row.expect(states[: self.by_row.n_files])
        self._by_coordinate.expect(states[self.by_row.n_files :])

    @property
    def n_files(self) -> int:
        """Files that the atoms are in."""
        return self.by_row.n_files + self._by_coordinate.n_files

    @property
    def is_whole(self) -> bool:
        """Whether every coordinate can be read by coordinate."""
        return self.order.size == self.shape[1]

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`, by coordinate where that reads less than by row."""
        places = self._places(rows, columns)
        packed = places >= 0
        if packed.all():
            self._by_coordinate.gather(places, rows + self._first_row, out.T)
        elif not packed.any():
            self.by_row.gather(rows, columns, out)
        else:
            part = np.empty((rows.size, np.count_nonzero(~packed)), dtype=self.dtype)
            self.by_row.gather(rows, columns[~packed], part)
            out[:, ~packed] = part
            part = np.empty((np.count_nonzero(packed), rows.size), dtype=self.dtype)
            self._by_coordinate.gather(places[packed], rows + self._first_row, part)
            out[:, packed] = part.T

    def _places(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in the order; -1 for a coordinate that is not there, or better read by row with the others."""
        found = np.searchsorted(self.order, columns, sorter=self._sorter)
        places = self._sorter[np.minimum(found, self.order.size - 1)]
        places = np.where(self.order[places] == columns, places, -1)
        by_coordinate = _entries_read(self.layout.coordinates_chunk, places[places >= 0], rows)
        if by_coordinate > _entries_read(self.layout.rows_chunk, rows, columns):
            places[:] = -1
        return places

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        return self.by_row.scores(rows, columns, query, objective)

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, block of rows) over all rows."""
        return self.by_row.blocks(max_entries)


def _facts_of_rows(load_facts: Callable[[], AtomFacts], start: int, stop: int) -> AtomFacts:
    return load_facts().of_rows(start, stop)


def _entries_read(chunk: tuple[int, int], first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Entries of all chunks of this shape that hold some of ``first x second``."""
    return np.unique(first // chunk[0]).size * chunk[0] * np.unique(second // chunk[1]).size * chunk[1]
