"""Rounds on packed atoms: how far they go, and when the survivors are cheaper to read than more coordinates."""

from __future__ import annotations

from dataclasses import dataclass

from banditmips.race.lines import LimitedSchedule

__all__ = ["PackedSchedule"]

_WITHOUT_SUCCESS = 0.25
"""Part of the coordinates after which half of the atoms must be gone."""


@dataclass(frozen=True)
class PackedSchedule(LimitedSchedule):
    """Rounds of coordinates that are stored by coordinate, in chunks of some of them for a block of atoms.

    Attributes
    ----------
    n_candidates
        Atoms at the beginning.
    at_hand
        Coordinates that are cached in memory.
    chunk_width, chunk_height
        Coordinates and atoms of a chunk.
    n_blocks
        Blocks of atoms.
    row_cost
        Entries that are read for a row; None if rows are not to be read while coordinates can be.
    n_returned
        Rows that are read in any case.
    """

    n_candidates: int = 0
    at_hand: int = 0
    chunk_width: int = 1
    chunk_height: int = 1
    n_blocks: int = 1
    row_cost: int | None = None
    n_returned: int = 0

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` coordinates."""
        hopeless = size > max(_WITHOUT_SUCCESS * population, self.at_hand) and 2 * n_survivors > self.n_candidates
        return (
            (hopeless and self.row_cost is not None)
            or self._rows_are_cheaper(n_survivors, size)
            or super().should_finish(n_survivors, size, population)
        )

    def _rows_are_cheaper(self, n_survivors: int, size: int) -> bool:
        if self.row_cost is None:
            return False
        return (n_survivors - self.n_returned) * self.row_cost <= self._entries_of_round(n_survivors, size)

    def _entries_of_round(self, n_survivors: int, size: int) -> int:
        """Entries of the chunks that the round up to `size` coordinates is the first to read."""
        before = max(int(size / self.growth) if size > self.first else 0, self.at_hand)
        n_chunks = -(-size // self.chunk_width) - -(-before // self.chunk_width)
        return max(n_chunks, 0) * self.chunk_width * self.chunk_height * min(self.n_blocks, n_survivors)
