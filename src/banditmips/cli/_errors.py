"""From exceptions to one line on stderr and an exit code."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from typing import Any

import typer
import typer.core
from typer.completion import completion_init  # type: ignore[attr-defined]  # Typer has no __all__

__all__ = ["FAILURE", "INTERRUPTED", "MISTAKE", "ReportingGroup", "naming_files"]

FAILURE, MISTAKE, INTERRUPTED = 1, 2, 130
"""Exit codes: the environment failed, the user erred, Ctrl-C."""

# Typer brings its own copy of Click or uses the one installed, depending on its version: this finds either.
_UsageError = typer.BadParameter.__mro__[1]
_ClickException = typer.BadParameter.__mro__[2]

# What a user can put right by naming another file; the rest (a full disk, a failing one) is no fault of theirs.
_MISTAKEN_PATHS = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, FileExistsError)


class ReportingGroup(typer.core.TyperGroup):
    """Commands whose errors are one line each. BANDITMIPS_DEBUG=1 shows where an error came from."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *others: Any, **options: Any
    ) -> Any:
        """Run a command and exit."""
        completion_init()
        options["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, *others, **options)
        except (typer.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except Exception as error:
            described = _describe(error)
            if described is None:
                raise
            message, code = described
            if os.environ.get("BANDITMIPS_DEBUG", "0") not in ("", "0"):
                traceback.print_exc()
            print(f"error: {message}", file=sys.stderr)
        if code == INTERRUPTED:
            print("interrupted", file=sys.stderr)
        sys.exit(code)


@contextmanager
def naming_files(**files: str) -> Iterator[None]:
    """Name the file (or option) where the library's message begins with the argument that came from it."""
    try:
        yield
    except ValueError as error:
        name, _, rest = re.sub(r" \(argument '\w+'.*\)$", "", str(error)).partition(" ")
        raise ValueError(f"{files.get(name, name)} {rest}") from error


def _describe(error: Exception) -> tuple[str, int] | None:
    """Return an error in one line with its exit code, or None for one that nobody foresaw."""
    if isinstance(error, _ClickException):
        hint = ""
        context = getattr(error, "ctx", None)
        if isinstance(error, _UsageError) and context is not None:
            hint = f"{_other_name(error, context)} (see '{context.command_path} --help')"
        return _one_line(error.format_message()) + hint, MISTAKE  # type: ignore[attr-defined]
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT):
            where = "standard output: "
            _give_up_stdout()
        code = MISTAKE if isinstance(error, _MISTAKEN_PATHS) else FAILURE
        return where + _one_line(error.strerror or str(error)), code
    if isinstance(error, (ImportError, MemoryError)):
        return _one_line(str(error)) or "there is not enough memory", FAILURE
    if isinstance(error, ValueError):  # a TypeError is ours: the types of options are checked before
        return _name_option(_one_line(str(error))), MISTAKE
    return None


def _other_name(error: Exception, context: Any) -> str:
    """Say what an option is called here that other programs know by the name that was given."""
    from banditmips._options import our_name

    given = getattr(error, "option_name", "").lstrip("-").replace("-", "_")
    options = {parameter.name: parameter.opts[0] for parameter in context.command.params}
    if "jobs" in options:
        options["n_jobs"] = options["jobs"]
    ours = our_name(given, options)
    return "" if ours is None else f"; it is called {options[ours]} here"


def _name_option(message: str) -> str:
    """Write the argument of the library that a message begins with as the option that it came from."""
    from banditmips._validate import Options

    name, _, rest = message.partition(" ")
    if name not in {field.name for field in fields(Options)}:
        return message
    return f"--{'jobs' if name == 'n_jobs' else name.replace('_', '-')} {rest}"


def _one_line(message: str) -> str:
    return " ".join(message.split())


def _give_up_stdout() -> None:
    """Drop what could not be written: Python would try again on exit, fail again, and change the exit code."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
