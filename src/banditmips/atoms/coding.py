"""Making the codes of an index while `fit` reads the atoms."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.axes import directions_of
from banditmips.atoms.collecting import by_row, some_rows
from banditmips.atoms.dense import DenseStore
from banditmips.atoms.panels import Panels
from banditmips.atoms.parts import PartStore
from banditmips.atoms.protocol import AtomStore
from banditmips.core.codes import MAX_BITS, Codes, bytes_for_atom
from banditmips.core.entries import add_rows

__all__ = ["CodesKeeper", "CodesSize", "codes_size", "first_look"]

_LEAST_CENTRED, _MOST_CENTRED = 64, 256
"""Atoms whose mean is taken off all, a sixteenth of them between these two: the mean of 256 strays from that of all by
a sixteenth of the atoms' deviation, which makes intervals longer by a 500th; that of 64 by a 128th."""


_MOST_LOOKED_AT = 1 << 24
"""Entries of atoms by which axes are looked for, at most."""
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


def first_look(store: AtomStore, panels: Panels) -> dict[str, NDArray[Any]]:
    """Look at some atoms before all are read: their mean is the ``centre`` of codes; ``axes``, if there are any."""
    n, d = store.shape
    mean, some = _mean_and_some(store, panels)
    centre = mean.astype(some.dtype)
    # Not finite where an entry is not (the pass over the atoms will say which), or where sums overflow.
    looked = {"centre": centre if np.isfinite(centre).all() else np.zeros(d, dtype=some.dtype)}
    axes = directions_of(some, n)
    return looked if axes is None else {**looked, "axes": axes}


def _mean_and_some(store: AtomStore, panels: Panels) -> tuple[NDArray[np.float64], NDArray[Any]]:
    """Mean of rows from all over, and some of them; of the first ones, where others would be most of a file."""
    n, d = store.shape
    most = min(n, _MOST_CENTRED, max(_LEAST_CENTRED, n // 16))
    rows = panels.spread_rows(most)
    if rows is None:
        first = panels.first()
        rows = np.arange(0, len(first), -(-len(first) // most))

        def read(chosen: NDArray[np.int64]) -> NDArray[Any]:
            return first[chosen]
    else:

        def read(chosen: NDArray[np.int64]) -> NDArray[Any]:
            if isinstance(store, DenseStore):
                return some_rows(store.array, chosen)
            if isinstance(store, PartStore):
                values = np.empty((chosen.size, d), dtype=store.dtype)
                for part in store.read_parts(chosen, [(0, d)]):
                    values[part.rows, part.first_column : part.stop_column] = part.values
                return values
            values = np.empty((chosen.size, d))
            store.gather(chosen, np.arange(d), values)
            return values

    # Of an entry there are up to four copies in double precision while axes are looked for.
    affordable = _MOST_LOOKED_AT if not isinstance(store, PartStore) else min(store.memory_limit // 32, _MOST_LOOKED_AT)
    wanted = -(-rows.size // max(1, min(_LEAST_CENTRED, affordable // d)))
    dtype = np.dtype(np.float32 if store.dtype.itemsize <= 4 else np.float64)
    total = np.zeros(d)
    if isinstance(store, DenseStore) and store.array.flags.c_contiguous and store.dtype == dtype:
        add_rows(store.array, rows, total)
        return total / rows.size, store.array[rows[::wanted]]
    some: list[NDArray[Any]] = []
    # Of atoms in Fortran order, some rows take a reading of all that is in memory.
    together = affordable if isinstance(store, DenseStore) else min(1 << 22, affordable)
    step = wanted * max(1, together // (wanted * d))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, rows.size, step):
            values = by_row(read(rows[start : start + step]), dtype)
            add_rows(values, np.arange(len(values)), total)
            some.append(values[::wanted])
    return total / rows.size, np.concatenate(some)


class CodesKeeper:
    """Encodes whole rows as they are looked at (`banditmips.atoms.following.LookingKeeper`)."""

    looks: Literal[True] = True
    wants_rows = True

    def __init__(self, codes: Codes) -> None:
        self.codes = codes

    def look(self, first_row: int, values: NDArray[Any], *learnt: NDArray[np.float64]) -> tuple[float, float]:
        """Look at rows, of which the first one is this, and encode them."""
        return self.codes.look_and_encode(first_row, values, *learnt)

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the codes of the first rows."""
        arrays = self.codes.arrays()
        centre = arrays.pop("centre")
        by_atom = {
            name: array[:, :n_rows] if name in ("scales", "errors") else array[:n_rows]
            for name, array in arrays.items()
        }
        return {"centre": centre, **by_atom}
