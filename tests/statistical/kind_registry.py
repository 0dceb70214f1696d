"""How a kind of data is registered, and what several kinds share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Make = Callable[[np.random.Generator, int, int], tuple[Array, Array]]

N_QUERIES = 4


@dataclass(frozen=True)
class Kind:
    """A kind of data, and what a search can make of it.

    Attributes
    ----------
    separable
        Whether estimates can rule out most of the atoms for most queries. (Measured: intervals from the signs of all
        rotated coordinates leave less than half of 64 atoms at d = 4,096.) If not, exact products have to decide, or
        what `fit` knows of the atoms decides before any estimate.
    needles
        Whether what decides sits in so few entries, beside noise, that no sample shows it: nothing can be promised
        without a pass over the atoms.
    """

    name: str
    make: Make
    separable: bool
    needles: bool


KINDS: dict[str, Kind] = {}


def kind(*, separable: bool = True, needles: bool = False) -> Callable[[Make], Make]:
    """Register a kind under its function's name."""

    def register(make: Make) -> Make:
        KINDS[make.__name__] = Kind(make.__name__, make, separable, needles)
        return make

    return register


def split(rows: Array, n: int) -> tuple[Array, Array]:
    """Queries of the same population as the atoms."""
    return rows[:n], rows[n:]


def factors(rng: np.random.Generator, n_rows: int, d: int, n_factors: int) -> Array:
    return rng.normal(size=(n_rows, n_factors)) @ rng.normal(size=(n_factors, d)) / np.sqrt(n_factors)
