"""The options that commands share, each with its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from banditmips._validate import BOUNDS, OBJECTIVES, SAMPLINGS

_DATA, _RACE, _BOUND = "Data", "Race", "Bound"

Atoms = Annotated[
    str,
    typer.Argument(
        help="Atoms, one in each row: .npy, .npz, .csv, .parquet, .arrow, .h5, or .zarr (a folder or a URL)."
    ),
]
Queries = Annotated[Path, typer.Argument(help="Queries, one in each row, as wide as the atoms.")]
K = Annotated[int, typer.Option("-k", min=1, help="Atoms to find for each query.")]
Delta = Annotated[float, typer.Option(help="Failure probability allowed for each query; 0 is exact.")]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Write a .csv, .parquet, .npz, .json or .jsonl file, and nothing to stdout."),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")]
Jobs = Annotated[
    int, typer.Option(help="Threads over queries, or over the work of a single one; -1 is one for each core.")
]
Fit = Annotated[
    bool | None, typer.Option("--fit/--no-fit", help="Whether to fit an index first; by default with many queries.")
]

Key = Annotated[
    str | None,
    typer.Option(
        help="Array of an .npz or .zarr file, dataset of an .h5 file, or list column of a .parquet or .arrow file, for "
        "the atoms.",
        rich_help_panel=_DATA,
    ),
]
QueryKey = Annotated[str | None, typer.Option(help="The same for the queries.", rich_help_panel=_DATA)]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether .csv files begin with names; by default seen from them.",
        rich_help_panel=_DATA,
    ),
]

MemoryLimit = Annotated[
    int,
    typer.Option(
        min=1,
        metavar="BYTES",
        help="Atoms that take more than half of this are not read whole, but searched where they lie.",
        rich_help_panel=_DATA,
    ),
]

Objective = Annotated[
    str, typer.Option(metavar="NAME", help=f"What to maximise: {', '.join(OBJECTIVES)}.", rich_help_panel=_RACE)
]
Absolute = Annotated[
    bool, typer.Option("--absolute", help="Rank by the size of the score, whatever its sign.", rich_help_panel=_RACE)
]
Epsilon = Annotated[float, typer.Option(help="Shortfall allowed, in units of the score.", rich_help_panel=_RACE)]
Budget = Annotated[int | None, typer.Option(help="Multiplies allowed for each query.", rich_help_panel=_RACE)]
Rescore = Annotated[
    bool,
    typer.Option("--rescore/--no-rescore", help="Compute the exact scores of the atoms found.", rich_help_panel=_RACE),
]
Sampling = Annotated[
    str,
    typer.Option(metavar="NAME", help=f"How to choose coordinates: {', '.join(SAMPLINGS)}.", rich_help_panel=_RACE),
]
Beta = Annotated[float, typer.Option(help="Exponent of the weights |q|**(2*beta).", rich_help_panel=_RACE)]
Replacement = Annotated[
    bool, typer.Option("--replacement", help="Draw coordinates with replacement.", rich_help_panel=_RACE)
]

Bound = Annotated[
    str, typer.Option(metavar="NAME", help=f"What atoms are dropped by: {', '.join(BOUNDS)}.", rich_help_panel=_BOUND)
]
Sigma = Annotated[
    str | None,
    typer.Option(metavar="NUMBER|estimate", help="Sub-Gaussian parameter of one product.", rich_help_panel=_BOUND),
]
ValueRange = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Interval that holds every entry of the atoms.", rich_help_panel=_BOUND),
]
