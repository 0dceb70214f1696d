"""Work in threads: the same results in the same order, however many there are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["count_threads", "map_in_order"]

Item = TypeVar("Item")
Done = TypeVar("Done")


def count_threads(n_jobs: int) -> int:
    """How many threads an ``n_jobs`` means."""
    return (os.cpu_count() or 1) if n_jobs == -1 else n_jobs


def map_in_order(work: Callable[[Item], Done], items: Sequence[Item], n_jobs: int) -> Iterator[Done]:
    """Yield ``work(item)`` for each item, in order; an error comes where its result would have come."""
    n_threads = min(count_threads(n_jobs), len(items))
    if n_threads <= 1:
        yield from map(work, items)
        return
    pool = ThreadPoolExecutor(n_threads)
    try:
        yield from pool.map(work, items)
    finally:
        # After Ctrl-C or an error, what has not begun is dropped.
        pool.shutdown(wait=True, cancel_futures=True)
