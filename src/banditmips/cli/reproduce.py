"""``banditmips reproduce``: the paper's figures, run again, beside what its authors published."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from banditmips.cli._console import on_terminal, say
from banditmips.cli._errors import FAILURE

if TYPE_CHECKING:
    from banditmips.experiments.runner import Failure, Progress
    from banditmips.experiments.trials import Task

__all__ = ["reproduce"]

_SECONDS_BETWEEN_LINES = 30.0


def reproduce(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIGURE",
            help="all (by default), 1 to 9, beyond, or one of its parts: beyond_bounds, beyond_clock, beyond_delta,"
            " beyond_epsilon, beyond_failures, beyond_kinds, beyond_sampling, beyond_theorem1, beyond_warm_start.",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Every figure in little, in minutes.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the report and its rows; by default reproduction, or reproduction-quick.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Processes at a time; by default one for each core.", show_default=False),
    ] = None,
    update_docs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Paste the verdicts into this page, between its two marks (docs/reproduction.md has them).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run the paper's figures again, and write a report of them beside the authors' published figures.

    Every row is written the moment it is measured: a run that was stopped or killed goes on where it was when the same
    command is given again. Real data are used where they are found (see banditmips data), and labelled surrogates
    elsewhere. A full run takes more than half an hour on two cores.
    """
    from banditmips.experiments.plan import choose_figures, plan
    from banditmips.experiments.record import RunRecord
    from banditmips.experiments.rows import ROWS_FILE
    from banditmips.experiments.runner import missing_keys, run

    chosen = choose_figures(figures or ["all"])
    folder = out or Path("reproduction-quick" if quick else "reproduction")
    n_jobs = jobs or os.cpu_count() or 1
    folder.mkdir(parents=True, exist_ok=True)
    rows_path = folder / ROWS_FILE
    record = RunRecord(folder, chosen, quick=quick, jobs=n_jobs)
    tasks = plan(chosen, "quick" if quick else "full")
    n_rows = sum(len(task.keys()) for task in tasks)
    n_missing = sum(map(len, missing_keys(tasks, rows_path)))
    _tell_of_changed_data(tasks, rows_path)
    if n_missing < n_rows:
        say(f"{n_rows - n_missing:,} of {n_rows:,} rows are in {rows_path} already")
    start = time.monotonic()
    try:
        with _showing(n_rows) as show:
            failures = run(tasks, rows_path, jobs=n_jobs, on_progress=show)
    except BaseException:
        record.finish(time.monotonic() - start, [], interrupted=True)
        say(f"stopped; what is done is in {rows_path}, and the same command goes on from there")
        raise
    record.finish(time.monotonic() - start, failures)
    _write_report(rows_path, folder, update_docs)
    if failures:
        _tell(failures)
        raise typer.Exit(FAILURE)


def _tell_of_changed_data(tasks: Sequence[Task], rows_path: Path) -> None:
    """Say which datasets come from elsewhere than the rows that are there, and that they are run again."""
    from banditmips.experiments.origins import where_from
    from banditmips.experiments.rows import read_rows

    origins = {(figure, task.dataset): task.origin for task in tasks for figure in task.figure.split(", ")}
    changed: Counter[tuple[str, str, str]] = Counter()
    for row in read_rows(rows_path):
        now = origins.get((row.figure, row.dataset), row.origin)
        if now != row.origin:
            changed[row.dataset, row.origin, now] += 1
    for (dataset, before, now), count in changed.items():
        say(
            f"{dataset} comes from {where_from(now)} now; {count:,} rows of {where_from(before)} stay in the file,"
            " are left out of the report, and are run again"
        )


def _write_report(rows_path: Path, folder: Path, docs: Path | None) -> None:
    from banditmips.experiments.report import write_report

    print(write_report(rows_path, folder, docs))


def _tell(failures: list[Failure]) -> None:
    say(f"{len(failures)} of the tasks failed; the same command tries them again:")
    for failure, count in Counter(failures).items():
        often = "" if count == 1 else f" ({count} times)"
        say(f"  {failure.figure}, {failure.dataset}, {failure.algorithm}: {failure.error}{often}")


@contextmanager
def _showing(n_rows: int) -> Iterator[Callable[[Progress], None]]:
    """Yield what to call with the progress: a bar on a terminal, a line now and then elsewhere."""
    if not on_terminal():
        yield _Lines(n_rows)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("", total=1.0, left="")

        def show(progress: Progress) -> None:
            bar.update(shown, completed=progress.share, left=_time_left(progress), description=progress.now)

        yield show


class _Lines:
    """Prints a line of progress, if the last one was a while ago."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows = n_rows
        self._last = time.monotonic()

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            done = f"{progress.n_rows:,} of {self._n_rows:,} rows, {progress.share:.0%}"
            say(f"{done}, {_time_left(progress)}; {progress.now}")


def _time_left(progress: Progress) -> str:
    if progress.seconds_left is None:
        return ""
    if progress.seconds_left < 90:
        return f"{progress.seconds_left:.0f} s left"
    return f"{progress.seconds_left / 60:.0f} min left"
