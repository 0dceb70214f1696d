"""Arrays that one thread uses again and again, so that a search allocates nothing that grows with the atoms."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from banditmips.race.dash import N_MARKS, N_ROOMS
from banditmips.race.planner import MAX_HEADS

__all__ = ["Workspace", "workspace"]


class Workspace(threading.local):
    """The arrays of the compiled races.

    `rooms` and `marks` are what `dash` takes, all of one kind in one array; the other names are views of their rows.
    """

    def __init__(self) -> None:
        self.shape: tuple[Any, ...] = ()

    def fit(self, n: int, length: int, k: int, dtype: np.dtype[Any], gathered: int) -> None:
        """Make the arrays, unless they are there from the last search.

        Parameters
        ----------
        n, length, k
            Atoms, most coordinates of a race, and atoms wanted.
        gathered
            Most coordinates of a race that gathers them from the atoms.
        """
        shape = (n, length, k, dtype, gathered)
        if shape == self.shape:
            return
        self.shape = shape
        self.rows = np.empty(n, dtype=np.int64)
        self.everything = np.arange(n)
        self.rooms, self.marks = np.zeros((N_ROOMS, n)), np.ones((N_MARKS, n), dtype=np.bool_)
        self.estimates, self.ranking, self.scores, self.offsets, self.centre, self.upper = self.rooms[:6]
        self.pair = self.rooms[7:9]
        self.trusted, self.beaten = self.marks[1:]
        self.heads = np.empty(MAX_HEADS, dtype=np.int64)
        self.leaders = np.empty(k + 1, dtype=np.int64)
        # A guess, and the leaders of two screens and of the finish.
        self.known_rows, self.known_scores = np.empty(3 * k + 1, dtype=np.int64), np.empty(3 * k + 1)
        self.places = np.empty(length, dtype=np.int64)
        self.sums = np.empty((4, n), dtype=dtype)
        self.vectors = np.empty((6, length), dtype=dtype)
        self.values = np.empty((n, gathered), dtype=dtype)
        self.scratch, self.groups = np.empty((2, 1 << 13)), np.empty((2, 1 << 13))
        # What `dash` takes, in its order.
        self.of_dash: tuple[Any, ...] = (
            self.rows,
            self.rooms,
            self.marks,
            self.heads,
            self.leaders,
            self.known_rows,
            self.known_scores,
            self.places,
            self.sums,
            self.vectors,
        )


workspace = Workspace()
