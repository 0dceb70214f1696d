"""What a workload is, and how its atoms and queries are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips import datasets
from benchmarks.ours import Ours
from benchmarks.peers import FLAT
from benchmarks.searchers import INNER_PRODUCT, Problem

__all__ = [
    "ONE",
    "Asked",
    "Instance",
    "Make",
    "Scale",
    "Workload",
    "changed",
    "embeddings",
    "many_queries",
    "one_query",
    "to_int8",
]

_N_LARGEST = 64
"""Entries left out of the query that warms up, see `one_query`."""


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes
    ----------
    n_queries, repeats
        Queries of a workload, and how often each is asked (a third of that cold).
    n_seeds
        Datasets of a kind that has one query.
    budget
        Seconds for one way of answering one kind of request, warm and cold each.
    """

    quick: bool
    n_queries: int
    repeats: int
    n_seeds: int
    budget: float
    threads: int = 1

    @classmethod
    def of(cls, quick: bool, threads: int) -> Scale:
        """Return the scale of a quick or of a full run."""
        if quick:
            return cls(True, n_queries=16, repeats=5, n_seeds=2, budget=0.15, threads=threads)
        return cls(False, n_queries=50, repeats=15, n_seeds=4, budget=1.0, threads=threads)


@dataclass(frozen=True)
class Instance:
    """Atoms, the queries to them, and another query to warm up with."""

    atoms: Any
    queries: NDArray[Any]
    warm_up: NDArray[Any]


@dataclass(frozen=True)
class Asked:
    """One kind of request: k atoms for one query at a time, or for `batch` of them at once."""

    k: int = 1
    batch: int | None = None

    def __str__(self) -> str:
        """Write it for the tables."""
        return f"k = {self.k}" + ("" if self.batch is None else f", batch of {self.batch}")

    def requests(self, instance: Instance, n_queries: int) -> tuple[list[NDArray[Any]], NDArray[Any]]:
        """Return what is asked (at most so many single queries), and what warms up."""
        if self.batch is None:
            return list(instance.queries[:n_queries]), instance.warm_up
        together = instance.queries[: self.batch]
        if len(together) < self.batch:
            raise ValueError(f"a batch of {self.batch} needs as many queries, got {len(together)}")
        return [together], np.ascontiguousarray(together[::-1])


ONE = (Asked(),)
Make = Callable[[Scale], Iterator[Instance]]


@dataclass(frozen=True)
class Workload:
    """Atoms and requests, with the ways of answering them.

    Attributes
    ----------
    title
        What the tables call it; the shape is added.
    make
        Yields the instances one after another, so that only one is in memory.
    peers
        Keys of `peers.PEERS`.
    slow_peers
        Peers whose build is too slow for a quick run.
    every, quick
        The kinds of requests, in a full and in a quick run (the same if it is None).
    sigma
        The paper's parameter, where the authors' method takes part.
    graph_goals
        Whether we are to be ahead of the graphs at equal recall, and 20 times cheaper to fit than they to build.
    repeats
        Repeats for each of the scale's: more where a request is short, or where there is one for each dataset.
    """

    name: str
    title: str
    make: Make
    ours: tuple[Ours, ...]
    peers: tuple[str, ...] = FLAT
    slow_peers: tuple[str, ...] = ()
    every: tuple[Asked, ...] = ONE
    quick: tuple[Asked, ...] | None = None
    problem: Problem = INNER_PRODUCT
    sigma: float | None = None
    graph_goals: bool = False
    repeats: int = 1

    def asked(self, scale: Scale) -> tuple[Asked, ...]:
        """Return the kinds of requests of a run."""
        return self.quick if scale.quick and self.quick is not None else self.every


def many_queries(
    name: str, n: int, d: int, *, quick_d: int | None = None, least: int = 1, path: Path | None = None
) -> Make:
    """One dataset with at least so many queries, and with shorter atoms in a quick run, if so asked."""

    def make(scale: Scale) -> Iterator[Instance]:
        given = {} if path is None else {"path": path}
        length = quick_d if scale.quick and quick_d is not None else d
        data = datasets.load(name, n=n, d=length, n_queries=max(least, scale.n_queries), **given)
        yield Instance(data.atoms, data.queries, data.queries[-1])

    return make


def one_query(name: str, n: int, d: int) -> Make:
    """Several datasets of one query each, to which the atoms are related.

    Each warms up with the opposite query without its largest entries. The atoms are related to that too, so it is
    answered in the same way; but other atoms win, other coordinates stand out, and it lies elsewhere in memory, so that
    nothing which belongs to the query alone is in a cache when the clock starts. (An unrelated query would have
    to be answered by BLAS, which leaves nothing in any cache: not the state of an index that is asked such queries.)
    """

    def make(scale: Scale) -> Iterator[Instance]:
        for seed in range(scale.n_seeds):
            data = datasets.load(name, n=n, d=d, seed=seed)
            query = data.queries[0]
            opposite = -query
            opposite[np.argsort(-np.abs(query))[:_N_LARGEST]] = 0.0
            yield Instance(data.atoms, query[np.newaxis], opposite)
            del data  # before the next one is made

    return make


def embeddings(n: int, quick_n: int, d: int) -> Make:
    """Short vectors in 1,000 clusters, as a neural network gives them: the usual work of approximate indexes."""

    def make(scale: Scale) -> Iterator[Instance]:
        rng = np.random.default_rng(0)
        centres = rng.standard_normal((1_000, d), dtype=np.float32)
        atoms = rng.standard_normal((quick_n if scale.quick else n, d), dtype=np.float32)
        for start in range(0, len(atoms), 1 << 14):
            block = atoms[start : start + (1 << 14)]
            block += centres[rng.integers(len(centres), size=len(block))]
        queries = centres[rng.integers(len(centres), size=scale.n_queries)]
        queries += rng.standard_normal(queries.shape, dtype=np.float32)
        yield Instance(atoms, queries, queries[-1])

    return make


def changed(make: Make, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Make:
    """The same with atoms in another dtype or order; queries are doubles where the atoms are."""

    def make_changed(scale: Scale) -> Iterator[Instance]:
        for instance in make(scale):
            atoms = change(instance.atoms)
            queries = instance.queries.astype(np.float64) if atoms.dtype == np.float64 else instance.queries
            yield Instance(atoms, queries, queries[-1])

    return make_changed


def to_int8(atoms: NDArray[Any]) -> NDArray[np.int8]:
    """Round to 127 steps of the largest entry."""
    return np.asarray(np.round(atoms * (127.0 / np.abs(atoms).max())), dtype=np.int8)
