"""What a race writes down: why it stopped, and its rounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Round", "StopReason", "Trace"]


class StopReason(StrEnum):
    """Why a search ended."""

    SEPARATED = "separated"
    """Only k atoms were left: every other one had been dropped."""
    EXHAUSTED = "exhausted"
    """Every coordinate of the survivors had been sampled, so that their scores are exact."""
    FINISHED_EXACTLY = "finished_exactly"
    """The survivors' exact products were cheaper than more sampling (or ``delta`` is 0)."""
    EPSILON = "epsilon"
    """No atom left out can beat a returned one by more than ``epsilon``."""
    BUDGET = "budget"
    """The multiplies allowed were used up; the intervals say how sure the answer is."""


@dataclass(frozen=True)
class Round:
    """One round of a race, as ``trace=True`` records it.

    Attributes
    ----------
    n_coordinates
        Coordinates sampled so far.
    n_survivors
        Atoms still in the race after this round's eliminations.
    leader
        Index of the k-th best atom by estimate, the one that the others are measured against.
    indices, scores, lower, upper
        The leading atoms by estimate (best first) with the confidence intervals of their scores.
    """

    n_coordinates: int
    n_survivors: int
    leader: int
    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def __repr__(self) -> str:
        """Say how far the race had come."""
        from banditmips._display import round_text

        return round_text(self)


@dataclass(frozen=True)
class Trace:
    """The rounds of one query's race, and how the race was planned.

    `n_candidates` is the number of atoms that took part in the first round: of a fitted index, those that could not be
    ruled out by certain bounds. `seconds` is what the search really took, for each of its queries.
    """

    rounds: tuple[Round, ...]
    plan: str
    n_candidates: int = 0
    seconds: ClassVar[float] = 0.0

    def timed(self, seconds: float) -> Trace:
        """The same, with what the search took."""
        timed = replace(self)
        timed.__dict__["seconds"] = seconds  # no field: two traces of the same race are equal
        return timed

    def __repr__(self) -> str:
        """Say how long the race was and whom it left."""
        from banditmips._display import trace_text

        return trace_text(self)

    def _repr_html_(self) -> str:
        from banditmips._display import trace_html

        return trace_html(self)
