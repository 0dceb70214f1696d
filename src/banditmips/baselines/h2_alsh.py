"""H2-ALSH: hashing within ranges of the norm (Huang, Ma, Feng, Fang and Tung 2018).

The atoms are cut into subsets whose norms lie between b*M and M, M being the subset's largest norm. Within
a subset the transformation QNF makes near neighbours of large inner products: an atom x gets
``sqrt(M^2 - |x|^2)`` appended and the query q is scaled to ``M/|q| * q``. All of them then have norm M, and
the squared Euclidean length of a difference is ``2*M^2 - 2*M/|q| * x.q``: the nearest atom is the best one.

QALSH finds near neighbours by query-aware hashing: m random projections, each sorted; an atom collides with
the query in one of them if their projections differ by at most ``w*R/2``. R grows by factors of c0, and an
atom that collides in at least l of the m projections is a candidate, whose inner product is computed. The
subsets are searched by falling norm, until ``M*|q|`` says that none of those left can hold a better atom.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import (
    Baseline,
    Candidates,
    check_count,
    check_real,
    inner_products,
    norms_of,
    project,
)

__all__ = ["H2ALSH", "QALSHParameters"]

_ROUNDING = 1.0 + 1e-9
"""Widens |x| * |q|, so that rounding never makes it smaller than the inner product that it bounds."""


class H2ALSH(Baseline):
    """Query-aware hashing with collision counting, in subsets of similar norm.

    Parameters
    ----------
    c0 : float, default 2.0
        Approximation ratio of the search for near neighbours, above 1. Nearer to 1 means more hash functions.
    c : float, default 0.5
        Approximation ratio of the inner product, between 0 and 1. It sets the ratio of the norms in a
        subset, ``b^2 = (c0^4 - 1) / (c0^4 - c)``; nearer to 1 means narrower subsets.
    delta : float, default 1/e
        Probability that an atom near enough misses the collision threshold.
    n_candidates : int, default 100
        Candidates ranked exactly in each hashed subset, apart from the k - 1 that come on top.
    scan_limit : int, default 400
        Subsets up to this size are not hashed but ranked whole.
    seed : int, default 0
        Seed of the hash functions.

    Notes
    -----
    The defaults are those of the authors. Their theorem: with probability at least 1/2 - delta the atom found
    has at least c times the largest inner product, if that is positive.

    The accuracy grows with `n_candidates`. At n or more, an atom is missed only if it is near enough and yet
    below the collision threshold, which has probability at most `delta`. With a `scan_limit` of n or more
    the search is exact.

    A hashed subset is left when its candidates are used up, or at the radius beyond which nothing can beat
    the k atoms known, as in the authors' program. QALSH alone would also stop at k atoms within c0 * R. In
    high dimensions that comes too early: on 3,000 Gaussian atoms with norms varying by a tenth, d = 1,000,
    k = 5, `scan_limit` = 50, it took the accuracy from 0.87 to 0.53, the multiplies from 2.6 to 2.0 million.

    A query costs d multiplies for its norm, d for each hash function of each hashed subset that it enters,
    and d for each candidate.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).normal(size=(1000, 30))
    >>> result = H2ALSH(scan_limit=20).fit(atoms).search(atoms[7])
    >>> result.indices, result.n_survivors < 500
    (array([7]), True)
    """

    key: ClassVar[str] = "h2_alsh"
    title: ClassVar[str] = "H2-ALSH"
    effort: ClassVar[str] = "n_candidates"

    def __init__(
        self,
        *,
        c0: float = 2.0,
        c: float = 0.5,
        delta: float = 1 / math.e,
        n_candidates: int = 100,
        scan_limit: int = 400,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.c0 = check_real("c0", c0, above=1)
        self.c = check_real("c", c, above=0, below=1)
        self.delta = check_real("delta", delta, above=0, below=1)
        self.n_candidates = check_count("n_candidates", n_candidates, minimum=1)
        self.scan_limit = check_count("scan_limit", scan_limit, minimum=0)

    def _build(self, atoms: NDArray[Any]) -> None:
        norms = norms_of(atoms)
        by_norm = np.lexsort((np.arange(norms.size), -norms))
        ratio = math.sqrt((self.c0**4 - 1) / (self.c0**4 - self.c))
        rng = np.random.default_rng(self.seed)
        self._subsets: list[_Subset] = []
        while by_norm.size:
            size = np.count_nonzero(norms[by_norm] >= ratio * norms[by_norm[0]])
            members, by_norm = by_norm[:size], by_norm[size:]
            tables = None
            if size > self.scan_limit and norms[members[0]] > 0.0:
                tables = self._build_tables(atoms, members, norms[members], rng)
            self._subsets.append(_Subset(members, norms[members], tables))

    def _build_tables(
        self,
        atoms: NDArray[Any],
        members: NDArray[np.int64],
        norms: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> _Tables:
        parameters = QALSHParameters.choose(members.size, c0=self.c0, delta=self.delta, n_candidates=self.n_candidates)
        directions = rng.normal(size=(parameters.n_functions, atoms.shape[1] + 1))
        heads, last = np.ascontiguousarray(directions[:, :-1]), directions[:, -1]
        appended = np.sqrt(np.maximum(0.0, norms[0] ** 2 - norms**2))
        keys = project(atoms, heads, members) + np.outer(last, appended)
        order = np.argsort(keys, axis=1, kind="stable")
        return _Tables(parameters, heads, np.take_along_axis(keys, order, axis=1), order)

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        n, d = self._atoms.shape
        query_norm = math.sqrt(query @ query)
        if query_norm == 0.0:
            return Candidates(np.arange(n), d, scores=np.zeros(n))
        search = _Search(self._atoms, query, query_norm, k)
        n_multiplies = d
        n_rounds = 0
        for subset in self._subsets:
            if not search.within_reach(subset.norms[0]):
                break
            if subset.tables is None:
                search.rank(subset, np.arange(subset.members.size))
            else:
                n_multiplies += subset.tables.directions.size
                n_rounds += self._search_tables(search, subset, subset.tables)
        return Candidates(
            search.indices,
            n_multiplies + d * search.indices.size,
            scores=search.scores,
            n_rounds=n_rounds,
            delta_spent=self.delta if n_rounds else 0.0,
        )

    def _search_tables(self, search: _Search, subset: _Subset, tables: _Tables) -> int:
        """Search a hashed subset with a growing radius; return the number of rounds."""
        largest = subset.norms[0]
        stretch = largest / search.query_norm
        # On a sphere nothing is further away than its diameter; and once k atoms are known, nothing beyond
        # this reach can displace one of them.
        reach = min(2 * largest, math.sqrt(max(0.0, 2 * largest**2 - 2 * stretch * search.kth_score)))
        counter = _CollisionCounter(tables, stretch * (tables.directions @ search.query))
        is_candidate = np.zeros(subset.members.size, dtype=np.bool_)
        n_left = min(self.n_candidates + search.k - 1, is_candidate.size)
        radius = 0.0
        n_rounds = 0
        while radius < reach and n_left:
            radius = min(reach, counter.next_radius(radius, self.c0))
            counter.widen(radius)
            n_rounds += 1
            collided = np.flatnonzero((counter.counts >= tables.parameters.threshold) & ~is_candidate)
            new = collided[np.argsort(-counter.counts[collided], kind="stable")][:n_left]
            is_candidate[new] = True
            n_left -= new.size
            search.rank(subset, new)
        return n_rounds


class QALSHParameters(NamedTuple):
    """What QALSH derives from the size of a subset and from its two error probabilities."""

    width: float
    """w, the width of a bucket at radius 1."""
    n_functions: int
    """m, the number of projections."""
    threshold: int
    """l, the collisions that make an atom a candidate."""

    @classmethod
    def choose(cls, n: int, *, c0: float, delta: float, n_candidates: int) -> QALSHParameters:
        """Return the fewest projections that keep both kinds of error as rare as asked.

        An atom within R of the query collides in a projection with probability at least p1, one beyond
        c0 * R with at most p2 < p1. By Hoeffding's inequality the threshold, between p2 * m and p1 * m,
        misses a near atom with probability at most `delta`, and admits more than `n_candidates` far ones
        with probability at most 1/2.

        >>> QALSHParameters.choose(1000, c0=2.0, delta=0.1, n_candidates=100)
        QALSHParameters(width=2.719..., n_functions=51, threshold=35)
        """
        width = math.sqrt(8 * c0**2 * math.log(c0) / (c0**2 - 1))
        p1, p2 = math.erf(width / 2 / math.sqrt(2)), math.erf(width / (2 * c0) / math.sqrt(2))
        far = math.sqrt(math.log(2 / min(1.0, n_candidates / n)))
        near = math.sqrt(math.log(1 / delta))
        n_functions = math.ceil((far + near) ** 2 / (2 * (p1 - p2) ** 2))
        share = (far * p1 + near * p2) / (far + near)
        return cls(width, n_functions, math.ceil(share * n_functions))


@dataclass(frozen=True)
class _Tables:
    """The hash tables of a subset: each projection of its members, sorted."""

    parameters: QALSHParameters
    directions: NDArray[np.float64]
    keys: NDArray[np.float64]
    order: NDArray[np.int64]


@dataclass(frozen=True)
class _Subset:
    """Atoms of similar norm, longest first; without tables they are ranked whole."""

    members: NDArray[np.int64]
    norms: NDArray[np.float64]
    tables: _Tables | None


class _Search:
    """The atoms ranked so far for one query."""

    def __init__(self, atoms: NDArray[Any], query: NDArray[np.float64], query_norm: float, k: int) -> None:
        self.query, self.query_norm, self.k = query, query_norm, k
        self._atoms = atoms
        self.indices = np.empty(0, dtype=np.int64)
        self.scores = np.empty(0)
        self.kth_score = -math.inf

    def within_reach(self, norms: Any) -> Any:
        """Say whether atoms of these norms can still be among the k best."""
        return norms * self.query_norm * _ROUNDING >= self.kth_score

    def rank(self, subset: _Subset, positions: NDArray[np.int64]) -> None:
        """Compute the inner products of those members that are within reach."""
        positions = positions[self.within_reach(subset.norms[positions])]
        indices = subset.members[positions]
        scores = inner_products(self._atoms, self.query, indices)
        self.indices = np.append(self.indices, indices)
        self.scores = np.append(self.scores, scores)
        if self.scores.size >= self.k:
            self.kth_score = float(np.partition(self.scores, -self.k)[-self.k])


class _CollisionCounter:
    """In how many projections each member of a subset lies near the query, as the radius grows."""

    def __init__(self, tables: _Tables, centres: NDArray[np.float64]) -> None:
        self.counts = np.zeros(tables.keys.shape[1], dtype=np.int64)
        self._tables, self._centres = tables, centres
        self._right = np.count_nonzero(tables.keys < centres[:, np.newaxis], axis=1)
        self._left = self._right.copy()

    def next_radius(self, radius: float, c0: float) -> float:
        """Return the next power of c0 at which about half of the projections meet another atom."""
        m, n = self._tables.keys.shape
        rows = np.arange(m)
        keys = self._tables.keys
        left_gap = np.where(self._left > 0, self._centres - keys[rows, self._left - 1], math.inf)
        right_gap = np.where(self._right < n, keys[rows, self._right % n] - self._centres, math.inf)
        gaps = np.minimum(left_gap, right_gap)
        gaps = gaps[(gaps > 0.0) & (gaps < math.inf)]
        if gaps.size == 0:
            return math.inf
        needed = 2 * float(np.median(gaps)) / self._tables.parameters.width
        return max(c0 * radius, c0 ** math.ceil(math.log(needed, c0)))

    def widen(self, radius: float) -> None:
        """Count the collisions up to this radius: what lies between each window's old ends and its new ones."""
        half_width = radius * self._tables.parameters.width / 2
        keys, order = self._tables.keys, self._tables.order
        lefts, rights = (self._centres - half_width).tolist(), (self._centres + half_width).tolist()
        left = [row.searchsorted(end, "left") for row, end in zip(keys, lefts, strict=True)]
        right = [row.searchsorted(end, "right") for row, end in zip(keys, rights, strict=True)]
        entering = [row[new:old] for row, new, old in zip(order, left, self._left.tolist(), strict=True)]
        entering += [row[old:new] for row, old, new in zip(order, self._right.tolist(), right, strict=True)]
        self.counts += np.bincount(np.concatenate(entering), minlength=self.counts.size)
        # Rounding may put an end inside the window.
        self._left, self._right = np.minimum(self._left, left), np.maximum(self._right, right)
