"""What races of one kind of search have come to: those that never save anything are seldom tried again."""

from __future__ import annotations

__all__ = ["Past"]

_IN_VAIN = 2
"""Searches in a row whose races came to nothing, from which on the next are left out."""
_MOST_LEFT_OUT = 64
"""Searches that are left out before another race is tried, at most: what it loses is a small part of theirs."""
_REMEMBERED = 0.9
"""Part of what was saved or lost before that still counts one search later."""


class Past:
    """Searches of an index with one k, one set of options and one number of queries.

    What a plan expects of a race it expects of every query alike, and the atoms may be of a kind for which it is
    always wrong. So it is written down, by the plan's times, what races have saved beside all products. Where the last
    two have come to nothing, and lost more than those before have saved, the next two searches do without, and after
    every further race in vain twice as many.
    """

    def __init__(self) -> None:
        self._saved, self._n_in_vain = 0.0, 0
        self._n_left_out, self._n_next = 0, _IN_VAIN

    @property
    def allows_races(self) -> bool:
        """Whether the next search may try one."""
        return self._n_left_out == 0

    @property
    def n_left_out(self) -> int:
        """How many searches are still to do without."""
        return self._n_left_out

    def leave_out(self, n_searches: int = 1) -> None:
        """Write down searches that did without."""
        self._n_left_out = max(self._n_left_out - n_searches, 0)

    def add_certain(self, n_searches: int, saved: float) -> None:
        """Write down searches in a row whose certain bounds were enough, and what each of them has saved."""
        kept = _REMEMBERED**n_searches
        self._saved = kept * self._saved + (1.0 - kept) / (1.0 - _REMEMBERED) * saved
        self._n_in_vain, self._n_next = 0, _IN_VAIN

    def add(self, saved: float) -> None:
        """Write down what the races of a search have saved; less than 0 is what they have lost."""
        self._saved = _REMEMBERED * self._saved + saved
        if saved > 0.0:
            self._n_in_vain, self._n_next = 0, _IN_VAIN
            return
        self._n_in_vain += 1
        if self._n_in_vain >= _IN_VAIN and self._saved <= 0.0:
            self._n_left_out = self._n_next
            self._n_next = min(2 * self._n_next, _MOST_LEFT_OUT)
