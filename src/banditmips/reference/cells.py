"""The two kinds of cells that a race reads: sampled coordinates, and coordinates of rotated codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["CodedCells", "SampledCells", "UniformSample", "uniform_sample"]


@dataclass(frozen=True)
class SampledCells:
    """Sampled coordinates of all atoms.

    Attributes
    ----------
    atoms, query
        Of shape (n, d) and (d,).
    sample
        Called with a number of coordinates: says which ones, and how they speak for all (``coordinates``, ``scale``,
        ``unit``, ``spread``, ``total_unit``, as `uniform_sample` makes them).
    population
        Coordinates that there are.
    with_replacement
        Whether a coordinate may come again.
    objective
        0, 1 or 2: a coordinate adds q*v, -(q - v)^2 or -|q - v|.
    factors, offsets
        A factor on each atom's terms, and the part of its score that is known already.
    centers, needed_scatter
        Mean of each atom's entries, and what a sample must show of their scatter before it may speak of the atom.
    """

    atoms: NDArray[np.float64]
    query: NDArray[np.float64]
    sample: Callable[[int], Any]
    population: int
    with_replacement: bool = False
    objective: int = 0
    factors: NDArray[np.float64] | None = None
    offsets: NDArray[np.float64] | None = None
    centers: NDArray[np.float64] | None = None
    needed_scatter: NDArray[np.float64] | None = None

    def terms(self, i: int, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """What these coordinates of an atom add to its score."""
        q, v = self.query[columns], self.atoms[i, columns]
        terms = (q * v, -((q - v) ** 2), -np.abs(q - v))[self.objective]
        return np.asarray(terms if self.factors is None else self.factors[i] * terms)

    def known(self, i: int) -> float:
        """The part of an atom's score that is known already."""
        return 0.0 if self.offsets is None else float(self.offsets[i])

    def estimate(self, i: int, size: int) -> float:
        """The atom's score as the first `size` coordinates have it."""
        sample = self.sample(size)
        return float(sample.scale @ self.terms(i, sample.coordinates)) + self.known(i)

    def deviations(self, i: int, size: int) -> NDArray[np.float64]:
        """What each coordinate adds to the atom's estimate beyond its due: the sum of squares is the variance."""
        sample = self.sample(size)
        ratio = (self.estimate(i, size) - self.known(i)) / sample.total_unit
        return np.asarray(sample.spread * (self.terms(i, sample.coordinates) - ratio * sample.unit))

    def weighted_terms(self, i: int, size: int) -> NDArray[np.float64]:
        """What each coordinate would add beyond its due, were none of it due."""
        sample = self.sample(size)
        return np.asarray(sample.spread * self.terms(i, sample.coordinates))

    def is_representative(self, i: int, size: int) -> bool:
        """Whether the sample has seen its fair share of the atom."""
        if self.needed_scatter is None or self.centers is None or np.isnan(self.needed_scatter[i]):
            return True
        sample = self.sample(size)
        shown = sample.scale @ (self.atoms[i, sample.coordinates] - self.centers[i]) ** 2
        return bool(shown >= self.needed_scatter[i])

    def cost(self, size: int) -> int:
        """Multiplies of one atom's estimate: none where the query is 0."""
        if self.objective:
            return size
        return int(np.count_nonzero(self.query[self.sample(size).coordinates]))

    def exact(self, i: int) -> float:
        """The atom's score."""
        return float(self.terms(i, np.arange(self.query.size)).sum()) + self.known(i)

    def exact_cost(self) -> int:
        """Multiplies of one atom's score."""
        return self.query.size if self.objective else int(np.count_nonzero(self.query))


class UniformSample(NamedTuple):
    """How a plain sample speaks for all: the mean of its terms, scaled up."""

    coordinates: NDArray[np.int64]
    scale: NDArray[np.float64]
    unit: NDArray[np.float64]
    spread: NDArray[np.float64]
    total_unit: float


def uniform_sample(
    order: NDArray[np.int64], population: int, with_replacement: bool = False
) -> Callable[[int], UniformSample]:
    """Make a sampler of the coordinates in this order; the variance has N - 1, and 1 - N/d without replacement."""

    def sample(size: int) -> UniformSample:
        left = 1.0 if with_replacement else 1.0 - size / population
        spread = population / size * np.sqrt(left * size / max(size - 1, 1))
        scale = np.full(size, population / size)
        return UniformSample(order[:size], scale, np.ones(size), np.full(size, spread), float(population))

    return sample


@dataclass(frozen=True)
class CodedCells:
    """Bits of rotated codes of all atoms, and a rotated query rounded to a few bits.

    Attributes
    ----------
    atoms, query, centre
        Of shape (n, d), (d,) and (d,).
    rotate
        Rotates the rows of a matrix.
    dither
        Bytes, which stand for numbers in (0, 1) by which the query is rounded.
    n_bits
        Bits of each coordinate.
    rounding
        What rotating in single precision may add to a vector, as a part of its norm.
    """

    atoms: NDArray[np.float64]
    query: NDArray[np.float64]
    centre: NDArray[np.float64]
    rotate: Callable[[NDArray[np.float64]], NDArray[np.float32]]
    dither: NDArray[np.uint8]
    n_bits: int
    rounding: float

    @property
    def part(self) -> float:
        """How much of the centre is taken off the query."""
        square = float(self.centre @ self.centre)
        return float(self.query @ self.centre) / square if square > 0.0 else 0.0

    def rotated_query(self) -> NDArray[np.float64]:
        """The rest of the query, rotated."""
        return np.asarray(self.rotate(self.query - self.part * self.centre)[0], dtype=np.float64)

    def code(self, i: int, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The atom's code, 0 beyond the cells that were read, and the rotated atom that it stands for."""
        r = self.rotate(self.atoms[i] - self.centre)[0].astype(np.float64)
        x = np.where(r >= 0.0, 1.0, -1.0)
        if size <= r.size:
            x[size:] = 0.0
        else:
            step = {2: 0.9957, 3: 0.586, 4: 0.3352}[self.n_bits] * np.linalg.norm(r) / np.sqrt(r.size)
            x = np.clip(2.0 * np.floor(r / step) + 1.0, 1.0 - 2**self.n_bits, 2**self.n_bits - 1.0)
        return x, r

    def step(self, size: int) -> float:
        """The step that the query is rounded to: of 4 bits for signs, of 8 for codes of several bits."""
        largest = float(np.abs(self.rotated_query()).max())
        return largest / (2.0 ** ((4 if size <= self.dither.size else 8) - 1) - 1.0) * (1.0 + 1e-6)

    def estimate(self, i: int, size: int) -> float:
        """The atom's score as so many bits have it: <x, p> |r|^2 / <x, r>, and what the centre adds."""
        x, r = self.code(i, size)
        step = self.step(size)
        p = step * np.floor(self.rotated_query() / step + (self.dither + 0.5) / 256.0)
        along = float((self.atoms[i] - self.centre) @ self.centre)
        return float(x @ p * (r @ r) / (x @ r)) + self.part * along + float(self.query @ self.centre)

    def radius(self, i: int, size: int, quantile: float) -> float:
        """Half the interval at so many deviations, of the code and of rounding the query, and for single precision."""
        x, r = self.code(i, size)
        norm, square = float(np.linalg.norm(self.rotated_query())), float(r @ r)
        size_of_code = float(x @ x) * (square / float(x @ r)) ** 2
        of_code = norm**2 * (size_of_code - square) / (r.size - 1.0)
        of_query = (0.5 * self.step(size)) ** 2 * size_of_code
        slack = 4.0 * self.rounding * norm + 2.0**-23 * abs(self.part) * float(np.linalg.norm(self.centre))
        return float(quantile * np.sqrt(of_code + of_query) + slack * np.sqrt(size_of_code))

    def cost(self, size: int) -> int:
        """Multiplies of the rounds up to this size: a coordinate of a code is one, however many bits it has."""
        width = self.rotated_query().size
        return size if size <= width else 2 * width

    def exact(self, i: int) -> float:
        """The atom's score."""
        return float(self.atoms[i] @ self.query)

    def exact_cost(self) -> int:
        """Multiplies of one atom's score."""
        return self.query.size
