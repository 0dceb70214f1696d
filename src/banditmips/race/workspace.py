"""Arrays that one thread uses again and again, so that a search allocates nothing that grows with the atoms."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from banditmips.race.packing import make_space, space_parts

__all__ = ["Workspace", "workspace_for"]

Shape = tuple[int, int, int, int, np.dtype[Any], int]
"""Atoms, their coordinates, most of these in a race, and atoms wanted; the atoms' precision; most coordinates of a race
that gathers them from the atoms."""


class Workspace:
    """The arrays of the compiled races.

    `space` is what `dash` takes, and most of the others are parts of it.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        n, d, length, k, dtype, gathered = shape
        self.space = make_space(n, d, length, k)
        (
            rooms, self.parts, self.known_scores, self.best_scores, self.best_radius, self.rows, _, self.heads,
            self.leaders, self.known_rows, self.best_rows, marks, _, self.vectors,
        ) = space_parts.py_func(self.space, np.empty(0, dtype), n, d, length, k)  # fmt: skip
        self.estimates, self.ranking, self.scores, self.offsets, self.centre, self.upper = rooms[:6]
        self.pair = rooms[7:9]
        marks[:] = True
        self.trusted, self.beaten = marks[1:]
        self.everything = np.arange(n)
        self.gathered = np.empty((n, gathered), dtype=dtype)
        self.scratch, self.groups = np.empty((2, 1 << 13)), np.empty((2, 1 << 13))


class _OfThread(threading.local):
    workspace: Workspace | None = None


_of_thread = _OfThread()


def workspace_for(shape: Shape) -> Workspace:
    """Return this thread's workspace: that of its last search, if it has the same shape."""
    workspace = _of_thread.workspace
    if workspace is None or (workspace.shape is not shape and workspace.shape != shape):
        workspace = _of_thread.workspace = Workspace(shape)
    return workspace
