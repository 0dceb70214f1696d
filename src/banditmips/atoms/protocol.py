"""The protocol that every store of atoms follows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["AtomStore"]


class AtomStore(Protocol):
    """n atoms of d coordinates that can be read in parts: what `search` and `fit` need to know about atoms.

    Anything with these two properties and three methods can be searched; nothing has to be inherited. A store only
    reads, and it may be asked by several threads at once. What it reads from a file or over a network it should count
    with `banditmips.atoms.count_bytes`, so that ``result.bytes_read`` is right.

    Examples
    --------
    Atoms that lie one after another in a list of arrays:

    >>> import numpy as np
    >>> import banditmips as bm
    >>> class ListStore:
    ...     def __init__(self, atoms):
    ...         self.atoms = atoms
    ...         self.shape = len(atoms), len(atoms[0])
    ...         self.dtype = atoms[0].dtype
    ...
    ...     def gather(self, rows, columns, out):
    ...         for i, row in enumerate(rows):
    ...             out[i] = self.atoms[row][columns]
    ...
    ...     def scores(self, rows, columns, query, objective):
    ...         terms = [lambda q, v: q * v, lambda q, v: -((q - v) ** 2), lambda q, v: -abs(q - v)][objective]
    ...         columns = slice(None) if columns is None else columns
    ...         return np.array([terms(query, self.atoms[row][columns].astype(float)).sum() for row in rows])
    ...
    ...     def blocks(self, max_entries):
    ...         for row, atom in enumerate(self.atoms):
    ...             yield row, atom[np.newaxis]
    >>> rng = np.random.default_rng(0)
    >>> store = ListStore([rng.normal(mean, 1.0, size=5000) for mean in (0.0, 3.0, 1.0, 2.0)])
    >>> bm.search(store, np.ones(5000), k=2).indices
    array([1, 3])
    >>> bm.BanditMIPS().fit(store).search(np.ones(5000)).indices
    array([1])
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them).

        `query` has one entry for each column that takes part. A term is ``q*v`` where `objective` is 0 (inner product
        and cosine), ``-(q - v)**2`` where it is 1 and ``-abs(q - v)`` where it is 2.
        """

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, dense block of rows) over all rows, each block of about `max_entries` entries at most."""
