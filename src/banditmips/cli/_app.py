"""The commands together, with ``--version``.

What a command takes is said in its module, which imports nothing that is slow to import, so that help and completion
come at once. What it needs for its work is imported when it runs.
"""

from __future__ import annotations

from typing import Annotated

import typer

from banditmips._version import __version__
from banditmips.cli import compare, completion, data, demo, explain, index, pack, pursue, reproduce, search
from banditmips.cli._errors import ReportingGroup
from banditmips.cli._help import help_of, help_without_command

__all__ = ["app"]

app = typer.Typer(
    name="banditmips",
    cls=ReportingGroup,
    help="Maximum inner product search in high dimensions, with a stated failure probability.",
    add_completion=False,  # there is a command for it
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _command in (
    search.search,
    demo.demo,
    explain.explain,
    compare.compare,
    pack.pack,
    pursue.pursue,
    reproduce.reproduce,
    completion.completion,
):
    app.command(_command.__name__, help=help_of(_command))(_command)
app.add_typer(index.index)
app.add_typer(data.data)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"banditmips {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    help_without_command(context)
