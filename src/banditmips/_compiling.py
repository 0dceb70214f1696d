"""Say that kernels are being compiled, which the first search on a machine waits for and later processes do not.

The logger ``banditmips`` says it at level INFO, which nobody sees who has not asked for it; with ``progress=True`` and
from the command line it is a line on stderr.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from numba.core import event

__all__ = ["log_compilation", "showing_compilation", "telling_of_compilation"]

_KIND = "numba:compile"
_TEXT = "compiling the kernels, once ..."
_logger = logging.getLogger("banditmips")


class _Announcer(event.Listener):
    """Tells of the first of our kernels that is compiled; those that are found in the cache are none."""

    def __init__(self, tell: Callable[[str], Any]) -> None:
        self._tell = tell
        self._has_told = False

    def on_start(self, event: Any) -> None:
        # A function made by exec may have no module.
        module = event.data["dispatcher"].py_func.__module__ or ""
        if not self._has_told and module.split(".")[0] == __package__:
            self._has_told = True
            self._tell(_TEXT)

    def on_end(self, event: Any) -> None:
        pass


def log_compilation() -> None:
    """Log it in this process from now on."""
    event.register(_KIND, _Announcer(_logger.info))  # type: ignore[no-untyped-call]


_is_told: ContextVar[bool] = ContextVar("banditmips_compilation_is_told", default=False)


@contextmanager
def telling_of_compilation(tell: Callable[[str], Any]) -> Iterator[None]:
    """Call `tell` with a line for the user if kernels are compiled within the block.

    A block around this one tells it alone.
    """
    if _is_told.get():
        yield
        return
    token = _is_told.set(True)
    try:
        with event.install_listener(_KIND, _Announcer(tell)):
            yield
    finally:
        _is_told.reset(token)


def showing_compilation() -> AbstractContextManager[None]:
    """Show that line on stderr."""
    # sys.stderr is looked up when it is needed: while a progress bar is shown, it stands for the place above the bar.
    return telling_of_compilation(lambda text: print(text, file=sys.stderr, flush=True))
