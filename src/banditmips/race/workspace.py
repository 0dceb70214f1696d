"""Arrays that one thread uses again and again, so that a search allocates nothing that grows with the atoms."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

__all__ = ["Workspace", "workspace"]


class Workspace(threading.local):
    """The arrays of the compiled races."""

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
        self.estimates, self.ranking, self.scores = np.empty(n), np.empty(n), np.empty(n)
        self.offsets, self.centre, self.upper = np.zeros(n), np.zeros(n), np.zeros(n)
        self.rooms = np.empty((2, n))
        self.needed_scatter = np.empty(n)
        self.alive, self.beaten, self.trusted = (np.ones(n, dtype=np.bool_) for _ in range(3))
        self.leaders = np.empty(k + 1, dtype=np.int64)
        # A guess, and the leaders of two screens and of the finish.
        self.known_rows, self.known_scores = np.empty(3 * k + 1, dtype=np.int64), np.empty(3 * k + 1)
        self.places = np.empty(length, dtype=np.int64)
        self.columns = np.empty((4, n), dtype=dtype)
        self.vectors = np.empty((6, length), dtype=dtype)
        self.values = np.empty((n, gathered), dtype=dtype)
        self.scratch, self.groups = np.empty((2, 1 << 13)), np.empty((2, 1 << 13))


workspace = Workspace()
