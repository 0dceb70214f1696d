"""What the commands say on the terminal, and how they read and write numbers."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["duration", "on_terminal", "parse_bytes", "say", "working"]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def say(text: str) -> None:
    """Print a line for the user on stderr, so that stdout holds results alone."""
    # sys.stderr is looked up at each call: while a progress bar is shown, it stands for the place above the bar.
    print(text, file=sys.stderr, flush=True)


def on_terminal() -> bool:
    """Whether there is a user watching stderr, to whom progress is worth showing."""
    return sys.stderr.isatty()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show that something is going on, on a terminal."""
    if not on_terminal():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(what):
        yield


def duration(seconds: float) -> str:
    """Write a time with three digits and a unit that suits it.

    Examples
    --------
    >>> duration(0.00012345), duration(0.0123), duration(12.34)
    ('0.123 ms', '12.3 ms', '12.3 s')
    """
    if seconds < 0.1:
        return f"{1000 * seconds:#.3g} ms"
    return f"{seconds:#.3g} s"


def parse_bytes(text: str, name: str = "memory_limit") -> int:
    """Read a number of bytes with or without a unit; `name` is what an error calls it.

    Examples
    --------
    >>> parse_bytes("512MB"), parse_bytes("1.5 GiB"), parse_bytes("4096")
    (512000000, 1610612736, 4096)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]|[kmg]i)?b?", text.strip().lower())
    if match is None:
        raise ValueError(f"{name} must be a number of bytes as in 512MB or 2GB, got {text!r}")
    return int(float(match[1]) * _UNITS[match[2] or ""])
