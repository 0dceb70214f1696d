"""Atoms in a file that holds nothing but their entries: ``.npy`` in either order, contiguous HDF5 datasets.

The file is read, not mapped: the pages of a map would count as this process's memory, and a file that is cut short
would end the process instead of raising an error.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._files import CorruptFileError, FileState, read_at
from banditmips.atoms.chunks import read_patiently
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.metering import count_bytes
from banditmips.atoms.parts import Part, PartStore, Span, joined_runs
from banditmips.atoms.prefetching import Prefetcher
from banditmips.atoms.runs import PAGE, Run, adjoining, batches_of, bytes_of_pages, places_of
from banditmips.atoms.short_reads import ShortReads
from banditmips.core.reads import read_runs

__all__ = ["RawStore"]

_SEEK = 1 << 16
"""Bytes that are read in about the time that it takes to go to another place."""
_LONG_ROW = 1 << 20
"""Bytes of a row from which on lines need not be whole pages."""
_PIECE = 1 << 21
"""Bytes read together, where memory allows it: enough that the time goes into reading."""
_N_THREADS, _LOOK_AHEAD, _ATTEMPTS = 4, 6, 3
GROUPS_AHEAD = 2
"""Groups of whole rows that are read while one is looked at."""


_Places = list[tuple[int, slice, int, Any]]
"""What becomes of a box: the number of the span, the rows asked for, the first column, and where in the box."""
_Free = list[NDArray[Any]]
"""Room for boxes that are done with: to have new memory takes longer than to fill it."""


class _Task(NamedTuple):
    """A box to be read.

    `majors` are the rows (of a file in C order, else the columns) and `segments` the runs in each of them; `parts`
    says what becomes of it. The room comes from the thread that asks: memory that the reading threads took would stay
    with each of them.
    """

    majors: NDArray[np.int64]
    segments: list[Span]
    parts: _Places
    box: NDArray[Any]


class RawStore(PartStore):
    """The entries of a matrix in a file, one after another.

    Parameters
    ----------
    path
    shape, dtype
        Of the matrix.
    offset : int
        The byte where the entries begin.
    fortran : bool
        Whether the entries of a column are neighbours, rather than those of a row.
    memory_limit : int
        Bytes to be held at a time.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        shape: tuple[int, int],
        dtype: np.dtype[Any],
        *,
        offset: int,
        fortran: bool,
        memory_limit: int,
    ) -> None:
        self.path = Path(path)
        self.shape = shape
        self.dtype = dtype
        self.n_files = 1
        self._offset = offset
        self.by_column = fortran
        self.memory_limit = memory_limit
        n, d = shape
        self._length = n if fortran else d
        self._piece = max(min(_PIECE, memory_limit // (_LOOK_AHEAD + 2)) // dtype.itemsize, 1)
        # A line as long as a page lies in two of them, unless all rows begin where a page does. Of long rows a part of
        # a page tells enough; of short ones most pages are read anyway.
        aligned = (offset | (d * dtype.itemsize)) % PAGE == 0
        self._line_bytes = PAGE if fortran or aligned or d * dtype.itemsize < _LONG_ROW else PAGE // 4
        self.line_width = min(max(self._line_bytes // (dtype.itemsize * (n if fortran else 1)), 1), d)
        self.line_cost = 1.0 if fortran or aligned else PAGE / self._line_bytes + 1.0
        self._n_bytes = n * d * dtype.itemsize
        self._short_reads = ShortReads(self._n_bytes)
        self._prefetcher = Prefetcher(_N_THREADS)
        self._fitted = False
        self._open()
        end = offset + self._n_bytes
        if self._state.size < end:
            problem = f"{n} x {d} entries of {dtype} go to byte {end:,}, but it ends at byte {self._state.size:,}"
            raise CorruptFileError(self.path, "file", problem)

    def _open(self) -> None:
        flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
        self._descriptor, self._scattered = os.open(self.path, flags), os.open(self.path, flags)
        self._close = weakref.finalize(self, _close_both, self._descriptor, self._scattered)
        if hasattr(os, "posix_fadvise"):
            # Else the system reads ahead, several times as much as is asked for.
            os.posix_fadvise(self._scattered, 0, 0, os.POSIX_FADV_RANDOM)
        self._state = FileState.of(self._descriptor)

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: where the file is, and what it looked like."""
        left_behind = ("_descriptor", "_scattered", "_close")
        return {name: value for name, value in self.__dict__.items() if name not in left_behind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the file there, if it is still the same."""
        self.__dict__.update(state)
        expected = self._state
        self._open()
        self._state = expected
        self._check_unchanged()

    def close(self) -> None:
        """Close the file; the store cannot be used afterwards."""
        self._prefetcher.close()
        self._close()

    def _check_unchanged(self) -> None:
        self._state.check(FileState.of(self._descriptor), self.path, fitted=self._fitted)

    def states(self) -> NDArray[np.int64]:
        """Return the size and the time of change of the file."""
        return np.array([self._state], dtype=np.int64)

    def expect(self, states: NDArray[np.int64]) -> None:
        """Raise if the file is not what it was when an index was fitted to it."""
        self._state, self._fitted = FileState(*states[0].tolist()), True
        self._check_unchanged()

    @property
    def line_time(self) -> float:
        """Time of a byte of a line, over that of one that is read with everything: as it is now, where that matters.

        A line that lies in two pages takes hardly longer than one that lies in one: what takes time is to go there.
        """
        if self.by_column:
            return 1.0
        of_page = self._short_reads.ratio(self._is_cached, self._seconds_of, self._line_bytes)
        return max(1.0, of_page * PAGE / (self.line_cost * self._line_bytes))

    @property
    def byte_time(self) -> float:
        """Nanoseconds of a byte of a long read, roughly: from the system's memory, or from a disk."""
        return self._short_reads.byte_time(self._is_cached)

    def _is_cached(self, n_reads: int) -> bool:
        """Whether the system has most of the file in memory, by a few pages of it; False where it does not tell."""
        if not hasattr(os, "RWF_NOWAIT"):
            return False
        n_cached, room = 0, bytearray(PAGE)
        for begin in self._anywhere(n_reads, PAGE).tolist():
            with suppress(OSError):  # it is not, or this kind of file cannot be asked
                n_cached += os.preadv(self._scattered, [room], begin, os.RWF_NOWAIT) > 0
        return 2 * n_cached > n_reads

    def _seconds_of(self, n_reads: int, size: int) -> float:
        """Time of so many reads, each somewhere else."""
        begins, sizes = self._anywhere(n_reads, size), np.full(n_reads, size)
        room = np.ones(n_reads * size, dtype=np.uint8)  # memory that nobody has written to takes longer
        begun = time.perf_counter()
        self._read_runs(begins, sizes, room)
        count_bytes(room.size)
        return time.perf_counter() - begun

    def _anywhere(self, n_reads: int, size: int) -> NDArray[np.int64]:
        """Places of some reads of this size, others each time: what was read once is in the system's memory."""
        last = self._offset + self._n_bytes - size
        return np.random.default_rng().integers(self._offset, last, size=n_reads)

    def spans_of(self, columns: NDArray[np.int64]) -> list[Span]:
        """Return runs of columns; what lies within a page of each other is read together."""
        gap = PAGE // self.dtype.itemsize if not self.by_column else 1
        return joined_runs(columns, gap)

    def share_of_rows(self, n_rows: int) -> float:
        """Return the part of the pages that is read for so many rows."""
        n = self.shape[0]
        if not self.by_column:
            return min(1.0, n_rows / n)
        return min(1.0, n_rows * PAGE / (n * self.dtype.itemsize)) if self._few(n_rows) else 1.0

    def _few(self, n_rows: int) -> bool:
        """Whether rows of a file in Fortran order are read one by one, rather than with all between them."""
        return n_rows * _SEEK < self._length * self.dtype.itemsize

    def read_whole(self) -> DenseStore:
        """Read everything into an array in the order in which it is stored, several pieces at once."""
        array = np.empty(self.shape, dtype=self.dtype, order="F" if self.by_column else "C")
        majors = array.T if self.by_column else array
        step = max(1, self._piece // self._length)

        def read(first: int) -> None:
            some = majors[first : first + step]
            self._run(_Task(np.arange(first, first + len(some)), [(0, self._length)], [], some))

        for _ in self._prefetcher.map(read, range(0, len(majors), step), _LOOK_AHEAD):
            pass
        return DenseStore(array)

    def row_groups(self, most: int) -> NDArray[np.int64]:
        """Return where groups of rows begin; in Fortran order all rows are one, if fewer would be read with others."""
        n, itemsize = self.shape[0], self.dtype.itemsize
        alone = not self.by_column or (most * itemsize >= 2 * PAGE and (n - most) * itemsize >= _SEEK)
        return np.append(np.arange(0, n, most if alone else n), n)

    def read_groups(self, edges: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, whole rows) for each of these groups; the next ones are read meanwhile."""
        if self.by_column:
            yield from super().read_groups(edges)
            return
        spans = [(0, self.shape[1])]
        tasks = (self._task(np.arange(first, stop), spans, [], []) for first, stop in pairwise(edges.tolist()))
        for task in self._prefetcher.map(self._run, tasks, GROUPS_AHEAD):
            yield int(task.majors[0]), task.box

    def read_parts(self, rows: NDArray[np.int64], spans: Sequence[Span]) -> Iterator[Part]:
        """Yield the rows at these spans of columns."""
        free: _Free = []
        tasks = self._fortran_tasks(rows, spans, free) if self.by_column else self._c_tasks(rows, spans, free)
        # What is read from end to end the system reads ahead; threads would only take it out of the processor's cache.
        is_scan = rows.size == self.shape[0] and list(spans) == [(0, self.shape[1])]
        for task in self._prefetcher.map(self._run, tasks, 0 if is_scan else _LOOK_AHEAD):
            for span, positions, first_column, place in task.parts:
                values = task.box[place]
                yield Part(span, positions, first_column, values.T if self.by_column else values)
            assert task.box.base is not None
            free.append(task.box.base)

    def _c_tasks(self, rows: NDArray[np.int64], spans: Sequence[Span], free: _Free) -> Iterator[_Task]:
        # In the order in which they lie in the file.
        order = sorted(range(len(spans)), key=lambda number: spans[number])
        widest = max((stop - start for start, stop in spans), default=0)
        if rows.size > len(spans) and widest * self.dtype.itemsize < _SEEK:
            yield from self._line_tasks(rows, [(number, *spans[number]) for number in order], free)
            return
        batches = batches_of([(number, *spans[number]) for number in order], self._piece)
        step = max(1, self._piece // max(sum(stop - start for start, stop in spans), 1))
        for first in range(0, rows.size, step):
            some = slice(first, min(first + step, rows.size))
            for batch in batches:
                parts, at = [], 0
                for number, start, stop in batch:
                    parts.append((number, some, start, np.s_[:, at : at + stop - start]))
                    at += stop - start
                yield self._task(rows[some], [(start, stop) for _, start, stop in batch], parts, free)

    def _line_tasks(self, rows: NDArray[np.int64], lines: list[Run], free: _Free) -> Iterator[_Task]:
        """Line by line: the next place is as far away in the same row as in the next, and one part holds many rows."""
        for together in adjoining(lines, self._piece):
            begin, end = together[0][1], together[-1][2]
            step = max(1, self._piece // (end - begin))
            for first in range(0, rows.size, step):
                some = slice(first, min(first + step, rows.size))
                parts = [
                    (number, some, start, np.s_[:, start - begin : stop - begin]) for number, start, stop in together
                ]
                yield self._task(rows[some], [(begin, end)], parts, free)

    def _row_runs(self, rows: NDArray[np.int64]) -> list[Span]:
        """Which runs of rows to read in each column of a file in Fortran order."""
        if self._few(rows.size):
            return joined_runs(rows, PAGE // self.dtype.itemsize)
        first, stop = int(rows[0]), int(rows[-1]) + 1
        # What lies between the runs of neighbouring columns is read too, where going past it takes as long.
        near = (self._length - (stop - first)) * self.dtype.itemsize < _SEEK
        return [(0, self._length)] if near else [(first, stop)]

    def _fortran_tasks(self, rows: NDArray[np.int64], spans: Sequence[Span], free: _Free) -> Iterator[_Task]:
        runs = self._row_runs(rows)
        batches = batches_of([(number, *run) for number, run in enumerate(runs)], self._piece)
        step = max(1, self._piece // max(sum(stop - start for start, stop in runs), 1))
        for number, (start, stop) in enumerate(spans):
            for first in range(start, stop, step):
                columns = np.arange(first, min(first + step, stop))
                for batch in batches:
                    segments = [(low, high) for _, low, high in batch]
                    low, high = np.searchsorted(rows, (segments[0][0], segments[-1][1])).tolist()
                    if low < high:
                        place = np.s_[:, places_of(rows[low:high], segments)]
                        yield self._task(columns, segments, [(number, slice(low, high), first, place)], free)

    def _task(self, majors: NDArray[np.int64], segments: list[Span], parts: _Places, free: _Free) -> _Task:
        width = sum(stop - start for start, stop in segments)
        size = majors.size * width
        room = free.pop() if free and free[-1].size >= size else np.empty(size, dtype=self.dtype)
        return _Task(majors, segments, parts, room[:size].reshape(majors.size, width))

    def _run(self, task: _Task) -> _Task:
        def where() -> str:
            what = "columns" if self.by_column else "rows"
            return f"{what} {task.majors[0]} to {task.majors[-1]}"

        read_patiently(lambda: self._fill(task), _ATTEMPTS, str(self.path), where)
        self._check_unchanged()
        return task

    def _fill(self, task: _Task) -> None:
        itemsize = self.dtype.itemsize
        flat = task.box.reshape(-1).view(np.uint8)
        begins = self._offset + task.majors * (self._length * itemsize)
        are_neighbours = task.box.shape[1] == self._length and task.majors[-1] - task.majors[0] + 1 == task.majors.size
        if are_neighbours or (task.majors.size == 1 and len(task.segments) == 1):
            begin = int(begins[0]) + task.segments[0][0] * itemsize
            self._read(begin, flat.data)
            count_bytes(PAGE * ((begin + flat.size - 1) // PAGE - begin // PAGE + 1))
            return
        segments = np.array(task.segments, dtype=np.int64) * itemsize
        first, last = ((begins[:, np.newaxis] + segments[:, side]).ravel() for side in (0, 1))
        self._read_runs(first, last - first, flat)
        count_bytes(bytes_of_pages(first, last))

    def _read_runs(self, begins: NDArray[np.int64], sizes: NDArray[np.int64], room: NDArray[np.uint8]) -> None:
        """Fill the room with runs of bytes, one behind the other."""
        n_came = read_runs(self._descriptor_for(int(sizes.max())), begins, sizes, room)
        at = int(sizes[:n_came].sum())
        # Whatever has not come is read one by one, which says what is wrong with it, or is how this system reads.
        for begin, size in zip(begins[n_came:].tolist(), sizes[n_came:].tolist(), strict=True):
            self._read(begin, room.data[at : at + size])
            at += size

    def _descriptor_for(self, size: int) -> int:
        return self._descriptor if size >= _SEEK else self._scattered

    def _read(self, offset: int, room: memoryview) -> None:
        """Fill the room with what is in the file from this byte on."""
        descriptor = self._descriptor_for(len(room))
        while room:
            count = read_at(descriptor, room, offset)
            if count == 0:
                self._check_unchanged()
                raise CorruptFileError(self.path, "file", f"it ends at byte {offset:,}, in the middle of the entries")
            offset += count
            room = room[count:]


def _close_both(descriptor: int, other: int) -> None:
    os.close(descriptor)
    os.close(other)
