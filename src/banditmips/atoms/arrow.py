"""Atoms in Arrow and Parquet: one column of equally long lists, or a number in each column."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.ipc
import pyarrow.parquet
from numpy.typing import NDArray

from banditmips._files import FileState, FileWatch, reading_as
from banditmips.atoms.chunks import ContentError
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.grid import ChunkGrid, GridStore
from banditmips.atoms.joined import JoinedStore
from banditmips.atoms.metering import count_bytes
from banditmips.atoms.protocol import AtomStore

__all__ = ["arrow_store", "open_ipc", "open_parquet", "read_parquet"]


def _is_list(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_number(kind: Any) -> bool:
    types = pyarrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def _first(flags: Any) -> int:
    return int(flags.to_numpy(zero_copy_only=False).argmax())


def _chosen_fields(schema: Any, where: str, name: str | None) -> list[str]:
    """Choose the columns that make the matrix: the one that was named, one of lists, or all, which are numbers."""
    if name is not None:
        if name not in schema.names:
            raise ValueError(f"{where}: has no column {name!r}; it holds {', '.join(schema.names[:20])}")
        return [name]
    for field in schema:
        if not _is_number(field.type) and not (len(schema) == 1 and _is_list(field.type)):
            raise ValueError(
                f"{where}: expected columns of numbers or a single column of lists, but column {field.name!r} holds "
                f"{field.type} (a list column among others can be chosen by its name)"
            )
    return list(schema.names)


def _rows_of_lists(lists: Any, where: str, first_row: int, width: int | None) -> NDArray[Any]:
    """Return an array of lists as a matrix; of `width` columns, if that is known from lists before."""
    if lists.null_count:
        raise ContentError(f"{where} has no value in row {first_row + _first(lists.is_null())}")
    lengths = pyarrow.compute.list_value_length(lists)
    if len(lists) == 0:
        return np.empty((0, width or 0))
    expected = lengths[0].as_py() if width is None else width
    uneven = pyarrow.compute.not_equal(lengths, expected)
    if pyarrow.compute.any(uneven).as_py():
        row = _first(uneven)
        raise ContentError(
            f"{where} must hold lists of one length, got {expected} entries in row 0 and {lengths[row]} in row "
            f"{first_row + row}"
        )
    values = lists.flatten()
    if values.null_count:
        row, entry = divmod(_first(values.is_null()), expected)
        raise ContentError(f"{where} has no value in row {first_row + row}, entry {entry}")
    matrix: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(lists), expected)
    return matrix


def _rows_of_numbers(batch: Any, where: str, first_row: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    matrix = np.empty((batch.num_rows, batch.num_columns), dtype=dtype)
    for j, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if column.null_count:
            raise ContentError(
                f"{where}: has no value in row {first_row + _first(column.is_null())} of column {name!r}"
            )
        matrix[:, j] = column.to_numpy(zero_copy_only=False)
    return matrix


class _Rows:
    """Turns record batches of one schema into rows of a matrix."""

    def __init__(self, schema: Any, where: str) -> None:
        first = schema.field(0).type
        self.where = where
        self._lists = len(schema) == 1 and _is_list(first)
        self.width: int | None = len(schema)
        if not self._lists:
            self.dtype = np.result_type(np.bool_, *(field.type.to_pandas_dtype() for field in schema))
            return
        self.where = f"{where}: column {schema.names[0]!r}"
        if not _is_number(first.value_type):
            raise ValueError(f"{self.where} must hold lists of numbers, got {first}")
        self.dtype = np.dtype(first.value_type.to_pandas_dtype())
        self.width = first.list_size if pyarrow.types.is_fixed_size_list(first) else None

    def matrix(self, batch: Any, first_row: int) -> NDArray[Any]:
        if not self._lists:
            return _rows_of_numbers(batch, self.where, first_row, self.dtype)
        return _rows_of_lists(batch.column(0), self.where, first_row, self.width)


class _BatchGrid(ChunkGrid):
    """Chunks of whole rows: row groups of Parquet, record batches of Arrow."""

    def __init__(self, path: str, watch: FileWatch, unit: str, rows: _Rows, lengths: Sequence[int]) -> None:
        self.source = path
        self._watch = watch
        self._unit = unit
        self._rows = rows
        self.dtype = rows.dtype
        # Empty groups are passed over.
        self._numbers = [number for number, length in enumerate(lengths) if length]
        self.row_edges = np.cumsum([0, *(length for length in lengths if length)])
        if not self._numbers:
            raise ValueError(f"{path}: has no rows")
        if rows.width is None:
            rows.width = self.fetch(0, 0, slice(0, 1), slice(0)).shape[1]
        if rows.width == 0:
            raise ValueError(f"{rows.where}: has no entries")
        self.column_edges = np.array([0, rows.width])

    def fetch(self, i: int, j: int, rows: slice, columns: slice) -> NDArray[Any]:
        """Read and decode the rows of one group."""
        # A copy, since Arrow's memory is never to be changed, and holds on to all columns together.
        return np.array(self._rows.matrix(self.read_batch(self._numbers[i]), rows.start), dtype=self.dtype)

    def check_unchanged(self, i: int, j: int) -> None:
        """Raise if the file is not what it was when it was opened."""
        self._watch.check()

    def states(self) -> NDArray[np.int64]:
        """Return size and time of change of the file."""
        return np.array([self._watch.state], dtype=np.int64)

    def expect(self, states: NDArray[np.int64]) -> None:
        """Raise if the file is not what it was when an index was fitted to it."""
        self._watch.expect(FileState(*states[0].tolist()))

    def read_batch(self, number: int) -> Any:
        raise NotImplementedError

    def describe(self, i: int, j: int) -> str:
        """Name a group by its number."""
        return f"{self._unit} {self._numbers[i]}"


class _ParquetGrid(_BatchGrid):
    counts_bytes = True

    def __init__(self, path: str, column: str | None) -> None:
        watch = FileWatch(path)
        with pyarrow.parquet.ParquetFile(path) as file:
            self._metadata = file.metadata
            schema = file.schema_arrow
        self._names = _chosen_fields(schema, path, column)
        lengths = [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]
        rows = _Rows(pyarrow.schema([schema.field(name) for name in self._names]), path)
        super().__init__(path, watch, "row group", rows, lengths)

    def read_batch(self, number: int) -> Any:
        with pyarrow.parquet.ParquetFile(self.source, metadata=self._metadata) as file:
            table = file.read_row_group(number, columns=self._names, use_threads=False)
        group = self._metadata.row_group(number)
        stored = (group.column(j) for j in range(group.num_columns))
        count_bytes(sum(c.total_compressed_size for c in stored if c.path_in_schema.split(".")[0] in self._names))
        return table.combine_chunks().to_batches()[0]


class _IpcGrid(_BatchGrid):
    counts_bytes = False

    def __init__(self, path: str, column: str | None) -> None:
        watch = FileWatch(path)
        # Not mapped: the pages of a map would count as this process's memory.
        with pyarrow.OSFile(path) as file:
            # Without any field, a batch is nothing but its length.
            reader = pyarrow.ipc.open_file(file, options=pyarrow.ipc.IpcReadOptions(included_fields=[]))
            lengths = [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]
            schema = pyarrow.ipc.open_file(file).schema
        self._names = _chosen_fields(schema, path, column)
        self._fields = [schema.get_field_index(name) for name in self._names]
        rows = _Rows(pyarrow.schema([schema.field(name) for name in self._names]), path)
        super().__init__(path, watch, "record batch", rows, lengths)

    def read_batch(self, number: int) -> Any:
        options = pyarrow.ipc.IpcReadOptions(included_fields=self._fields)
        with pyarrow.OSFile(self.source) as file:
            batch = pyarrow.ipc.open_file(file, options=options).get_batch(number)
        # Arrow believes the offsets and lengths of a file, and would read wherever they lead.
        batch.validate(full=True)
        return batch


def open_parquet(path: str | os.PathLike[str], column: str | None, memory_limit: int) -> GridStore:
    """Open a Parquet file; a row group is read at a time."""
    with reading_as(path, ".parquet"):
        return GridStore(_ParquetGrid(os.fspath(path), column), memory_limit)


def read_parquet(path: str | os.PathLike[str], column: str | None) -> NDArray[Any]:
    """Read a Parquet file whole; it may have no rows."""
    where = os.fspath(path)
    with reading_as(path, ".parquet"):
        with pyarrow.parquet.ParquetFile(path) as file:
            names = _chosen_fields(file.schema_arrow, where, column)
            table = file.read(columns=names)
        batches = table.combine_chunks().to_batches()
        rows = _Rows(table.schema, where)
        return rows.matrix(batches[0], 0) if batches else np.empty((0, rows.width or 0), dtype=rows.dtype)


def open_ipc(path: str | os.PathLike[str], column: str | None, memory_limit: int) -> GridStore:
    """Open an Arrow file (also called Feather, version 2); a record batch is read at a time."""
    with reading_as(path, "an Arrow file"):
        return GridStore(_IpcGrid(os.fspath(path), column), memory_limit)


def arrow_store(atoms: Any) -> AtomStore:
    """Make a store of an Arrow table or column in memory; lists are not copied."""
    if isinstance(atoms, (pyarrow.Array, pyarrow.ChunkedArray)):
        atoms = pyarrow.table({"atoms": atoms})
    elif isinstance(atoms, pyarrow.RecordBatch):
        atoms = pyarrow.Table.from_batches([atoms])
    atoms.validate(full=True)  # offsets may come from a file, and Arrow reads wherever they lead
    names = _chosen_fields(atoms.schema, "atoms", None)
    rows = _Rows(atoms.schema, "atoms" if len(names) > 1 else "atoms (argument 'atoms')")
    matrices: list[NDArray[Any]] = []
    first_row = 0
    for batch in atoms.to_batches():
        matrix = rows.matrix(batch, first_row)
        if len(matrix):
            rows.width = matrix.shape[1]
            matrices.append(matrix)
        first_row += len(matrix)
    if not matrices or matrices[0].shape[1] == 0:
        raise ValueError(f"atoms is empty: {atoms.num_rows} rows (argument 'atoms')")
    return DenseStore(matrices[0]) if len(matrices) == 1 else JoinedStore([DenseStore(m) for m in matrices])
