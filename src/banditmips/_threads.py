"""Work in threads: the same results in the same order, however many there are.

A batch is divided by queries (`map_in_order`). One query has its large pieces of work divided by rows (`in_pieces`), if
whoever answers it has said so (`helped_by`); inside a batch nobody has, so threads do not multiply.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

__all__ = [
    "ForkedLock",
    "LazyPool",
    "count_threads",
    "forget_when_forked",
    "helped_by",
    "in_pieces",
    "map_in_order",
    "n_threads",
    "pieces_of",
    "submit_to",
]

Item = TypeVar("Item")
Done = TypeVar("Done")


def count_threads(n_jobs: int) -> int:
    """How many threads an ``n_jobs`` means."""
    return (os.cpu_count() or 1) if n_jobs == -1 else n_jobs


def map_in_order(work: Callable[[Item], Done], items: Sequence[Item], n_jobs: int) -> Iterator[Done]:
    """Yield ``work(item)`` for each item, in order; an error comes where its result would have come.

    The thread that asks works like the others do, and what it does here is not divided further.
    """
    n_helpers = min(count_threads(n_jobs), len(items)) - 1
    if n_helpers <= 0:
        yield from map(work, items)
        return
    left = iter(range(len(items)))  # whoever takes the next number does that item
    done: dict[int, tuple[BaseException | None, Any]] = {}

    def do(number: int, caught: type[BaseException]) -> None:
        try:
            done[number] = None, work(items[number])
        except caught as error:
            done[number] = error, None

    def help_out() -> None:
        for number in left:
            do(number, BaseException)

    helpers = _begin_helpers(help_out, n_helpers)
    try:
        for number in range(len(items)):
            while number not in done:
                mine = next(left, None)
                if mine is None:  # a helper is at it
                    wait([helper for helper in helpers if not helper.done()], return_when=FIRST_COMPLETED)
                else:
                    with helped_by(1):
                        do(mine, Exception)
            error, found = done.pop(number)
            if error is not None:
                raise error
            yield found
    finally:
        # After Ctrl-C or an error, what has not begun is dropped.
        for _ in left:
            pass
        for helper in helpers:
            helper.cancel()
        wait(helpers)


def _begin_helpers(work: Callable[[], None], n_helpers: int) -> list[Future[None]]:
    """Let so many other threads work; fewer, where the system has no memory for them."""
    helpers: list[Future[None]] = []
    with suppress(MemoryError):
        helpers.extend(_helpers.submit(work) for _ in range(n_helpers))
    return helpers


def submit_to(pool: ThreadPoolExecutor, work: Callable[..., Done], *arguments: Any) -> Future[Done]:
    """Let a thread do it; where there is no memory for another thread, that is the error, and the pool is closed."""
    try:
        return pool.submit(work, *arguments)
    except RuntimeError as error:
        # What is left in the pool's list must not be done later, when nobody waits for it any more.
        pool.shutdown(wait=False, cancel_futures=True)
        raise MemoryError(f"there is no memory for another thread: {error}") from error


class _Forgetting(Protocol):
    def forget(self) -> None:
        """Begin without threads."""


_forgetting: WeakSet[_Forgetting] = WeakSet()


def forget_when_forked(thing: _Forgetting) -> None:
    """Call ``thing.forget()`` in every process that is forked off, where no thread is left but the one that forked."""
    _forgetting.add(thing)


def _forget_threads() -> None:
    for thing in list(_forgetting):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)


class ForkedLock:
    """A lock that is open in a process that was forked off, whoever held it in the other one.

    Only the thread that forked lives on in the new process: a lock that another one held there is never opened again.
    """

    def __init__(self) -> None:
        self.forget()
        forget_when_forked(self)

    def forget(self) -> None:
        """Be open."""
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class LazyPool:
    """Threads that are made when they are first needed, and anew in a process that was forked off.

    A forked process has a copy of everything but the threads: whoever waits for one of them there waits for ever.
    """

    def __init__(self, n_threads: int, name: str) -> None:
        self.n_threads = n_threads
        self._name = name
        self.forget()
        forget_when_forked(self)

    def forget(self) -> None:
        """Begin without threads."""
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None

    def submit(self, work: Callable[..., Done], *arguments: Any) -> Future[Done]:
        """Let a thread do it."""
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self.n_threads, thread_name_prefix=self._name)
            try:
                return submit_to(self._pool, work, *arguments)
            except MemoryError:
                self._pool = None
                raise

    def close(self) -> None:
        """Let the threads go; they come back when they are needed."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            pool.shutdown()


_MOST_HELPERS = 64
"""Threads at most: they may wait for a disk, so that more of them than processors can be of use."""
_helpers = LazyPool(max(os.cpu_count() or 1, _MOST_HELPERS), "banditmips")
_n_threads: ContextVar[int] = ContextVar("banditmips_threads", default=1)


@contextmanager
def helped_by(n_jobs: int) -> Iterator[None]:
    """Let so many threads, this one included, share what is done inside."""
    token = _n_threads.set(count_threads(n_jobs))
    try:
        yield
    finally:
        _n_threads.reset(token)


def n_threads() -> int:
    """How many threads share what is done here."""
    return _n_threads.get()


def pieces_of(n: int, least: int) -> list[tuple[int, int]]:
    """Ranges that cover 0, ..., n-1: one for each thread at hand, but no more than have `least` each."""
    at_hand = _n_threads.get()
    if at_hand == 1:
        return [(0, n)]
    count = max(min(at_hand, n // max(least, 1)), 1)
    return [(n * piece // count, n * (piece + 1) // count) for piece in range(count)]


def in_pieces(work: Callable[[int, int], Done], n: int, least: int) -> list[Done]:
    """Do ``work(start, stop)`` for the `pieces_of` n, and return what came of each.

    Examples
    --------
    >>> with helped_by(2):
    ...     in_pieces(lambda start, stop: stop - start, 9, least=3)
    [4, 5]
    >>> in_pieces(lambda start, stop: stop - start, 9, least=3)
    [9]
    """
    first, *others = pieces_of(n, least)
    if not others:
        return [work(*first)]
    waiting: list[Future[Done]] = []
    try:
        waiting.extend(_helpers.submit(work, *piece) for piece in others)
        done = [work(*first)]
        # What no thread has begun by now is done here: others may be busy with the work of other queries.
        done += [
            work(*piece) if future.cancel() else future.result() for piece, future in zip(others, waiting, strict=True)
        ]
    finally:
        for future in waiting:
            future.cancel()
    return done
