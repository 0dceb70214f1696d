"""Speed-up over the full product for many shapes: where the race wins, and where BLAS does."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.ours import Ours
from benchmarks.peers import FLAT
from benchmarks.runner import Outcome, run_workload
from benchmarks.workloads import Scale, Workload, many_queries

__all__ = ["NAME", "WAYS", "run_grid", "shapes"]

NAME = "grid"
WAYS = (Ours("fitted", True), Ours("no fit", False))
_BUDGET, _QUERIES = 0.5, 16
"""Seconds for one way of answering in one cell, and queries of a cell: a chart needs no fourth digit."""
_LARGE = 1 << 30
"""Bytes of atoms from which FAISS, which copies them, is left out; both are limited by memory there, and equal."""


def shapes(quick: bool) -> list[tuple[int, int]]:
    """Return the (n, d) of the grid."""
    sizes_n = (10, 100, 1_000) if quick else (10, 100, 1_000, 10_000)
    sizes_d = (100, 1_000, 10_000, 100_000) if quick else (100, 1_000, 10_000, 100_000, 1_000_000)
    return [(n, d) for n in sizes_n for d in sizes_d if d < 1_000_000 or n <= 100]


def run_grid(scale: Scale, cells: list[tuple[int, int]] | None = None, missing: tuple[str, ...] = ()) -> Outcome:
    """Measure ratings-like atoms of every shape."""
    outcome = Outcome()
    small = replace(scale, n_queries=min(_QUERIES, scale.n_queries), budget=min(_BUDGET, scale.budget))
    for n, d in shapes(scale.quick) if cells is None else cells:
        measured = run_workload(_cell(n, d), small, missing)
        outcome.records += measured.records
    return outcome


def _cell(n: int, d: int) -> Workload:
    peers = FLAT if 4 * n * d < _LARGE else FLAT[:1]
    return Workload(NAME, "ratings", many_queries("ratings", n, d), WAYS, peers)
