"""``python -m benchmarks``: sets the threads before anything that has threads is imported."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

__all__ = ["main", "parse"]

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Time searches beside their peers.")
    parser.add_argument("--quick", action="store_true", help="fewer queries and smaller shapes: at most 5 minutes")
    parser.add_argument("--out", type=Path, default=Path("results/bench"), help="folder for tables, charts, raw rows")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="only sections whose name begins like this")
    parser.add_argument(
        "--update-docs",
        action="store_true",
        help="measure nothing: put what runs have left in --out into docs/performance.md and its charts",
    )
    parser.add_argument("--threads", type=int, default=1, help="threads for everyone (default 1)")
    options = parser.parse_args(arguments)
    if options.threads < 1:
        parser.error(f"--threads must be at least 1, got {options.threads}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run and return the exit code."""
    options = parse(sys.argv[1:] if arguments is None else arguments)
    for variable in _THREAD_VARIABLES:
        os.environ[variable] = str(options.threads)
    from benchmarks.run import run, write_docs

    if options.update_docs:
        return write_docs(options.out)
    return run(options.quick, options.out, options.only, options.threads)


if __name__ == "__main__":
    sys.exit(main())
