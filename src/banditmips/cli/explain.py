"""``banditmips explain``: how the planner would answer the queries of a file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from banditmips.cli import _options as given
from banditmips.cli._console import parse_bytes
from banditmips.cli._errors import naming_files
from banditmips.cli.search import DEFAULT_K

__all__ = ["explain"]


def explain(
    atoms: given.Atoms,
    queries: given.Queries = None,
    k: given.K = None,
    delta: given.Delta = 1e-3,
    fit: given.Fit = True,
    most: Annotated[int, typer.Option("--most", min=1, help="Queries to explain, from the first on.")] = 3,
    rescore: given.Rescore = True,
    sampling: given.Sampling = "auto",
    id_column: given.IdColumn = None,
    query_id_column: given.QueryIdColumn = None,
    no_ids: given.NoIds = False,
    key: given.Key = None,
    query_key: given.QueryKey = None,
    header: given.Header = None,
    memory_limit: given.MemoryLimit = "256MiB",
) -> None:
    """Show how queries would be answered: by the full product or by a race, on which coordinates, and why.

    The costs are nanoseconds measured on this machine; BANDITMIPS_COSTS overrides them.
    """
    from banditmips._index import BanditMIPS
    from banditmips._queries import explain_query
    from banditmips._validate import Options, as_store
    from banditmips.cli._inputs import Reading, read_inputs, shown
    from banditmips.race.atom_set import AtomSet
    from banditmips.race.costs import costs

    files = {"atoms": shown(atoms), "queries": shown(queries), "memory_limit": "--memory-limit"}
    with naming_files(**files):
        options: dict[str, Any] = {"delta": delta, "rescore": rescore, "sampling": sampling}
        Options(**options)  # a mistake should not wait for large files to be read
        how = Reading(key, header, id_column, not no_ids, parse_bytes(memory_limit))
        inputs = read_inputs(atoms, queries, how, Reading(query_key, header, query_id_column, not no_ids))
        store, query_matrix = as_store(inputs.atoms.matrix), inputs.queries.matrix
        wanted = min(DEFAULT_K, store.shape[0]) if k is None else k
        if fit:
            index = BanditMIPS(**options).fit(store)
            print(f"index: {index.extra_bytes:,} bytes beside the atoms")
            texts = [index.explain(query, wanted) for query in query_matrix[:most]]
        else:
            atom_set = AtomSet(store)
            texts = [explain_query(atom_set, query, wanted, Options(**options)) for query in query_matrix[:most]]
        print("costs (ns): " + ", ".join(f"{name} {value:.3g}" for name, value in asdict(costs()).items()))
    for number, text in enumerate(texts):
        print(f"\nquery {number}")
        print("  " + text.replace("\n", "\n  "))
