"""Where the atoms and queries of a command come from: files, standard input, datasets by name."""

from __future__ import annotations

import ast
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from banditmips._labelled import LabelledMatrix, check_ids, read_labelled
from banditmips._opening import open_atoms
from banditmips._tables import read_matrix
from banditmips.cli._console import say, working
from banditmips.cli._names import DATASETS

if TYPE_CHECKING:
    from banditmips.datasets import Dataset

__all__ = ["STANDARD_INPUT", "Inputs", "Reading", "parse_value", "read_atoms", "read_inputs", "read_queries", "shown"]

STANDARD_INPUT = "-"

# What files begin with; anything else is taken for text.
_BEGINNINGS = {
    b"\x93NUMPY": ".npy",
    b"PK": ".npz",
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\x89HDF": ".h5",
}


@dataclass(frozen=True)
class Reading:
    """How to read a file of atoms or queries.

    Attributes
    ----------
    key
        The array, dataset or list column of a file that holds several.
    header
        Whether a table in text begins with names; None looks at it.
    id_column
        The column that holds the ids; None looks for one.
    with_ids
        False takes every column for a coordinate.
    memory_limit
        Bytes of a matrix that comes as a store; None reads it whole.
    """

    key: str | None = None
    header: bool | None = None
    id_column: str | None = None
    with_ids: bool = True
    memory_limit: int | None = None

    def __post_init__(self) -> None:
        if self.id_column is not None and not self.with_ids:
            raise ValueError("--id-column and --no-ids contradict each other")


@dataclass(frozen=True, eq=False)
class Inputs:
    """Atoms and queries of the same width."""

    atoms: LabelledMatrix
    queries: LabelledMatrix


def shown(place: str | None) -> str:
    """Return what messages call a file."""
    return "standard input" if place == STANDARD_INPUT else str(place)


def read_inputs(atoms: str, queries: str | None, how: Reading, query_how: Reading) -> Inputs:
    """Read atoms and queries; a dataset by its name brings queries of its own."""
    if atoms == queries == STANDARD_INPUT:
        raise ValueError("standard input can hold atoms or queries, not both: name a file for one of them")
    if queries is None:
        if not _is_dataset(atoms):
            raise ValueError("missing argument 'QUERIES': a file with a query in each row, or - for standard input")
        data = _load_dataset(atoms)
        return Inputs(LabelledMatrix(data.atoms), LabelledMatrix(data.queries))
    read = read_atoms(atoms, how)
    return Inputs(read, read_queries(queries, query_how, read.matrix.shape[1], shown(atoms)))


def _is_dataset(place: str) -> bool:
    return place.partition(":")[0] in DATASETS


def read_atoms(place: str, how: Reading) -> LabelledMatrix:
    """Read atoms, whose ids must differ, or load those of a dataset."""
    if _is_dataset(place):
        return LabelledMatrix(_load_dataset(place).atoms)
    read = _read(place, how, allow_vector=False)
    if read.ids is not None:
        check_ids(read.ids, f"{shown(place)}: column {read.id_column!r}")
    return read


def read_queries(place: str, how: Reading, n_coordinates: int, atoms: str) -> LabelledMatrix:
    """Read queries as wide as the atoms."""
    read = _read(place, how, allow_vector=True)
    if read.matrix.shape[1] != n_coordinates:
        raise ValueError(f"{shown(place)} has {read.matrix.shape[1]} columns, but {atoms} has {n_coordinates}")
    return read


def _read(place: str, how: Reading, allow_vector: bool) -> LabelledMatrix:
    with _as_file(place) as path, working(f"reading {shown(place)}"):
        if how.with_ids:
            read = read_labelled(
                path,
                how.key,
                header=how.header,
                id_column=how.id_column,
                memory_limit=how.memory_limit,
                allow_vector=allow_vector,
            )
        elif how.memory_limit is None:
            read = LabelledMatrix(read_matrix(path, how.key, header=how.header, allow_vector=allow_vector))
        else:
            store = open_atoms(path, dataset=how.key, header=how.header, memory_limit=how.memory_limit)
            read = LabelledMatrix(store)
    if read.ids is not None and how.id_column is None:
        say(f"{shown(place)}: ids are taken from column {read.id_column!r} (see --id-column and --no-ids)")
    if read.skipped:
        say(f"{shown(place)}: no coordinates, and left out: {', '.join(map(repr, read.skipped))}")
    return read


@contextmanager
def _as_file(place: str) -> Iterator[str]:
    """Give what comes on standard input a place, since most kinds of file cannot be read as they come."""
    if place != STANDARD_INPUT:
        yield place
        return
    with tempfile.TemporaryDirectory(prefix="banditmips-", ignore_cleanup_errors=True) as folder:
        beginning = sys.stdin.buffer.read(8)
        suffix = next((suffix for mark, suffix in _BEGINNINGS.items() if beginning.startswith(mark)), ".csv")
        path = Path(folder, f"input{suffix}")
        with open(path, "wb") as file:
            file.write(beginning)
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield str(path)
        except ValueError as error:
            raise ValueError(str(error).replace(str(path), "standard input")) from error


def _load_dataset(text: str) -> Dataset:
    """Load a dataset as in ``ratings:n=1000,n_queries=20``."""
    from banditmips import datasets

    name, _, settings = text.partition(":")
    parameters = {}
    for setting in filter(None, settings.split(",")):
        parameter, equals, value = setting.partition("=")
        if not (parameter and equals):
            raise ValueError(f"{text}: a dataset's settings are NAME=VALUE with commas between, got {setting!r}")
        parameters[parameter] = parse_value(value)
    try:
        with working(f"loading {name}"):
            data = datasets.load(name, **parameters)
    except TypeError as error:  # a mistake of the user's here, since the values come from the command line
        raise ValueError(str(error)) from error
    say(f"{name}: {data.description}")
    return data


def parse_value(text: str) -> Any:
    """Read a value as JSON or Python would; what is neither is a string.

    Examples
    --------
    >>> parse_value("3"), parse_value("True"), parse_value("null"), parse_value("float32")
    (3, True, None, 'float32')
    """
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError):
            continue
    return text
