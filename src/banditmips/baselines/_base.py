"""What every baseline shares: the contract, the checks of what is handed in, and the exact ranking."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from banditmips._padding import at_most, widened
from banditmips._result import SearchResult, StopReason
from banditmips._validate import _as_array, _check_atoms_shape, as_finite, as_queries, check_k

__all__ = [
    "Baseline",
    "Candidates",
    "check_atoms",
    "check_count",
    "check_queries",
    "check_real",
    "inner_products",
    "norms_of",
    "project",
]

_BLOCK_ENTRIES = 1 << 20
"""Entries converted to float64 at a time: 8 MB, so that atoms of another dtype are never copied whole."""


class Candidates(NamedTuple):
    """What a method's own part of a search found for one query.

    Attributes
    ----------
    indices
        The atoms that came into question, each once, in any order.
    n_multiplies
        Products that the method has spent so far. Leave out the exact ranking if `scores` is None.
    scores
        Inner products of the candidates, if the method has them already. If None, the base class computes
        them and adds d multiplies for each candidate.
    n_rounds
        Rounds, for methods that have some.
    radii
        Half the confidence interval of each score, 0 where it is exact; None if all scores are.
    delta_spent
        Failure probability that the method allowed itself; 0 for those that state none.
    """

    indices: NDArray[np.int64]
    n_multiplies: int
    scores: NDArray[np.float64] | None = None
    n_rounds: int = 0
    radii: NDArray[np.float64] | None = None
    delta_spent: float = 0.0


class Baseline(ABC):
    """A method for maximum inner product search: ``fit`` the atoms once, ``search`` many times.

    A method implements `_build` and `_query`; checks, exact ranking, padding and batches are done here.

    Parameters
    ----------
    seed : int, default 0
        Seed of whatever the method draws at random. The same seed gives the same answers, and a query alone
        gets what it gets in a batch.
    """

    key: ClassVar[str]
    """Name of the method in ``REGISTRY``."""
    title: ClassVar[str]
    """Name of the method for people to read."""
    effort: ClassVar[str]
    """The parameter that trades accuracy for work; empty if there is none."""

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = check_count("seed", seed, minimum=0)

    def fit(self, atoms: ArrayLike) -> Self:
        """Prepare to search these atoms, and return self.

        Parameters
        ----------
        atoms : array of shape (n, d), any real dtype
            Kept by reference: it is not changed here, and must not be changed by others while it is searched.
        """
        self._atoms = check_atoms(atoms)
        self._build(self._atoms)
        return self

    def search(self, queries: ArrayLike, k: int = 1) -> SearchResult:
        """Return the (approximately) k best atoms of each query.

        Parameters
        ----------
        queries : array of shape (d,) or (m, d)
            One query, or a batch of them.
        k : int, default 1
            How many atoms to return; places that no candidate fills get index -1 and score -inf.

        Returns
        -------
        SearchResult
            1-d fields for one query, 2-d fields for a batch. ``n_multiplies`` counts the products of
            coordinate pairs at query time, hashing and exact ranking included.
        """
        if not hasattr(self, "_atoms"):
            raise RuntimeError(f"{type(self).__name__} has no atoms to search: call fit(atoms) first")
        k = check_k(k)
        rows, single = check_queries(queries, self._atoms.shape[1])
        wanted = at_most(k, self._atoms.shape[0])
        results = [self._search_one(query, wanted) for query in rows]
        return widened(results[0] if single else SearchResult.stack(results), k)

    @abstractmethod
    def _build(self, atoms: NDArray[Any]) -> None:
        """Build whatever the method needs before it can search."""

    @abstractmethod
    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        """Find the candidates for one query; k is at most n here."""

    def _search_one(self, query: NDArray[np.float64], k: int) -> SearchResult:
        d = self._atoms.shape[1]
        found = self._query(query, k)
        candidates = np.asarray(found.indices, dtype=np.int64)
        n_multiplies = int(found.n_multiplies)
        if found.scores is None:
            candidate_scores = inner_products(self._atoms, query, candidates)
            n_multiplies += d * candidates.size
        else:
            candidate_scores = np.asarray(found.scores, dtype=np.float64)
        candidate_radii = np.zeros(candidates.size) if found.radii is None else found.radii

        best = np.lexsort((candidates, -candidate_scores))[:k]
        indices = np.full(k, -1, dtype=np.int64)
        scores = np.full(k, -np.inf)
        radii = np.zeros(k)
        indices[: best.size] = candidates[best]
        scores[: best.size] = candidate_scores[best]
        radii[: best.size] = candidate_radii[best]
        exact = radii == 0.0
        return SearchResult(
            indices=indices,
            scores=scores,
            lower=scores - radii,
            upper=scores + radii,
            exact=exact,
            n_multiplies=n_multiplies,
            n_rounds=int(found.n_rounds),
            n_survivors=int(candidates.size),
            stop_reason=StopReason.FINISHED_EXACTLY if exact.all() else StopReason.SEPARATED,
            delta_spent=float(found.delta_spent),
        )


def inner_products(
    atoms: NDArray[Any],
    query: NDArray[np.float64],
    indices: NDArray[np.int64] | None = None,
    coordinates: NDArray[np.int64] | None = None,
) -> NDArray[np.float64]:
    """Return the inner products of the query with some atoms (by default all), in float64.

    With `coordinates`, only the products of these coordinates are summed.

    Equal atoms get equal scores to the last bit, wherever they stand. BLAS does not promise that, and ties
    could then not be broken by index.
    """
    scores = np.empty(atoms.shape[0] if indices is None else indices.size)
    part = query if coordinates is None else query[coordinates]
    for rows, block in _float64_blocks(atoms, indices, coordinates):
        np.einsum("ij,j->i", block, part, out=scores[rows])
    return scores


def norms_of(atoms: NDArray[Any]) -> NDArray[np.float64]:
    """Return the Euclidean norm of each atom."""
    norms = np.empty(atoms.shape[0])
    for rows, block in _float64_blocks(atoms):
        norms[rows] = np.sqrt(np.einsum("ij,ij->i", block, block))
    return norms


def project(
    atoms: NDArray[Any], directions: NDArray[np.float64], indices: NDArray[np.int64] | None = None
) -> NDArray[np.float64]:
    """Return the inner products of every direction (rows) with some atoms (columns; by default all)."""
    projections = np.empty((directions.shape[0], atoms.shape[0] if indices is None else indices.size))
    for rows, block in _float64_blocks(atoms, indices):
        projections[:, rows] = directions @ block.T
    return projections


def check_atoms(atoms: ArrayLike) -> NDArray[Any]:
    """Return the atoms as a 2-d array of finite real numbers (no copy if they are one), or raise."""
    if scipy.sparse.issparse(atoms):
        raise TypeError(f"atoms must be a dense array for a baseline, got {type(atoms).__name__}")
    array = _as_array("atoms", atoms)
    _check_atoms_shape(array.shape)
    step = max(1, _BLOCK_ENTRIES // array.shape[1])
    for start in range(0, array.shape[0], step):
        finite = np.isfinite(array[start : start + step])
        if not finite.all():
            row, column = np.argwhere(~finite)[0] + (start, 0)
            raise ValueError(f"atoms has {array[row, column]} at row {row}, column {column} (argument 'atoms')")
    return array


def check_queries(queries: ArrayLike, d: int) -> tuple[NDArray[np.float64], bool]:
    """Return the queries as contiguous float64 of shape (m, d), and whether there was a single 1-d one, or raise."""
    rows, single = as_queries(queries, d)
    if len(rows) == 0:
        raise ValueError(f"queries is empty: shape {rows.shape} (argument 'queries')")
    converted = [as_finite(query, "" if single else f"row {row}, ") for row, query in enumerate(rows)]
    return np.stack(converted), single


def check_count(name: str, value: object, *, minimum: int) -> int:
    """Return an integer argument that is at least `minimum`, or raise."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, but came as {value!r} ({type(value).__name__})")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, but came as {value}")
    return int(value)


def check_real(
    name: str,
    value: object,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
) -> float:
    """Return a finite real argument within the bounds that are given, or raise."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a real number, but came as {value!r} ({type(value).__name__})")
    number = float(value)
    bounds = [
        (above is None or number > above, f"above {above}"),
        (at_least is None or number >= at_least, f"at least {at_least}"),
        (below is None or number < below, f"below {below}"),
        (bool(np.isfinite(number)), "finite"),
    ]
    for holds, bound in bounds:
        if not holds:
            raise ValueError(f"{name} must be {bound}, but came as {number}")
    return number


def _float64_blocks(
    atoms: NDArray[Any],
    indices: NDArray[np.int64] | None = None,
    coordinates: NDArray[np.int64] | None = None,
) -> Iterator[tuple[slice, NDArray[np.float64]]]:
    """Yield some atoms, a few rows at a time, with the slice of the rows in the result that they fill."""
    size = atoms.shape[0] if indices is None else indices.size
    width = atoms.shape[1] if coordinates is None else coordinates.size
    step = max(1, _BLOCK_ENTRIES // max(1, width))
    for start in range(0, size, step):
        rows = slice(start, min(start + step, size))
        if coordinates is None:
            block = atoms[rows] if indices is None else atoms[indices[rows]]
        else:
            wanted = np.arange(rows.start, rows.stop) if indices is None else indices[rows]
            block = atoms[np.ix_(wanted, coordinates)]
        yield rows, np.ascontiguousarray(block, dtype=np.float64)
