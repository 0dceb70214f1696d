"""What an index knows of its atoms, as the core takes it; made once, and kept for the searches to come."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore, JoinedStore
from banditmips.atoms.facts import AtomFacts, lengths, longest
from banditmips.core.answer import Known
from banditmips.core.certain import CertainBounds
from banditmips.core.code_source import make_dither
from banditmips.core.rows import Rows

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.atoms.axes import Axes
    from banditmips.race.atom_set import AtomSet

__all__ = ["certain_bounds", "first_array", "index_rows", "inverse", "known_of", "norms_of", "spreads_of"]

_ROUNDING = 32.0 * float(np.finfo(np.float32).eps)
"""Relative error that the sums behind certain bounds may have, at most."""
_ROUNDING_OF_AXES = 2.0 * _ROUNDING
"""The same with axes: eight products in single precision, each wrong by up to four units, and axes that are orthonormal
to as many."""
_FINE_NORMS = (1e-30, 1e30)
"""Norms of atoms whose products in single precision neither overflow nor lose digits."""


def index_rows(atoms: AtomSet) -> Rows | None:
    """The atoms as compiled code reads them, if they are all in memory."""
    return atoms.once("rows", lambda: _rows_of(atoms.store))


def _rows_of(store: AtomStore) -> Rows | None:
    if isinstance(store, DenseStore):
        return store.rows
    stores = store.stores if isinstance(store, JoinedStore) else ()
    arrays = [one.array for one in stores if isinstance(one, DenseStore) and one.rows is not None]
    return Rows(arrays) if arrays and len(arrays) == len(stores) else None


def first_array(atoms: AtomSet) -> NDArray[Any]:
    """The array of the atoms in memory, or the first of several: what kinds of plain searches are found again by."""
    rows = index_rows(atoms)
    assert rows is not None
    array: NDArray[Any] = rows.arrays[0]
    return array


def known_of(atoms: AtomSet) -> Known:
    """What an index has prepared, as the core takes it."""
    return atoms.once("known", lambda: _known_of(atoms))


def _known_of(atoms: AtomSet) -> Known:
    facts, codes = atoms.facts, atoms.codes
    bounds = None if facts is None else certain_bounds(facts, atoms.axes, atoms.store.shape[1])
    return Known(bounds, codes, None if codes is None else make_dither(codes))


def certain_bounds(facts: AtomFacts, axes: Axes | None, d: int) -> CertainBounds:
    """Bounds on scores by what is known of the atoms."""
    norms, whole = longest(facts.squared_norms, d), longest(facts.scatter, d)
    if axes is None:
        return CertainBounds(facts.means, norms, whole[np.newaxis], d, _ROUNDING)
    with np.errstate(over="ignore", invalid="ignore"):
        taken = np.square(axes.along, dtype=np.float64).sum(axis=0)
        rest = np.maximum(facts.scatter - taken, 0.0) + _ROUNDING_OF_AXES * facts.squared_norms
    low, high = _FINE_NORMS
    fine = (norms > low) & (norms < high) & np.isfinite(taken)
    along = axes.along if fine.all() else np.where(fine, axes.along, np.float32(0.0))
    spreads = np.stack([whole, np.where(fine, longest(rest, d), whole)])
    return CertainBounds(facts.means, norms, spreads, d, _ROUNDING_OF_AXES, axes.directions, along)


def norms_of(atoms: AtomSet) -> NDArray[np.float64]:
    """The atoms' norms, from what `fit` knows of their squares."""
    store, facts = atoms.store, atoms.facts
    assert facts is not None
    return atoms.once("norms", lambda: lengths(store, facts.squared_norms, None))


def spreads_of(atoms: AtomSet) -> NDArray[np.float64]:
    """The norms of the atoms less their means."""
    store, facts = atoms.store, atoms.facts
    assert facts is not None
    return atoms.once("spreads", lambda: lengths(store, facts.scatter, facts.means))


def inverse(norms: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 over norms; the cosine with a zero vector is taken as 0."""
    with np.errstate(over="ignore"):
        return np.asarray(np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0))
