"""``banditmips data``: the published datasets, downloaded, or where to get them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from banditmips.cli._completion import one_of
from banditmips.cli._console import on_terminal, say
from banditmips.cli._help import help_of, help_without_command
from banditmips.cli._names import PUBLISHED

__all__ = ["data"]

data = typer.Typer(
    name="data",
    help="Download the published datasets that experiments use, or say where to get them.",
    callback=help_without_command,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

Directory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the data; by default what BANDITMIPS_DATA names, or else ~/.cache/banditmips.",
        show_default=False,
    ),
]


def fetch(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help=f"One of {', '.join(PUBLISHED)}.",
            autocompletion=one_of(PUBLISHED),
            show_default=False,
        ),
    ],
    directory: Directory = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Fetch without asking also what no checksum is known of.")
    ] = False,
) -> None:
    """Download a dataset, check it, and unpack it to where banditmips looks for it.

    A download that broke off goes on where it stopped. Where the source needs a login, or cannot be reached, this says
    where to get the files and where to put them. Where nothing is known that the files could be checked by, it says so
    and asks first.
    """
    from banditmips.datasets._sources import ENVIRONMENT_VARIABLE, SOURCES, data_directory, locate
    from banditmips.datasets.download import fetch as fetch_files

    doubt = SOURCES[name].doubt if name in SOURCES and not _is_there(name, directory) else None
    if doubt is not None:
        say(doubt)
        if not yes and not _agrees():
            raise ValueError(f"dataset {name!r} was not fetched (--yes fetches without asking)")
    with _showing(name) as show:
        folder = fetch_files(name, directory, progress=show)
    for path in locate(name, folder):
        print(path)
    if directory is not None and directory != data_directory():
        say(f"set {ENVIRONMENT_VARIABLE}={folder} to have it found there")


def list_(directory: Directory = None) -> None:
    """List the published datasets: which are there, and where to get the others."""
    from banditmips.datasets._sources import SOURCES, advice, data_directory, locate

    folder = directory or data_directory()
    for name in SOURCES:
        if _is_there(name, folder):
            print(f"{name}: {', '.join(str(path) for path in locate(name, folder))}")
        else:
            print(f"{name}: not there. {advice(name, folder)}")


def _is_there(name: str, directory: Path | None) -> bool:
    from banditmips.datasets._sources import data_directory, locate

    try:
        locate(name, directory or data_directory())
    except FileNotFoundError:
        return False
    return True


def _agrees() -> bool:
    """Ask whoever sits at the terminal; nobody there means no."""
    return sys.stdin.isatty() and typer.confirm("fetch it?", err=True)


data.command("fetch", help=help_of(fetch))(fetch)
data.command("list", help=help_of(list_))(list_)


@contextmanager
def _showing(name: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Yield what to call with the bytes so far and in all; nothing where nobody watches."""
    if not on_terminal():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
