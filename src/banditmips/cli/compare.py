"""``banditmips compare``: every method on the user's own data."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from banditmips.cli import _options as given
from banditmips.cli._completion import complete_list
from banditmips.cli._console import duration, on_terminal, say
from banditmips.cli._errors import FAILURE, naming_files
from banditmips.cli._names import METHODS
from banditmips.cli.search import DEFAULT_K

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from banditmips.compare import Comparison, Measurement, Method

__all__ = ["compare"]


def compare(
    atoms: given.Atoms,
    queries: given.Queries = None,
    k: given.K = None,
    output: given.Output = None,
    format: given.Format = None,
    methods: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,...",
            help=f"Which to run: {', '.join(METHODS)}, or module:Class for your own. By default all but your own.",
            autocompletion=complete_list(METHODS),
            show_default=False,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="METHOD:NAME=VALUE",
            help="A parameter of a method, such as greedy:budget=50; repeat it.",
            show_default=False,
        ),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which a method is stopped.")] = 600,
    seed: given.Seed = 0,
    id_column: given.IdColumn = None,
    query_id_column: given.QueryIdColumn = None,
    no_ids: given.NoIds = False,
    key: given.Key = None,
    query_key: given.QueryKey = None,
    header: given.Header = None,
) -> None:
    """Run BanditMIPS and nine other methods on the same data: accuracy, multiplies, build and query time.

    Every method runs in a process of its own, on one thread. One that fails or takes too long is reported, and the
    others go on. Prints a table on a terminal, and CSV into a pipe.

    The accuracy is the share of the k best atoms that is found. Multiplies are means, query times medians over the
    queries, asked one at a time. A class of your own needs fit(atoms) and search(query, k), with results that have
    indices and n_multiplies.
    """
    from banditmips.cli._inputs import Reading, read_inputs, shown
    from banditmips.cli._results import Destination
    from banditmips.compare import Comparison, plan_methods

    try:
        planned = plan_methods(None if methods is None else _names(methods), _parameters(param or []), seed)
    except TypeError as error:  # a mistake of the user's here, since the values come from the command line
        raise ValueError(str(error)) from error
    with naming_files(atoms=shown(atoms), queries=shown(queries)):
        destination = Destination.choose(output, format, atoms, queries)
        how = Reading(key, header, id_column, not no_ids)
        query_how = Reading(query_key, header, query_id_column, not no_ids)
        inputs = read_inputs(atoms, queries, how, query_how)
        matrix = inputs.atoms.matrix
        wanted = min(DEFAULT_K, matrix.shape[0]) if k is None else k
        measured = _run(Comparison(matrix, inputs.queries.matrix, wanted, timeout=timeout), planned)
    destination.write(_columns(measured), lambda: _print_table(measured))
    if all(measurement.problem for measurement in measured):
        raise typer.Exit(FAILURE)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _parameters(texts: list[str]) -> dict[str, dict[str, Any]]:
    from banditmips.cli._inputs import parse_value

    parameters: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        method, colon, name = place.rpartition(":")
        if not (method and colon and name and equals):
            raise ValueError(f"--param must be METHOD:NAME=VALUE, got {text!r}")
        parameters.setdefault(method, {})[name] = parse_value(value)
    return parameters


def _run(comparison: Comparison, methods: list[Method]) -> list[Measurement]:
    measured = []
    with _progress(len(methods) + 1) as begin:
        begin("the exact answer")
        with comparison:
            for method in methods:
                begin(method.key)
                measurement = comparison.measure(method)
                measured.append(measurement)
                if measurement.problem:
                    say(f"{method.key}: {measurement.problem}")
    return measured


@contextmanager
def _progress(n_steps: int) -> Iterator[Callable[[str], None]]:
    """Yield what to call with the name of each step as it begins; a bar on a terminal shows where we are."""
    if not on_terminal():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=n_steps)
        n_done = itertools.count()

        def begin(name: str) -> None:
            bar.update(task, description=name, completed=next(n_done))
            bar.refresh()  # a short step is shown too

        yield begin


def _columns(measured: list[Measurement]) -> dict[str, NDArray[Any]]:
    """Return a row for each method; its parameters are JSON."""
    import numpy as np

    from banditmips.compare import Measurement

    columns: dict[str, NDArray[Any]] = {
        "method": np.array([row.method.key for row in measured]),
        "parameters": np.array([json.dumps(row.method.parameters) for row in measured]),
    }
    for field in fields(Measurement)[1:]:
        columns[field.name] = np.array([getattr(row, field.name) for row in measured])
    return columns


def _print_table(measured: list[Measurement]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("method", "accuracy", "multiplies", "of n*d", "build", "per query")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in measured:
        if row.problem:
            table.add_row(row.method.key, "failed", *["-"] * 4)
            continue
        share = f"{100 * row.share:.3g} %"
        times = (duration(row.fit_seconds), duration(row.query_seconds))
        table.add_row(row.method.key, f"{row.accuracy:.3f}", f"{row.n_multiplies:,.0f}", share, *times)
    Console().print(table)
