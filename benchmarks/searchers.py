"""What every way of answering has in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.measure import Search

__all__ = ["EFFORTS", "INNER_PRODUCT", "Problem", "Searcher"]

EFFORTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Search efforts that are tried in turn until an approximate index has our recall."""


@dataclass(frozen=True)
class Problem:
    """What is maximised.

    Attributes
    ----------
    norms_known
        Whether the norms of the atoms are known before the query comes, as a fitted index knows them.
    """

    objective: str = "inner_product"
    norms_known: bool = True


INNER_PRODUCT = Problem()


@dataclass
class Searcher:
    """Something that answers.

    Attributes
    ----------
    set_effort
        For an approximate index: how hard to search, one of `EFFORTS`. None for an exact one.
    extra_bytes
        Memory beside the atoms, where the index knows it.
    """

    search: Search
    set_effort: Callable[[int], None] | None = None
    extra_bytes: int | None = None
    setting: str = ""
