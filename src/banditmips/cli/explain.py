"""``banditmips explain``: how the planner would answer the queries of a file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from banditmips._index import BanditMIPS
from banditmips._opening import DEFAULT_MEMORY_LIMIT
from banditmips._query import AtomSet
from banditmips._search import explain_query
from banditmips._validate import Options
from banditmips.cli import _options as given
from banditmips.cli._console import announcing_compilation
from banditmips.cli.search import naming_files, read_matrices

__all__ = ["explain"]


def explain(
    atoms: given.Atoms,
    queries: given.Queries,
    k: given.K = 10,
    delta: given.Delta = 1e-3,
    fit: given.Fit = True,
    most: Annotated[int, typer.Option("--most", min=1, help="Queries to explain, from the first on.")] = 3,
    rescore: given.Rescore = True,
    sampling: given.Sampling = "auto",
    key: given.Key = None,
    query_key: given.QueryKey = None,
    header: given.Header = None,
    memory_limit: given.MemoryLimit = DEFAULT_MEMORY_LIMIT,
) -> None:
    """Show how queries would be answered: by the full product or by a race, on which coordinates, and why.

    The costs are nanoseconds measured on this machine; BANDITMIPS_COSTS overrides them.
    """
    with naming_files(atoms=atoms, queries=queries), announcing_compilation():
        options: dict[str, Any] = {"delta": delta, "rescore": rescore, "sampling": sampling}
        Options(**options)  # a mistake should not wait for large files to be read
        store, query_matrix = read_matrices(atoms, queries, key, query_key, header, memory_limit)
        if fit:
            index = BanditMIPS(**options).fit(store)
            print(f"index: {index.extra_bytes:,} bytes beside the atoms")
            texts = [index.explain(query, k) for query in query_matrix[:most]]
        else:
            atom_set = AtomSet(store)
            texts = [explain_query(atom_set, query, k, Options(**options)) for query in query_matrix[:most]]
        from banditmips.race.costs import costs

        print("costs (ns): " + ", ".join(f"{name} {value:.3g}" for name, value in asdict(costs()).items()))
    for number, text in enumerate(texts):
        print(f"\nquery {number}")
        print("  " + text.replace("\n", "\n  "))
