"""The commands together, with ``--version``."""

from __future__ import annotations

from typing import Annotated

import typer

from banditmips._version import __version__
from banditmips.cli import compare, data, demo, explain, pack, pursue, reproduce, search
from banditmips.cli._errors import ReportingGroup

__all__ = ["app"]

app = typer.Typer(
    name="banditmips",
    cls=ReportingGroup,
    help="Maximum inner product search in high dimensions, with a stated failure probability.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("search")(search.search)
app.command("explain")(explain.explain)
app.command("compare")(compare.compare)
app.command("pack")(pack.pack)
app.command("pursue")(pursue.pursue)
app.command("reproduce")(reproduce.reproduce)
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
    if context.invoked_subcommand is None:
        print(context.get_help())
