"""Greedy-MIPS: candidates by their largest single product (Yu, Hsieh, Lei and Dhillon 2017).

An inner product is large when some of its products are. `fit` sorts the atoms by each coordinate. A query
then visits the n * d products from the largest down without computing them all: a heap holds the best
unvisited product of each coordinate, and when one is taken, the next of its coordinate enters. The first
`budget` different atoms met on the way are the candidates, and their exact inner products decide.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import Baseline, Candidates, check_count
from banditmips.baselines.largest_products import first_atoms

__all__ = ["GreedyMIPS"]


class GreedyMIPS(Baseline):
    """Screening by single products with a heap over the coordinates, then exact ranking.

    Parameters
    ----------
    budget : int, default 100
        Number of candidates that are ranked exactly; n or more makes the search exact.
    seed : int, default 0
        Taken for the sake of the common contract; nothing here is random.

    Notes
    -----
    `fit` keeps the sorted orders, 4 bytes for each entry of the atoms.

    A query costs d multiplies to fill the heap, one for each product that enters it later, and d for each
    candidate: at most ``d + 2 * budget * d``, and in practice little more than ``d + budget * d``.

    Examples
    --------
    >>> import numpy as np
    >>> atoms = np.array([[5.0, 0.0], [0.0, -4.0], [1.0, 1.0]])
    >>> result = GreedyMIPS(budget=1).fit(atoms).search(np.array([1.0, -2.0]))
    >>> result.indices, result.scores, result.n_multiplies
    (array([1]), array([8.]), 4)
    """

    key: ClassVar[str] = "greedy"
    title: ClassVar[str] = "Greedy-MIPS"
    effort: ClassVar[str] = "budget"

    def __init__(self, *, budget: int = 100, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.budget = check_count("budget", budget, minimum=1)

    def _build(self, atoms: NDArray[Any]) -> None:
        n, d = atoms.shape
        self._values = _in_float(atoms)
        self._order = np.empty((d, n), dtype=np.int32 if n <= np.iinfo(np.int32).max else np.int64)
        step = max(1, (1 << 20) // n)
        for start in range(0, d, step):
            falling = -atoms[:, start : start + step].T.astype(np.float64)
            self._order[start : start + step] = np.argsort(falling, axis=1, kind="stable")

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        budget = min(self.budget, self._atoms.shape[0])
        return Candidates(*first_atoms(self._values, self._order, query, budget))


def _in_float(atoms: NDArray[Any]) -> NDArray[Any]:
    """Return the atoms themselves if they are single or double floats, else in one of the two that holds them."""
    if atoms.dtype in (np.float32, np.float64):
        return atoms
    return atoms.astype(np.float32 if atoms.dtype.itemsize <= 2 else np.float64)
