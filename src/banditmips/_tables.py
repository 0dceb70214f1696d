"""Matrices to search, from table files; a file's suffix says what it is. Results go out by `_result_files`."""

from __future__ import annotations

import csv
import math
import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips._files import open_regular, reading_as
from banditmips._opening import kind_of

__all__ = [
    "CSV_ENCODING",
    "CsvLayout",
    "check_member",
    "inspect_csv",
    "is_header",
    "is_numeral",
    "read_matrix",
    "split_fields",
]


CSV_ENCODING = "utf-8-sig"
"""Encoding of .csv files: UTF-8, with or without the mark that spreadsheets put in front."""


def read_matrix(
    path: str | os.PathLike[str], key: str | None = None, *, header: bool | None = None, allow_vector: bool = False
) -> Any:
    r"""Read a matrix, one atom or query in each row, from a file of any kind that `open_atoms` knows.

    Parameters
    ----------
    path
        ``.npy`` is memory-mapped. ``.npz`` holds one array, or several of which `key` names one, or a matrix that
        `scipy.sparse.save_npz` wrote. ``.csv``, ``.tsv`` and ``.txt`` (with spaces between the numbers) may begin with
        a line of names. ``.parquet`` holds a number in each column, or one column of equally long lists; so do
        ``.arrow`` and ``.feather``.
    key
        Name of the array in an ``.npz`` or Zarr file, of the dataset in an HDF5 file, or of the list column in a
        ``.parquet`` or Arrow file.
    header
        Whether a ``.csv`` file begins with a line of names. None looks at it: no name is a number.
    allow_vector
        Take an array of one dimension as a matrix of one row.

    Returns
    -------
    ndarray or scipy.sparse matrix
        Of two dimensions.

    Raises
    ------
    OSError
        If the file is not there, or may not be read.
    ValueError
        If it cannot be read as a matrix of real numbers; the message names the file and the place in it.
    ImportError
        If reading it takes an extra that is not installed.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "queries.csv")
    ...     _ = path.write_text("price,weight\n1,2\n3,4.5\n")
    ...     read_matrix(path)
    array([[1. , 2. ],
           [3. , 4.5]])
    """
    path = Path(path)
    read = _READERS[kind_of(path)]
    if key is not None and read in (_read_npy, _read_csv):
        raise ValueError(f"{path}: a {path.suffix.lower()} file holds one table only, so there is no {key!r} to choose")
    if read is not _read_through_store:
        with open_regular(path):  # what cannot be opened is the system's error, with its own words
            pass
    matrix = _read_csv(path, header) if read is _read_csv else read(path, key)
    if matrix.dtype.kind not in "fiub":
        raise ValueError(f"{path}: expected real numbers, got dtype {matrix.dtype}")
    if matrix.ndim == 1 and allow_vector:
        matrix = matrix[np.newaxis]
    if matrix.ndim != 2:
        raise ValueError(f"{path}: expected a matrix (one atom or query in each row), got shape {matrix.shape}")
    return matrix


def _read_npy(path: Path, key: None) -> NDArray[Any]:
    from banditmips.atoms.npy import read_npy_header

    with open_regular(path) as file:
        shape, fortran, dtype = read_npy_header(file)
        if dtype.hasobject:
            raise ValueError(f"{path}: cannot be read as .npy: it holds Python objects, which are not loaded")
        offset, size = file.tell(), os.fstat(file.fileno()).st_size
        end = offset + math.prod(shape) * dtype.itemsize
        if end > size:
            raise ValueError(f"{path}: cannot be read as .npy: shape {shape} goes to byte {end:,} of {size:,}")
        order: Literal["C", "F"] = "F" if fortran else "C"
        # Nothing of length 0 can be mapped.
        return np.memmap(file, dtype, "r", offset, shape, order) if 0 not in shape else np.empty(shape, dtype, order)


def _read_npz(path: Path, key: str | None) -> Any:
    with reading_as(path, ".npz"), open_regular(path) as file, zipfile.ZipFile(file) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        if key is None and {"format", "shape", "data"} <= set(names):
            return _read_sparse(path, archive)
        if key is None and len(names) == 1:
            key = names[0]
        if key in names:
            check_member(archive, key)
            file.seek(0)
            with np.load(file, allow_pickle=False) as arrays:
                return arrays[key]
    held = ", ".join(names) or "nothing"
    raise ValueError(f"{path}: {'name one of its arrays' if key is None else f'has no array {key!r}'}; it holds {held}")


_MOST_DEFLATED = 1100
"""Times that zip's compression makes anything smaller, at most."""


def check_member(archive: zipfile.ZipFile, name: str) -> None:
    """Check that an array is as large as its header says, before memory is taken for it."""
    from banditmips.atoms.npy import read_npy_header

    info = archive.getinfo(name if name in archive.namelist() else f"{name}.npy")
    with archive.open(info) as member:
        if member.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"its {name!r} is no array")
    with archive.open(info) as member:
        shape, _, dtype = read_npy_header(member)  # type: ignore[arg-type]  # a member can be read, and has a name
        size = member.tell() + math.prod(shape) * dtype.itemsize
    if dtype.hasobject:
        raise ValueError(f"its {name!r} holds Python objects, which are not loaded")
    if info.file_size != size or size > _MOST_DEFLATED * (info.compress_size + 64):
        raise ValueError(f"its {name!r} takes {info.file_size:,} bytes, where its header speaks of {size:,}")


def _read_sparse(path: Path, archive: zipfile.ZipFile) -> Any:
    """Read a matrix that SciPy has saved; nothing is done with it before its places have been checked."""
    from scipy.sparse import load_npz

    from banditmips.atoms.sparse import check_sparse

    for name in archive.namelist():
        check_member(archive, name.removesuffix(".npy"))
    matrix: Any = load_npz(path)
    if len(matrix.shape) != 2:
        raise ValueError(f"{path}: expected a matrix (one atom or query in each row), got shape {matrix.shape}")
    n, size = matrix.shape[0], path.stat().st_size
    if n > _MOST_DEFLATED * size:
        raise ValueError(f"{path}: says it has {n:,} rows, more than {size:,} bytes can speak of")
    return check_sparse(matrix, f"{path}: its matrix").tocsr()  # the one format that rows can be taken from fast


def _read_parquet(path: Path, key: str | None) -> NDArray[Any]:
    require("pyarrow.parquet", extra="tables", purpose=f"reading {path.name}")
    from banditmips.atoms.arrow import read_parquet

    return read_parquet(path, key)


def _read_through_store(path: Path, key: str | None) -> NDArray[Any]:
    """Read a file whole that could also be searched where it lies."""
    from banditmips._opening import open_atoms
    from banditmips.atoms import DenseStore

    try:
        store = open_atoms(path, dataset=key, memory_limit=sys.maxsize)
    except MemoryError as error:
        raise ValueError(f"{path}: what it says it holds does not fit in memory") from error
    if not isinstance(store, DenseStore):
        raise ValueError(f"{path}: holds packed atoms, which are searched but not read whole (its array 'rows' may be)")
    return store.array


def _read_csv(path: Path, header: bool | None) -> NDArray[np.float64]:
    with reading_as(path, ".csv"):
        return _parse_csv(path, header)


def _parse_csv(path: Path, header: bool | None) -> NDArray[np.float64]:
    try:
        layout = inspect_csv(path, header)
        n_before, delimiter = layout.n_before, layout.delimiter
        try:
            return np.loadtxt(
                path, np.float64, "#", delimiter, skiprows=n_before, ndmin=2, encoding=CSV_ENCODING, quotechar='"'
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise ValueError(f"{path}: {_csv_problem(path, n_before, delimiter) or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: is no text in UTF-8 ({error.reason})") from error


class CsvLayout(NamedTuple):
    """How a table in text is written: what stands before its rows, and its first row.

    The delimiter is None where fields are separated by spaces.
    """

    n_before: int
    delimiter: str | None
    names: list[str] | None
    first_row: list[str]


def inspect_csv(path: Path, header: bool | None) -> CsvLayout:
    """Look at the beginning of a table in text: lines of names, what separates the fields."""
    names = None
    with open(path, encoding=CSV_ENCODING, newline="") as file:
        for number, line in enumerate(file):
            if _says_nothing(line):
                continue
            delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter_of(line)
            fields = split_fields(line, delimiter)
            is_first = names is None
            if is_first and (is_header(fields, f"{path}: line {number + 1}") if header is None else header):
                names = fields
                continue
            return CsvLayout(number, delimiter, names, fields)
    raise ValueError(f"{path}: has no rows of numbers")


def _delimiter_of(line: str) -> str | None:
    """Return the mark that parts a line into most fields; None for spaces."""
    n_fields = {mark: len(split_fields(line, mark)) for mark in ",;\t"}
    best = max(n_fields, key=n_fields.__getitem__)
    return best if n_fields[best] > 1 or len(line.split()) == 1 else None


def split_fields(line: str, delimiter: str | None) -> list[str]:
    """Part a line of a table into its fields; quotes may hold the delimiter, unless it is spaces."""
    return line.split() if delimiter is None else next(csv.reader([line], delimiter=delimiter))


def is_header(fields: list[str], where: str) -> bool:
    """Tell a line of names from a line of numbers: no field of a header is a number."""
    if len(fields) > 1 and fields == [str(i) for i in range(len(fields))]:
        # What pandas writes for columns without names would pass for atom 0, and shift all the others.
        raise ValueError(f"{where} counts 0, 1, 2, ...: names or numbers? Say --header or --no-header")
    if len(fields) > 2 and fields == ["", *(str(i) for i in range(len(fields) - 1))]:
        return True  # so pandas begins a table whose rows and columns have no names
    return not any(is_numeral(field) for field in fields)


def _says_nothing(line: str) -> bool:
    return not line.strip() or line.startswith("#")


def is_numeral(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _csv_problem(path: Path, n_before: int, delimiter: str | None) -> str | None:
    """Find the first line that is not like the others, to name it as the user's editor counts lines."""
    n_fields = None
    with open(path, encoding=CSV_ENCODING, newline="") as file:
        for number, line in enumerate(file, start=1):
            if number <= n_before or _says_nothing(line):
                continue
            fields = split_fields(line.partition("#")[0].rstrip(), delimiter)
            n_fields = len(fields) if n_fields is None else n_fields
            for position, field in enumerate(fields, start=1):
                if not is_numeral(field):
                    return f"line {number}, field {position}: expected a number, got {field[:40]!r}"
            if len(fields) != n_fields:
                return f"line {number}: expected {n_fields} fields like the lines before, got {len(fields)}"
    return None


_READERS: dict[str, Callable[[Path, Any], Any]] = {
    "npy": _read_npy,
    "npz": _read_npz,
    "csv": _read_csv,
    "parquet": _read_parquet,
    "ipc": _read_through_store,
    "hdf5": _read_through_store,
    "zarr": _read_through_store,
}
