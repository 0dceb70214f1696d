"""``banditmips index``: atoms prepared once, kept in a file, and searched many times."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from banditmips.cli import _options as given
from banditmips.cli._completion import one_of
from banditmips.cli._console import duration, on_terminal, parse_bytes, say, working
from banditmips.cli._errors import naming_files
from banditmips.cli._help import help_of, help_without_command
from banditmips.cli._names import LAYOUTS
from banditmips.cli.search import DEFAULT_K, tell_work

if TYPE_CHECKING:
    from banditmips._index import BanditMIPS

__all__ = ["index"]

index = typer.Typer(
    name="index",
    help="Prepare atoms once, keep them in a file, and search them many times.",
    callback=help_without_command,
    invoke_without_command=True,
    pretty_exceptions_enable=False,
)

_INFO_FORMATS = ("text", "json")
Index = Annotated[
    Path,
    typer.Argument(metavar="INDEX", help="Index that build has written, by custom named *.bm.", show_default=False),
]
AtomsPlace = Annotated[
    list[str] | None,
    typer.Option(
        "--atoms",
        metavar="FILE",
        help="Where the atoms are now, if they stayed in a file of their own that was moved since.",
        show_default=False,
    ),
]


def build(
    atoms: given.Atoms,
    index: Annotated[
        Path, typer.Argument(metavar="INDEX", help="File to write, by custom named *.bm.", show_default=False)
    ],
    delta: given.Delta = 1e-3,
    seed: given.Seed = 0,
    jobs: given.Jobs = 1,
    objective: given.Objective = "inner_product",
    layout: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"What to keep beside the atoms: {', '.join(LAYOUTS)}.",
            autocompletion=one_of(LAYOUTS),
        ),
    ] = "auto",
    max_extra_memory: Annotated[
        str | None,
        typer.Option(
            metavar="BYTES", help="What may be kept beside the atoms, as in 512MB or 2GB.", show_default=False
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Where to write down how far it is: after a kill, the same command goes on from there.",
            show_default=False,
        ),
    ] = None,
    id_column: given.IdColumn = None,
    no_ids: given.NoIds = False,
    key: given.Key = None,
    header: given.Header = None,
    memory_limit: given.MemoryLimit = "256MiB",
) -> None:
    """Read atoms, prepare them for searches, and write what was prepared into one file, with atoms that are few.

    Atoms that take more than half of --memory-limit stay in their own file, which searches read as well. The index
    appears whole or not at all. Its searches may have another delta and objective; the seed and the layout stay.
    """
    from banditmips._index import BanditMIPS
    from banditmips._result_files import check_place
    from banditmips.cli._inputs import STANDARD_INPUT, Reading, read_atoms, shown

    named = {
        "atoms": shown(atoms),
        "checkpoint": "--checkpoint",
        "layout": "--layout",
        "max_extra_memory": "--max-extra-memory",
        "memory_limit": "--memory-limit",
    }
    with naming_files(**named):
        extra = None if max_extra_memory is None else parse_bytes(max_extra_memory, "max_extra_memory")
        # What comes on standard input is in no file that would be there tomorrow.
        limit = None if atoms == STANDARD_INPUT else parse_bytes(memory_limit)
        options: dict[str, Any] = {
            "delta": delta,
            "seed": seed,
            "n_jobs": jobs,
            "objective": objective,
            "layout": layout,
        }
        made = BanditMIPS(**options, max_extra_memory=extra, progress=on_terminal())
        check_place(index)
        if index.exists() and Path(atoms).exists() and index.samefile(atoms):
            raise ValueError(f"{index} holds the atoms: choose another file for the index")
        read = read_atoms(atoms, Reading(key, header, id_column, not no_ids, limit))
        start = time.perf_counter()
        made.fit(read.matrix, ids=read.ids, checkpoint=checkpoint).set_params(progress=False)
        fitted = duration(time.perf_counter() - start)
    with working(f"writing {index}"):
        made.save(index)
    shape = f"{made.n_atoms:,} x {made.n_coordinates:,} atoms"
    stay = f"; the atoms stay in {atoms}" if _in_file(made) else ""
    say(f"{shape} fitted in {fitted} and written to {index}: {index.stat().st_size:,} bytes{stay}")


def _in_file(made: BanditMIPS) -> bool:
    from banditmips.atoms import PartStore
    from banditmips.atoms.packed import PackedStore

    return isinstance(made._known.store, (PartStore, PackedStore))


def info(
    index: Index,
    format: Annotated[
        str,
        typer.Option(
            metavar="|".join(_INFO_FORMATS),
            help="What to print.",
            autocompletion=one_of(_INFO_FORMATS),
        ),
    ] = "text",
    atoms: AtomsPlace = None,
) -> None:
    """Say what an index holds: its atoms, its size, its options."""
    from banditmips._saved import read_file
    from banditmips._saving import load

    if format not in _INFO_FORMATS:
        raise ValueError(f"--format must be one of {', '.join(_INFO_FORMATS)}, got {format!r}")
    opened = load(index, atoms=atoms)
    file = read_file(index)
    held = [array for name, array in file.arrays.items() if name.startswith("atoms") and not name.endswith("_states")]
    removed = file.arrays.get("removed")
    facts: dict[str, Any] = {
        "path": str(index),
        "n_atoms": opened.n_atoms,
        "n_coordinates": opened.n_coordinates,
        "n_removed": 0 if removed is None else int(removed.sum()),
        "stored_as": ", ".join(file.metadata["stores"]),
        "atoms_in": [told["path"] for told in file.metadata.get("files", [])] if atoms is None else atoms,
        "dtype": str(opened.dtype),
        "file_bytes": index.stat().st_size,
        "atom_bytes": sum(array.nbytes for array in held),
        "extra_bytes": opened.extra_bytes,
        "format_version": file.format_version,
        "options": file.metadata["settings"],
    }
    if format == "json":
        print(json.dumps(facts, indent=2))
        return
    print(f"{facts['n_atoms']:,} x {facts['n_coordinates']:,} atoms, {facts['dtype']}, {facts['stored_as']}")
    for place in facts["atoms_in"]:
        print(f"the atoms are in {place}")
    print(f"removed: {facts['n_removed']:,}")
    print(f"bytes: {facts['file_bytes']:,} in the file, {facts['atom_bytes']:,} of them atoms")
    print(f"memory beside the atoms: {facts['extra_bytes']:,} bytes")
    print(f"format of the file: {facts['format_version']}")
    print("options: " + ", ".join(f"{name}={value}" for name, value in facts["options"].items() if value is not None))


def verify(index: Index) -> None:
    """Read the whole file, and compare every block with its checksum."""
    from banditmips._saved import read_file

    with working(f"reading {index}"):
        read_file(index).verify()
    print(f"{index}: every block matches its checksum")


def search(
    index: Index,
    queries: Annotated[
        str,
        typer.Argument(
            metavar="QUERIES",
            help="Queries, one in each row, as wide as the atoms: a file, or - for standard input.",
            show_default=False,
        ),
    ],
    k: given.K = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Failure probability allowed for each query; by default the index's.", show_default=False),
    ] = None,
    output: given.Output = None,
    format: given.Format = None,
    jobs: given.Jobs = 1,
    query_id_column: given.QueryIdColumn = None,
    no_ids: given.NoIds = False,
    query_key: given.QueryKey = None,
    header: given.Header = None,
    epsilon: given.Epsilon = 0.0,
    absolute: given.Absolute = False,
    ends: given.Ends = "largest",
    budget: given.Budget = None,
    rescore: given.Rescore = True,
    atoms: AtomsPlace = None,
) -> None:
    """Find the best atoms of an index for each query.

    Prints what banditmips search does. The atoms stay in their file, and what a search does not need is not read.
    """
    from banditmips._saving import load
    from banditmips.cli._inputs import Reading, read_queries, shown
    from banditmips.cli._results import Destination, write_result

    options: dict[str, Any] = {
        "epsilon": epsilon,
        "absolute": absolute,
        "ends": ends,
        "budget": budget,
        "rescore": rescore,
        "n_jobs": jobs,
        "progress": on_terminal(),
        **({} if delta is None else {"delta": delta}),
    }
    with naming_files(queries=shown(queries)):
        destination = Destination.choose(output, format, str(index), queries)
        opened = load(index, atoms=atoms)
        n, d = opened.n_atoms, opened.n_coordinates
        read = read_queries(queries, Reading(query_key, header, query_id_column, not no_ids), d, str(index))
        start = time.perf_counter()
        result = opened.search(read.matrix, min(DEFAULT_K, n) if k is None else k, **options)
        tell_work(result, (n, d), opened.dtype.itemsize, f"searched in {duration(time.perf_counter() - start)}")
    write_result(result, destination, opened.ids, read)


for _command in (build, info, verify, search):
    index.command(_command.__name__, help=help_of(_command))(_command)
