"""Round sizes, and when sampling stops paying and an exact finish is cheaper."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Schedule"]


@dataclass(frozen=True)
class Schedule:
    """Geometric rounds, and the point where the survivors' exact products take over.

    The defaults need the fewest multiplies: of the sizes tried on normal, correlated, ratings-like and heavy-tailed
    data (n = 100, d = 10,000), 16 coordinates and then a quarter more in each round was best or within 5 % of the best.

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
