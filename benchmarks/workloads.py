"""What is searched, by what, and what it should reach."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips import datasets
from benchmarks.goals import Goal
from benchmarks.ours import Ours
from benchmarks.peers import FLAT, GRAPHS

__all__ = ["ML_100K", "WORKLOADS", "Instance", "Scale", "Workload", "many_queries"]

ML_100K = Path(os.environ.get("BANDITMIPS_ML100K", Path(__file__).parents[2] / "shared" / "data" / "ml-100k"))
MOVIE_SIGMA, NORMAL_SIGMA = 25.0, 1.0
"""The paper's sub-Gaussian parameters for ratings and for normal data (its appendix on experimental settings)."""
_N_LARGEST = 64
"""Entries left out of the query that warms up, see `_one_query`."""


@dataclass(frozen=True)
class Scale:
    """How much is measured.

    Attributes
    ----------
    n_queries, repeats
        Queries of a workload, and how often each is asked.
    n_seeds
        Datasets of a kind that has one query.
    budget
        Seconds for one way of answering on one workload.
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
            return cls(True, n_queries=32, repeats=5, n_seeds=4, budget=3.0, threads=threads)
        return cls(False, n_queries=64, repeats=15, n_seeds=8, budget=12.0, threads=threads)


@dataclass(frozen=True)
class Instance:
    """Atoms, the requests to them, and another request to warm up with."""

    atoms: NDArray[Any]
    requests: list[NDArray[Any]]
    warm_up: NDArray[Any]


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
    sigma
        The paper's parameter, where the authors' method takes part.
    graph_goals
        Whether we are to be ahead of the graphs at equal recall, and 50 times cheaper to fit than they to build.
    """

    name: str
    title: str
    make: Make
    ours: tuple[Ours, ...]
    peers: tuple[str, ...] = FLAT
    slow_peers: tuple[str, ...] = ()
    sigma: float | None = None
    graph_goals: bool = False
    repeats: int = 1
    """Repeats for each of the scale's: more where a request is short, or where there is one for each dataset."""


def many_queries(name: str, n: int, d: int, more: int = 1, path: Path | None = None) -> Make:
    """One dataset with `more` times the usual number of queries."""

    def make(scale: Scale) -> Iterator[Instance]:
        given = {} if path is None else {"path": path}
        data = datasets.load(name, n=n, d=d, n_queries=more * scale.n_queries, **given)
        requests = list(data.queries)
        yield Instance(data.atoms, requests, requests[-1])

    return make


def _one_query(name: str, n: int, d: int) -> Make:
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
            yield Instance(data.atoms, [query], opposite)
            del data  # before the next one is made

    return make


def _batch(n: int, d: int, size: int) -> Make:
    def make(scale: Scale) -> Iterator[Instance]:
        data = datasets.load("ratings", n=n, d=d, n_queries=size)
        yield Instance(data.atoms, [data.queries], np.ascontiguousarray(data.queries[::-1]))

    return make


def _embeddings(n: int, quick_n: int, d: int) -> Make:
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
        yield Instance(atoms, list(queries), queries[-1])

    return make


def _speed_up(limit: float | None = None) -> tuple[Goal, ...]:
    return (Goal("speed_up", limit),)


def _hopeless(n: int, d: int) -> Workload:
    goals = (Goal("of_reference", 1.1),)
    return Workload(
        f"symmetric-{n}x{d}",
        "SymmetricNormal",
        many_queries("symmetric_normal", n, d),
        ours=(Ours("fitted", True, goals), Ours("no fit", False, goals)),
    )


def _small(n: int, d: int) -> Workload:
    goals = (Goal("added_us", 20.0),)
    return Workload(
        f"small-{n}x{d}",
        "small matrix",
        many_queries("normal_custom", n, d),
        ours=(Ours("fitted", True, goals), Ours("no fit", False, goals)),
        repeats=10,
    )


def _by_layout(goal: float, full_goal: float) -> tuple[Ours, ...]:
    return (
        Ours("layout=coordinates", True, _speed_up(goal), {"layout": "coordinates"}),
        Ours("layout=full", True, _speed_up(full_goal), {"layout": "full"}),
    )


_LOOSE = {"rescore": False}

WORKLOADS = (
    Workload(
        "ratings-4000x6000",
        "ratings",
        many_queries("ratings", 4_000, 6_000, more=2),
        ours=(Ours("fitted", True, _speed_up(100)), Ours("no fit", False, _speed_up(3))),
        peers=FLAT + GRAPHS,
        sigma=MOVIE_SIGMA,
        graph_goals=True,
    ),
    Workload(
        "ratings-1000x100000",
        "ratings",
        many_queries("ratings", 1_000, 100_000),
        ours=(Ours("fitted", True, _speed_up(500)), Ours("no fit", False, _speed_up(30))),
    ),
    Workload(
        "ratings-100x1000000",
        "ratings",
        many_queries("ratings", 100, 1_000_000),
        ours=(
            Ours("fitted, rescore=False", True, _speed_up(2_000), _LOOSE),
            Ours("fitted, rescored", True, _speed_up()),
            Ours("no fit, rescore=False", False, _speed_up(200), _LOOSE),
            Ours("no fit, rescored", False, _speed_up()),
        ),
    ),
    Workload(
        "correlated-1000x50000",
        "CORRELATED_NORMAL_CUSTOM",
        _one_query("correlated_normal_custom", 1_000, 50_000),
        ours=(Ours("fitted", True, _speed_up(500)),),
        sigma=NORMAL_SIGMA,
        repeats=4,
    ),
    Workload(
        "normal-1000x100000",
        "NORMAL_CUSTOM",
        many_queries("normal_custom", 1_000, 100_000, more=2),
        ours=(Ours("fitted", True, (Goal("speed_up", 100), Goal("p95_of_reference", 1.1))),),
        sigma=NORMAL_SIGMA,
    ),
    Workload(
        "heavy-1000x50000",
        "heavy-tailed queries",
        _one_query("heavy_tailed", 1_000, 50_000),
        ours=_by_layout(20, 50),
        repeats=4,
    ),
    Workload(
        "pixels-667x60000",
        "pixels as atoms",
        many_queries("pixels", 667, 60_000),
        ours=_by_layout(20, 100),
    ),
    _hopeless(1_000, 10_000),
    _hopeless(4_000, 6_000),
    _small(10, 10),
    _small(100, 100),
    _small(1_000, 100),
    _small(100, 1_000),
    _small(1_000, 1_000),
    _small(100, 10_000),
    _small(10_000, 100),
    Workload(
        "batch-256",
        "batch of 256 queries, ratings",
        _batch(4_000, 6_000, 256),
        ours=(Ours("fitted", True, _speed_up(10)),),
    ),
    Workload(
        "movielens-100k",
        "MovieLens 100K imputed",
        many_queries("movielens_100k", 1_600, 943, path=ML_100K),
        ours=(Ours("fitted", True), Ours("no fit", False)),
        peers=FLAT + GRAPHS,
        sigma=MOVIE_SIGMA,
    ),
    Workload(
        "many-short-atoms",
        "many short atoms",
        _embeddings(1_000_000, 200_000, 256),
        ours=(Ours("fitted", True), Ours("no fit", False)),
        peers=(*FLAT, "scann"),
        slow_peers=("hnswlib",),
    ),
)
"""In the order in which they run and are printed."""
