"""The atoms of a pursuit: in groups, with what is known of their norms, and a count of what was read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import AtomStore, FunctionStore
from banditmips.atoms.collecting import collect_facts
from banditmips.atoms.facts import lengths
from banditmips.core.numbers import permuted_coordinates
from banditmips.core.statistics import PRODUCT

if TYPE_CHECKING:
    from banditmips.pursuit.residual import Residual

__all__ = ["Dictionary", "Exact"]

_BLOCK_ENTRIES = 1 << 20
_SMALLEST_SQUARES = 1e-290
"""Sum of squares below which it has lost digits."""
_SMALL = 1 << 20
"""Entries of a matrix up to which a race takes longer than all of its products: 1 ms each on the machine of
docs/pursuit.md."""
_FITTED_SAMPLE = 512
"""Coordinates of each atom that `fit` keeps: n times a constant, however large d is."""


@dataclass(frozen=True)
class Exact:
    """Exact products of groups with a residual (shape (m, g)), and their Gram matrices (shape (m, g, g)).

    `units`, shape (m, 1), is what the atoms are multiples of: squares of very small or very large ones are no numbers.
    """

    products: NDArray[np.float64]
    gram: NDArray[np.float64]
    units: NDArray[np.float64]

    def only(self, place: int) -> Exact:
        """The same for one of the groups."""
        one = slice(place, place + 1)
        return Exact(self.products[one], self.gram[one], self.units[one])

    def coefficients(self) -> NDArray[np.float64]:
        """The coefficients of the projection on each group; 0 for an atom that is 0."""
        return self._multiples() / self.units

    def _multiples(self) -> NDArray[np.float64]:
        if self.products.shape[1] == 1:
            return np.divide(
                self.products, self.gram[:, 0], out=np.zeros_like(self.products), where=self.gram[:, 0] > 0.0
            )
        inverse = np.linalg.pinv(self.gram, rcond=1e-12, hermitian=True)
        return np.asarray(np.matmul(inverse, self.products[:, :, np.newaxis])[:, :, 0])

    def energies(self) -> NDArray[np.float64]:
        """The squared norm of the projection on each group."""
        return np.asarray(np.maximum(np.sum(self._multiples() * self.products, axis=1), 0.0))

    def scores(self) -> NDArray[np.float64]:
        """The norm of the projection on each group."""
        return np.asarray(np.sqrt(self.energies()))


class Dictionary:
    """A store of atoms, seen as groups of ``group_size`` consecutive ones.

    Attributes
    ----------
    squared_norms : float64, shape (n,)
        NaN where not known.
    lengths : float64, shape (n,), or None
        Their roots, if a fit has read the atoms: those of squares that are no numbers, too.
    sample : float64, shape (n, s), or None
        All atoms' values at the first coordinates of the uniform order of ``sample_seed``, if a fit has read them.
    n_multiplies : int
        (atom, coordinate) pairs evaluated so far.
    is_small : bool
        Whether a race would take longer than all products.
    first_round, growth, finish_fraction
        Coordinates of round one, how rounds grow, and the part of all coordinates from which on exact products replace
        the next round.
    """

    def __init__(self, store: AtomStore, group_size: int) -> None:
        self.store = store
        self.group_size = group_size
        known = store.squared_norms if isinstance(store, FunctionStore) else None
        self.squared_norms = np.full(store.shape[0], np.nan) if known is None else known
        self.lengths: NDArray[np.float64] | None = None
        self.sample: NDArray[np.float64] | None = None
        self.sample_seed = 0
        self.n_multiplies = 0
        self._checked = False
        self._local = self._find_local()
        # What is computed costs the same wherever it lies: rounds begin small and grow slowly. Of a matrix, entries one
        # after another are read many times faster than scattered ones: fewer and larger rounds, and an earlier finish.
        is_computed = isinstance(store, FunctionStore)
        self.is_small = not is_computed and store.shape[0] * store.shape[1] <= _SMALL
        self.first_round = 32 if is_computed else 256
        self.growth = 1.5 if is_computed else 2.0
        self.finish_fraction = 0.8 if is_computed else 0.1

    def _find_local(self) -> _LocalGroups | None:
        supports = self.store.supports if isinstance(self.store, FunctionStore) else None
        if supports is None:
            return None
        of_groups = supports.reshape(-1, self.group_size, 2)
        return _LocalGroups(
            np.stack([of_groups[:, :, 0].min(axis=1), of_groups[:, :, 1].max(axis=1)], axis=1), self.group_size
        )

    def fit(self, seed: int) -> None:
        """Read all atoms once: check them, record their norms and keep a sample. Functions are left as they are."""
        if isinstance(self.store, FunctionStore):
            return
        self.squared_norms = collect_facts(self.store).squared_norms
        self.lengths = lengths(self.store, self.squared_norms, None)
        self._checked = True
        coordinates = permuted_coordinates(seed, self.d, 0, min(_FITTED_SAMPLE, self.d))
        self.sample = self.entries(np.arange(self.store.shape[0]), coordinates)
        self.sample_seed = seed

    def for_one_pursuit(self) -> Dictionary:
        """The same dictionary, with a count and with norms learnt on the way that are its own."""
        own = Dictionary(self.store, self.group_size)
        own.squared_norms, own.lengths = self.squared_norms.copy(), self.lengths
        own.sample, own.sample_seed, own._checked = self.sample, self.sample_seed, self._checked
        return own

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.store.shape[0] // self.group_size

    @property
    def d(self) -> int:
        """Number of coordinates."""
        return self.store.shape[1]

    def rows(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """The atoms of these groups, group after group."""
        return (groups[:, np.newaxis] * self.group_size + np.arange(self.group_size)).ravel()

    def entries(self, rows: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the entries at ``rows x coordinates``."""
        out = np.empty((rows.size, coordinates.size))
        self.store.gather(rows, coordinates, out)
        self.n_multiplies += out.size
        if not self._checked and not np.isfinite(out).all():
            i, j = np.argwhere(~np.isfinite(out))[0]
            raise ValueError(f"atoms has {out[i, j]} at row {rows[i]}, column {coordinates[j]} (argument 'atoms')")
        return out

    def products(
        self, rows: NDArray[np.int64], coordinates: NDArray[np.int64], vectors: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the products of each vector with each of the rows, over some coordinates: shape (vectors, rows)."""
        columns = None if coordinates.size == self.d else coordinates
        self.n_multiplies += rows.size * coordinates.size
        return np.stack([self.store.scores(rows, columns, vector, PRODUCT) for vector in vectors])

    def exact_costs(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Multiplies that the exact products of each group take."""
        if self._local is None:
            return np.full(groups.size, self.group_size * self.d)
        return self._local.costs(groups)

    def exact(self, groups: NDArray[np.int64], residual: Residual) -> Exact:
        """Compute the groups' products with the residual, and their Gram matrices, from all coordinates."""
        if self._local is not None:
            return self._local.exact(groups, lambda some, start, stop: self._sum(some, residual, start, stop))
        rows = self.rows(groups)
        if self.group_size == 1 and residual.is_array and not np.isnan(self.squared_norms[rows]).any():
            products = self.store.scores(rows, None, residual.dense(), PRODUCT)[:, np.newaxis]
            self.n_multiplies += rows.size * self.d
            units = self.units(rows)[:, np.newaxis]
            squares = self.squared_norms[rows][:, np.newaxis] if self.lengths is None else np.ones((rows.size, 1))
            return Exact(products / units, squares[:, :, np.newaxis], units)
        return self._sum(groups, residual, 0, self.d)

    def _sum(self, groups: NDArray[np.int64], residual: Residual, start: int, stop: int) -> Exact:
        """Sum over the coordinates from one to before another, outside of which the groups are 0."""
        g, rows = self.group_size, self.rows(groups)
        products, gram = np.zeros((groups.size, g)), np.zeros((groups.size, g, g))
        step = max(1024, _BLOCK_ENTRIES // rows.size)
        for first in range(start, stop, step):
            coordinates = np.arange(first, min(first + step, stop))
            values = self.entries(rows, coordinates).reshape(-1, g, coordinates.size)
            with np.errstate(over="ignore", invalid="ignore"):
                products += values @ residual.span(first, first + coordinates.size)
                gram += values @ values.transpose(0, 2, 1)
        self._check_squares(rows, np.diagonal(gram, axis1=1, axis2=2).ravel(), start, stop)
        # What has been computed once need not be estimated in later steps.
        self.squared_norms[rows] = np.diagonal(gram, axis1=1, axis2=2).ravel()
        return Exact(products, gram, np.ones((groups.size, 1)))

    def _check_squares(self, rows: NDArray[np.int64], squares: NDArray[np.float64], start: int, stop: int) -> None:
        """Raise where the sum of an atom's squares is not what it is, for want of digits or of room."""
        for i in np.flatnonzero(~((squares > _SMALLEST_SQUARES) & (squares < np.inf))):
            if squares[i] > _SMALLEST_SQUARES or self._has_entries(rows[i : i + 1], start, stop):
                how = "overflow" if squares[i] > 1.0 else "underflow"
                raise ValueError(
                    f"the squares of atom {rows[i]} {how} double precision: let MatchingPursuit.fit divide by "
                    "lengths, or multiply the atoms by a number (argument 'atoms')"
                )

    def _has_entries(self, row: NDArray[np.int64], start: int, stop: int) -> bool:
        """Whether an atom has an entry that is not 0, from one coordinate to before another."""
        for first in range(start, stop, _BLOCK_ENTRIES):
            out = np.empty((1, min(_BLOCK_ENTRIES, stop - first)))
            self.store.gather(row, np.arange(first, first + out.size), out)
            if out.any():
                return True
        return False

    def units(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What to divide these atoms by, so that squares are numbers: their lengths, where a fit has found them."""
        known = np.ones(rows.size) if self.lengths is None else self.lengths[rows]
        return np.where(known > 0.0, known, 1.0)

    def are_zero(self) -> NDArray[np.bool_]:
        """Which groups are known to be 0."""
        norms = self.squared_norms if self.lengths is None else self.lengths
        return np.asarray((norms == 0.0).reshape(-1, self.group_size).all(axis=1))

    def residual_changed(self, rows: NDArray[np.int64]) -> None:
        """Take note that the coefficients of these atoms have changed."""
        if self._local is not None:
            self._local.forget(np.unique(rows // self.group_size))


class _LocalGroups:
    """Groups that are 0 in most places: their exact products stay true until the residual changes where they are not.

    Parameters
    ----------
    supports : int64, shape (n_groups, 2)
        Where each group begins and ends.
    group_size : int
    """

    def __init__(self, supports: NDArray[np.int64], group_size: int) -> None:
        n = supports.shape[0]
        self._supports = supports
        self._group_size = group_size
        self._products = np.zeros((n, group_size))
        self._gram = np.zeros((n, group_size, group_size))
        self._is_true = np.zeros(n, dtype=np.bool_)

    def costs(self, groups: NDArray[np.int64]) -> NDArray[np.int64]:
        """Multiplies that the exact products of each group take."""
        lengths = self._supports[groups, 1] - self._supports[groups, 0]
        return np.asarray(np.where(self._is_true[groups], 0, lengths * self._group_size))

    def exact(self, groups: NDArray[np.int64], compute: Callable[[NDArray[np.int64], int, int], Exact]) -> Exact:
        """Return exact products, computed where they are not known yet: together for groups in the same place."""
        missing = groups[~self._is_true[groups]]
        if missing.size:
            places, which = np.unique(self._supports[missing], axis=0, return_inverse=True)
            for number, (start, stop) in enumerate(places):
                some = missing[which.ravel() == number]
                found = compute(some, int(start), int(stop))
                self._products[some], self._gram[some] = found.products, found.gram
            self._is_true[missing] = True
        return Exact(self._products[groups], self._gram[groups], np.ones((groups.size, 1)))

    def forget(self, groups: NDArray[np.int64]) -> None:
        """Take note that the residual has changed where these groups are."""
        for start, stop in self._supports[groups]:
            self._is_true &= (self._supports[:, 1] <= start) | (self._supports[:, 0] >= stop)
