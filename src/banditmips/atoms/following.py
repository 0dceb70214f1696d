"""Who goes along with the pass of `fit` over the atoms: keepers take something of them, followers say how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from banditmips.atoms.collecting import FactsCollector

__all__ = ["NO_FOLLOWER", "Follower", "Keeper", "LookingKeeper"]


class Keeper(Protocol):
    """Keeps something of the atoms while `fit` reads them.

    Attributes
    ----------
    looks : bool
        False: whoever looks at the rows for the facts is a `LookingKeeper`.
    wants_given : bool
        Whether entries are wanted as they were given; in single or double precision otherwise.
    wants_rows : bool
        Whether only whole rows are of use.
    """

    looks: Literal[False]
    wants_given: bool
    wants_rows: bool

    def add(self, first_row: int, values: NDArray[Any], first_column: int) -> None:
        """Take entries, the first of which is at this row and column."""

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return what is kept of the first rows, by name; what is put there is kept instead."""


class LookingKeeper(Protocol):
    """Keeps something of whole rows while it looks at them for the facts: faster than one after the other.

    Attributes
    ----------
    looks, wants_rows : bool
        True.
    """

    looks: Literal[True]
    wants_rows: bool

    def look(self, first_row: int, values: NDArray[Any], *learnt: NDArray[np.float64]) -> tuple[float, float]:
        """Do what `banditmips.core.entries.look_at` does, and keep something of these rows."""

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return what is kept of the first rows, by name; what is put there is kept instead."""


class Follower(Protocol):
    """Follows a pass over the atoms: shows how far it is, and writes down what is needed to go on from there."""

    @property
    def resumes(self) -> bool:
        """Whether a pass that was broken off is to be gone on with, for which rows must be read one after another."""

    @property
    def looked(self) -> dict[str, NDArray[Any]] | None:
        """What a first look at some atoms (`banditmips.atoms.coding.first_look`) had shown before it was broken off."""

    def begin(self, collector: FactsCollector) -> int:
        """Return how many rows are known from a pass that was broken off, which the collector knows then."""

    def seen(self, n_entries: int, n_rows: int | None) -> None:
        """Be told of so many entries more, and how many rows are known now, if rows are read one after another."""


class _NoFollower:
    """Nobody follows."""

    resumes = False
    looked = None

    def begin(self, collector: FactsCollector) -> int:
        return 0

    def seen(self, n_entries: int, n_rows: int | None) -> None:
        pass


NO_FOLLOWER: Follower = _NoFollower()
