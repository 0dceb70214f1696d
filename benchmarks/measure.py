"""Interleaved timing: every way of answering runs all requests in turn, and this is repeated, warm and then cold.

*Warm* are requests one after another. *Cold* is a pass over 64 MB of other memory before each request, for everybody:
what an application sees that does something else in between.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entrant", "Search", "Summary", "affordable_runs", "measure", "summarise"]

Search = Callable[[NDArray[Any], int], NDArray[Any]]
"""From a request (one query, or a batch of them) and k to the atoms found, best first."""
OTHER_BYTES = 64 << 20
_LEAST, _COLD_PART = 3, 3
"""Times that are taken at least, unless one is longer than the budget; and one cold repeat for so many warm."""


@dataclass
class Entrant:
    """One way of answering, ready to be timed.

    Attributes
    ----------
    requests
        What is asked: 1-d queries, or 2-d batches.
    warm_up
        Asked without timing at the start of each block, so that the block begins in the steady state. It differs from
        the request that follows: what only that request would leave in the caches must not be there yet.
    warm, cold
        Microseconds, a list of repeats for each request.
    answers
        What was found, in the same order, warm and cold.
    """

    name: str
    search: Search
    requests: Sequence[NDArray[Any]]
    warm_up: NDArray[Any]
    k: int = 1
    warm: list[list[float]] = field(default_factory=list)
    cold: list[list[float]] = field(default_factory=list)
    answers: list[list[NDArray[Any]]] = field(default_factory=list)


@dataclass(frozen=True)
class Summary:
    """Microseconds over all requests and repeats."""

    median: float
    q25: float
    q75: float
    p95: float
    n_times: int


def summarise(times: Sequence[Sequence[float]]) -> Summary:
    """Return the percentiles of all times, whatever request they belong to."""
    flat = np.concatenate([np.asarray(repeats, dtype=np.float64) for repeats in times])
    q25, median, q75, p95 = np.percentile(flat, [25, 50, 75, 95])
    return Summary(float(median), float(q25), float(q75), float(p95), flat.size)


def affordable_runs(seconds: float, n_requests: int, repeats: int, budget: float) -> tuple[int, int]:
    """Return how many requests and repeats fit the budget: fewer repeats first, then fewer requests.

    Three times are taken at least where one of them fits the budget, and one where it does not.
    """
    fitting = max(int(budget / max(seconds, 1e-9)), _LEAST if seconds <= budget else 1)
    if fitting >= n_requests:
        return n_requests, min(repeats, fitting // n_requests)
    return fitting, 1


def measure(entrants: Sequence[Entrant], repeats: int, budget: float) -> None:
    """Time all requests of all entrants, in turn; the times and answers are added to the entrants.

    An entrant that would need more than `budget` seconds, warm or cold, answers fewer times (see `affordable_runs`).
    """
    seconds = [_warm_up(entrant, budget) for entrant in entrants]
    between = _seconds_of(_pass_over_other_memory)
    collecting = gc.isenabled()
    gc.disable()
    try:
        for cold in (False, True):
            wanted = max(1, repeats // _COLD_PART) if cold else repeats
            runs = [
                affordable_runs(each + cold * between, len(entrant.requests), wanted, budget)
                for entrant, each in zip(entrants, seconds, strict=True)
            ]
            for repeat in range(max(n_repeats for _, n_repeats in runs)):
                for entrant, (n_requests, n_repeats) in zip(entrants, runs, strict=True):
                    if repeat < n_repeats:
                        _time_block(entrant, n_requests, cold)
    finally:
        if collecting:
            gc.enable()


def _warm_up(entrant: Entrant, budget: float) -> float:
    """Answer until everything is loaded and allocated, and return the seconds that a request takes."""
    entrant.warm, entrant.cold = [], []
    entrant.answers = []
    seconds = _seconds_of(lambda: entrant.search(entrant.warm_up, entrant.k))
    if seconds < 5 * budget:
        # The first call may have allocated; this one tells better what a request takes.
        seconds = min(seconds, _seconds_of(lambda: entrant.search(entrant.requests[0], entrant.k)))
    return seconds


def _seconds_of(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _time_block(entrant: Entrant, n_requests: int, cold: bool) -> None:
    search, k, clock = entrant.search, entrant.k, time.perf_counter_ns
    times = entrant.cold if cold else entrant.warm
    _make_room(times, n_requests)
    _make_room(entrant.answers, n_requests)
    search(entrant.warm_up, k)
    for request, repeats, answers in zip(entrant.requests[:n_requests], times, entrant.answers, strict=False):
        if cold:
            _pass_over_other_memory()
        start = clock()
        found = search(request, k)
        repeats.append((clock() - start) / 1e3)
        answers.append(found)


def _make_room(lists: list[list[Any]], wanted: int) -> None:
    while len(lists) < wanted:
        lists.append([])


@lru_cache(maxsize=1)
def _other_memory() -> NDArray[np.float32]:
    return np.ones(OTHER_BYTES // 4, dtype=np.float32)


def _pass_over_other_memory() -> None:
    _other_memory().sum()
