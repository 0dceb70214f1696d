"""Rows of results, into files of a table: a file's suffix says what it becomes, and it appears whole or not at all."""

from __future__ import annotations

import csv
import errno
import io
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips._files import check_target
from banditmips._result import SearchResult

__all__ = [
    "FORMATS",
    "check_output",
    "check_place",
    "format_of",
    "replacing",
    "result_columns",
    "write_columns",
    "write_csv",
    "write_stream",
]


def result_columns(result: SearchResult) -> dict[str, NDArray[Any]]:
    """Return a batch's result as columns, one row for each (query, rank); ranks count from 1, all else from 0."""
    m, k = result.indices.shape
    return {
        "query": np.repeat(np.arange(m), k),
        "rank": np.tile(np.arange(1, k + 1), m),
        "index": result.indices.ravel(),
        "score": result.scores.ravel(),
        "lower": result.lower.ravel(),
        "upper": result.upper.ravel(),
        "exact": result.exact.ravel(),
        "n_multiplies": np.repeat(result.n_multiplies, k),
        "bytes_read": np.repeat(result.bytes_read, k),
        "stop_reason": np.repeat(np.array([str(reason) for reason in result.stop_reason], dtype=np.str_), k),
    }


def check_output(path: str | os.PathLike[str], format: str | None = None) -> None:
    """Raise now what `write_columns` would raise after a long search: a wrong suffix, a missing folder or extra."""
    path = Path(path)
    if format_of(path, format) == "parquet":
        require("pyarrow.parquet", extra="tables", purpose=f"writing {path.name}")
    check_place(path)


def format_of(path: Path, format: str | None = None) -> str:
    """Return one of `FORMATS`: the one that was asked for, or else what the suffix says."""
    chosen = path.suffix.lower()[1:] if format is None else format
    if chosen not in _WRITERS:
        known = ", ".join(f".{name}" for name in _WRITERS)
        raise ValueError(f"{path}: cannot write a file with suffix {path.suffix.lower()!r}; known are {known}")
    return chosen


def check_place(path: Path) -> None:
    """Raise if no file can be put there: there is a folder or a FIFO, or its folder is not there or closed to us."""
    check_target(path)
    folder = path.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"there is no folder {path.parent}", str(path))
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, f"the folder {path.parent} may not be written to", str(path))


def write_columns(path: str | os.PathLike[str], columns: Mapping[str, NDArray[Any]], format: str | None = None) -> None:
    """Write equally long columns to a file; its suffix says what it becomes, unless `format` does.

    The file appears whole or not at all. ``.json`` is an array with an object for each row, ``.jsonl`` an object in
    each line; what is not finite is null in both.
    """
    path = Path(path)
    chosen = format_of(path, format)
    with replacing(path) as file:
        write_stream(file, columns, chosen)


def write_stream(file: IO[bytes], columns: Mapping[str, NDArray[Any]], format: str) -> None:
    """Write equally long columns to an open file, in one of `FORMATS`."""
    _WRITERS[format](file, columns)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a temporary file beside `path` that takes its place if the block ends well, and is removed otherwise."""
    check_target(path)
    target = os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(target), f".banditmips-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            with suppress(FileNotFoundError):
                shutil.copymode(target, temporary)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def write_csv(file: IO[str], columns: Mapping[str, NDArray[Any]], delimiter: str = ",") -> None:
    """Write a line of names and a line for each row; floats are written so that reading gives them back exactly."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    for row in _rows(columns):
        writer.writerow([str(value).lower() if isinstance(value, bool) else value for value in row])


def _write_text(file: IO[bytes], columns: Mapping[str, NDArray[Any]], delimiter: str = ",") -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    write_csv(text, columns, delimiter)
    text.detach()  # writes the rest, and leaves the file open to the caller


def _write_json(file: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    separator = b"[\n"
    for line in _json_rows(columns):
        file.write(separator + line)
        separator = b",\n"
    file.write(b"[]\n" if separator == b"[\n" else b"\n]\n")


def _write_json_lines(file: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    for line in _json_rows(columns):
        file.write(line + b"\n")


def _json_rows(columns: Mapping[str, NDArray[Any]]) -> Iterator[bytes]:
    for row in _rows(columns):
        plain = [None if isinstance(value, float) and not math.isfinite(value) else value for value in row]
        yield json.dumps(dict(zip(columns, plain, strict=True)), allow_nan=False).encode("utf-8")


def _write_npz(file: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    np.savez(file, **columns)  # type: ignore[arg-type]  # the stubs take a column for the option allow_pickle


def _write_parquet(file: IO[bytes], columns: Mapping[str, NDArray[Any]]) -> None:
    arrow = require("pyarrow", extra="tables", purpose="writing .parquet")
    parquet = require("pyarrow.parquet", extra="tables", purpose="writing .parquet")
    parquet.write_table(arrow.table({name: arrow.array(column) for name, column in columns.items()}), file)


def _rows(columns: Mapping[str, NDArray[Any]]) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns.values()), strict=True)


_WRITERS: dict[str, Callable[[IO[bytes], Mapping[str, NDArray[Any]]], None]] = {
    "csv": _write_text,
    "parquet": _write_parquet,
    "npz": _write_npz,
    "json": _write_json,
    "jsonl": _write_json_lines,
    "tsv": partial(_write_text, delimiter="\t"),
}
FORMATS = tuple(_WRITERS)
"""What results can be written as."""
