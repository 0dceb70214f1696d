"""Who goes along with the pass of `fit` over the atoms: keepers take something of them, followers say how far it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

if TYPE_CHECKING:
    from banditmips.atoms.facts import FactsCollector

__all__ = ["NO_FOLLOWER", "Follower", "Keeper"]


class Keeper(Protocol):
    """Keeps something of the atoms while `fit` reads them.

    Attributes
    ----------
    wants_given : bool
        Whether entries are wanted as they were given; in single or double precision otherwise.
    wants_rows : bool
        Whether only whole rows are of use.
    """

    wants_given: bool
    wants_rows: bool

    def add(self, first_row: int, values: NDArray[Any], first_column: int) -> None:
        """Take entries, the first of which is at this row and column."""


class Follower(Protocol):
    """Follows a pass over the atoms: shows how far it is, and writes down what is needed to go on from there."""

    def begin(self, collector: FactsCollector) -> int:
        """Return how many rows are known from a pass that was broken off, which the collector knows then."""

    def seen(self, n_entries: int, n_rows: int | None) -> None:
        """Be told of so many entries more, and how many rows are known now, if rows are read one after another."""


class _NoFollower:
    """Nobody follows."""

    def begin(self, collector: FactsCollector) -> int:
        return 0

    def seen(self, n_entries: int, n_rows: int | None) -> None:
        pass


NO_FOLLOWER: Follower = _NoFollower()
