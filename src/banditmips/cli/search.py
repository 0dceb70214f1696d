"""``banditmips search``: the best atoms for the queries of a file."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from banditmips._index import BanditMIPS
from banditmips._opening import DEFAULT_MEMORY_LIMIT, open_atoms
from banditmips._result import SearchResult
from banditmips._search import search as search_atoms
from banditmips._tables import check_output, read_matrix, result_columns, write_columns, write_csv
from banditmips._validate import Options
from banditmips.cli import _options as given
from banditmips.cli._console import announcing_compilation, duration, on_terminal, say, working

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore

__all__ = ["check_output_file", "naming_files", "read_matrices", "search"]

FIT_FROM = 120
"""Queries from which on an index is fitted unless the user says otherwise. On ratings of 4,000 x 6,000 a fit took 49 ms
and saved each query 0.41 of 0.49 ms, so it had paid after 120."""


def search(
    atoms: given.Atoms,
    queries: given.Queries,
    k: given.K = 10,
    delta: given.Delta = 1e-3,
    output: given.Output = None,
    seed: given.Seed = 0,
    jobs: given.Jobs = 1,
    fit: given.Fit = None,
    key: given.Key = None,
    query_key: given.QueryKey = None,
    header: given.Header = None,
    memory_limit: given.MemoryLimit = DEFAULT_MEMORY_LIMIT,
    objective: given.Objective = "inner_product",
    absolute: given.Absolute = False,
    epsilon: given.Epsilon = 0.0,
    budget: given.Budget = None,
    rescore: given.Rescore = True,
    sampling: given.Sampling = "auto",
    beta: given.Beta = 0.5,
    replacement: given.Replacement = False,
    bound: given.Bound = "paired",
    sigma: given.Sigma = None,
    value_range: given.ValueRange = None,
) -> None:
    """Find the k atoms with the largest inner product with each query.

    Prints a table on a terminal, and CSV into a pipe. Ranks count from 1; queries, atoms, rows and columns from 0.

    With fewer than k atoms, the ranks left over have index -1 and score -inf (null in JSON).
    """
    options: dict[str, Any] = {
        "delta": delta,
        "epsilon": epsilon,
        "objective": objective,
        "sampling": sampling,
        "beta": beta,
        "bound": bound,
        "sigma": _as_sigma(sigma),
        "value_range": value_range,
        "replacement": replacement,
        "absolute": absolute,
        "budget": budget,
        "rescore": rescore,
        "seed": seed,
        "n_jobs": jobs,
        "progress": on_terminal(),
    }
    with naming_files(atoms=atoms, queries=queries):
        Options(**options)  # a mistake should not wait for large files to be read
        if output is not None:
            check_output_file(output, Path(atoms), queries)
        store, query_matrix = read_matrices(atoms, queries, key, query_key, header, memory_limit)
        is_fitted = query_matrix.shape[0] >= _fit_from(store) if fit is None else fit
        result = _run(store, query_matrix, k, options, is_fitted)
    if output is not None:
        write_columns(output, result_columns(result))
        say(f"written to {output}")
    elif sys.stdout.isatty():
        _print_table(result)
    else:
        write_csv(sys.stdout, result_columns(result))
        sys.stdout.flush()


def _fit_from(store: AtomStore) -> int:
    """How many queries make an index worth its while: where atoms lie on disk, fitting reads them as a search may."""
    from banditmips.atoms import PartStore
    from banditmips.atoms.packed import PackedStore

    return 2 if isinstance(store, (PartStore, PackedStore)) else FIT_FROM


def _as_sigma(text: str | None) -> float | str | None:
    """Return the number that was given; the library knows what to say about anything else."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


@contextmanager
def naming_files(**files: str | Path) -> Iterator[None]:
    """Name the file (or option) where the library's message begins with the argument that came from it."""
    try:
        yield
    except ValueError as error:
        name, _, rest = re.sub(r" \(argument '\w+'.*\)$", "", str(error)).partition(" ")
        raise ValueError(f"{files.get(name, name)} {rest}") from error


def check_output_file(output: Path, *inputs: Path) -> None:
    check_output(output)
    for path in inputs:
        if output.exists() and path.exists() and output.samefile(path):
            raise ValueError(f"{output} is read by this search: choose another file for its results")


def read_matrices(
    atoms: str,
    queries: Path,
    key: str | None,
    query_key: str | None,
    header: bool | None,
    memory_limit: int | None = None,
) -> tuple[Any, Any]:
    """Read atoms and queries; with a limit to the memory, the atoms come as a store."""
    store: Any
    with working(f"reading {Path(atoms).name}"):
        if memory_limit is None:
            store = read_matrix(atoms, key, header=header)
        else:
            store = open_atoms(atoms, dataset=key, memory_limit=memory_limit, header=header)
    with working(f"reading {queries.name}"):
        query_matrix = read_matrix(queries, query_key, header=header, allow_vector=True)
    n_atom_columns, n_query_columns = store.shape[1], query_matrix.shape[1]
    if n_atom_columns != n_query_columns:
        raise ValueError(f"{queries} has {n_query_columns} columns, but {atoms} has {n_atom_columns}")
    return store, query_matrix


def _run(atoms: AtomStore, queries: Any, k: int, options: dict[str, Any], is_fitted: bool) -> SearchResult:
    """Search, and say on stderr what it took."""
    fitted = ""
    with announcing_compilation():
        start = time.perf_counter()
        index = None
        if is_fitted:
            with working("fitting an index"):
                index = BanditMIPS(**options).fit(atoms)
            fitted = f"an index fitted in {duration(time.perf_counter() - start)}, "
            start = time.perf_counter()
        result = search_atoms(atoms, queries, k, **options) if index is None else index.search(queries, k)
        seconds = time.perf_counter() - start
    (n, d), m = atoms.shape, queries.shape[0]
    asked = f"{m:,} {'query' if m == 1 else 'queries'}"
    say(f"{n:,} x {d:,} atoms, {asked}: {fitted}searched in {duration(seconds)} (with loading the kernels)")
    if m:
        n_multiplies = int(np.sum(result.n_multiplies))
        stops = ", ".join(f"{count:,} {reason}" for reason, count in Counter(result.stop_reason).most_common())
        say(f"{n_multiplies:,} multiplies, {100 * n_multiplies / (m * n * d):.3g} % of m*n*d; stopped: {stops}")
        n_bytes = int(np.sum(result.bytes_read))
        if n_bytes:
            share = 100 * n_bytes / (m * n * d * atoms.dtype.itemsize)
            say(f"{n_bytes:,} bytes read, {share:.3g} % of those of all atoms for each query")
    return result


def _print_table(result: SearchResult) -> None:
    from rich.console import Console
    from rich.table import Table

    on_disk = bool(np.any(result.bytes_read))
    table = Table(
        "query", "rank", "index", "score", "give or take", "multiplies", *(["bytes read"] if on_disk else []), "stopped"
    )
    for column in table.columns[:-1]:
        column.justify = "right"
    columns = result_columns(result)
    for row in zip(*(column.tolist() for column in columns.values()), strict=True):
        query, rank, index, score, lower, upper, is_exact, n_multiplies, bytes_read, reason = row
        radius = "exact" if is_exact else f"{(upper - lower) / 2:,.4g}"
        is_last = rank == result.indices.shape[1]
        work = [f"{n_multiplies:,}", *([f"{bytes_read:,}"] if on_disk else [])]
        table.add_row(f"{query}", f"{rank}", f"{index}", f"{score:,.6g}", radius, *work, reason, end_section=is_last)
    Console().print(table)
