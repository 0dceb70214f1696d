"""What the commands say on the terminal, and how they write numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["announcing_compilation", "duration", "on_terminal", "say", "working"]


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


@contextmanager
def announcing_compilation() -> Iterator[None]:
    """Say so if kernels are compiled within the block, which happens once for each kind of atoms and machine."""
    from banditmips._compiling import telling_of_compilation

    with telling_of_compilation(say):
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
