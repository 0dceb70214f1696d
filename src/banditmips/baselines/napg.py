"""NAPG-MIPS: a proximity graph whose edge selection is adjusted to norms (Tan et al., KDD 2021)."""

from __future__ import annotations

from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines import graph
from banditmips.baselines._base import Baseline, Candidates, check_count

__all__ = ["NAPGMIPS"]


class NAPGMIPS(Baseline):
    """Walk greedily through a graph whose links were chosen with a factor for each range of norms.

    The graph and the walk are those of HNSW with inner products (see `HNSWMIPS`). What differs is how links
    are chosen. When atom x is linked, a candidate p is passed over if its inner product with some link p'
    already chosen exceeds that with x. Under inner products this compares atoms of unequal norms: next to a
    short x, nearly every candidate is passed over, and the graph becomes too sparse there. NAPG passes p over
    only if ``alpha * <x, p> < <p, p'>``, where alpha belongs to the range of norms that x falls in. It is
    estimated from sampled atoms of that range as the mean of ``<p, p'>`` over the mean of ``<x, p>``, p and
    p' being the M atoms with the largest inner products with x.

    A query costs d multiplies for each inner product evaluated on the walk.

    With ``ef_search >= n`` the walk sees every atom it can reach. That is all of them, and the search exact,
    if ``2 * M >= n - 1``, since no link is ever pruned then. With smaller `M` an atom that nobody keeps a
    link to is never found, whatever the effort.

    Parameters
    ----------
    M : int, default 16
        Links of an atom on each layer, twice as many on the bottom one; at least 2.
    ef_construction : int, default 100
        Atoms kept in view while an atom's links are chosen.
    ef_search : int, default 32
        Atoms kept in view during a search (k if that is more); the parameter that trades accuracy for work.
    norm_ranges : int, default 5
        Ranges of norms, equally many atoms in each.
    samples : int, default 50
        Atoms sampled in each range to estimate its factor.
    seed : int, default 0
        Seed of the atoms' layers and of the samples.

    Attributes
    ----------
    alphas_ : array of shape (n,)
        The factor of each atom, after `fit`.

    Notes
    -----
    Where one of the two means is not positive, which happens when inner products have no prevailing sign, the
    ratio says nothing about norms, and the range keeps the factor 1: the rule of ip-NSW.

    The factors do not always help. Recall of the ten best at ``ef_search=10``, n = 1,000, against the same graph with
    all factors 1: 99.6 % against 97.9 % on products of non-negative factors, 91 % against 96 % on lognormal norms
    around a common mean, 56 % against 87 % on lognormal norms around zero, where long atoms get factors far below 1
    and lose the links among themselves.

    Atoms that are not C-ordered float32 or float64 are kept in a converted copy.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).normal(size=(500, 50))
    >>> result = NAPGMIPS().fit(atoms).search(atoms[3])
    >>> result.indices, bool(result.n_multiplies < atoms.size)
    (array([3]), True)
    """

    key: ClassVar[str] = "napg"
    title: ClassVar[str] = "NAPG-MIPS"
    effort: ClassVar[str] = "ef_search"

    def __init__(
        self,
        *,
        M: int = 16,
        ef_construction: int = 100,
        ef_search: int = 32,
        norm_ranges: int = 5,
        samples: int = 50,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.M = check_count("M", M, minimum=2)
        self.ef_construction = check_count("ef_construction", ef_construction, minimum=1)
        self.ef_search = check_count("ef_search", ef_search, minimum=1)
        self.norm_ranges = check_count("norm_ranges", norm_ranges, minimum=1)
        self.samples = check_count("samples", samples, minimum=1)

    def _build(self, atoms: NDArray[Any]) -> None:
        dtype = np.float32 if atoms.dtype == np.float32 else np.float64
        self._rows = np.ascontiguousarray(atoms, dtype=dtype)
        random = np.random.default_rng(self.seed)
        # As in HNSW: each layer holds one M-th of the atoms of the layer below.
        layers = np.floor(random.standard_exponential(atoms.shape[0]) / log(self.M)).astype(np.int64)
        # Few neighbours keep the estimate local: with the factors that 100 of 1,000 atoms gave instead of 16,
        # recall at ef_search = 10 was 3 to 15 points lower.
        self.alphas_ = _adjusting_factors(self._rows, self.norm_ranges, self.samples, self.M, random)
        self._graph = graph.build(self._rows, layers, self.alphas_, self.M, self.ef_construction)

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        found, scores, n_products = self._graph.walk(query, max(self.ef_search, k))
        return Candidates(found, n_multiplies=n_products * query.size, scores=scores)


def _adjusting_factors(
    atoms: NDArray[Any], n_ranges: int, n_samples: int, n_neighbours: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Return the factor of each atom: that of the range which its norm falls in."""
    n = atoms.shape[0]
    alphas = np.ones(n)
    n_neighbours = min(n_neighbours, n - 1)
    if n_neighbours < 2:
        return alphas
    squared_norms = np.einsum("ij,ij->i", atoms, atoms, dtype=np.float64)
    for members in np.array_split(np.argsort(squared_norms, kind="stable"), min(n_ranges, n)):
        with_source = between_neighbours = 0.0
        sources = random.choice(members, size=min(n_samples, members.size), replace=False)
        for source, scores in zip(sources, atoms[sources] @ atoms.T, strict=True):
            scores[source] = -np.inf
            neighbours = np.argpartition(-scores, n_neighbours - 1)[:n_neighbours]
            total = atoms[neighbours].sum(axis=0, dtype=np.float64)
            with_source += float(total @ atoms[source])
            # The products of all ordered pairs of different neighbours, without forming any of them.
            between_neighbours += float(total @ total - squared_norms[neighbours].sum())
        if with_source > 0.0 and between_neighbours > 0.0:
            alphas[members] = between_neighbours / (n_neighbours - 1) / with_source
    return alphas
