"""The full product: every coordinate of every atom."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from banditmips.baselines._base import Baseline, Candidates, inner_products

__all__ = ["NaiveMIPS"]


class NaiveMIPS(Baseline):
    """Exact search by the full product, n * d multiplies for each query.

    Parameters
    ----------
    seed : int, default 0
        Taken for the sake of the common contract; nothing here is random.

    Examples
    --------
    >>> import numpy as np
    >>> result = NaiveMIPS().fit(np.eye(3)).search(np.array([0.0, 2.0, 1.0]), k=2)
    >>> result.indices, result.scores, result.n_multiplies
    (array([1, 2]), array([2., 1.]), 9)
    """

    key: ClassVar[str] = "naive"
    title: ClassVar[str] = "full product"
    effort: ClassVar[str] = ""

    def _build(self, atoms: NDArray[Any]) -> None:
        """Nothing to build."""

    def _query(self, query: NDArray[np.float64], k: int) -> Candidates:
        scores = inner_products(self._atoms, query)
        return Candidates(np.arange(scores.size), self._atoms.size, scores=scores)
