"""Making the codes of an index while `fit` reads the atoms."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.dense import DenseStore
from banditmips.atoms.panels import Panels
from banditmips.atoms.parts import PartStore
from banditmips.atoms.protocol import AtomStore
from banditmips.core.codes import MAX_BITS, Codes, bytes_for_atom
from banditmips.core.rotation import Rotation

__all__ = ["CodesKeeper", "CodesSize", "choose_codes", "codes_size"]

_LEAST_CENTRED, _MOST_CENTRED = 64, 256
"""Atoms whose mean is taken off all, a sixteenth of them between these two: the mean of 256 strays from that of all by
a sixteenth of the atoms' deviation, which makes intervals longer by a 500th; that of 64 by a 128th."""


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


def choose_codes(
    store: AtomStore, seed: int, size: CodesSize, panels: Panels, centre: NDArray[Any] | None = None
) -> Codes:
    """Make room for the codes of all atoms, about the mean of some of them, unless the centre is known."""
    n, d = store.shape
    if centre is None:
        centre = _mean_of_some(store, panels)
        if store.dtype.itemsize <= 4:
            centre = centre.astype(np.float32)
        # Not finite where an entry is not (the pass over the atoms will say which), or where sums overflow.
        if not np.isfinite(centre).all():
            centre = np.zeros(d, dtype=centre.dtype)
    return Codes(Rotation(d, seed), centre, n, size.n_cells, size.n_bits)


def _mean_of_some(store: AtomStore, panels: Panels) -> NDArray[np.float64]:
    """Mean of rows from all over; of the first ones, where others could not be had without reading most of a file."""
    n, d = store.shape
    most = min(n, _MOST_CENTRED, max(_LEAST_CENTRED, n // 16))
    rows = panels.spread_rows(most)
    total = np.zeros(d)
    with np.errstate(over="ignore", invalid="ignore"):
        if rows is None:
            first = panels.first()
            step = -(-len(first) // most)
            some = first[::step]
            for values in some:
                total += values
            return total / len(some)
        if isinstance(store, DenseStore):
            for row in rows:
                total += store.array[row]
            return total / rows.size
        if isinstance(store, PartStore):
            for part in store.read_parts(rows, [(0, d)]):
                total[part.first_column : part.stop_column] += part.values.sum(axis=0, dtype=np.float64)
            return total / rows.size
        step = max(1, (1 << 22) // d)
        columns = np.arange(d)
        for start in range(0, rows.size, step):
            values = np.empty((min(step, rows.size - start), d))
            store.gather(rows[start : start + step], columns, values)
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

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the codes of the first rows."""
        arrays = self.codes.arrays()
        centre = arrays.pop("centre")
        by_atom = {
            name: array[:, :n_rows] if name in ("scales", "errors") else array[:n_rows]
            for name, array in arrays.items()
        }
        return {"centre": centre, **by_atom}
