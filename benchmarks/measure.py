"""Interleaved timing: every way of answering runs all requests in turn, and this is repeated."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entrant", "Summary", "affordable_runs", "measure", "summarise"]

Search = Callable[[NDArray[Any]], NDArray[Any]]
"""From a request (one query, or a batch of them) to the atoms found, best first."""


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
    times
        Microseconds, a list of repeats for each request.
    answers
        What was found, in the same order.
    """

    name: str
    search: Search
    requests: Sequence[NDArray[Any]]
    warm_up: NDArray[Any]
    times: list[list[float]] = field(default_factory=list)
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
    """Return how many requests and repeats fit the budget: fewer repeats first, then fewer requests, at least one."""
    fitting = int(budget / max(seconds, 1e-9))
    if fitting >= n_requests:
        return n_requests, min(repeats, fitting // n_requests)
    return max(1, fitting), 1


def measure(entrants: Sequence[Entrant], repeats: int, budget: float) -> None:
    """Time all requests of all entrants, in turn, `repeats` times; the times and answers are added to the entrants.

    An entrant that would need more than `budget` seconds answers fewer times (see `affordable_runs`).
    """
    runs = [_warm_up(entrant, repeats, budget) for entrant in entrants]
    collecting = gc.isenabled()
    gc.disable()
    try:
        for repeat in range(max(n_repeats for _, n_repeats in runs)):
            for entrant, (n_requests, n_repeats) in zip(entrants, runs, strict=True):
                if repeat < n_repeats:
                    _time_block(entrant, n_requests)
    finally:
        if collecting:
            gc.enable()


def _warm_up(entrant: Entrant, repeats: int, budget: float) -> tuple[int, int]:
    """Answer until everything is loaded and allocated, and return how often the entrant can afford to answer."""
    seconds = _seconds(entrant.search, entrant.warm_up)
    if seconds < 5 * budget:
        # The first call may have loaded modules; this one tells better what a request takes.
        seconds = min(seconds, _seconds(entrant.search, entrant.requests[0]))
    n_requests, n_repeats = affordable_runs(seconds, len(entrant.requests), repeats, budget)
    entrant.times = [[] for _ in range(n_requests)]
    entrant.answers = [[] for _ in range(n_requests)]
    return n_requests, n_repeats


def _seconds(search: Search, request: NDArray[Any]) -> float:
    start = time.perf_counter()
    search(request)
    return time.perf_counter() - start


def _time_block(entrant: Entrant, n_requests: int) -> None:
    search, clock = entrant.search, time.perf_counter_ns
    search(entrant.warm_up)
    for request, times, answers in zip(entrant.requests[:n_requests], entrant.times, entrant.answers, strict=True):
        start = clock()
        found = search(request)
        times.append((clock() - start) / 1e3)
        answers.append(found)
