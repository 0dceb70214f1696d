"""Help: the texts of commands, and what a group of commands says when none is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer

__all__ = ["help_of", "help_without_command"]


def help_of(command: Callable[..., Any]) -> str:
    r"""Return a command's docstring with each paragraph in one line, so that it is wrapped at the terminal's width.

    Examples
    --------
    >>> def command():
    ...     '''Do something.
    ...
    ...     This takes
    ...     two lines.
    ...     '''
    >>> help_of(command)
    'Do something.\n\nThis takes two lines.'
    """
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def help_without_command(context: typer.Context) -> None:
    """Print the help of a group of commands that was given none."""
    if context.invoked_subcommand is None:
        print(context.get_help())
