"""PCA-MIPS: nearest neighbours in a tree of principal components (Bachrach et al., RecSys 2014)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from banditmips.baselines._base import Baseline, Candidates, check_count

__all__ = ["PCAMIPS"]


@dataclass(frozen=True, slots=True)
class _Leaf:
    members: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Split:
    threshold: float
    below: _Leaf | _Split
    above: _Leaf | _Split


class PCAMIPS(Baseline):
    """Search the leaves of a PCA tree that the query falls into.

    One more coordinate makes all atoms equally long, so that the largest inner product becomes the nearest
    neighbour: the atom x is mapped to (sqrt(L^2 - |x|^2), x), L being the largest norm, and the query q to
    (0, q). The mapped atoms are halved at the median along their first principal component, each half at its
    own median along the second, and so on. A query follows the same comparisons to a leaf; the atoms of that
    leaf, and with `boost` also those of the leaves whose path differs in one comparison, are ranked exactly.

    A query costs d multiplies for each level of the tree (its projections) and d for each atom ranked.
    Scaling the query moves it in the tree, although it does not change which atom is best: the mapping above
    has no scale of its own.

    Parameters
    ----------
    depth : int, default 4
        Levels of the tree, the parameter that trades accuracy for work: about n / 2**depth atoms share a
        leaf. With 0 there is one leaf, and the search is exact. There are never more levels than principal
        components of positive variance (at most n - 1), and a node whose atoms all lie on one side of the
        median is not split.
    boost : bool, default True
        Also visit the leaves at Hamming distance 1, ``1 + depth`` in all.
    seed : int, default 0
        Taken for the sake of the common contract; nothing here is random.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.random.default_rng(0).normal(size=(64, 100))
    >>> result = PCAMIPS(depth=3).fit(atoms).search(atoms[5])
    >>> result.indices, result.n_survivors, result.n_multiplies
    (array([5]), 32, 3500)
    """

    key: ClassVar[str] = "pca"
    title: ClassVar[str] = "PCA-MIPS"
    effort: ClassVar[str] = "depth"

    def __init__(self, *, depth: int = 4, boost: bool = True, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.depth = check_count("depth", depth, minimum=0)
        if not isinstance(boost, bool | np.bool_):
            raise TypeError(f"boost must be True or False, but came as {boost!r} ({type(boost).__name__})")
        self.boost = bool(boost)

    def _build(self, atoms: NDArray[Any]) -> None:
        everyone = np.arange(atoms.shape[0])
        if self.depth == 0:
            self._directions = np.empty((0, atoms.shape[1]))
            self._offsets = np.empty(0)
            self._tree: _Leaf | _Split = _Leaf(everyone)
            return
        mapped = _same_norm(atoms)
        mean = mapped.mean(axis=0)
        mapped -= mean
        components = _principal_components(mapped, self.depth)
        # The query's additional coordinate is 0, so its part of a component never meets a query.
        self._directions = np.ascontiguousarray(components[:, 1:])
        self._offsets = components @ mean
        self._tree = _grow(mapped @ components.T, everyone, level=0)

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        n_levels, d = self._directions.shape
        position = self._directions @ query - self._offsets
        path, leaf = _descend(self._tree, position, [])
        leaves = [leaf]
        if self.boost:
            for level in range(len(path)):
                neighbour = [*path[:level], not path[level], *path[level + 1 :]]
                leaves.append(_descend(self._tree, position, neighbour)[1])
        return Candidates(np.concatenate([leaf.members for leaf in leaves]), n_multiplies=n_levels * d)


def _same_norm(atoms: NDArray[Any]) -> NDArray[np.float64]:
    """Put a coordinate before the others that brings every atom to the largest norm."""
    n, d = atoms.shape
    mapped = np.empty((n, d + 1))
    mapped[:, 1:] = atoms
    squared_norms = np.einsum("ij,ij->i", mapped[:, 1:], mapped[:, 1:])
    mapped[:, 0] = np.sqrt(squared_norms.max() - squared_norms)
    return mapped


def _principal_components(centred: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Return up to `count` orthonormal rows, by falling variance; those without variance are left out."""
    n, width = centred.shape
    # The two Gram matrices share their non-zero spectrum, and d may be far too large for one of them.
    gram = centred @ centred.T if n < width else centred.T @ centred
    size = gram.shape[0]
    variances, vectors = eigh(gram, subset_by_index=(max(0, size - count), size - 1))
    variances, vectors = variances[::-1], vectors[:, ::-1]
    real = variances > size * np.finfo(np.float64).eps * max(variances[0], 0.0)
    variances, vectors = variances[real], vectors[:, real]
    if n < width:
        vectors = centred.T @ (vectors / np.sqrt(variances))
    return np.ascontiguousarray(vectors.T)


def _grow(positions: NDArray[np.float64], members: NDArray[np.int64], level: int) -> _Leaf | _Split:
    if level == positions.shape[1]:
        return _Leaf(members)
    values = positions[members, level]
    threshold = float(np.median(values))
    above = values > threshold
    if not above.any():
        return _Leaf(members)
    return _Split(threshold, _grow(positions, members[~above], level + 1), _grow(positions, members[above], level + 1))


def _descend(tree: _Leaf | _Split, position: NDArray[np.float64], prescribed: list[bool]) -> tuple[list[bool], _Leaf]:
    """Follow the prescribed turns, then the query's own; return all turns and the leaf they lead to."""
    turns: list[bool] = []
    while isinstance(tree, _Split):
        level = len(turns)
        above = prescribed[level] if level < len(prescribed) else bool(position[level] > tree.threshold)
        turns.append(above)
        tree = tree.above if above else tree.below
    return turns, tree
