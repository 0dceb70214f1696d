"""The defaults of today: the one place where the experiments call this package with nothing set.

`search` without an index and `BanditMIPS` after `fit`, each in two ways: with the fewest multiplies, as the paper
counts them, and in the least time.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from banditmips._index import BanditMIPS
from banditmips._result import SearchResult
from banditmips._search import search

__all__ = ["FEWEST_MULTIPLIES", "LEAST_TIME", "WARM_START", "Today"]

LEAST_TIME: dict[str, Any] = {}
"""What is set for a search in the least time: nothing, as that is the default."""

FEWEST_MULTIPLIES: dict[str, Any] = {"minimise": "multiplies", "rescore": False}
"""What is set for a search with the fewest multiplies. The exact scores of the atoms found, which the paper does not
count, are left out."""

WARM_START: dict[str, Any] = {"layout": "coordinates"}
"""What an index is made with that keeps what the paper's warm start does: some coordinates of every atom."""


class Today:
    """The package with its defaults, behind the ``fit`` and ``search`` of every other method.

    Parameters
    ----------
    fitted
        Whether an index is made, or every search begins anew.
    delta, epsilon, seed
        As in `banditmips.search`.
    index_options
        Of the index, if there is one.
    """

    def __init__(self, *, fitted: bool, delta: float, epsilon: float, seed: int, **index_options: Any) -> None:
        self._asked: dict[str, Any] = {"delta": delta, "epsilon": epsilon, "seed": seed}
        self._index = BanditMIPS(**self._asked, **index_options) if fitted else None

    def fit(self, atoms: NDArray[Any]) -> None:
        """Read the atoms, or remember them."""
        self._atoms = atoms
        if self._index is not None:
            self._index.fit(atoms)

    def search(self, query: NDArray[Any], k: int) -> SearchResult:
        """Search with the fewest multiplies."""
        return self._ask(query, k, FEWEST_MULTIPLIES)

    def search_fast(self, query: NDArray[Any], k: int) -> SearchResult:
        """Search in the least time."""
        return self._ask(query, k, LEAST_TIME)

    def _ask(self, query: NDArray[Any], k: int, options: dict[str, Any]) -> SearchResult:
        if self._index is not None:
            return self._index.search(query, k, **options)
        return search(self._atoms, query, k, **self._asked, **options)
