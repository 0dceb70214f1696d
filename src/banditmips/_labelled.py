"""Tables of which a column names the rows: the matrix of the other columns, and its ids."""

from __future__ import annotations

import csv
import operator
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips._files import open_regular, reading_as
from banditmips._opening import kind_of, open_atoms
from banditmips._tables import CSV_ENCODING, CsvLayout, check_member, inspect_csv, is_numeral, read_matrix, split_fields

__all__ = ["LabelledMatrix", "check_ids", "read_labelled"]

_PANDAS_INDEX = "__index_level_0__"
"""What pandas calls an index without a name in Parquet; in .csv its name is empty."""


@dataclass(frozen=True, eq=False)
class LabelledMatrix:
    """Rows of numbers, and what they are called.

    Attributes
    ----------
    matrix : array, sparse matrix or store of shape (n, d)
    ids : int64 or str array of shape (n,), or None
    id_column : str
        The column that the ids are from; empty if there are none.
    skipped : tuple of str
        Other columns that are no coordinates.
    """

    matrix: Any
    ids: NDArray[Any] | None = None
    id_column: str = ""
    skipped: tuple[str, ...] = ()


def read_labelled(
    path: str | os.PathLike[str],
    key: str | None = None,
    *,
    header: bool | None = None,
    id_column: str | None = None,
    memory_limit: int | None = None,
    allow_vector: bool = False,
) -> LabelledMatrix:
    r"""Read a matrix as `read_matrix` does, from a file that may name its rows.

    Without `id_column`, the ids are looked for: in a column of text, in one called ``id`` or that has no name because
    it is pandas' index, or in an array ``ids`` of an ``.npz`` file. Such columns are never coordinates.

    Parameters
    ----------
    path, key, header, allow_vector
        As in `read_matrix`.
    id_column
        Name of the column with the ids, or its number from 0 where columns have no such name; of the array, in an
        ``.npz`` file.
    memory_limit
        As in `open_atoms`, for a matrix that may stay where it is and comes as a store. None reads it whole.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "films.csv")
    ...     _ = path.write_text("title,ann,bob\n'Alien',5,4\nHeat,2,4.5\n")
    ...     films = read_labelled(path)
    >>> films.matrix.tolist(), films.ids.tolist(), films.id_column
    ([[5.0, 4.0], [2.0, 4.5]], ["'Alien'", 'Heat'], 'title')
    """
    path = Path(path) if "://" not in os.fspath(path) else path
    kind = kind_of(path)
    labelled = None
    if kind in ("csv", "npz", "parquet", "ipc"):
        path = Path(path)
        with open_regular(path):  # what cannot be opened is the system's error, with its own words
            pass
        with reading_as(path, path.suffix.lower()):
            if kind == "csv":
                labelled = _read_csv(path, header, id_column)
            elif kind == "npz":
                labelled = _read_npz(path, key, id_column)
            else:
                labelled = _read_arrow(path, kind, key, id_column, memory_limit)
    elif id_column is not None:
        raise ValueError(f"{path}: holds numbers only, so there is no column {id_column!r} of ids")
    if labelled is not None:
        return labelled
    if memory_limit is None:
        return LabelledMatrix(read_matrix(path, key, header=header, allow_vector=allow_vector))
    return LabelledMatrix(open_atoms(path, dataset=key, header=header, memory_limit=memory_limit))


def check_ids(ids: NDArray[Any], where: str) -> None:
    """Raise if an id stands for two rows."""
    _, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if first.size < ids.size:
        row = int(first[counts > 1].min())
        again = int(np.flatnonzero(ids == ids[row])[1])
        raise ValueError(f"{where} must hold an id only once, got {ids[row].item()!r} in rows {row} and {again}")


def _choose_columns(
    where: str, names: Sequence[str], is_text: Sequence[bool], wanted: str | None
) -> tuple[int | None, list[int]]:
    """Return the column of ids, and all that are no coordinates."""
    labels = [
        j
        for j, name in enumerate(names)
        if is_text[j] or name.casefold() == "id" or name == _PANDAS_INDEX or (j == 0 and not name)
    ]
    if wanted is not None:
        number = int(wanted) if wanted.isdecimal() else len(names)
        if wanted not in names and number >= len(names):
            raise ValueError(f"{where}: has no column {wanted!r} of ids; it holds {_listed(names)}")
        chosen = names.index(wanted) if wanted in names else number
        return chosen, sorted({*labels, chosen})
    if len(labels) > 1:
        named_id = [j for j in labels if names[j].casefold() == "id"]
        if len(named_id) != 1:
            told = _listed([names[j] for j in labels])
            raise ValueError(f"{where}: which column holds the ids, {told}? Say --id-column NAME")
        return named_id[0], labels
    return (labels[0] if labels else None), labels


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name or "'' (the first)" for name in names[:20])
    return shown if len(names) <= 20 else f"{shown}, ... ({len(names)} in all)"


def _as_ids(texts: list[str]) -> NDArray[Any]:
    """Make integers of ids that are written as such, all of them; others stay as they are."""
    try:
        numbers = [int(text) for text in texts]
        if all(str(number) == text for number, text in zip(numbers, texts, strict=True)):
            return np.array(numbers, dtype=np.int64)
    except (ValueError, OverflowError):
        pass
    return np.array(texts, dtype=np.str_)


# --- text -----------------------------------------------------------------------------------------------------------


def _read_csv(path: Path, header: bool | None, wanted: str | None) -> LabelledMatrix | None:
    try:
        layout = inspect_csv(path, header)
        if header is None and layout.names is None:
            _check_first_row(layout, f"{path}: line {layout.n_before + 1}")
        names = layout.names or [str(j) for j in range(len(layout.first_row))]
        is_text = [bool(field.strip()) and not is_numeral(field) for field in layout.first_row]
        # A short first row is an error that is found with the others; a long one may be.
        is_text = (is_text + [False] * len(names))[: len(names)]
        id_position, labels = _choose_columns(str(path), names, is_text, wanted)
        if id_position is None:
            return None
        return _read_rows(path, layout, names, id_position, labels)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is no text in UTF-8 ({error.reason})") from error
    except csv.Error as error:
        raise ValueError(f"{path}: cannot be read as {path.suffix.lower()}: {error}") from error


def _check_first_row(layout: CsvLayout, where: str) -> None:
    """Refuse to guess whether a text followed by 1960, 1961, 1962 is a line of names."""
    numerals = [field for field in layout.first_row if is_numeral(field)]
    counts = [int(field) for field in numerals if field.strip().isdecimal()]
    counts_up = counts == list(range(counts[0], counts[0] + len(numerals))) if counts else False
    if counts_up and len(numerals) < len(layout.first_row) and (len(counts) > 2 or (len(counts) > 1 and not counts[0])):
        raise ValueError(f"{where} counts {counts[0]}, {counts[1]}, ...: names or numbers? Say --header or --no-header")


def _read_rows(path: Path, layout: CsvLayout, names: list[str], id_position: int, labels: list[int]) -> LabelledMatrix:
    coordinates = [j for j in range(len(names)) if j not in labels]
    if not coordinates:
        raise ValueError(f"{path}: has no columns of numbers beside {_listed([names[j] for j in labels])}")
    take = operator.itemgetter(*coordinates)
    texts: list[str] = []

    def numbers() -> Iterator[str]:
        with open(path, encoding=CSV_ENCODING, newline="") as file:
            for line, fields in _records(file, layout):
                if len(fields) != len(names):
                    raise _RowError(f"{path}: line {line}: expected {len(names)} fields, got {len(fields)}")
                if not fields[id_position].strip():
                    raise _RowError(f"{path}: line {line}, field {id_position + 1}: expected an id, got nothing")
                texts.append(fields[id_position].strip())
                yield fields[coordinates[0]] if len(coordinates) == 1 else "\t".join(take(fields))

    try:
        matrix = np.loadtxt(numbers(), np.float64, comments=None, delimiter="\t", ndmin=2)
    except (_RowError, UnicodeDecodeError):
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {_find_text(path, layout, coordinates) or error}") from error
    skipped = tuple(names[j] for j in labels if j != id_position)
    return LabelledMatrix(matrix, _as_ids(texts), names[id_position] or "without a name", skipped)


class _RowError(ValueError):
    """A row that is not like the others, told by its line."""


def _records(file: IO[str], layout: CsvLayout) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table with their lines; a quoted field may hold several lines."""
    for _ in range(layout.n_before):
        next(file)
    if layout.delimiter is None:
        records = enumerate((split_fields(line, None) for line in file), start=1)
    else:
        reader = csv.reader(file, delimiter=layout.delimiter)
        records = ((reader.line_num, fields) for fields in reader)  # type: ignore[assignment]
    for line, fields in records:
        if any(field.strip() for field in fields):
            yield layout.n_before + line, fields


def _find_text(path: Path, layout: CsvLayout, coordinates: list[int]) -> str | None:
    """Find the first field that is no number where there should be one."""
    with open(path, encoding=CSV_ENCODING, newline="") as file:
        for line, fields in _records(file, layout):
            for j in coordinates:
                if not is_numeral(fields[j]):
                    return f"line {line}, field {j + 1}: expected a number, got {fields[j][:40]!r}"
    return None


# --- .npz -----------------------------------------------------------------------------------------------------------


def _read_npz(path: Path, key: str | None, wanted: str | None) -> LabelledMatrix | None:
    try:
        with zipfile.ZipFile(path) as archive:
            held = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
    except zipfile.BadZipFile:
        return None  # told by read_matrix
    if wanted is None:
        wanted = next((name for name in held if name.casefold() in ("id", "ids") and name != key), None)
        if wanted is None:
            return None
    elif wanted not in held:
        raise ValueError(f"{path}: has no array {wanted!r} of ids; it holds {_listed(held)}")
    others = [name for name in held if name != wanted]
    with zipfile.ZipFile(path) as archive:
        check_member(archive, wanted)
    with np.load(path, allow_pickle=False) as arrays:
        ids = arrays[wanted]
    if ids.ndim != 1 or ids.dtype.kind not in "iuU":
        raise ValueError(f"{path}: expected integers or strings in {wanted!r}, got {ids.dtype} of shape {ids.shape}")
    matrix = read_matrix(path, others[0] if key is None and len(others) == 1 else key)
    if ids.size != matrix.shape[0]:
        raise ValueError(f"{path}: has {ids.size} ids in {wanted!r}, but {matrix.shape[0]} rows")
    return LabelledMatrix(matrix, ids, wanted)


# --- Parquet and Arrow ----------------------------------------------------------------------------------------------


def _read_arrow(
    path: Path, kind: str, key: str | None, wanted: str | None, memory_limit: int | None
) -> LabelledMatrix | None:
    require("pyarrow.parquet", extra="tables", purpose=f"reading {path.name}")
    import pyarrow

    try:
        schema, read = _open_arrow(path, kind)
    except (OSError, pyarrow.ArrowException):
        return None  # told by those who read the matrix
    types = pyarrow.types
    lists = [field.name for field in schema if types.is_nested(field.type)]
    if key is None and len(lists) == 1:
        key = lists[0]
    is_text = [
        not (types.is_nested(held) or types.is_integer(held) or types.is_floating(held) or types.is_boolean(held))
        for held in schema.types
    ]
    id_position, labels = _choose_columns(str(path), schema.names, is_text, wanted)
    if id_position is None:
        return None
    id_name = schema.names[id_position]
    ids = _arrow_ids(read([id_name]).column(0), f"{path}: column {id_name!r}")
    if key is None:
        from banditmips.atoms.arrow import arrow_store

        coordinates = [name for j, name in enumerate(schema.names) if j not in labels]
        matrix: Any = arrow_store(read(coordinates).combine_chunks())
        matrix = matrix.array if memory_limit is None else matrix
        skipped = tuple(schema.names[j] for j in labels if j != id_position)
        return LabelledMatrix(matrix, ids, id_name, skipped)
    matrix = (
        read_matrix(path, key) if memory_limit is None else open_atoms(path, dataset=key, memory_limit=memory_limit)
    )
    return LabelledMatrix(matrix, ids, id_name, tuple(name for name in schema.names if name not in (key, id_name)))


def _open_arrow(path: Path, kind: str) -> tuple[Any, Any]:
    """Return a file's schema, and what reads columns of it."""
    import pyarrow.feather
    import pyarrow.parquet

    if kind == "parquet":
        return pyarrow.parquet.read_schema(path), lambda names: pyarrow.parquet.read_table(path, columns=names)
    with pyarrow.OSFile(os.fspath(path)) as file:
        schema = pyarrow.ipc.open_file(file).schema
    return schema, lambda names: pyarrow.feather.read_table(path, columns=names)


def _arrow_ids(column: Any, where: str) -> NDArray[Any]:
    import pyarrow

    column.validate(full=True)  # offsets come from a file, and Arrow reads wherever they lead
    if column.null_count:
        row = column.is_null().to_numpy().argmax()
        raise ValueError(f"{where} has no id in row {row}")
    if pyarrow.types.is_integer(column.type):
        return np.asarray(column.to_numpy())
    if pyarrow.types.is_floating(column.type) or pyarrow.types.is_nested(column.type):
        raise ValueError(f"{where} must hold integers or strings to be ids, got {column.type}")
    return np.array(column.cast(pyarrow.string()).to_pylist(), dtype=np.str_)
