"""The workloads on data that is drawn: where the method should be far ahead, and where it cannot be ahead at all."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.goals import Goals
from benchmarks.ours import Ours
from benchmarks.peers import FLAT, GRAPHS
from benchmarks.workloads import Asked, Workload, embeddings, many_queries, one_query

__all__ = ["ML_100K", "WORKLOADS"]

ML_100K = Path(os.environ.get("BANDITMIPS_ML100K", Path(__file__).parents[2] / "shared" / "data" / "ml-100k"))
MOVIE_SIGMA, NORMAL_SIGMA = 25.0, 1.0
"""The paper's sub-Gaussian parameters for ratings and for normal data (its appendix on experimental settings)."""
_BOTH = (Ours("fitted", True), Ours("no fit", False))
_FEW = {"minimise": "multiplies", "rescore": False}
_FEW_LABEL = "minimise=multiplies, rescore=False"
_BATCH = 64
_BATCHES = (Asked(), Asked(10), Asked(100), Asked(1, _BATCH), Asked(10, _BATCH))


def _fitted(warm: float | None = None, cold: float | None = None, p95: float | None = None) -> tuple[Ours, ...]:
    return (Ours("fitted", True, {"": Goals(warm, cold, p95)}), Ours("no fit", False))


def _hopeless(n: int, d: int) -> Workload:
    return Workload(
        f"symmetric-{n}x{d}",
        "SymmetricNormal",
        many_queries("symmetric_normal", n, d, least=_BATCH),
        _BOTH,
        every=(Asked(), Asked(10), Asked(1, _BATCH), Asked(10, _BATCH)),
        quick=(Asked(), Asked(10, _BATCH)),
    )


def _small(n: int, d: int) -> Workload:
    goals = {"": Goals(added_us=2.0)}
    return Workload(
        f"small-{n}x{d}",
        "small matrix",
        many_queries("normal_custom", n, d),
        ours=(Ours("fitted", True, goals), Ours("no fit", False, goals)),
        repeats=4,
    )


WORKLOADS = (
    Workload(
        "ratings-4000x6000",
        "ratings",
        many_queries("ratings", 4_000, 6_000),
        _fitted(500, 150),
        peers=FLAT + GRAPHS,
        sigma=MOVIE_SIGMA,
        graph_goals=True,
    ),
    Workload("ratings-1000x100000", "ratings", many_queries("ratings", 1_000, 100_000), _fitted(500, 200)),
    Workload(
        "ratings-100x1000000",
        "ratings",
        many_queries("ratings", 100, 1_000_000),
        ours=(
            Ours(
                "layout=coordinates, rescore=False",
                True,
                {"": Goals(2_500, 500)},
                {"layout": "coordinates", "rescore": False},
            ),
            *_BOTH,
            Ours(f"no fit, {_FEW_LABEL}", False, options=_FEW),
        ),
    ),
    Workload(
        "correlated-1000x50000",
        "CORRELATED_NORMAL_CUSTOM",
        one_query("correlated_normal_custom", 1_000, 50_000),
        _fitted(500, 150),
        sigma=NORMAL_SIGMA,
        repeats=4,
    ),
    Workload(
        "normal-1000x20000",
        "NORMAL_CUSTOM",
        many_queries("normal_custom", 1_000, 20_000, least=_BATCH),
        ours=(
            Ours(
                "fitted",
                True,
                {
                    "k = 10": Goals(40),
                    "k = 100": Goals(10),
                    "k = 1, batch of 64": Goals(30),
                    "k = 10, batch of 64": Goals(10),
                },
            ),
            Ours("no fit", False),
        ),
        every=_BATCHES,
        sigma=NORMAL_SIGMA,
    ),
    Workload(
        "heavy-1000x50000",
        "heavy-tailed queries",
        one_query("heavy_tailed", 1_000, 50_000),
        ours=(*_BOTH, Ours("layout=coordinates", True, options={"layout": "coordinates"})),
        repeats=4,
    ),
    Workload("pixels-667x60000", "pixels as atoms", many_queries("pixels", 667, 60_000), _BOTH),
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
        "movielens-100k",
        "MovieLens 100K imputed",
        many_queries("movielens_100k", 1_600, 943, path=ML_100K),
        _BOTH,
        peers=FLAT + GRAPHS,
        sigma=MOVIE_SIGMA,
    ),
    Workload(
        "many-short-atoms",
        "many short atoms",
        embeddings(1_000_000, 200_000, 256),
        ours=(Ours("fitted", True, {"": Goals(1)}), Ours("no fit", False)),
        every=(Asked(), Asked(10)),
        quick=(Asked(),),
        slow_peers=("faiss_rabitq", "faiss_rabitq_fastscan", "scann", "hnswlib"),
    ),
)
"""In the order in which they run and are printed."""
