"""Work done ahead by a few threads, in order and not too far ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextvars import copy_context
from itertools import chain, islice
from typing import Any, TypeVar

from banditmips._threads import LazyPool

__all__ = ["Prefetcher"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Prefetcher:
    """A small pool of threads, made when it is first needed."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._pool = LazyPool(n_threads, "banditmips-read")

    def map(
        self,
        work: Callable[[_Item], _Result],
        items: Iterable[_Item],
        look_ahead: int,
        at_hand: Callable[[_Item], _Result | None] = lambda item: None,
    ) -> Iterator[_Result]:
        """Yield ``work(item)`` in the items' order, while at most `look_ahead` later ones are underway or waiting.

        Where ``at_hand(item)`` has the result already, no thread is asked.

        Examples
        --------
        >>> list(Prefetcher(2).map(str.upper, "abc", look_ahead=4))
        ['A', 'B', 'C']
        """
        waiting: deque[Future[_Result]] = deque()
        if look_ahead > 0:
            first = list(islice(items := iter(items), 2))
            items, look_ahead = chain(first, items), look_ahead if len(first) > 1 else 0  # one is not worth a thread
        try:
            for item in items:
                result = at_hand(item)
                if not waiting and (result is not None or look_ahead < 1):
                    yield work(item) if result is None else result
                    continue
                waiting.append(self._submit(work, item) if result is None else _done(result))
                if len(waiting) > look_ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def close(self) -> None:
        """Let the threads go; they come back when they are needed."""
        self._pool.close()

    def _submit(self, work: Callable[[_Item], _Result], item: _Item) -> Future[_Result]:
        # The thread counts into the meter of the query that it works for.
        return self._pool.submit(copy_context().run, work, item)

    def __getstate__(self) -> dict[str, Any]:
        """Threads do not go to another process."""
        return {"n_threads": self.n_threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin there without threads."""
        self.__init__(**state)  # type: ignore[misc]


def _done(result: _Result) -> Future[_Result]:
    future: Future[_Result] = Future()
    future.set_result(result)
    return future
