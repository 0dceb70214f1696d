"""What every loader returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Atoms to search and queries to search them with.

    Attributes
    ----------
    name
        The name that `load` knows it by.
    atoms : array of shape (n, d)
        One atom in each row.
    queries : array of shape (n_queries, d)
        One query in each row; always 2-d, also for a single query.
    description
        One sentence on what the numbers are and where they come from.
    params
        What the data were made from, defaults included, and what is known of them by their making.
    surrogate
        True where synthetic numbers stand in for a real dataset.
    """

    name: str
    atoms: NDArray[Any]
    queries: NDArray[Any]
    description: str
    params: Mapping[str, Any]
    surrogate: bool = False

    @property
    def n(self) -> int:
        """Number of atoms."""
        return int(self.atoms.shape[0])

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return int(self.atoms.shape[1])
