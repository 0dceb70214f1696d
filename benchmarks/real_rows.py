"""The workloads on real data: each set in row order and in column order, with everything that answers such requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse

from benchmarks.goals import Goals
from benchmarks.ours import Ours
from benchmarks.peers import CODES, FLAT
from benchmarks.real import SETS, load
from benchmarks.workloads import Asked, Instance, Make, Scale, Workload

__all__ = ["NAME", "graph_workloads", "real_workloads", "with_budget"]

NAME = "real"
_BATCH, _TINY_BATCH = 50, 5
_BUDGET = 0.6
"""Seconds for one way of answering one kind of request: there are three hundred of them."""
_SINGLE = (Asked(1), Asked(10), Asked(100))
_GRAPHS = ("hnswlib", "usearch")
_GOALS = {
    "genotypes": (60.0, 20.0),
    "gradients": (100.0, 50.0),
    "recordings": (50.0, 12.0),
    "images": (8.0, 5.0),
    "text": (0.9, 0.9),
}
"""Times as fast as the reference, at k = 1 and k = 10."""
_APPROXIMATE = {"images": (*CODES, *_GRAPHS)}
"""Where an approximate index is built in less than half a minute; RaBitQ's rotation is a dense d x d matrix anyhow."""


def real_workloads(tiny: bool = False) -> tuple[Workload, ...]:
    """Return two workloads for each set: its rows together in memory, and its columns."""
    return tuple(workload for name in SETS for workload in (_by_rows(name, tiny), _by_columns(name, tiny)))


def graph_workloads(tiny: bool = False) -> tuple[Workload, ...]:
    """Return long atoms beside graphs, whose builds take minutes: for full runs only."""
    return tuple(
        Workload(
            f"graphs-{name}",
            f"{name} beside graphs",
            _loaded(name, tiny, None),
            (Ours("fitted", True),),
            peers=("blas", *_GRAPHS),
            every=(Asked(1), Asked(10)),
            quick=(),
            graph_goals=True,
        )
        for name in ("recordings", "genotypes")
    )


def with_budget(scale: Scale) -> Scale:
    """Return the scale of this section, of which a full run takes at most twelve minutes."""
    return Scale(scale.quick, scale.n_queries, scale.repeats, scale.n_seeds, min(scale.budget, _BUDGET), scale.threads)


def _by_rows(name: str, tiny: bool) -> Workload:
    batch = _TINY_BATCH if tiny else _BATCH
    goals = {}
    if name in _GOALS:
        first, tenth = _GOALS[name]
        goals = {"k = 1": Goals(first), "k = 10": Goals(tenth)}
    sparse = name == "text"
    return Workload(
        f"{NAME}-{name}",
        name + (", CSR" if sparse else ""),
        _loaded(name, tiny, None),
        (Ours("fitted", True, goals), Ours("no fit", False)),
        peers=("scipy",) if sparse else FLAT,
        slow_peers=_APPROXIMATE.get(name, ()),
        every=(*_SINGLE, *(Asked(k, batch) for k in (1, 10, 100))),
        quick=(Asked(1), Asked(10)) if name in _LARGE else (Asked(1), Asked(10), Asked(10, batch)),
    )


_LARGE = ("genotypes", "gradients", "kmers")
"""Sets of more than 500 MB: a batch of them takes seconds, for everybody."""


def _by_columns(name: str, tiny: bool) -> Workload:
    sparse = name == "text"
    return Workload(
        f"{NAME}-{name}-columns",
        name + (", CSC" if sparse else ", Fortran order"),
        _loaded(name, tiny, scipy.sparse.csc_array if sparse else np.asfortranarray),
        (Ours("fitted", True), Ours("no fit", False)),
        peers=("scipy",) if sparse else FLAT,
        every=(*_SINGLE, Asked(10, _TINY_BATCH if tiny else _BATCH)),
        quick=() if name in _LARGE else (Asked(1),),
    )


def _loaded(name: str, tiny: bool, change: Callable[[Any], Any] | None) -> Make:
    def make(scale: Scale) -> Iterator[Instance]:
        atoms, queries = load(name, tiny=tiny)
        if not isinstance(queries, np.ndarray):
            queries = queries.toarray()  # sparse
        if change is not None:
            atoms = change(atoms)
        yield Instance(atoms, queries, queries[-1])

    return make
