"""Other ways of answering, each behind one small interface. One that cannot be imported is left out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Search

__all__ = ["FLAT", "GRAPHS", "PEERS", "Peer", "Searcher", "missing_peers"]

EFFORTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Search efforts that are tried in turn until a graph's recall is at least ours."""
_LINKS, _BUILD_EFFORT = 16, 100
"""Links of an atom and candidates while building, for all graphs: common choices, the same for each."""


@dataclass
class Searcher:
    """Something that answers.

    Attributes
    ----------
    set_effort
        For an approximate index: how hard to search, one of `EFFORTS`. None for an exact one.
    extra_bytes
        Memory beside the atoms, where the index knows it.
    """

    search: Search
    set_effort: Callable[[int], None] | None = None
    extra_bytes: int | None = None
    setting: str = ""


@dataclass(frozen=True)
class Peer:
    """A way of answering that can be built for any atoms."""

    name: str
    kind: str
    module: str
    build: Callable[[NDArray[Any], int], Searcher]


def missing_peers() -> dict[str, str]:
    """Return the peers that cannot be imported here, with the reason."""
    missing = {}
    for key, peer in PEERS.items():
        try:
            importlib.import_module(peer.module)
        except ImportError as error:
            missing[key] = str(error)
    return missing


def _build_blas(atoms: NDArray[Any], threads: int) -> Searcher:
    # The threads were set before NumPy was imported.
    def search(request: NDArray[Any]) -> NDArray[Any]:
        if request.ndim == 1:
            return np.asarray(np.argmax(atoms @ request))
        return np.asarray(np.argmax(request @ atoms.T, axis=1))

    return Searcher(search, extra_bytes=0)


def _search_faiss(index: Any) -> Search:
    def search(request: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = index.search(request if request.ndim == 2 else request[np.newaxis], 1)[1]
        return found

    return search


def _build_faiss_flat(atoms: NDArray[Any], threads: int) -> Searcher:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatIP(atoms.shape[1])
    index.add(atoms)
    return Searcher(_search_faiss(index), extra_bytes=atoms.nbytes)


def _build_faiss_hnsw(atoms: NDArray[Any], threads: int) -> Searcher:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(atoms.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BUILD_EFFORT
    index.add(atoms)

    def set_effort(effort: int) -> None:
        index.hnsw.efSearch = effort

    return Searcher(_search_faiss(index), set_effort)


def _build_hnswlib(atoms: NDArray[Any], threads: int) -> Searcher:
    import hnswlib

    index = hnswlib.Index("ip", atoms.shape[1])
    index.init_index(len(atoms), M=_LINKS, ef_construction=_BUILD_EFFORT, random_seed=0)
    index.set_num_threads(threads)
    index.add_items(atoms, num_threads=threads)
    return Searcher(lambda request: index.knn_query(request, 1)[0], index.set_ef)


def _build_usearch(atoms: NDArray[Any], threads: int) -> Searcher:
    from usearch.index import Index

    index: Any = Index(ndim=atoms.shape[1], metric="ip", dtype="f32", connectivity=_LINKS, expansion_add=_BUILD_EFFORT)
    index.add(np.arange(len(atoms)), atoms, threads=threads)

    def set_effort(effort: int) -> None:
        index.expansion_search = effort

    return Searcher(lambda request: index.search(request, 1, threads=threads).keys, set_effort)


def _build_scann(atoms: NDArray[Any], threads: int) -> Searcher:
    from scann import scann_ops_pybind

    n = len(atoms)
    n_leaves = max(1, round(n**0.5))
    builder = scann_ops_pybind.builder(atoms, 1, "dot_product").set_n_training_threads(threads)
    builder = builder.tree(n_leaves, num_leaves_to_search=n_leaves, training_sample_size=min(n, 100_000))
    index = builder.score_ah(2, anisotropic_quantization_threshold=0.2).reorder(EFFORTS[-1]).build()
    chosen = {"leaves_to_search": n_leaves, "pre_reorder_num_neighbors": n}

    def set_effort(effort: int) -> None:
        # Candidates that are scored exactly, and in proportion to them the leaves that they come from.
        chosen["pre_reorder_num_neighbors"] = min(n, effort)
        chosen["leaves_to_search"] = min(n_leaves, max(1, effort // 8))

    return Searcher(lambda request: index.search(request, final_num_neighbors=1, **chosen)[0], set_effort)


PEERS = {
    "blas": Peer("NumPy BLAS", "flat", "numpy", _build_blas),
    "faiss_flat": Peer("FAISS flat", "flat", "faiss", _build_faiss_flat),
    "faiss_hnsw": Peer("FAISS HNSW", "graph", "faiss", _build_faiss_hnsw),
    "hnswlib": Peer("hnswlib", "graph", "hnswlib", _build_hnswlib),
    "usearch": Peer("usearch", "graph", "usearch", _build_usearch),
    "scann": Peer("ScaNN", "graph", "scann", _build_scann),
}
FLAT = ("blas", "faiss_flat")
GRAPHS = ("faiss_hnsw", "hnswlib", "usearch", "scann")
