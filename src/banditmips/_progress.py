"""Bars on stderr that show how far something is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(
    name: str, total: int, shown: bool, *, done: int = 0, in_bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Show how much of `total` is done, with the rate if it is bytes; yield what to call with what is done now."""
    if not shown:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = Progress.get_default_columns()
    if in_bytes:
        columns = TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda more: bar.advance(task, more)
