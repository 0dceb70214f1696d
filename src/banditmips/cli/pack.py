"""``banditmips pack``: a matrix rewritten for searches that read little of it."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from banditmips.cli import _options as given
from banditmips.cli._console import duration, on_terminal, parse_bytes, say
from banditmips.cli._errors import naming_files

__all__ = ["pack"]


def pack(
    source: Annotated[str, typer.Argument(help="Atoms, one in each row: any file that search reads.")],
    dest: Annotated[str, typer.Argument(help="Zarr group to write, by custom named *.zarr.")],
    seed: given.Seed = 0,
    coordinates: Annotated[
        int | None,
        typer.Option(min=1, help="Coordinates to write by coordinate as well; by default 16,384, or all if fewer."),
    ] = None,
    memory: Annotated[str, typer.Option(metavar="BYTES", help="Memory to use, as in 512MB or 2GB.")] = "512MB",
    key: given.Key = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")] = False,
    progress: Annotated[
        bool | None, typer.Option("--progress/--no-progress", help="Show a progress bar; by default on a terminal.")
    ] = None,
) -> None:
    """Rewrite atoms into a file of which a search reads little: by coordinate, and by row for the finish.

    Stopped in the middle, the same command goes on where it was.
    """
    from banditmips.packing import pack as pack_atoms

    shown = on_terminal() if progress is None else progress
    start = time.perf_counter()
    with naming_files(source=source, memory_limit="--memory", n_coordinates="--coordinates"):
        report = pack_atoms(
            source,
            dest,
            seed=seed,
            n_coordinates=coordinates,
            memory_limit=parse_bytes(memory),
            dataset=key,
            overwrite=overwrite,
            progress=shown,
        )
    n, d = report.shape
    before = f" ({report.n_resumed} of {report.n_blocks} blocks were there)" if report.n_resumed else ""
    say(
        f"{n:,} x {d:,} atoms of {report.dtype} packed into {report.path} in "
        f"{duration(time.perf_counter() - start)}{before}: {report.n_bytes / 1e6:,.1f} MB, "
        f"{report.n_coordinates:,} coordinates by coordinate, seed {report.seed}"
    )
