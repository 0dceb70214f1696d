"""Batches for which no race pays: small ones, other objectives and dtypes, few huge entries. None may be behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.goals import Goals
from benchmarks.ours import Ours
from benchmarks.searchers import Problem
from benchmarks.workloads import Asked, Instance, Make, Scale, Workload, changed, many_queries, to_int8

__all__ = ["NAME", "batch_workloads"]

NAME = "batches"
_BATCH = 64
_ASKED = (Asked(1, _BATCH), Asked(10, _BATCH))
_SMALL = ((10, 10), (100, 100), (1_000, 100), (1_000, 1_000), (100, 10_000))
_LARGER = ((300, 2_000), (2_000, 20_000))
_OBJECTIVES = ("cosine", "neg_sqeuclidean", "neg_l1")
_DTYPES: tuple[tuple[str, Callable[[NDArray[Any]], NDArray[Any]]], ...] = (
    ("int8", to_int8),
    ("float16", lambda atoms: atoms.astype(np.float16)),
)


def batch_workloads(
    small: tuple[tuple[int, int], ...] = _SMALL, larger: tuple[tuple[int, int], ...] = _LARGER
) -> tuple[Workload, ...]:
    """Return a workload for each small shape, and for each objective, dtype and kind of atoms at the larger ones."""
    goals = {"": Goals(added_us=10.0)}
    found = [_workload("small", shape, _hopeless(*shape), goals=goals) for shape in small]
    for shape in larger:
        make = _hopeless(*shape)
        found += [_workload(objective, shape, make, Problem(objective)) for objective in _OBJECTIVES]
        found += [_workload(title, shape, changed(make, change)) for title, change in _DTYPES]
        found.append(_workload("huge entries", shape, _huge_entries(*shape), kind="Pareto"))
    return tuple(found)


def _workload(
    title: str,
    shape: tuple[int, int],
    make: Make,
    problem: Problem | None = None,
    goals: dict[str, Goals] | None = None,
    kind: str = "SymmetricNormal",
) -> Workload:
    n, d = shape
    ours = (Ours("fitted", True, goals or {}), Ours("no fit", False, goals or {}))
    name = f"{NAME}-{title.replace(' ', '-')}-{n}x{d}"
    return Workload(name, f"{kind}, {title}", make, ours, every=_ASKED, problem=problem or Problem())


def _hopeless(n: int, d: int) -> Make:
    return many_queries("symmetric_normal", n, d, least=_BATCH)


def _huge_entries(n: int, d: int) -> Make:
    """Atoms and queries with a few entries that are a thousand times as large as the others."""

    def make(scale: Scale) -> Iterator[Instance]:
        rng = np.random.default_rng(0)
        atoms, queries = (rng.pareto(1.1, size=(rows, d)).astype(np.float32) for rows in (n, _BATCH))
        yield Instance(atoms, queries, queries[-1])

    return make
