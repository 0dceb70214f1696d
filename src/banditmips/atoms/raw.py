"""Atoms in a file that holds nothing but their entries: ``.npy`` in either order, contiguous HDF5 datasets.

The file is read, not mapped: the pages of a map would count as this process's memory, and a file that is cut short
would end the process instead of raising an error.
"""

from __future__ import annotations

import math
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

__all__ = ["RawStore"]

PAGE = 4096
"""What a disk is read by. A part of a page costs, and counts as, a page."""
_SEEK = 1 << 16
"""Bytes that are read in about the time that it takes to go to another place."""
_PIECE = 1 << 21
"""Bytes read together, where memory allows it: enough that the time goes into reading."""
_N_THREADS, _LOOK_AHEAD, _ATTEMPTS = 4, 6, 3
_SHORT_READ, _SHORT_READ_CACHED = 4.0, 8.0
"""Time of a byte that is read a page at a time, over that of one of a long read: from a disk, where it is not measured,
and from the memory in which the system keeps files, where a call takes longer than what it copies (6 to 12 times)."""
_WORTH_MEASURING = 1 << 28
"""Bytes of a file from which on it is measured: smaller ones are read in the time that a few measurements take."""
_N_TURNS, _N_SHORT, _LONG = 3, 16, 1 << 20
"""What is measured: turns of so many pages by each thread, and one read of so many bytes."""
_SELDOM = 100.0
"""Times that a measurement's own time has to pass before the next one: the system's cache may have changed by then."""
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
        self.line_width = min(max(PAGE // (dtype.itemsize * (n if fortran else 1)), 1), d)
        # A line as long as a page lies in two of them, unless all rows begin where a page does.
        self.line_cost = 1.0 if (offset | (d * dtype.itemsize)) % PAGE == 0 else 2.0
        self._n_bytes = n * d * dtype.itemsize
        self._line_time = 1.0
        self._measure_again = math.inf
        if not fortran:
            short_read = _SHORT_READ_CACHED if _may_be_cached(self._n_bytes) else _SHORT_READ
            self._line_time = max(1.0, short_read / self.line_cost)
            if self._n_bytes >= _WORTH_MEASURING:
                self._measure_again = -math.inf
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
        begun = time.monotonic()
        if begun >= self._measure_again:
            cached = self._is_cached()
            self._line_time = max(1.0, (_SHORT_READ_CACHED if cached else self._timed_short_read()) / self.line_cost)
            ended = time.monotonic()
            self._measure_again = ended + _SELDOM * (ended - begun)
        return self._line_time

    def _is_cached(self) -> bool:
        """Whether the system has most of the file in memory, by a few pages of it; False where it does not tell."""
        if not hasattr(os, "RWF_NOWAIT"):
            return False
        n_cached, room = 0, bytearray(PAGE)
        for place in self._anywhere(_N_SHORT, PAGE):
            with suppress(OSError):  # it is not, or this kind of file cannot be asked
                n_cached += os.preadv(self._scattered, [room], place, os.RWF_NOWAIT) > 0
        return 2 * n_cached > _N_SHORT

    def _timed_short_read(self) -> float:
        """Time of a byte of a line on its own over that of one of a long read."""
        short, long = [], []
        for _ in range(_N_TURNS):
            begun = time.perf_counter()
            for _ in self._prefetcher.map(self._read_pages, range(_N_THREADS), _N_THREADS):
                pass
            short.append((time.perf_counter() - begun) / (_N_THREADS * _N_SHORT * PAGE))
            room, (place,) = memoryview(bytearray(_LONG)), self._anywhere(1, _LONG)
            begun = time.perf_counter()
            self._read(place, room)
            long.append((time.perf_counter() - begun) / _LONG)
        count_bytes(_N_TURNS * (_N_THREADS * _N_SHORT * PAGE + _LONG))
        # Threads may have to wait to begin; disks are sometimes slow, and a scan goes through all of that.
        return float(min(short) / np.median(long))

    def _read_pages(self, _: int) -> None:
        room = memoryview(bytearray(PAGE))
        for place in self._anywhere(_N_SHORT, PAGE):
            self._read(place, room)

    def _anywhere(self, n_reads: int, size: int) -> list[int]:
        """Places of some reads of this size, others each time: what was read once is in the system's memory."""
        last = self._offset + self._n_bytes - size
        return [int(place) for place in np.random.default_rng().integers(self._offset, last, size=n_reads)]

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

        begins = range(0, len(majors), step)
        # One piece is not worth a thread.
        for _ in self._prefetcher.map(read, begins, _LOOK_AHEAD if len(begins) > 1 else 0):
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
        batches = _batches([(number, *spans[number]) for number in order], self._piece)
        step = max(1, self._piece // max(sum(stop - start for start, stop in spans), 1))
        for first in range(0, rows.size, step):
            some = slice(first, min(first + step, rows.size))
            for batch in batches:
                parts, at = [], 0
                for number, start, stop in batch:
                    parts.append((number, some, start, np.s_[:, at : at + stop - start]))
                    at += stop - start
                yield self._task(rows[some], [(start, stop) for _, start, stop in batch], parts, free)

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
        batches = _batches([(number, *run) for number, run in enumerate(runs)], self._piece)
        step = max(1, self._piece // max(sum(stop - start for start, stop in runs), 1))
        for number, (start, stop) in enumerate(spans):
            for first in range(start, stop, step):
                columns = np.arange(first, min(first + step, stop))
                for batch in batches:
                    segments = [(low, high) for _, low, high in batch]
                    low, high = np.searchsorted(rows, (segments[0][0], segments[-1][1])).tolist()
                    if low < high:
                        place = np.s_[:, _places(rows[low:high], segments)]
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
        flat = task.box.reshape(-1).view(np.uint8).data
        begins = self._offset + task.majors * (self._length * itemsize)
        are_neighbours = task.box.shape[1] == self._length and task.majors[-1] - task.majors[0] + 1 == task.majors.size
        if are_neighbours or (task.majors.size == 1 and len(task.segments) == 1):
            begin = int(begins[0]) + task.segments[0][0] * itemsize
            self._read(begin, flat)
            count_bytes(PAGE * ((begin + len(flat) - 1) // PAGE - begin // PAGE + 1))
            return
        at = 0
        for begin in begins.tolist():
            for start, stop in task.segments:
                size = (stop - start) * itemsize
                self._read(begin + start * itemsize, flat[at : at + size])
                at += size
        segments = np.array(task.segments) * itemsize
        first, last = (begins[:, np.newaxis] + segments[:, side] for side in (0, 1))
        count_bytes(_pages(first.ravel(), last.ravel()))

    def _read(self, offset: int, room: memoryview) -> None:
        """Fill the room with what is in the file from this byte on."""
        descriptor = self._descriptor if len(room) >= _SEEK else self._scattered
        while room:
            count = read_at(descriptor, room, offset)
            if count == 0:
                self._check_unchanged()
                raise CorruptFileError(self.path, "file", f"it ends at byte {offset:,}, in the middle of the entries")
            offset += count
            room = room[count:]


def _may_be_cached(n_bytes: int) -> bool:
    """Whether the system may well have all of a file in memory: it takes no more than half of that."""
    try:
        return n_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, OSError, ValueError):  # there is no telling
        return True


def _close_both(descriptor: int, other: int) -> None:
    os.close(descriptor)
    os.close(other)


def _batches(runs: Sequence[tuple[int, int, int]], most: int) -> list[list[tuple[int, int, int]]]:
    """Put (number, start, stop) together to batches of at most `most` entries; longer ones are cut."""
    batches: list[list[tuple[int, int, int]]] = []
    room = 0
    for number, start, stop in runs:
        for first in range(start, stop, most):
            last = min(first + most, stop)
            if last - first > room:
                batches.append([])
                room = most
            batches[-1].append((number, first, last))
            room -= last - first
    return batches


def _places(numbers: NDArray[np.int64], segments: Sequence[Span]) -> Any:
    """Where ascending numbers are among the entries of the segments, one after another."""
    starts = np.array([start for start, _ in segments])
    before = np.cumsum([0, *(stop - start for start, stop in segments[:-1])])
    which = np.searchsorted(starts, numbers, side="right") - 1
    places = before[which] + numbers - starts[which]
    if places[-1] - places[0] + 1 == places.size:
        return slice(int(places[0]), int(places[-1]) + 1)  # a view, where an index would copy
    return places


def _pages(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Bytes of the pages that ascending ranges of bytes lie in; a page that two ranges share is read once."""
    first, last = begins // PAGE, (ends - 1) // PAGE
    shared = np.count_nonzero(first[1:] == last[:-1])
    return PAGE * (int((last - first + 1).sum()) - int(shared))
