"""Other ways of answering, each behind one small interface. One that cannot be imported is left out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.full import build_blas, build_scipy
from benchmarks.searchers import EFFORTS, Problem, Searcher

__all__ = ["CODES", "FLAT", "GRAPHS", "PEERS", "Peer", "missing_peers"]

_LINKS, _BUILD_EFFORT = 16, 100
"""Links of an atom and candidates while building, for all graphs: common choices, the same for each."""


@dataclass(frozen=True)
class Peer:
    """A way of answering that can be built for any atoms.

    Attributes
    ----------
    most_d
        Coordinates above which it cannot be had: a dense rotation is d x d.
    """

    name: str
    kind: str
    module: str
    build: Callable[[Any, int, Problem], Searcher]
    most_d: int | None = None

    def refusal(self, d: int) -> str | None:
        """Why it cannot be built for atoms of d coordinates, or None."""
        if self.most_d is not None and d > self.most_d:
            return f"its rotation is a dense {d:,} x {d:,} matrix"
        return None


def missing_peers() -> dict[str, str]:
    """Return the peers that cannot be imported here, with the reason."""
    missing = {}
    for key, peer in PEERS.items():
        try:
            importlib.import_module(peer.module)
        except ImportError as error:
            missing[key] = str(error)
    return missing


def _search_faiss(index: Any) -> Callable[[NDArray[Any], int], NDArray[Any]]:
    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        found: NDArray[Any] = index.search(request if request.ndim == 2 else request[np.newaxis], k)[1]
        return found

    return search


def _build_faiss_flat(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    import faiss

    faiss.omp_set_num_threads(threads)
    d = atoms.shape[1]
    rows = np.ascontiguousarray(atoms, dtype=np.float32)
    if problem.objective == "cosine":
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    metrics = {"neg_sqeuclidean": faiss.METRIC_L2, "neg_l1": faiss.METRIC_L1}
    index = faiss.IndexFlat(d, metrics.get(problem.objective, faiss.METRIC_INNER_PRODUCT))
    index.add(rows)
    return Searcher(_search_faiss(index), extra_bytes=4 * atoms.shape[0] * d)


def _build_faiss_hnsw(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    import faiss

    faiss.omp_set_num_threads(threads)
    index = faiss.IndexHNSWFlat(atoms.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BUILD_EFFORT
    index.add(atoms)

    def set_effort(effort: int) -> None:
        index.hnsw.efSearch = effort

    return Searcher(_search_faiss(index), set_effort)


def _build_rabitq(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    """Sign bits of a dense rotation with 8-bit queries, then exact products of the best candidates."""
    import faiss

    faiss.omp_set_num_threads(threads)
    d = atoms.shape[1]
    codes = faiss.IndexRaBitQ(d, faiss.METRIC_INNER_PRODUCT)
    codes.qb = 8
    rotated = faiss.IndexPreTransform(faiss.RandomRotationMatrix(d, d), codes)
    return _refined(faiss.IndexRefineFlat(rotated), atoms)


def _build_rabitq_fastscan(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    import faiss

    faiss.omp_set_num_threads(threads)
    d = atoms.shape[1]
    codes = faiss.IndexRaBitQFastScan(d, faiss.METRIC_INNER_PRODUCT)
    rotated = faiss.IndexPreTransform(faiss.RandomRotationMatrix(d, d), codes)
    return _refined(faiss.IndexRefineFlat(rotated), atoms)


def _refined(index: Any, atoms: NDArray[Any]) -> Searcher:
    index.train(atoms)
    index.add(atoms)

    def set_effort(effort: int) -> None:
        index.k_factor = float(effort)

    return Searcher(_search_faiss(index), set_effort)


def _build_hnswlib(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    import hnswlib

    index = hnswlib.Index("ip", atoms.shape[1])
    index.init_index(len(atoms), M=_LINKS, ef_construction=_BUILD_EFFORT, random_seed=0)
    index.set_num_threads(threads)
    index.add_items(atoms, num_threads=threads)

    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        try:
            found: NDArray[Any] = index.knn_query(request, min(k, len(atoms)))[0]
        except RuntimeError:  # its walk ended before it had found k atoms
            return np.full((len(np.atleast_2d(request)), k), -1)
        return found

    return Searcher(search, index.set_ef)


def _build_usearch(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    from usearch.index import Index

    index: Any = Index(ndim=atoms.shape[1], metric="ip", dtype="f32", connectivity=_LINKS, expansion_add=_BUILD_EFFORT)
    index.add(np.arange(len(atoms)), atoms, threads=threads)

    def set_effort(effort: int) -> None:
        index.expansion_search = effort

    return Searcher(lambda request, k: index.search(request, k, threads=threads).keys, set_effort)


def _build_scann(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
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

    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        ask = index.search if request.ndim == 1 else index.search_batched
        found: NDArray[Any] = ask(request, final_num_neighbors=k, **chosen)[0]
        # Fewer leaves, or candidates, than k give fewer answers.
        missing = [(0, 0)] * (found.ndim - 1) + [(0, k - found.shape[-1])]
        return np.pad(found.astype(np.int64), missing, constant_values=-1)

    return Searcher(search, set_effort)


PEERS = {
    "blas": Peer("NumPy BLAS", "flat", "numpy", build_blas),
    "scipy": Peer("scipy.sparse", "flat", "scipy", build_scipy),
    "faiss_flat": Peer("FAISS flat", "flat", "faiss", _build_faiss_flat),
    "faiss_rabitq": Peer("FAISS RaBitQ refined", "approximate", "faiss", _build_rabitq, most_d=2_048),
    "faiss_rabitq_fastscan": Peer(
        "FAISS RaBitQ FastScan refined", "approximate", "faiss", _build_rabitq_fastscan, most_d=2_048
    ),
    "faiss_hnsw": Peer("FAISS HNSW", "approximate", "faiss", _build_faiss_hnsw),
    "hnswlib": Peer("hnswlib", "approximate", "hnswlib", _build_hnswlib),
    "usearch": Peer("usearch", "approximate", "usearch", _build_usearch),
    "scann": Peer("ScaNN", "approximate", "scann", _build_scann),
}
FLAT = ("blas", "faiss_flat")
CODES = ("faiss_rabitq", "faiss_rabitq_fastscan")
GRAPHS = ("faiss_hnsw", "hnswlib", "usearch", "scann")
