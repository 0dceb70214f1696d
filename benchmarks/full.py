"""Full passes over all atoms with NumPy and SciPy: what somebody writes who has no index."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.searchers import Problem, Searcher

__all__ = ["best_of", "build_blas", "build_scipy"]

_BLOCK_ENTRIES = 1 << 17
"""Differences that are held at once, so that they stay in a cache."""


def best_of(scores: NDArray[Any], k: int) -> NDArray[Any]:
    """Return the k best of each row of scores, best first."""
    if k == 1:
        return np.asarray(np.argmax(scores, axis=-1))
    k = min(k, scores.shape[-1])
    best = np.argpartition(scores, scores.shape[-1] - k, axis=-1)[..., scores.shape[-1] - k :]
    order = np.argsort(-np.take_along_axis(scores, best, axis=-1), axis=-1)
    return np.take_along_axis(best, order, axis=-1)


def build_blas(atoms: NDArray[Any], threads: int, problem: Problem) -> Searcher:
    """Answer by one matrix product. The threads were set before NumPy was imported."""
    if problem.objective == "neg_l1":
        return Searcher(lambda request, k: best_of(_neg_l1(atoms, request), k), extra_bytes=0)
    if problem.objective == "inner_product":
        return Searcher(lambda request, k: best_of(_products(atoms, request), k), extra_bytes=0)
    known = _squared_norms(atoms) if problem.norms_known else None

    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        products, squares = _products(atoms, request), _squared_norms(atoms) if known is None else known
        scores = products / np.sqrt(squares) if problem.objective == "cosine" else 2.0 * products - squares
        return best_of(scores, k)

    return Searcher(search, extra_bytes=0 if known is None else known.nbytes)


def build_scipy(atoms: Any, threads: int, problem: Problem) -> Searcher:
    """Answer by the product of a sparse matrix with dense queries."""

    def search(request: NDArray[Any], k: int) -> NDArray[Any]:
        return best_of(atoms @ request if request.ndim == 1 else (atoms @ request.T).T, k)

    return Searcher(search, extra_bytes=0)


def _products(atoms: NDArray[Any], request: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(atoms @ request if request.ndim == 1 else request @ atoms.T)


def _squared_norms(atoms: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.einsum("ij,ij->i", atoms, atoms))


def _neg_l1(atoms: NDArray[Any], request: NDArray[Any]) -> NDArray[Any]:
    """In blocks of rows that stay in a cache: one difference of all atoms would go through memory three times."""
    n, d = atoms.shape
    queries = np.atleast_2d(request)
    scores = np.empty((len(queries), n), dtype=np.float32)
    step = max(1, _BLOCK_ENTRIES // d)
    differences = np.empty((step, d), dtype=np.float32)
    for start in range(0, n, step):
        block = atoms[start : start + step]
        for query, own in zip(queries, scores, strict=True):
            part = np.subtract(block, query, out=differences[: len(block)])
            np.abs(part, out=part).sum(axis=1, out=own[start : start + len(block)])
    np.negative(scores, out=scores)
    return scores[0] if request.ndim == 1 else scores
