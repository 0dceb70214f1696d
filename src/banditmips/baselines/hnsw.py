"""HNSW-MIPS: a walk on a hierarchical graph (Malkov and Yashunin 2016; Morozov and Babenko 2018)."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips.baselines._base import Baseline, Candidates, check_count

__all__ = ["HNSWMIPS"]

_STATISTICS_LOCK = threading.Lock()
"""FAISS keeps one set of statistics for the whole process: two searches at once would mix their counts."""
_ROUNDING = 1e-6
"""Relative width of a tie: FAISS gave equal atoms products up to 1.5e-7 apart, as it takes some rows four at a time."""


class HNSWMIPS(Baseline):
    """Walk greedily through a hierarchical graph (FAISS's HNSW) towards larger inner products with the query.

    Every atom is linked to atoms with which it has a large inner product (ip-NSW), on layers that thin out
    upwards. A query descends from the top layer to the best atom it finds, and explores the bottom layer from
    there, keeping the `ef_search` best atoms seen.

    A query costs d multiplies for each inner product that FAISS evaluates (its own count, plus the one with
    the entry point, which it leaves out), and d for each of the k atoms found: FAISS computes in float32, and
    these are scored once more in float64. So are the atoms in view that float32 cannot tell from the k-th: ties
    go to the smaller index, unless more atoms are tied than `ef_search` keeps in view.

    With ``ef_search >= n`` the walk sees every atom it can reach. That is all of them, and the search exact
    (to float32), if ``2 * M >= n - 1``, since no link is ever pruned then. With smaller `M` an atom that
    nobody keeps a link to, most likely one with a small norm, is never found, whatever the effort.

    Parameters
    ----------
    M : int, default 16
        Links of an atom on each layer, twice as many on the bottom one; at least 2.
    ef_construction : int, default 100
        Atoms kept in view while an atom's links are chosen.
    ef_search : int, default 32
        Atoms kept in view during a search (k if that is more); the parameter that trades accuracy for work.
    seed : int, default 0
        Seed of the atoms' layers.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).normal(size=(500, 50))
    >>> result = HNSWMIPS().fit(atoms).search(atoms[3])
    >>> result.indices, bool(result.n_multiplies < atoms.size)
    (array([3]), True)
    """

    key: ClassVar[str] = "hnsw"
    title: ClassVar[str] = "HNSW-MIPS"
    effort: ClassVar[str] = "ef_search"

    def __init__(self, *, M: int = 16, ef_construction: int = 100, ef_search: int = 32, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.M = check_count("M", M, minimum=2)
        self.ef_construction = check_count("ef_construction", ef_construction, minimum=1)
        self.ef_search = check_count("ef_search", ef_search, minimum=1)

    def _build(self, atoms: NDArray[Any]) -> None:
        faiss = _import_faiss()
        index = faiss.IndexHNSWFlat(atoms.shape[1], self.M, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.ef_construction
        index.hnsw.rng = faiss.RandomGenerator(self.seed)
        with _one_thread(faiss):
            index.add(_as_float32("atoms", atoms))
        self._index = index

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        faiss = _import_faiss()
        # FAISS itself would explore with ef_search < k and return k.
        n_in_view = max(self.ef_search, k)
        parameters = faiss.SearchParametersHNSW(efSearch=n_in_view)
        with _STATISTICS_LOCK:
            faiss.cvar.hnsw_stats.reset()
            # All atoms in view are asked for, since it costs no product: FAISS would choose among equals by its walk.
            products, found = self._index.search(
                _as_float32("queries", query[np.newaxis]), min(n_in_view, self._index.ntotal), params=parameters
            )
            n_products = faiss.cvar.hnsw_stats.ndis
        # Where the walk found fewer, FAISS gives the smallest single there is, and less than that is needed here.
        products = products[0].astype(np.float64)
        kth_product = float(products[k - 1])
        wanted = (products >= kth_product - _ROUNDING * abs(kth_product)) & (found[0] >= 0)
        entry_point = 1
        return Candidates(found[0][wanted], n_multiplies=(n_products + entry_point) * query.size)


@cache
def _import_faiss() -> Any:
    with warnings.catch_warnings():
        # Types made by SWIG have no __module__; Python 3.12 and later deprecate that, when they are made.
        warnings.filterwarnings(
            "ignore", message="builtin type .* has no __module__ attribute", category=DeprecationWarning
        )
        return require("faiss", extra="baselines", purpose="the baseline 'hnsw'")


@contextmanager
def _one_thread(faiss: Any) -> Iterator[None]:
    """Build with one thread: with several, the graph depends on which of them comes first."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def _as_float32(name: str, rows: NDArray[Any]) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        converted = np.ascontiguousarray(rows, dtype=np.float32)
    if not np.isfinite(converted).all():
        raise ValueError(f"{name} must fit into float32 for FAISS (at most 3.4e38), but has larger entries")
    return converted
