"""``banditmips search``: the best atoms for the queries of a file."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from banditmips.cli import _options as given
from banditmips.cli._console import duration, on_terminal, parse_bytes, say, working
from banditmips.cli._errors import naming_files

if TYPE_CHECKING:
    from banditmips._result import SearchResult
    from banditmips.atoms import AtomStore

__all__ = ["DEFAULT_K", "as_sigma", "search", "tell_work"]

DEFAULT_K = 10
"""Atoms to find where the user does not say; all of them, if they are fewer."""

FIT_FROM = 120
"""Queries from which on an index is fitted unless the user says otherwise. On ratings of 4,000 x 6,000 a fit took 49 ms
and saved each query 0.41 of 0.49 ms, so it had paid after 120."""


def search(
    atoms: given.Atoms,
    queries: given.Queries = None,
    k: given.K = None,
    delta: given.Delta = 1e-3,
    output: given.Output = None,
    format: given.Format = None,
    seed: given.Seed = 0,
    jobs: given.Jobs = 1,
    fit: given.Fit = None,
    id_column: given.IdColumn = None,
    query_id_column: given.QueryIdColumn = None,
    no_ids: given.NoIds = False,
    key: given.Key = None,
    query_key: given.QueryKey = None,
    header: given.Header = None,
    memory_limit: given.MemoryLimit = "256MiB",
    objective: given.Objective = "inner_product",
    absolute: given.Absolute = False,
    ends: given.Ends = "largest",
    epsilon: given.Epsilon = 0.0,
    budget: given.Budget = None,
    minimise: given.Minimise = "time",
    rescore: given.Rescore = True,
    sampling: given.Sampling = "auto",
    beta: given.Beta = 0.5,
    replacement: given.Replacement = False,
    bound: given.Bound = "auto",
    sigma: given.Sigma = None,
    value_range: given.ValueRange = None,
) -> None:
    """Find the k atoms with the largest inner product with each query.

    Prints a table on a terminal, and CSV into a pipe. Ranks count from 1; queries, atoms, rows and columns from 0.

    Files of text, Parquet and Arrow may name their rows: a column of text, or one called id, is taken for ids, which
    then stand beside the indices. Text may be separated by commas, semicolons, tabs or spaces.

    With fewer than k atoms, the ranks left over have index -1 and score -inf (null in JSON).
    """
    from banditmips._validate import Options
    from banditmips.cli._inputs import Reading, read_inputs, shown
    from banditmips.cli._results import Destination, write_result

    options: dict[str, Any] = {
        "delta": delta,
        "epsilon": epsilon,
        "objective": objective,
        "sampling": sampling,
        "beta": beta,
        "bound": bound,
        "sigma": as_sigma(sigma),
        "value_range": value_range,
        "replacement": replacement,
        "absolute": absolute,
        "ends": ends,
        "budget": budget,
        "minimise": minimise,
        "rescore": rescore,
        "seed": seed,
        "n_jobs": jobs,
        "progress": on_terminal(),
    }
    with naming_files(atoms=shown(atoms), queries=shown(queries), memory_limit="--memory-limit"):
        Options(**options)  # a mistake should not wait for large files to be read
        destination = Destination.choose(output, format, atoms, queries)
        how = Reading(key, header, id_column, not no_ids, parse_bytes(memory_limit))
        query_how = Reading(query_key, header, query_id_column, not no_ids)
        inputs = read_inputs(atoms, queries, how, query_how)
        result = _run(_as_store(inputs.atoms.matrix), inputs.queries.matrix, k, options, fit)
    write_result(result, destination, inputs.atoms.ids, inputs.queries)


def _as_store(atoms: Any) -> AtomStore:
    from banditmips._validate import as_store

    return as_store(atoms)


def _fit_from(store: AtomStore) -> int:
    """How many queries make an index worth its while: where atoms lie on disk, fitting reads them as a search may."""
    from banditmips.atoms import PartStore
    from banditmips.atoms.packed import PackedStore

    return 2 if isinstance(store, (PartStore, PackedStore)) else FIT_FROM


def as_sigma(text: str | None) -> float | str | None:
    """Return the number that was given; the library knows what to say about anything else."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _run(atoms: AtomStore, queries: Any, k: int | None, options: dict[str, Any], fit: bool | None) -> SearchResult:
    """Search, and say on stderr what it took."""
    from banditmips._index import BanditMIPS
    from banditmips._search import search as search_atoms

    fitted = ""
    wanted = min(DEFAULT_K, atoms.shape[0]) if k is None else k
    is_fitted = queries.shape[0] >= _fit_from(atoms) if fit is None else fit
    start = time.perf_counter()
    index = None
    if is_fitted:
        with working("fitting an index"):
            index = BanditMIPS(**options).fit(atoms)
        fitted = f"an index fitted in {duration(time.perf_counter() - start)}, "
        start = time.perf_counter()
    result = search_atoms(atoms, queries, wanted, **options) if index is None else index.search(queries, wanted)
    seconds = time.perf_counter() - start
    tell_work(result, atoms.shape, atoms.dtype.itemsize, f"{fitted}searched in {duration(seconds)}")
    return result


def tell_work(result: SearchResult, shape: tuple[int, int], entry_bytes: int, how_long: str) -> None:
    """Say on stderr what a batch took."""
    (n, d), m = shape, result.indices.shape[0]
    asked = f"{m:,} {'query' if m == 1 else 'queries'}"
    say(f"{n:,} x {d:,} atoms, {asked}: {how_long}")
    if m:
        ends = [result] if result.smallest is None else [result, result.smallest]
        n_multiplies = sum(int(end.n_multiplies.sum()) for end in ends)
        reasons = Counter(reason for end in ends for reason in end.stop_reason)
        stops = ", ".join(f"{count:,} {reason}" for reason, count in reasons.most_common())
        say(f"{n_multiplies:,} multiplies, {100 * n_multiplies / (m * n * d):.3g} % of m*n*d; stopped: {stops}")
        n_bytes = sum(int(end.bytes_read.sum()) for end in ends)
        if n_bytes:
            share = 100 * n_bytes / (m * n * d * entry_bytes)
            say(f"{n_bytes:,} bytes read, {share:.3g} % of those of all atoms for each query")
