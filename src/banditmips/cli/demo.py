"""``banditmips demo``: a search beside BLAS, on data made on the spot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from banditmips.cli import _options as given

__all__ = ["demo"]

# What the usual builds of BLAS go by. They look at it when NumPy is loaded, and never again.
_THREAD_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def demo(
    n: Annotated[int, typer.Option("--n", min=1, help="Atoms.")] = 4_000,
    d: Annotated[int, typer.Option("--d", min=1, help="Coordinates.")] = 6_000,
    k: Annotated[int, typer.Option("-k", min=1, help="Atoms to find for each query.")] = 1,
    delta: given.Delta = 1e-3,
    seed: given.Seed = 0,
    queries: Annotated[int, typer.Option(min=1, help="Queries to take medians over.")] = 20,
    picture: Annotated[Path, typer.Option(help="Where to draw a race to.")] = Path("banditmips-race.png"),
) -> None:
    """Search film ratings made on the spot, beside the full product with BLAS, and draw a race.

    Every method runs on one thread, and every answer is checked against products in double precision.
    """
    from banditmips._result_files import check_place
    from banditmips._validate import Options

    Options(delta=delta, seed=seed)
    check_place(picture)
    if any(os.environ.get(name) != "1" for name in _THREAD_SETTINGS):
        numbers = {"n": n, "d": d, "delta": delta, "seed": seed, "queries": queries, "picture": picture}
        _start_again_on_one_thread(f"-k{k}", *(f"--{name}={value}" for name, value in numbers.items()))
    from banditmips.cli._demonstration import demonstrate

    demonstrate((n, d), queries, k, delta, seed, picture)


def _start_again_on_one_thread(*arguments: str) -> None:
    # -P: a file in the current folder must not be taken for a module.
    command = [sys.executable, "-P", "-m", "banditmips.cli", "demo", *arguments]
    settings = {**os.environ, **dict.fromkeys(_THREAD_SETTINGS, "1")}
    if sys.platform == "win32":  # where a replaced process would leave the terminal to the shell
        raise typer.Exit(subprocess.call(command, env=settings))
    os.execve(sys.executable, command, settings)
