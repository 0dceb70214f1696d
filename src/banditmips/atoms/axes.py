"""Axes: a few directions in which much of the atoms lies, for bounds that are certain.

What an atom has along an axis is known after `fit`, and what a query has there takes one product; only what both have
elsewhere is left to Cauchy and Schwarz. Ratings, images and spectra have most of their length along one to eight axes;
where atoms have nothing in common there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_AXES", "Axes", "AxesKeeper", "directions_of"]

MOST_AXES = 8
_LEAST_SHARE = 1 / 16
"""What an axis must hold of the squares that the axes before it have left: with less, intervals are hardly shorter."""
_ENOUGH, _WORTH = 5 / 4, 3 / 4
"""No more axes are kept than leave so many times as many atoms as the best number of them does; and none if that is
more than this part of what is left without any."""
_ATOMS_FOR_FIRST, _ATOMS_FOR_AXIS = 128, 512
"""Atoms for the first axis, and for each if there are more: it takes the memory of one of them, and a query about as
long as one."""

_COLUMNS_TOGETHER = 1 << 13
"""Columns of some atoms that are multiplied together: they stay in a processor's own cache."""
_FINE_SQUARES = (1e-60, 1e60)
"""Sums of squares of rows whose products in single precision neither overflow nor lose digits."""
_ROUNDING = 32.0 * float(np.finfo(np.float32).eps)
"""Part of the squares below which there is nothing but rounding."""


@dataclass(frozen=True)
class Axes:
    """Directions, and what the atoms have of them.

    Attributes
    ----------
    directions : float32 or float64, shape (r, d)
        Orthonormal rows, orthogonal to the vector of ones.
    along : float32, shape (r, n)
        The atoms' products with them.
    """

    directions: NDArray[Any]
    along: NDArray[np.float32]

    @classmethod
    def along_these(cls, directions: NDArray[Any], n: int) -> Axes:
        """Make room for the products of n atoms."""
        return cls(directions, np.zeros((len(directions), n), dtype=np.float32))

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return self.directions.nbytes + self.along.nbytes

    def like(self, n: int) -> Axes:
        """The same directions, with room for n other atoms."""
        return Axes.along_these(self.directions, n)

    def joined(self, other: Axes) -> Axes:
        """These atoms followed by those of `other`."""
        return Axes(self.directions, np.concatenate([self.along, other.along], axis=1))


def directions_of(some: NDArray[Any], n: int) -> NDArray[Any] | None:
    """Find the axes of n atoms by some of them; None if there are none worth keeping.

    How many are kept is judged on one half of those some by the axes of the other half.

    Parameters
    ----------
    some : array of shape (m, d), float32 or float64
    """
    most = min(MOST_AXES, max(n // _ATOMS_FOR_AXIS, int(n >= _ATOMS_FOR_FIRST)), len(some) // 4)
    if most < 1:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        means = some.mean(axis=1, keepdims=True)
        gram = _gram(some, means)
    if not np.isfinite(gram).all() or _n_directions(gram[::2, ::2], most) == 0:
        return None
    rest = some - means
    tried = _main_directions(rest[::2], gram[::2, ::2], most)
    left = _parts_left(some[1::2].mean(axis=1, dtype=np.float64), rest[1::2], gram[1::2, 1::2].diagonal(), tried)
    count = int(np.flatnonzero(left <= _ENOUGH * left.min())[0])
    if count == 0 or left[count] > _WORTH * left[0] or _n_directions(gram, count) == 0:
        return None
    return _main_directions(rest, gram, count)


def _gram(some: NDArray[Any], means: NDArray[Any]) -> NDArray[np.float64]:
    """Products of the rows less their means with each other, a few columns at a time: most atoms have no axes, and of
    those nobody needs a copy.
    """
    gram = np.zeros((len(some), len(some)))
    for start in range(0, some.shape[1], _COLUMNS_TOGETHER):
        part = some[:, start : start + _COLUMNS_TOGETHER] - means
        gram += part @ part.T
    return gram


def _n_directions(gram: NDArray[np.float64], most: int) -> int:
    """How many directions hold enough of the squares of rows with these products to be axes."""
    squares = np.linalg.eigvalsh(gram)[::-1]
    if not _FINE_SQUARES[0] < squares[0] < _FINE_SQUARES[1]:
        return 0
    left, count = float(squares.sum()), 0
    least = _ROUNDING * left
    while count < most and squares[count] >= max(_LEAST_SHARE * left, least):
        left -= float(squares[count])
        count += 1
    return count


def _main_directions(rest: NDArray[Any], gram: NDArray[np.float64], most: int) -> NDArray[Any]:
    """Orthonormal directions in which these rows, whose sums are 0, have the most of their squares: one at least."""
    vectors = np.linalg.eigh(gram)[1][:, ::-1]
    raw = (vectors[:, : _n_directions(gram, most)].T.astype(rest.dtype) @ rest).astype(np.float64)
    raw -= raw.mean(axis=1, keepdims=True)
    return np.ascontiguousarray(np.linalg.qr(raw.T)[0].T, dtype=rest.dtype)


def _parts_left(
    means: NDArray[np.float64], rest: NDArray[Any], scatter: NDArray[np.float64], directions: NDArray[Any]
) -> NDArray[np.float64]:
    """What part of these rows certain bounds leave where one of them is the query, with 0, 1, ... of the directions."""
    along = (rest @ directions.T).astype(np.float64)
    d, others = rest.shape[1], ~np.eye(len(rest), dtype=np.bool_)
    left = np.empty(len(directions) + 1)
    for count in range(left.size):
        part = along[:, :count]
        spreads = np.sqrt(np.maximum(scatter - np.square(part).sum(axis=1), 0.0))
        middles = d * np.outer(means, means) + part @ part.T
        radii = np.outer(spreads, spreads)
        bars = np.where(others, middles - radii, -np.inf).max(axis=1, keepdims=True)
        left[count] = (others & (middles + radii >= bars)).sum() / others.sum()
    return left


class AxesKeeper:
    """Multiplies whole rows with the axes as they are read."""

    looks: Literal[False] = False
    wants_given, wants_rows = False, True

    def __init__(self, axes: Axes) -> None:
        self.axes = axes

    def add(self, first_row: int, values: NDArray[Any], first_column: int) -> None:
        """Multiply rows, of which the first one is this."""
        assert first_column == 0
        directions = self.axes.directions.astype(values.dtype, copy=False)
        with np.errstate(over="ignore", invalid="ignore"):
            self.axes.along[:, first_row : first_row + len(values)] = directions @ values.T

    def known_of(self, n_rows: int) -> dict[str, NDArray[Any]]:
        """Return the axes, and the products of the first rows."""
        return {"axes": self.axes.directions, "axes_along": self.axes.along[:, :n_rows]}
