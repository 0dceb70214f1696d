"""How large rounds on sampled cells are, and when exact scores are better than another round."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

__all__ = [
    "FIRST_LINES",
    "MOST_LINES",
    "LimitedSchedule",
    "LineSchedule",
    "PackedSchedule",
    "Schedule",
    "TimedSchedule",
]

FIRST_LINES, _GROWTH = 32, 1.5
"""Lines in the first round: their terms are few, and sums of many alike coordinates may have heavy tails. Rounds grow
faster than those of coordinates, because each waits for the disk."""
MOST_LINES, _WITHOUT_SUCCESS = 0.5, 0.25
"""Part of all bytes that sampling lines reads at most, and part of a scan's time after which half of the atoms must be
gone: reading all the survivors is one long read, sampling is many short ones."""


@dataclass(frozen=True)
class Schedule:
    """Geometric rounds, and the point where the survivors' exact products take over.

    The defaults are for few multiplies. On normal, correlated and heavy-tailed data (n = 100, d = 10,000, 40 seeds
    each), a first round of 16 needed 1.00, 0.79 and 1.04 times the mean of a first round of 32, and finishing at 0.8 of
    the coordinates 0.84 to 0.99 times that of finishing at half of them.

    Attributes
    ----------
    first, growth
        Coordinates after round one, and the factor from one round to the next.
    finish_fraction
        Finish exactly when the next round would reach this part of the population.
    max_buffer
        Finish exactly when the next round would have to hold more sampled values than this at once (float64).
    """

    first: int = 16
    growth: float = 1.25
    finish_fraction: float = 0.8
    max_buffer: int = 1 << 26

    def starting_with(self, first: int) -> Self:
        """The same with a first round of so many coordinates, if it was smaller."""
        return self if first <= self.first else replace(self, first=first)

    def next_size(self, size: int, population: int) -> int:
        """Return how many coordinates the round after `size` coordinates reaches."""
        return min(max(self.first, size + 1, int(size * self.growth)), population)

    def exceeds_buffer(self, n_survivors: int, size: int) -> bool:
        """Whether the sampled values would no longer fit the buffer."""
        return n_survivors * size > self.max_buffer

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` coordinates.

        A population no larger than the first round is simply sampled whole.
        """
        if population <= self.first:
            return False
        return size >= self.finish_fraction * population or self.exceeds_buffer(n_survivors, size)


@dataclass
class _Spent:
    """What rounds have taken so far, in nanoseconds, up to a number of coordinates."""

    time: float = 0.0
    size: int = 0


@dataclass(frozen=True)
class TimedSchedule(Schedule):
    """Rounds on coordinates gathered from memory, as long as they pay.

    What the rounds take never exceeds a part of the full product's time, and half of what dropping atoms has saved of
    it by then: so a race that comes to nothing costs no more than that part.

    Attributes
    ----------
    n_candidates
        Atoms at the beginning.
    gather_time, arithmetic_time, round_time, row_time
        Nanoseconds of a value that is gathered, of one that takes part in a round, of a round, and of an exact row.
    allowance
        Nanoseconds that rounds may take before they have saved anything.
    at_hand
        Coordinates that are cached, and need not be gathered.
    """

    growth: float = 1.5
    n_candidates: int = 0
    gather_time: float = 0.0
    arithmetic_time: float = 0.0
    round_time: float = 0.0
    row_time: float = 0.0
    allowance: float = 0.0
    at_hand: int = 0
    spent: _Spent = field(default_factory=_Spent)

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether the survivors' exact products are better than a round that reaches `size` coordinates."""
        new = max(size - max(self.spent.size, self.at_hand), 0)
        time = n_survivors * (new * self.gather_time + size * self.arithmetic_time) + self.round_time
        saved = (self.n_candidates - n_survivors) * self.row_time
        if self.spent.time + time > self.allowance + 0.5 * saved or n_survivors * self.row_time <= time:
            return True
        self.spent.time += time
        self.spent.size = size
        return super().should_finish(n_survivors, size, population)


@dataclass(frozen=True)
class LineSchedule(Schedule):
    """Rounds of lines.

    Attributes
    ----------
    n_candidates
        Atoms at the beginning.
    line_cost, line_time
        Bytes read for a line over those that it takes, and time of such a byte over that of one of a scan.
    expected
        Lines by which half of the atoms are expected to be gone; 0 where nobody has asked.
    """

    first: int = FIRST_LINES
    growth: float = _GROWTH
    n_candidates: int = 0
    line_cost: float = 1.0
    line_time: float = 1.0
    expected: float = 0.0

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` lines."""
        most = MOST_LINES * population / self.line_cost
        if size > self.first and 2 * n_survivors > self.n_candidates:
            in_vain = _WITHOUT_SUCCESS * population / (self.line_cost * self.line_time)
            most = min(most, max(in_vain, self.growth * self.expected))
        return size > most or self.exceeds_buffer(n_survivors, size)


@dataclass(frozen=True)
class LimitedSchedule(Schedule):
    """Rounds of coordinates as far as they are at hand.

    Attributes
    ----------
    limit
        Coordinates at hand.
    """

    limit: int = 0

    def next_size(self, size: int, population: int) -> int:
        """Stop once at the limit, before going beyond it."""
        following = super().next_size(size, population)
        return min(following, self.limit) if size < self.limit else following

    def should_finish(self, n_survivors: int, size: int, population: int) -> bool:
        """Whether to compute the survivors exactly rather than to sample up to `size` coordinates."""
        return size > self.limit or super().should_finish(n_survivors, size, population)


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
