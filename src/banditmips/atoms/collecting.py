"""The one pass of `fit` over the atoms, in which it learns the facts about them."""

from __future__ import annotations

from collections import ChainMap, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import count_threads, map_in_order, submit_to
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.facts import AtomFacts
from banditmips.atoms.following import NO_FOLLOWER, Follower, Keeper, LookingKeeper
from banditmips.atoms.panels import Panel, Panels
from banditmips.atoms.parts import all_parts
from banditmips.atoms.protocol import AtomStore
from banditmips.atoms.sparse import SparseStore
from banditmips.atoms.sparse_facts import collect_sparse_facts
from banditmips.core.entries import look_at, look_at_columns, turn
from banditmips.core.rows import Rows, fill_block, is_readable

__all__ = ["CONVERTED_ENTRIES", "FactsCollector", "by_row", "collect_facts", "converted", "facts_of", "some_rows"]

_BLOCK_ENTRIES = 1 << 20
"""Entries looked at together: at most 8 MB, so that a matrix on disk is never held whole."""
_NEAR_ENTRIES = 1 << 17
"""Entries that stay in a processor's own cache from one look to the next."""
_ENTRIES_IN_MEMORY, _ROWS_IN_MEMORY = 1 << 22, 64
"""Entries that are looked at together where nothing has to be read or copied for it, and a number of which there is a
multiple of rows: as many as make the sums of the columns, which each block has for itself, a small matter."""
_STRIPE_ENTRIES = 1 << 22
"""Entries of a panel that are looked at together: a thread's work for some milliseconds."""
_MOST_THREADS = 8
"""Threads that look at what is read: more would wait for the disk."""
CONVERTED_ENTRIES = 1 << 17
"""Entries that are converted to floats together (a whole row in any case)."""
_TURNED_COLUMNS = 64
"""Columns of atoms in Fortran order that are copied together, where they have to be converted."""
_TURNED_ROWS, _TURNED_ENTRIES = 128, 1 << 23
"""Rows of floats in Fortran order that are copied together, so that what is read lies together; no more entries, nor
fewer than 16 rows."""


class _Seen(NamedTuple):
    """What was seen of some rows at neighbouring columns. Means are less the rows' bases."""

    means: NDArray[np.float64]
    scatter: NDArray[np.float64]
    low: float
    high: float


_Keepers = Sequence[Keeper | LookingKeeper]
_SeenRows = tuple[_Seen, NDArray[np.float64]]
"""What was seen of whole rows, and their squares by column."""


class FactsCollector:
    """Gathers the facts from parts of the matrix, in any order.

    Parameters
    ----------
    argument : str
        What an error calls the atoms.
    keepers
        Those who keep something of what is read (`Keeper`; or one `LookingKeeper`, where whole rows are added).

    Attributes
    ----------
    scatter : float64, shape (n,)
        Of the entries of each row that were seen so far.
    column_squares : float64, shape (d,)
    range : float64, shape (2,)
        The smallest and the largest entry.
    """

    def __init__(self, n: int, d: int, argument: str = "atoms", keepers: _Keepers = (), check: bool = True) -> None:
        self._argument = argument
        self._keepers = keepers
        self._takers: list[Keeper] = []
        self._lookers: list[LookingKeeper] = []
        for keeper in keepers:
            if keeper.looks:
                self._lookers.append(keeper)
            else:
                self._takers.append(keeper)
        self._checks = check
        self._counts = np.zeros(n, dtype=np.int64)
        # Means are held as differences from a number close to them, which keep more digits.
        self._bases, self._offsets = np.full(n, np.nan), np.zeros(n)
        self.scatter = np.zeros(n)
        self.column_squares = np.zeros(d)
        self._free_columns: deque[NDArray[np.float64]] = deque()
        self._free_rows: deque[NDArray[Any]] = deque()
        self.range = np.array([np.inf, -np.inf])

    @property
    def low(self) -> float:
        """Smallest entry so far."""
        return float(self.range[0])

    @property
    def high(self) -> float:
        """Largest entry so far."""
        return float(self.range[1])

    def add(self, first_row: int, values: NDArray[Any], first_column: int = 0) -> None:
        """Look at entries, the first of which is at this row and column."""
        columns = self.column_squares[first_column : first_column + values.shape[1]]
        self._merge(first_row, values, self._look(first_row, values, first_column, columns))

    def add_rows(self, store: DenseStore, n_jobs: int, follower: Follower = NO_FOLLOWER) -> None:
        """Look at all of the atoms in memory, in threads.

        Blocks are the same and are added up in the same order at any number of threads: so are the facts, to the bit.
        """
        d = store.shape[1]
        n_rows = max(_ENTRIES_IN_MEMORY // (_ROWS_IN_MEMORY * d), 1) * _ROWS_IN_MEMORY
        blocks = list(store.blocks(n_rows * d))
        for block, seen in zip(blocks, map_in_order(self._look_at_rows, blocks, n_jobs), strict=True):
            self._merge_rows(block, seen, follower)

    def add_panels(self, panels: Panels, n_jobs: int, follower: Follower = NO_FOLLOWER) -> None:
        """Look at all rows of atoms that have to be read, in threads, while the next ones are read."""
        n_threads = min(count_threads(n_jobs), _MOST_THREADS)
        waiting: deque[tuple[Panel, Future[_SeenRows]]] = deque()

        def merge_all_but(n_left: int) -> None:
            while len(waiting) > n_left:
                block, future = waiting.popleft()
                self._merge_rows(block, future.result(), follower)

        with ThreadPoolExecutor(n_threads, "banditmips-fit") as pool:
            try:
                for panel in panels.from_row(follower.begin(self)):
                    for block in _stripes(panel):
                        if n_threads == 1:
                            self._merge_rows(block, self._look_at_rows(block), follower)
                        else:
                            waiting.append((block, submit_to(pool, self._look_at_rows, block)))
                            # Each has squares of the columns of its own, until it is merged.
                            merge_all_but(max(panels.n_waiting, n_threads))
                    merge_all_but(panels.n_waiting)
                    del panel, block  # before memory is taken for the next
                merge_all_but(0)
            finally:
                for _, future in waiting:
                    future.cancel()

    def _look_at_rows(self, block: Panel) -> _SeenRows:
        # Memory that was used before is had for a fraction of the time of new memory.
        try:
            columns = self._free_columns.pop()
        except IndexError:
            columns = np.empty(self.column_squares.size)
        columns.fill(0.0)
        return self._look(*block, 0, columns), columns

    def _merge_rows(self, block: Panel, seen_rows: _SeenRows, follower: Follower) -> None:
        (first_row, values), (seen, columns) = block, seen_rows
        self._merge(first_row, values, seen)
        self.column_squares += columns
        self._free_columns.append(columns)
        follower.seen(values.size, first_row + len(values))

    def _look(
        self, first_row: int, values: NDArray[Any], first_column: int, column_squares: NDArray[np.float64]
    ) -> _Seen:
        """Look at entries; add to `column_squares`, and leave what was gathered so far of other rows as it is."""
        means, scatter = np.empty(len(values)), np.empty(len(values))
        low, high = np.inf, -np.inf
        for start, floats in self._as_floats(values):
            rows, row = slice(start, start + len(floats)), first_row + start
            learnt = self._bases[row : row + len(floats)], means[rows], scatter[rows], column_squares
            for keeper in self._lookers:
                assert first_column == 0
                seen = keeper.look(row, floats, *learnt)
            if not self._lookers:
                seen = look_at(floats, *learnt)
            self._check(row, first_column, floats, means[rows], scatter[rows])
            for taker in self._takers:
                taker.add(row, values[rows] if taker.wants_given else floats, first_column)
            low, high = min(low, seen[0]), max(high, seen[1])
        return _Seen(means, scatter, low, high)

    def _as_floats(self, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, rows in single or double precision); those that have to be copied a few at a time."""
        dtype, (n_rows, d) = values.dtype, values.shape
        ready = dtype in (np.float32, np.float64) and dtype.isnative
        if not ready:
            dtype = np.dtype(np.float32 if np.can_cast(dtype, np.float32) else np.float64)
            step = max(1, CONVERTED_ENTRIES // d)
        elif values.flags.c_contiguous:
            # Rows that lie ready are handed on a few at a time if others want them, who then find them in the cache.
            step = max(1, _NEAR_ENTRIES // d) if self._takers else n_rows
        elif values.strides[0] == dtype.itemsize:
            yield from self._turned(values)
            return
        else:
            step = max(1, _BLOCK_ENTRIES // d)
        for start in range(0, n_rows, step):
            yield start, by_row(values[start : start + step], dtype)

    def _turned(self, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, rows) of values that lie column after column."""
        d = values.shape[1]
        step = min(_TURNED_ROWS, max(_TURNED_ENTRIES // (16 * d), 1) * 16)
        room = self._free_rows.pop() if self._free_rows else None
        if room is None or room.shape != (step, d):  # parts of a file may be of several widths
            room = np.empty((step, d), dtype=values.dtype)
        for start in range(0, len(values), step):
            columns = values[start : start + step]
            turn(columns, room[: len(columns)])
            yield start, room[: len(columns)]
        self._free_rows.append(room)

    def _check(
        self, first_row: int, first_column: int, values: NDArray[Any], means: NDArray[Any], scatter: NDArray[Any]
    ) -> None:
        """Refuse what is not finite, which shows in the sums; so does what is merely too large to be squared."""
        bases = self._bases[first_row : first_row + len(values)]
        large = np.flatnonzero(~np.isfinite(bases + means + scatter))
        if large.size == 0:
            return
        if self._checks and not np.isfinite(values).all():
            i, j = np.argwhere(~np.isfinite(values))[0]
            raise BadAtomError.of_entry(values[i, j], first_row + i, first_column + j, self._argument)
        with np.errstate(over="ignore"):
            rough = (values[large] / values.shape[1]).sum(axis=1, dtype=np.float64)
            bases[large] = np.where(np.isfinite(bases[large]), bases[large], rough)
            means[large] = rough - bases[large]
        # No sample of such an atom can be trusted.
        scatter[large] = np.inf

    def _merge(self, first_row: int, values: NDArray[Any], seen: _Seen) -> None:
        """Put what was seen of some entries to what was seen of their rows before."""
        rows, size = slice(first_row, first_row + len(values)), values.shape[1]
        before = self._counts[rows]
        share = size / (before + size)
        difference = seen.means - self._offsets[rows]
        with np.errstate(over="ignore"):
            self.scatter[rows] += seen.scatter + difference * (before * share) * difference
        self._offsets[rows] += difference * share
        self._counts[rows] += size
        self.range[:] = min(self.low, seen.low), max(self.high, seen.high)

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return what is known after so many whole rows, with what keepers have kept of them; views, by name."""
        rows = {"bases": self._bases, "offsets": self._offsets, "scatter": self.scatter}
        known = {name: array[:n_rows] for name, array in rows.items()}
        kept = (keeper.known_of(n_rows) for keeper in self._keepers)
        return dict(ChainMap({**known, "column_squares": self.column_squares, "range": self.range}, *kept))

    def restore(self, n_rows: int, known: Mapping[str, NDArray[Any]]) -> None:
        """Take what `known_of` has given before, instead of reading so many rows."""
        for name, array in self.known_of(n_rows).items():
            if array.shape != known[name].shape or array.dtype != known[name].dtype:
                shapes = f"{known[name].dtype} of shape {known[name].shape}, not {array.dtype} of {array.shape}"
                raise ValueError(f"what is known of the first {n_rows} rows is of another kind: {name} holds {shapes}")
            array[...] = known[name]
        self._counts[:n_rows] = self.column_squares.size

    def means(self, rows: slice = slice(None)) -> NDArray[np.float64]:
        """Means of the entries of some rows."""
        return np.asarray(self._bases[rows] + self._offsets[rows])

    def squared_norms(self, rows: slice = slice(None)) -> NDArray[np.float64]:
        """Squared norms of rows that have been seen whole."""
        with np.errstate(over="ignore"):
            return np.asarray(self.scatter[rows] + self.column_squares.size * self.means(rows) ** 2)

    def facts(self) -> AtomFacts:
        """Facts about all atoms, once all of them has been added."""
        # Single precision is enough for weights.
        column_squares = np.minimum(self.column_squares, 1e38).astype(np.float32)
        return AtomFacts(self.squared_norms(), self.means(), self.scatter, self.low, self.high, column_squares)


def _stripes(panel: Panel) -> Iterator[Panel]:
    """Cut a panel into pieces of a size that does not depend on who looks at them."""
    first_row, values = panel
    step = max(1, _STRIPE_ENTRIES // values.shape[1])
    for start in range(0, len(values), step):
        yield first_row + start, values[start : start + step]


def by_row(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values row after row: themselves, if they are so and of this type."""
    values = converted(values, dtype)
    if values.flags.c_contiguous:
        return values
    copied = np.empty(values.shape, dtype=dtype)
    if values.strides[0] == dtype.itemsize:
        turn(values, copied)
        return copied
    # A few columns at a time, so that each cache line of the copy is completed while it is at hand.
    for first in range(0, values.shape[1], _TURNED_COLUMNS):
        part = slice(first, first + _TURNED_COLUMNS)
        copied[:, part] = values[:, part]
    return copied


def converted(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return values of this type, float32 or float64, in the order in which they lie: themselves, if they are so."""
    if values.dtype == dtype:
        return values
    if values.size == 0 or not is_readable(values.dtype):
        return values.astype(dtype, order="K")
    # NumPy converts float16 number by number.
    lines = values.T if abs(values.strides[0]) < abs(values.strides[1]) else values
    floats = np.empty(lines.shape, dtype=dtype)
    fill_block(Rows([lines]), np.arange(len(lines)), floats)
    return floats if lines is values else floats.T


def some_rows(array: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    """Return some rows, in the order of the array: NumPy's own index would read one column after another for each."""
    if abs(array.strides[0]) >= abs(array.strides[1]):
        return np.asarray(array[rows])
    return np.take(array.T, rows, axis=1).T


def collect_facts(
    store: AtomStore,
    keepers: _Keepers = (),
    n_jobs: int = 1,
    check: bool = True,
    follower: Follower = NO_FOLLOWER,
    panels: Panels | None = None,
) -> AtomFacts:
    """Read every entry once; a NaN or an infinity is an error that names its row and column.

    `keepers` take what is to be kept on the way. What was recorded of packed atoms is believed. Without `check`,
    entries that are not finite are let through. `panels` are the store's, if somebody has begun to read them.
    """
    from banditmips.atoms.packed import PackedStore

    if isinstance(store, PackedStore) and not keepers:
        return store.facts
    if isinstance(store, SparseStore) and not keepers:
        return collect_sparse_facts(store)
    if isinstance(store, DenseStore) and not keepers and follower is NO_FOLLOWER and n_jobs == 1:
        found = _at_once(store)
        if found is not None:
            return found
    collector = FactsCollector(*store.shape, keepers=keepers, check=check)
    if isinstance(store, DenseStore):
        collector.add_rows(store, n_jobs, follower)
    elif any(keeper.wants_rows for keeper in keepers):
        collector.add_panels(panels or Panels(store), n_jobs, follower)
    else:
        for part in all_parts(store, _BLOCK_ENTRIES):
            collector.add(part.rows.start, part.values, part.first_column)
            follower.seen(part.values.size, None)
    return collector.facts()


def _at_once(store: DenseStore, of_columns: bool = True) -> AtomFacts | None:
    """The same facts, to the bit, of floats in one go; None where something is to be said of them, or threads may help.

    Those of columns are left out, which takes two thirds of the time, where they are not wanted.
    What is around `look_at` would take longer than that itself, for few; and those by column are read as they lie.
    """
    array, (n, d) = store.array, store.shape
    ready = array.dtype in (np.float32, np.float64) and array.dtype.isnative and array.size > 0
    by_column = array.flags.f_contiguous and not array.flags.c_contiguous
    if not ready or not (by_column or (array.flags.c_contiguous and array.size <= _BLOCK_ENTRIES)):
        return None
    bases, means, scatter = np.full(n, np.nan), np.empty(n), np.empty(n)
    columns = np.zeros(d) if of_columns else None
    low, high = (look_at_columns if by_column else look_at)(array, bases, means, scatter, columns)
    means += bases
    with np.errstate(over="ignore"):
        squares = scatter + d * means**2
    if not np.isfinite(squares).all():
        return None
    of_each = np.empty(0) if columns is None else np.minimum(columns, 1e38)
    return AtomFacts(squares, means, scatter, low, high, of_each.astype(np.float32))


def facts_of(store: DenseStore, rows: NDArray[np.int64]) -> tuple[DenseStore, AtomFacts]:
    """Some of the atoms of an array, and facts about these, but for those of columns."""
    some, array = store, store.array
    if rows.size < store.shape[0]:
        is_float = array.dtype in (np.float32, np.float64)
        # Every number of up to two bytes is a float.
        if is_readable(array.dtype) and (is_float or array.dtype.itemsize <= 2):
            taken = np.empty((rows.size, array.shape[1]), dtype=array.dtype if is_float else np.float32)
            fill_block(Rows([array]), rows, taken)
        else:
            taken = np.ascontiguousarray(some_rows(array, rows))
        some = DenseStore(taken)
    try:
        return some, _at_once(some, of_columns=False) or collect_facts(some)
    except BadAtomError as error:
        text, row = error.args
        raise BadAtomError(text, int(rows[row])) from None
