"""Making the codes of an index while `fit` reads the atoms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.protocol import AtomStore
from banditmips.core.codes import MAX_BITS, Codes, bytes_for_atom
from banditmips.core.rotation import Rotation

__all__ = ["CodesKeeper", "CodesSize", "choose_codes", "codes_size"]

_LEAST_CENTRED, _MOST_CENTRED = 32, 256
"""Atoms whose mean is taken off all, a sixteenth of them between these two: the mean of 256 strays from that of all by a
sixteenth of the atoms' deviation, which makes intervals longer by a 500th; that of 32 by a 64th."""


_LEAST_CELLS = 1024
"""Signs of which fewer would hardly tell atoms apart."""


class CodesSize(NamedTuple):
    """How many signs are kept of each atom, and how many bits of each coordinate."""

    n_cells: int
    n_bits: int


def codes_size(d: int, bytes_of_atom: float | None) -> CodesSize | None:
    """Choose codes of at most so many bytes for each atom (None: as many as are of use); None if there is no room."""
    width = -(-d // 64) * 64
    if bytes_of_atom is None:
        return CodesSize(width, MAX_BITS)
    for n_bits in range(MAX_BITS, 0, -1):
        if bytes_for_atom(width, n_bits) <= bytes_of_atom:
            return CodesSize(width, n_bits)
    n_cells = int(bytes_of_atom * 8) // 64 * 64
    while n_cells > 0 and bytes_for_atom(n_cells, 1) > bytes_of_atom:
        n_cells -= 64
    return CodesSize(n_cells, 1) if n_cells >= min(_LEAST_CELLS, width) else None


def choose_codes(store: AtomStore, seed: int, size: CodesSize) -> Codes:
    """Make room for the codes of all atoms, about the mean of some of them."""
    n, d = store.shape
    n_centred = min(n, _MOST_CENTRED, max(_LEAST_CENTRED, n // 16))
    rows = np.unique(np.linspace(0, n - 1, n_centred).astype(np.int64))
    centre = _mean_of(store, rows)
    if store.dtype.itemsize <= 4:
        centre = centre.astype(np.float32)
    # Not finite where an entry is not (the pass over the atoms will say which), or where sums overflow.
    if not np.isfinite(centre).all():
        centre = np.zeros(d, dtype=centre.dtype)
    return Codes(Rotation(d, seed), centre, n, size.n_cells, size.n_bits)


def _mean_of(store: AtomStore, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    d = store.shape[1]
    total = np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        if hasattr(store, "array"):
            for row in rows:
                total += store.array[row]
        else:
            step = max(1, (1 << 22) // d)
            columns = np.arange(d)
            for start in range(0, rows.size, step):
                some = rows[start : start + step]
                values = np.empty((some.size, d))
                store.gather(some, columns, values)
                total += values.sum(axis=0)
        return total / rows.size


class CodesKeeper:
    """Encodes whole rows as they are read."""

    wants_given, wants_rows = False, True

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def add(self, first_row: int, values: NDArray[Any], first_column: int) -> None:
        """Encode rows, of which the first one is this."""
        assert first_column == 0
        self.codes.encode(first_row, values)
