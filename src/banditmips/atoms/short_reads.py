"""What short reads of a file take beside long ones, as it is now: nobody knows what the system keeps in memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np

from banditmips.atoms.runs import PAGE

__all__ = ["ShortReads"]

_USUAL = 4.0
"""Time of a byte that is read a page at a time, over that of one in a scan, where it is not measured: in files that are
too small, and in those that the system keeps in memory (a call takes longer than what it copies)."""
_WORTH_MEASURING = 1 << 28
"""Bytes of a file from which on it is measured: smaller ones are read in the time that a few measurements take."""
_N_ASKED, _N_TURNS, _N_SHORT, _LONG = 16, 2, 256, 1 << 20
"""Pages that the system is asked about; and what is measured where it has them not: turns of so many pages, and of one
read of so many bytes."""
_SELDOM = 100.0
"""Times that a measurement's own time has to pass before the next one: what the system has in memory may have changed
by then."""


_BYTE_CACHED, _BYTE = 0.2, 1.0
"""Nanoseconds of a byte of a long read: from the system's memory, and from a disk or nobody knows where."""


class ShortReads:
    """How much longer a byte takes that is read a page at a time than one of a long read, of a file of some size."""

    def __init__(self, n_bytes: int) -> None:
        self._measure_again = -math.inf if n_bytes >= _WORTH_MEASURING else math.inf
        self._ratio = _USUAL
        self._ask_again, self._byte_time = self._measure_again, _BYTE

    def ratio(self, is_cached: Callable[[int], bool], seconds_of: Callable[[int, int], float], size: int) -> float:
        """Return that, if so many bytes of a page are wanted.

        ``is_cached(n_reads)`` says whether the system has the file in memory, by so many pages of it, and
        ``seconds_of(n_reads, size)`` reads so many times so many bytes, each somewhere else.
        """
        begun = time.monotonic()
        if begun >= self._measure_again:
            self._ratio = _USUAL if is_cached(_N_ASKED) else self._measure(seconds_of, size)
            ended = time.monotonic()
            self._measure_again = ended + _SELDOM * (ended - begun)
        return self._ratio

    def byte_time(self, is_cached: Callable[[int], bool]) -> float:
        """Return nanoseconds of a byte of a long read; nothing is read for that."""
        begun = time.monotonic()
        if begun >= self._ask_again:
            self._byte_time = _BYTE_CACHED if is_cached(_N_ASKED) else _BYTE
            ended = time.monotonic()
            self._ask_again = ended + _SELDOM * (ended - begun)
        return self._byte_time

    def _measure(self, seconds_of: Callable[[int, int], float], size: int) -> float:
        short, long = [], []
        for _ in range(_N_TURNS):
            short.append(seconds_of(_N_SHORT, size) / (_N_SHORT * PAGE))
            long.append(seconds_of(1, _LONG) / _LONG)
        # A disk is sometimes slow, and a scan goes through all of that.
        return float(min(short) / np.mean(long))
