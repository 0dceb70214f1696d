"""How many bytes a query makes the stores read.

Whoever answers a query opens a meter; whatever reads a file or a remote store on the way counts into the meter that is
open around it. Queries that run side by side have a meter each.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ReadMeter", "count_bytes", "metered"]


class ReadMeter:
    """A counter of bytes that several threads may add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes_read = 0

    @property
    def bytes_read(self) -> int:
        """Bytes counted so far."""
        return self._bytes_read

    def add(self, n_bytes: int) -> None:
        """Count some more."""
        with self._lock:
            self._bytes_read += n_bytes


_current: ContextVar[ReadMeter | None] = ContextVar("banditmips_read_meter", default=None)


def count_bytes(n_bytes: int) -> None:
    """Count bytes that were read from a file or a remote store, for the query that is being answered."""
    meter = _current.get()
    if meter is not None:
        meter.add(n_bytes)


@contextmanager
def metered() -> Iterator[ReadMeter]:
    """Count what is read inside, in this thread and in those that work for it.

    Examples
    --------
    >>> with metered() as meter:
    ...     count_bytes(4096)
    >>> meter.bytes_read
    4096
    """
    meter = ReadMeter()
    token = _current.set(meter)
    try:
        yield meter
    finally:
        _current.reset(token)
