"""The options that commands share, each with its help."""

from __future__ import annotations

from typing import Annotated

import typer

from banditmips.cli._completion import complete_atoms, one_of
from banditmips.cli._names import BOUNDS, ENDS, FORMATS, MINIMISE, OBJECTIVES, SAMPLINGS

_DATA, _RACE, _BOUND = "Data", "Race", "Bound"

Atoms = Annotated[
    str,
    typer.Argument(
        metavar="ATOMS",
        help="Atoms, one in each row: a .csv, .tsv, .txt, .npy, .npz, .parquet, .arrow or .h5 file, .zarr (a folder or "
        "a URL), - for standard input, or a dataset by name, as in movielens_100k:n=1000,n_queries=20.",
        autocompletion=complete_atoms,
        show_default=False,
    ),
]
Queries = Annotated[
    str | None,
    typer.Argument(
        metavar="QUERIES",
        help="Queries, one in each row, as wide as the atoms: a file, or - for standard input. A dataset brings its "
        "own.",
        show_default=False,
    ),
]
K = Annotated[
    int | None,
    typer.Option("-k", min=1, help="Atoms to find for each query; by default 10, or all if fewer.", show_default=False),
]
Delta = Annotated[float, typer.Option(help="Failure probability allowed for each query; 0 is exact.")]
Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Write to a file, and nothing to stdout; its suffix says what it becomes, as --format does.",
        show_default=False,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help=f"What to write: {', '.join(FORMATS)}. By default what the file's suffix says, a table on a terminal, "
        "csv into a pipe.",
        autocompletion=one_of(FORMATS),
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same answer.")]
Jobs = Annotated[
    int, typer.Option(help="Threads over queries, or over the work of a single one; -1 is one for each core.")
]
Fit = Annotated[
    bool | None,
    typer.Option(
        "--fit/--no-fit", help="Whether to fit an index first; by default with many queries.", show_default=False
    ),
]

IdColumn = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of the atoms that holds their ids, or its number from 0; an array, in an .npz file. By default a "
        "column of text or one called id, if there is one.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
QueryIdColumn = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The same for the queries.", rich_help_panel=_DATA, show_default=False),
]
NoIds = Annotated[bool, typer.Option("--no-ids", help="Take every column for a coordinate.", rich_help_panel=_DATA)]
Key = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Array of an .npz or .zarr file, dataset of an .h5 file, or list column of a .parquet or .arrow file, for "
        "the atoms.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
QueryKey = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The same for the queries.", rich_help_panel=_DATA, show_default=False),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether files of text begin with names; by default seen from them.",
        rich_help_panel=_DATA,
        show_default=False,
    ),
]
MemoryLimit = Annotated[
    str,
    typer.Option(
        metavar="BYTES",
        help="Atoms that take more than half of this are not read whole, but searched where they lie.",
        rich_help_panel=_DATA,
    ),
]

Objective = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What to maximise: {', '.join(OBJECTIVES)}.",
        rich_help_panel=_RACE,
        autocompletion=one_of(OBJECTIVES),
    ),
]
Absolute = Annotated[
    bool, typer.Option("--absolute", help="Rank by the size of the score, whatever its sign.", rich_help_panel=_RACE)
]
Ends = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"Which scores to find: {', '.join(ENDS)}.",
        rich_help_panel=_RACE,
        autocompletion=one_of(ENDS),
    ),
]
Epsilon = Annotated[float, typer.Option(help="Shortfall allowed, in units of the score.", rich_help_panel=_RACE)]
Budget = Annotated[
    int | None, typer.Option(help="Multiplies allowed for each query.", rich_help_panel=_RACE, show_default=False)
]
Minimise = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What to spend least of: {', '.join(MINIMISE)}.",
        rich_help_panel=_RACE,
        autocompletion=one_of(MINIMISE),
    ),
]
Rescore = Annotated[
    bool,
    typer.Option("--rescore/--no-rescore", help="Compute the exact scores of the atoms found.", rich_help_panel=_RACE),
]
Sampling = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"How to choose coordinates: {', '.join(SAMPLINGS)}.",
        rich_help_panel=_RACE,
        autocompletion=one_of(SAMPLINGS),
    ),
]
Beta = Annotated[float, typer.Option(help="Exponent of the weights |q|**(2*beta).", rich_help_panel=_RACE)]
Replacement = Annotated[
    bool, typer.Option("--replacement", help="Draw coordinates with replacement.", rich_help_panel=_RACE)
]

Bound = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=f"What atoms are dropped by: {', '.join(BOUNDS)}.",
        rich_help_panel=_BOUND,
        autocompletion=one_of(BOUNDS),
    ),
]
Sigma = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|estimate",
        help="Sub-Gaussian parameter of one product.",
        rich_help_panel=_BOUND,
        show_default=False,
    ),
]
ValueRange = Annotated[
    tuple[float, float] | None,
    typer.Option(
        metavar="LOW HIGH",
        help="Interval that holds every entry of the atoms.",
        rich_help_panel=_BOUND,
        show_default=False,
    ),
]
