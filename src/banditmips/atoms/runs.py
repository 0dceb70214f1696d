"""Runs of neighbouring entries, or bytes, of a file: which are read together, and what they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.parts import Span

__all__ = ["PAGE", "Run", "adjoining", "batches_of", "bytes_of_pages", "places_of"]

PAGE = 4096
"""What a disk is read by. A part of a page costs, and counts as, a page."""
Run = tuple[int, int, int]
"""The number of a span, and the first of its entries and the one after the last."""


def adjoining(runs: Sequence[Run], most: int) -> list[list[Run]]:
    """Put ascending runs together that go on where the one before ends, to at most `most` entries."""
    groups: list[list[Run]] = []
    for run in runs:
        if groups and groups[-1][-1][2] == run[1] and run[2] - groups[-1][0][1] <= most:
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def batches_of(runs: Sequence[Run], most: int) -> list[list[Run]]:
    """Put runs together to batches of at most `most` entries; longer ones are cut."""
    batches: list[list[Run]] = []
    room = 0
    for number, start, stop in runs:
        for first in range(start, stop, most):
            last = min(first + most, stop)
            if last - first > room:
                batches.append([])
                room = most
            batches[-1].append((number, first, last))
            room -= last - first
    return batches


def places_of(numbers: NDArray[np.int64], segments: Sequence[Span]) -> Any:
    """Where ascending numbers are among the entries of the segments, one after another."""
    starts = np.array([start for start, _ in segments])
    before = np.cumsum([0, *(stop - start for start, stop in segments[:-1])])
    which = np.searchsorted(starts, numbers, side="right") - 1
    places = before[which] + numbers - starts[which]
    if places[-1] - places[0] + 1 == places.size:
        return slice(int(places[0]), int(places[-1]) + 1)  # a view, where an index would copy
    return places


def bytes_of_pages(begins: NDArray[np.int64], ends: NDArray[np.int64]) -> int:
    """Bytes of the pages that ascending ranges of bytes lie in; a page that two ranges share is read once."""
    first, last = begins // PAGE, (ends - 1) // PAGE
    shared = np.count_nonzero(first[1:] == last[:-1])
    return PAGE * (int((last - first + 1).sum()) - int(shared))
