"""Where the rows that a command prints go: a table on a terminal, CSV into a pipe, a file in any format."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips._labelled import LabelledMatrix
from banditmips._padding import check_room
from banditmips._result import SearchResult
from banditmips._result_files import FORMATS, check_output, format_of, replacing, result_columns, write_stream
from banditmips.cli._console import say
from banditmips.cli._inputs import STANDARD_INPUT

__all__ = ["Destination", "write_result"]

_TEXT = ("csv", "tsv", "json", "jsonl")
_BINARY = tuple(name for name in FORMATS if name not in _TEXT)
_BYTES_OF_TEXT, _BYTES_OF_A_ROW = 400, {"npz": 130, "parquet": 200}
"""Memory that a row takes on its way out, roughly."""


@dataclass(frozen=True)
class Destination:
    """A file (None: standard output) and a format, which is ``table`` or one of `FORMATS`."""

    path: Path | None
    format: str

    @classmethod
    def choose(cls, output: str | None, format: str | None, *inputs: str | None) -> Destination:
        """Raise now what would go wrong after a long search.

        Parameters
        ----------
        output, format
            What the user gave. By default a terminal gets a table, and a pipe gets CSV; a file's suffix decides.
        inputs
            What is read, which must not be written over.
        """
        if format not in (None, "table", *FORMATS):
            raise ValueError(f"--format must be one of table, {', '.join(FORMATS)}, got {format!r}")
        if output is None or output == STANDARD_INPUT:
            chosen = format or ("table" if sys.stdout.isatty() else "csv")
            if chosen in _BINARY and sys.stdout.isatty():
                raise ValueError(f"--format {chosen} is not for a terminal: add -o FILE, or a pipe")
            if chosen == "parquet":
                require("pyarrow.parquet", extra="tables", purpose="--format parquet")
            return cls(None, chosen)
        path = Path(output)
        if format == "table":
            raise ValueError(f"--format table is for the terminal; {path} can be {', '.join(FORMATS)}")
        check_output(path, format)
        for place in inputs:
            if place is not None and path.exists() and Path(place).exists() and path.samefile(place):
                raise ValueError(f"{path} is read by this command: choose another file for its results")
        return cls(path, format_of(path, format))

    def write(
        self,
        columns: Mapping[str, NDArray[Any]],
        print_table: Callable[[], None],
        arrays: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        """Write rows; in an .npz file, `arrays` stand for them."""
        written = columns if arrays is None or self.format != "npz" else arrays
        if self.format == "table":
            print_table()
        elif self.path is not None:
            with replacing(self.path) as file:
                write_stream(file, written, self.format)
            say(f"written to {self.path}")
        else:
            buffer = io.BytesIO()
            write_stream(buffer, written, self.format)
            _write_out(sys.stdout.buffer, buffer)


def _write_out(file: IO[bytes], buffer: io.BytesIO) -> None:
    file.write(buffer.getbuffer())
    file.flush()


def write_result(
    result: SearchResult, destination: Destination, atoms: NDArray[Any] | None, queries: LabelledMatrix
) -> None:
    """Write the atoms found, with the ids of atoms and queries where they have some, and both ends if asked for."""
    m, k = result.indices.shape
    each = _BYTES_OF_A_ROW.get(destination.format, _BYTES_OF_TEXT)
    check_room(k, m if result.smallest is None else 2 * m, each=each)
    arrays, columns = _arrays(result, atoms), _columns(result, atoms, queries.ids)
    if queries.ids is not None:
        arrays["query_ids"] = queries.ids
    if result.smallest is None:
        destination.write(columns, lambda: _print_table(columns, k), arrays)
        return
    arrays |= {f"smallest_{name}": array for name, array in _arrays(result.smallest, atoms).items()}
    others = _columns(result.smallest, atoms, queries.ids)

    def print_both() -> None:
        _print_table(columns, k, "largest")
        _print_table(others, k, "smallest")

    both = {name: np.concatenate([column, others[name]]) for name, column in columns.items()}
    ends = np.repeat(["largest", "smallest"], result.indices.size)
    destination.write({"query": both.pop("query"), "end": ends, **both}, print_both, arrays)


def _columns(
    result: SearchResult, atoms: NDArray[Any] | None, query_ids: NDArray[Any] | None
) -> dict[str, NDArray[Any]]:
    """Return a batch's result as columns with a row for each query and rank."""
    columns: dict[str, NDArray[Any]] = {}
    for name, column in result_columns(result).items():
        columns[name] = column
        if name == "query" and query_ids is not None:
            columns["query_id"] = np.repeat(query_ids, result.indices.shape[1])
        if name == "index" and atoms is not None:
            columns["id"] = _found_ids(atoms, result.indices).ravel()
    return columns


def _found_ids(ids: NDArray[Any], indices: NDArray[np.int64]) -> NDArray[Any]:
    """Return the ids of the atoms found; -1 or nothing where there was no atom to find."""
    found = ids[indices]
    found[indices < 0] = "" if ids.dtype.kind == "U" else -1
    return found


def _arrays(result: SearchResult, atoms: NDArray[Any] | None) -> dict[str, NDArray[Any]]:
    """Return a batch's result as arrays with a row for each query."""
    arrays = {name: getattr(result, name) for name in ("indices", "scores", "lower", "upper", "exact")}
    if atoms is not None:
        arrays["ids"] = _found_ids(atoms, result.indices)
    arrays["n_multiplies"] = np.asarray(result.n_multiplies)
    arrays["bytes_read"] = np.asarray(result.bytes_read)
    arrays["stop_reason"] = np.array([str(reason) for reason in result.stop_reason], dtype=np.str_)
    return arrays


def _print_table(columns: Mapping[str, NDArray[Any]], k: int, title: str | None = None) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    on_disk = bool(np.any(columns["bytes_read"]))
    query, atom = ("query_id" if "query_id" in columns else "query"), ("id" if "id" in columns else "index")
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    work = ["multiplies", *(["bytes read"] if on_disk else [])]
    for name in (query, "rank", atom, "score", "give or take", *work):
        is_text = name in columns and columns[name].dtype.kind == "U"
        # Where the terminal is narrow, long ids are broken, not numbers.
        can_break = is_text or " " in name
        table.add_column(name.replace("_", " "), justify="left" if is_text else "right", no_wrap=not can_break)
    table.add_column("stopped", no_wrap=True)
    for row in range(columns["query"].size):
        value = {name: column[row].item() for name, column in columns.items()}
        radius = "exact" if value["exact"] else f"{(value['upper'] - value['lower']) / 2:,.4g}"
        cells = [str(value[name]) for name in (query, "rank", atom)]
        cells += [f"{value['score']:,.6g}", radius, f"{value['n_multiplies']:,}"]
        cells += [f"{value['bytes_read']:,}"] if on_disk else []
        table.add_row(*cells, value["stop_reason"], end_section=value["rank"] == k)
    Console().print(table)
