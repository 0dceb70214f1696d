"""Reading a source that consists of numbered chunks: cached, fetched ahead, tried again, counted.

What a chunk is (a Zarr chunk, a row group) and how one is fetched is the caller's business.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from numpy.typing import NDArray

from banditmips._files import CorruptFileError
from banditmips._threads import forget_when_forked
from banditmips.atoms.metering import count_bytes
from banditmips.atoms.prefetching import Prefetcher

__all__ = ["ChunkReadError", "ChunkReader", "ContentError", "read_patiently"]

_FIRST_PAUSE = 0.05
"""Seconds before the second try; each later pause is twice the one before."""

_REMOTE_PACKAGES = frozenset({"aiohttp", "aiobotocore", "azure", "botocore", "gcsfs", "google", "requests", "urllib3"})
"""Packages behind fsspec whose errors are no `OSError`, although they tell of a read that may go well next time."""

_Read = TypeVar("_Read")

_PERMANENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)


class ChunkReadError(OSError):
    """A chunk could not be read, however often it was tried."""


class ContentError(ValueError):
    """What a chunk holds cannot be atoms: there is no value at some place, or rows differ in length."""


_NAMED = (CorruptFileError, ContentError, MemoryError)
"""What fetching says is wrong goes through as it is."""


def _may_pass(error: Exception) -> bool:
    """Tell whether a failed read is worth another try."""
    if isinstance(error, OSError):
        return not isinstance(error, _PERMANENT)
    return type(error).__module__.split(".")[0] in _REMOTE_PACKAGES


def read_patiently(fetch: Callable[[], _Read], attempts: int, source: str, where: Callable[[], str]) -> _Read:
    """Call `fetch`, again after failures that may pass; any other failure gets the name of what was read."""
    attempt = 1
    while True:
        try:
            return fetch()
        except _NAMED:
            raise  # not from itself: whoever follows the causes of an error would never come to an end
        except Exception as error:
            if attempt == attempts or not _may_pass(error):
                raise _named(error, source, where(), attempt) from error
        time.sleep(_FIRST_PAUSE * 2 ** (attempt - 1))
        attempt += 1


def _named(error: Exception, source: str, where: str, attempt: int) -> Exception:
    """Make the error that names the chunk from the one that fetching it raised."""
    if isinstance(error, ImportError):  # what a protocol of a URL needs is not installed
        return ImportError(f"{source}: {error}")
    if isinstance(error, (FileNotFoundError, KeyError)):
        return CorruptFileError(source, where, "the chunk is missing")
    if isinstance(error, OSError) or _may_pass(error):
        tries = "1 try" if attempt == 1 else f"{attempt} tries"
        return ChunkReadError(f"{source}: {where}: could not be read in {tries}: {error}")
    what = "the chunk is damaged" if where.startswith("chunk") else "cannot be read"
    return CorruptFileError(source, where, f"{what} ({type(error).__name__}: {error})")


class ChunkReader:
    """Decoded chunks of one source, for any number of threads.

    A chunk is fetched once, however many threads ask for it together, and kept while `memory_limit` allows.

    Parameters
    ----------
    fetch : callable
        ``fetch(chunk)`` reads and decodes one chunk. A transient failure is an `OSError` or an error of a remote
        file system, and is tried again; `FileNotFoundError` and `KeyError` say that the chunk is missing;
        `CorruptFileError` and `ContentError` go through as they are; any other error says that the chunk is damaged.
        None of these is tried again.
    n_chunks : int
        They are numbered from 0.
    describe : callable
        ``describe(chunk)`` names a chunk in error messages, as in ``"chunk c/0/3"``.
    memory_limit : int
        Bytes that the cache and the chunks fetched ahead may take together.
    n_threads : int
        Threads that fetch ahead in `read_many`.
    attempts : int
        How often a chunk is tried.
    source : str or path
        Names the whole in error messages.
    fetch_counts : bool
        Whether `fetch` calls `count_bytes` itself, because it knows the stored size; else the decoded size counts.

    Examples
    --------
    >>> import numpy as np
    >>> reader = ChunkReader(lambda chunk: np.full(3, chunk), 5, describe=lambda chunk: f"chunk {chunk}",
    ...                      memory_limit=1000, source="numbers")
    >>> reader.read(4)
    array([4, 4, 4])
    >>> [chunk for chunk, _ in reader.read_many([3, 0, 3])]
    [3, 0, 3]
    """

    def __init__(
        self,
        fetch: Callable[[int], NDArray[Any]],
        n_chunks: int,
        *,
        describe: Callable[[int], str],
        memory_limit: int,
        n_threads: int = 4,
        attempts: int = 3,
        source: str | os.PathLike[str] = "atoms",
        fetch_counts: bool = False,
    ) -> None:
        if min(n_chunks, n_threads, attempts) < 1:
            raise ValueError(f"n_chunks, n_threads and attempts must be positive, got {n_chunks, n_threads, attempts}")
        self.n_chunks = n_chunks
        self.memory_limit = memory_limit
        self._fetch = fetch
        self._describe = describe
        self._prefetcher = Prefetcher(n_threads)
        self._attempts = attempts
        self._source = os.fspath(source)
        self._fetch_counts = fetch_counts
        self._cache: OrderedDict[int, NDArray[Any]] = OrderedDict()
        self._largest = 0
        self.forget()
        forget_when_forked(self)

    def forget(self) -> None:
        """Begin without threads: what they have underway is fetched anew by whoever needs it, and no lock is closed."""
        self._lock = threading.RLock()
        self._underway: dict[int, Future[NDArray[Any]]] = {}
        self._cached_bytes = sum(array.nbytes for array in self._cache.values())

    @property
    def cached_bytes(self) -> int:
        """Memory that the cached chunks take now."""
        return self._cached_bytes

    def read(self, chunk: int, keep: bool = True) -> NDArray[Any]:
        """Return a chunk; it is shared, so it must not be changed. Without `keep` it is not kept for later."""
        if not 0 <= chunk < self.n_chunks:
            raise IndexError(f"{self._source}: there is no chunk {chunk} among {self.n_chunks}")
        with self._lock:
            kept = self._kept(chunk)
            if kept is not None:
                return kept[1]
            underway = self._underway.get(chunk)
            mine: Future[NDArray[Any]] = Future()
            if underway is None:
                self._underway[chunk] = mine
        if underway is not None:
            return underway.result()
        try:
            array = self._fetch_one(chunk)
        except BaseException as error:
            with self._lock:
                self._underway.pop(chunk, None)
            mine.set_exception(error)
            raise
        with self._lock:
            self._largest = max(self._largest, array.nbytes)
            if keep:
                self._keep(chunk, array)
            self._underway.pop(chunk, None)
        mine.set_result(array)
        return array

    def read_many(self, chunks: Iterable[int], keep: bool = True) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (number, chunk) in the given order, while the next ones are being fetched."""
        rest = iter(chunks)
        if self._largest == 0:
            # One chunk tells how large they are, before several are asked for.
            for chunk in rest:
                yield chunk, self.read(chunk, keep)
                break
        yield from self._prefetcher.map(
            lambda chunk: (chunk, self.read(chunk, keep)), rest, self._look_ahead(), at_hand=self._kept
        )

    def keeps(self, chunk: int) -> bool:
        """Whether a chunk is kept in memory."""
        with self._lock:
            return chunk in self._cache

    def _kept(self, chunk: int) -> tuple[int, NDArray[Any]] | None:
        with self._lock:
            array = self._cache.get(chunk)
            if array is None:
                return None
            self._cache.move_to_end(chunk)
            return chunk, array

    def close(self) -> None:
        """Let threads and cached chunks go; the reader can still be used."""
        with self._lock:
            self._cache.clear()
            self._cached_bytes = 0
        self._prefetcher.close()

    def __getstate__(self) -> dict[str, Any]:
        """What goes to another process: how to read, not what was read."""
        left_behind = ("_lock", "_cache", "_cached_bytes", "_underway")
        return {name: value for name, value in self.__dict__.items() if name not in left_behind}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin there with an empty cache."""
        self.__dict__.update(state)
        self._cache = OrderedDict()
        self.forget()
        forget_when_forked(self)

    def _look_ahead(self) -> int:
        """How many chunks to have underway or waiting: they share the memory with the cache, half and half."""
        affordable = self.memory_limit // 2 // self._largest if self._largest else 1
        return max(min(affordable - 1, 2 * self._prefetcher.n_threads), 0)

    def _keep(self, chunk: int, array: NDArray[Any]) -> None:
        """Cache a chunk and drop those used longest ago."""
        room = self.memory_limit // 2
        if array.nbytes > room:
            return
        self._cache[chunk] = array
        self._cached_bytes += array.nbytes
        while self._cached_bytes > room:
            _, dropped = self._cache.popitem(last=False)
            self._cached_bytes -= dropped.nbytes

    def _fetch_one(self, chunk: int) -> NDArray[Any]:
        array = read_patiently(lambda: self._fetch(chunk), self._attempts, self._source, lambda: self._describe(chunk))
        if not self._fetch_counts:
            count_bytes(array.nbytes)
        shared = array.view()
        shared.flags.writeable = False
        return shared
