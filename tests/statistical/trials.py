"""Searches of one kind of data with many seeds, and the count of those that went wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from kinds import KINDS, N_QUERIES
from numpy.typing import NDArray
from scipy.stats import binomtest

import banditmips as bm

SIGNIFICANCE = 1e-4
RACING = {"minimise": "multiplies"}
"""By the clock, the full product of matrices as small as these wins, and nothing of the race would be tested."""


@dataclass(frozen=True)
class Way:
    """A way to search.

    Attributes
    ----------
    atoms
        ``fitted``, ``coordinates`` (`fit` with that layout), ``grown`` (`fit` of one half, `add` of the other) or
        ``bare`` (no index).
    least_share
        Share of its searches, over all kinds, that sampling must have decided.
    """

    least_share: float
    k: int = 1
    objective: str = "inner_product"
    atoms: str = "fitted"
    batch: bool = False
    options: dict[str, Any] = field(default_factory=lambda: dict(RACING))


@dataclass(frozen=True)
class Size:
    """Atoms, coordinates, datasets of a kind, and seeds for each query of each dataset."""

    n: int
    d: int
    n_datasets: int
    n_seeds: int

    def searches(self) -> Iterator[tuple[int, int, int]]:
        """Each search has a seed of its own, so that their failures are independent: dataset, query, seed."""
        for number in range(self.n_datasets):
            for seed in range(self.n_seeds * N_QUERIES):
                yield number, seed % N_QUERIES, seed


@dataclass
class Count:
    """How searches ended: `wrong` answers, `missed` intervals, `sampled` decisions, `estimated` scores among them."""

    searches: int = 0
    wrong: int = 0
    missed: int = 0
    sampled: int = 0
    estimated: int = 0

    def __add__(self, other: Count) -> Count:
        return Count(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@lru_cache(maxsize=8)
def dataset(name: str, n: int, d: int, number: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Atoms and queries; the same ones for every way and seed."""
    return KINDS[name].make(np.random.default_rng([sum(map(ord, name)), number]), n, d)


@lru_cache(maxsize=256)
def index_of(name: str, n: int, d: int, number: int, seed: int, atoms: str) -> bm.BanditMIPS:
    """Return a fitted index, which serves all ways of its `atoms` and all deltas."""
    rows, _ = dataset(name, n, d, number)
    index = bm.BanditMIPS(seed=seed, layout="coordinates" if atoms == "coordinates" else "auto")
    return index.fit(rows[: n // 2]).add(rows[n // 2 :]) if atoms == "grown" else index.fit(rows)


@lru_cache(maxsize=16)
def truth(name: str, n: int, d: int, number: int, objective: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scores in float64 and their rounding in the precision of the data, both of shape (queries, atoms)."""
    atoms, queries = dataset(name, n, d, number)
    lowest = (
        np.float32 if {"f"} & {atoms.dtype.kind, queries.dtype.kind} and "d" not in atoms.dtype.char else np.float64
    )
    eps, fine = 8 * float(np.finfo(lowest).eps), 8 * float(np.finfo(np.float64).eps)
    v, q = atoms.astype(np.float64), queries.astype(np.float64)
    lengths = np.linalg.norm(q, axis=1)[:, np.newaxis], np.linalg.norm(v, axis=1)
    if objective == "neg_sqeuclidean":
        scores = np.array([-((v - query) ** 2).sum(axis=1) for query in q])
        return scores, eps * np.abs(scores) + fine * (lengths[0] + lengths[1]) ** 2
    if objective == "neg_l1":
        scores = np.array([-np.abs(v - query).sum(axis=1) for query in q])
        return scores, eps * np.abs(scores)
    # BLAS may be wrong by more than what is allowed for here: where the data have double precision, sums take more.
    wide = np.longdouble if lowest is np.float64 else np.float64
    scores, rounding = (q.astype(wide) @ v.astype(wide).T).astype(np.float64), eps * (np.abs(q) @ np.abs(v).T)
    if objective == "cosine":
        product = np.maximum(lengths[0] * lengths[1], np.finfo(np.float64).tiny)
        return scores / product, rounding / product + 4.0 * eps * np.abs(scores) / product
    return scores, rounding


def is_wrong(found: NDArray[np.int64], scores: NDArray[np.float64], rounding: NDArray[np.float64]) -> bool:
    """Whether other atoms than the best were found; of ties, and of what rounding cannot tell apart, any will do."""
    if np.unique(found).size < found.size or found.min() < 0:
        return True
    best = np.argsort(-scores, kind="stable")[: found.size]
    shortfall = scores[best] - np.sort(scores[found])[::-1]
    return bool((shortfall > max(rounding[best].max(), rounding[found].max())).any())


def decided_by_sampling(result: bm.SearchResult, n: int) -> bool:
    """Whether half of the atoms were dropped by estimates, at the risk of being wrong."""
    return (
        result.stop_reason in ("separated", "finished_exactly", "epsilon")
        and result.delta_spent > 0
        and result.n_survivors <= n // 2
    )


def one_query(result: bm.SearchResult, row: int) -> bm.SearchResult:
    """One query's part of a batch's result."""
    per_query = ("indices", "scores", "lower", "upper", "exact", "n_multiplies", "n_rounds", "n_survivors")
    picked = {name: getattr(result, name)[row] for name in (*per_query, "stop_reason", "delta_spent")}
    return bm.SearchResult(**picked)


def count(name: str, way: Way, size: Size, delta: float) -> Count:
    """Search one kind of data, one way, with many seeds."""
    total = Count()
    for number, row, seed in size.searches():
        where = (name, size.n, size.d, number)
        atoms, queries = dataset(*where)
        options = {"k": way.k, "objective": way.objective, "delta": delta, **way.options}
        asked = queries if way.batch else queries[row]
        if way.atoms == "bare":
            result = bm.search(atoms, asked, seed=seed, **options)
        else:
            result = index_of(*where, seed, way.atoms).search(asked, **options)
        total += judged(one_query(result, row) if way.batch else result, where, row, way.objective)
    return total


def judged(result: bm.SearchResult, where: tuple[str, int, int, int], row: int, objective: str) -> Count:
    """Compare one answer with the truth. A score that is called exact has to be so, always."""
    all_scores, all_rounding = truth(*where, objective)
    scores, rounding = all_scores[row], all_rounding[row]
    true, slack, exact = scores[result.indices], rounding[result.indices], result.exact
    error = np.abs(result.scores - true)
    assert (error[exact] <= slack[exact]).all(), f"exact scores of {where} are off by {error[exact].max()}"
    outside = (true < result.lower - slack) | (true > result.upper + slack)
    return Count(
        searches=1,
        wrong=is_wrong(result.indices, scores, rounding),
        missed=bool(outside[~exact].any()),
        sampled=decided_by_sampling(result, where[1]),
        estimated=not exact.all(),
    )


def assert_rate_at_most(
    rate: float, happened: int, searches: int, what: str, significance: float = SIGNIFICANCE
) -> None:
    """One-sided binomial test of the null hypothesis that the true rate is at most `rate`."""
    chance = binomtest(happened, searches, rate, alternative="greater").pvalue
    assert chance > significance, f"{what}: {happened} of {searches} at delta = {rate} (chance {chance:.1e})"
