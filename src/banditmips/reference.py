"""Algorithm 1 of the paper, line by line, in plain NumPy: slow, obvious, and the oracle of the tests.

Corrections to the printed text are marked. ``k`` and ``epsilon`` are the paper's extensions of it.

`algorithm_1` is the text of the paper. `slow_race` is the same algorithm as this package runs it, with rounds, every
rule for who is beaten, every objective and either kind of cells, atom by atom and pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

__all__ = [
    "Algorithm1Result",
    "CodedCells",
    "Rule",
    "SampledCells",
    "SlowRace",
    "UniformSample",
    "algorithm_1",
    "slow_race",
    "uniform_sample",
]


@dataclass(frozen=True)
class Algorithm1Result:
    """What Algorithm 1 found, and how.

    Attributes
    ----------
    indices : int64, shape (k,)
        The atoms with the largest inner products, best first.
    solution_sets : list of (coordinates used, surviving atoms), one entry for each elimination step.
    n_multiplies : int
        Products computed, those of the exact finish included.
    """

    indices: NDArray[np.int64]
    solution_sets: list[tuple[int, NDArray[np.int64]]]
    n_multiplies: int


def algorithm_1(
    atoms: ArrayLike,
    query: ArrayLike,
    sigma: float,
    delta: float,
    coordinates: Iterable[int],
    k: int = 1,
    epsilon: float = 0.0,
    checkpoints: Sequence[int] | None = None,
) -> Algorithm1Result:
    """Run Algorithm 1 (BanditMIPS) on one query.

    Parameters
    ----------
    atoms, query : arrays of shape (n, d) and (d,)
    sigma : float
        Sub-Gaussian parameter of a product ``q[J] * v[i, J]`` at a random coordinate J.
    delta : float
        Failure probability.
    coordinates : iterable of int
        The coordinates in the order in which they are sampled. The paper draws them uniformly with replacement.
    k : int
        How many atoms to find: the k-th best takes the leader's place.
    epsilon : float
        Stop when the radius is below a quarter of this, per coordinate (inner product over d), as in the
        paper's experiments.
    checkpoints : sequence of int, optional
        Numbers of coordinates after which atoms are eliminated. None eliminates after every coordinate and splits
        delta by 1/N^2, as the paper does; otherwise delta is split over the checkpoints r = 1, 2, ... by 6/(pi r)^2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.integers(-1, 2, size=(20, 3000)) + np.arange(20)[:, None]
    >>> query = np.ones(3000)
    >>> algorithm_1(atoms, query, sigma=1.0, delta=0.01, coordinates=rng.integers(3000, size=3000)).indices
    array([19])
    """
    v = np.asarray(atoms, dtype=np.float64)
    q = np.asarray(query, dtype=np.float64)
    n, d = v.shape
    order = iter(coordinates)
    solution = np.arange(n)  # line 1
    d_used = 0  # line 2
    mu = np.zeros(n)  # line 3
    solution_sets: list[tuple[int, NDArray[np.int64]]] = []
    n_multiplies = 0
    while d_used < d and solution.size > k:  # line 4
        j = next(order)  # line 5
        mu[solution] = (d_used * mu[solution] + v[solution, j] * q[j]) / (d_used + 1)  # lines 6 and 7
        n_multiplies += solution.size
        # Line 10 comes before lines 8 and 9 here: the printed radius takes the logarithm of 0 for the first sample.
        d_used += 1
        radius = _radius(sigma, delta, n, d_used, checkpoints)  # line 8
        if radius is None:
            continue
        leader = np.sort(mu[solution])[-k]
        solution = solution[mu[solution] + radius >= leader - radius]  # line 9
        solution_sets.append((d_used, solution.copy()))
        if epsilon > 0.0 and radius < epsilon / 4.0:
            break
    if solution.size > k and d_used >= d:  # line 11
        mu[solution] = v[solution] @ q / d
        n_multiplies += solution.size * d
    best = np.lexsort((solution, -mu[solution]))[:k]  # line 12; the printed output has q and v exchanged
    return Algorithm1Result(solution[best], solution_sets, n_multiplies)


def _radius(sigma: float, delta: float, n: int, d_used: int, checkpoints: Sequence[int] | None) -> float | None:
    """Two-sided Hoeffding radius after `d_used` coordinates, or None where nothing is to be eliminated."""
    if checkpoints is None:
        return float(sigma * np.sqrt(2.0 * np.log(4.0 * n * d_used**2 / delta) / d_used))
    if d_used not in checkpoints:
        return None
    r = list(checkpoints).index(d_used) + 1
    delta_r = delta * 6.0 / (np.pi * r) ** 2
    return float(sigma * np.sqrt(2.0 * np.log(2.0 * n / delta_r) / d_used))


# --- the race as the package runs it: rounds, every rule, every objective --------------------------------------------


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
    row_scale, offsets
        A factor on each atom's terms, and the part of its score that is known already.
    unrelated
        What each atom's estimate from a single coordinate would vary by, if it had nothing to do with the query.
    centers, needed_scatter
        Mean of each atom's entries, and what a sample must show of their scatter before it may speak of the atom.
    """

    atoms: NDArray[np.float64]
    query: NDArray[np.float64]
    sample: Callable[[int], Any]
    population: int
    with_replacement: bool = False
    objective: int = 0
    row_scale: NDArray[np.float64] | None = None
    offsets: NDArray[np.float64] | None = None
    unrelated: NDArray[np.float64] | None = None
    centers: NDArray[np.float64] | None = None
    needed_scatter: NDArray[np.float64] | None = None

    def terms(self, i: int, columns: NDArray[np.int64]) -> NDArray[np.float64]:
        """What these coordinates of an atom add to its score."""
        q, v = self.query[columns], self.atoms[i, columns]
        terms = (q * v, -((q - v) ** 2), -np.abs(q - v))[self.objective]
        return np.asarray(terms if self.row_scale is None else self.row_scale[i] * terms)

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


@dataclass(frozen=True)
class Rule:
    """Who is beaten after a round. A name of `banditmips.search`'s ``bound``, and what that needs.

    Attributes
    ----------
    sigma, width
        Sub-Gaussian parameter of one term times the population, and length of the interval that holds it.
    """

    name: str
    delta: float
    n_atoms: int
    k: int
    absolute: bool = False
    sigma: float = np.nan
    width: float = np.nan

    def beaten(self, cells: Any, rows: NDArray[np.int64], size: int, number: int) -> NDArray[np.bool_]:
        """Which of the rows are beaten after round `number`, which has read `size` cells of each."""
        estimates = np.array([cells.estimate(i, size) for i in rows])
        if self.name == "paired":
            return self._beaten_by_pairs(cells, rows, estimates, size, number)
        radius = np.array([self.radius(cells, i, size, number) for i in rows])
        ranking = np.abs(estimates) if self.absolute else estimates
        if rows.size <= self.k:
            return np.zeros(rows.size, dtype=np.bool_)
        above = np.array([self.above(cells, i, size, number) for i in rows])
        return np.asarray(ranking + above < np.sort(ranking - radius)[-self.k])

    def above(self, cells: Any, i: int, size: int, number: int) -> float:
        """How far above its estimate one of the best k may be: of codes, half of delta is split over k atoms only."""
        if self.name != "codes":
            return self.radius(cells, i, size, number)
        share = self.delta * 6.0 / (np.pi * number) ** 2 / (self.ways * self.k)
        return float(cells.radius(i, size, np.sqrt(2.0 * np.log(2.0 / share))))

    @property
    def ways(self) -> int:
        """In how many directions a score that is ranked can be missed."""
        return 2 if self.absolute else 1

    def radius(self, cells: Any, i: int, size: int, number: int) -> float:
        """Half the interval of an atom's score, at its share of the round's share of delta."""
        share = self.delta * 6.0 / (np.pi * number) ** 2 / self.n_atoms
        if self.name == "codes":
            return float(cells.radius(i, size, np.sqrt(2.0 * np.log(2.0 * self.ways / share))))
        d, scale = cells.population, 1.0 if cells.row_scale is None else float(cells.row_scale[i])
        if self.name == "paired":
            z = -float(stdtrit(size - 1, share / 2.0)) if cells.is_representative(i, size) else np.inf
            return float(z * np.linalg.norm(cells.deviations(i, size)))
        if self.name == "hoeffding":
            return float(scale * self.sigma * np.sqrt(2.0 * np.log(2.0 / share) / size))
        half = (1.0 - (size - 1) / d) if 2 * size <= d else (1.0 - size / d) * (1.0 + 1.0 / size)
        if self.name == "hoeffding_serfling":
            return float(scale * self.sigma * np.sqrt(2.0 * half * np.log(2.0 / share) / size))
        deviation = d * cells.terms(i, cells.sample(size).coordinates).std()
        if cells.with_replacement:
            log_term, rho, kappa = np.log(3.0 / share), 1.0, 3.0
        else:
            log_term, rho, kappa = np.log(10.0 / share), half, 7.0 / 3.0 + 3.0 / np.sqrt(2.0)
        range_term = kappa * scale * self.width * log_term / size
        return float(deviation * np.sqrt(2.0 * rho * log_term / size) + range_term)

    def _beaten_by_pairs(
        self, cells: SampledCells, rows: NDArray[np.int64], estimates: NDArray[np.float64], size: int, number: int
    ) -> NDArray[np.bool_]:
        """Compare every atom with each of the k leaders on the cells that they share."""
        out = np.zeros(rows.size, dtype=np.bool_)
        pairs = max(self.k * (self.n_atoms - self.k), 1) * (2 if self.absolute else 1)
        tail = self.delta * 6.0 / (np.pi * number) ** 2 / pairs
        if size < min(2.0 * np.log(1.0 / tail), cells.population / 2):
            return out  # too few cells for so small a probability
        trusted = np.array([cells.is_representative(i, size) for i in rows])
        ranking = np.abs(estimates) if self.absolute else estimates
        leaders = np.argsort(-ranking, kind="stable")[: self.k]
        beaters = leaders
        if not trusted[leaders].all():
            if trusted.sum() < self.k:
                return out
            beaters = np.argsort(-np.where(trusted, ranking, -np.inf), kind="stable")[: self.k]
        for place in range(rows.size):
            if trusted[place] and place not in leaders and place not in beaters:
                out[place] = all(
                    self._loses(cells, rows, estimates, place, beater, sign, tail, size)
                    for beater in beaters
                    for sign in ((1.0, -1.0) if self.absolute else (1.0,))
                )
        return out

    def _loses(
        self,
        cells: SampledCells,
        rows: NDArray[np.int64],
        estimates: NDArray[np.float64],
        place: int,
        beater: np.int64,
        sign: float,
        tail: float,
        size: int,
    ) -> bool:
        """Whether `sign` times the score of the one is below that of the other (its size, where the sign is free)."""
        turned = -1.0 if self.absolute and estimates[beater] < 0.0 else 1.0
        gap = turned * estimates[beater] - sign * estimates[place]
        squares = (turned * cells.deviations(rows[beater], size) - sign * cells.deviations(rows[place], size)) ** 2
        variance = squares.sum()
        share = squares.max() / variance if variance > 0.0 else 0.0
        if cells.unrelated is not None:
            least = 0.25 * cells.population / size * (cells.unrelated[rows[beater]] + cells.unrelated[rows[place]])
            variance = max(variance, least)
        z = -float(stdtrit(size - 1, tail))
        hangs_on_one = share > max(2.0 / np.log(1.0 / tail), 2.0 / size)
        size_of_scores = max(abs(estimates[beater]), abs(estimates[place]))
        is_told = np.sqrt(variance) > 1e-12 * size_of_scores and not hangs_on_one
        return bool(gap > z * np.sqrt(variance) and gap > 1e-140 and is_told)


@dataclass(frozen=True)
class SlowRace:
    """How a race went: (cells read, survivors) after every round, the best k, and all multiplies."""

    rounds: list[tuple[int, NDArray[np.int64]]]
    indices: NDArray[np.int64]
    n_multiplies: int


def slow_race(cells: Any, rule: Rule, sizes: Sequence[int], candidates: NDArray[np.int64]) -> SlowRace:
    """Race the candidates in rounds that reach these numbers of cells, then compute those that are left exactly.

    Where intervals hold for single atoms, one that ends below what k exact scores have reached is left out.
    """
    rows, rounds, n_multiplies, before = candidates, [], 0, 0
    number, exhausted = 0, False
    for number, size in enumerate(sizes, start=1):
        n_multiplies += rows.size * (cells.cost(size) - cells.cost(before) if before else cells.cost(size))
        before = size
        exhausted = size == getattr(cells, "population", -1) and not cells.with_replacement
        if not exhausted:
            rows = rows[~rule.beaten(cells, rows, size, number)]
        rounds.append((size, rows))
        if rows.size <= rule.k or exhausted:
            break
    estimates = np.array([cells.estimate(i, before) for i in rows])
    scores = np.abs(estimates) if rule.absolute else estimates
    if rows.size > rule.k and not exhausted:
        seen = 0 if isinstance(cells, CodedCells) or cells.with_replacement else cells.cost(before)
        upper = scores + np.array([rule.above(cells, i, before, number) for i in rows])
        exact, left = np.full(rows.size, -np.inf), np.argsort(-scores, kind="stable")
        while left.size:
            n_done = int(np.isfinite(exact).sum())
            count = left.size if rule.name == "paired" else max(rule.k, n_done)
            for place in left[:count]:
                score = cells.exact(rows[place])
                exact[place] = abs(score) if rule.absolute else score
                n_multiplies += cells.exact_cost() - seen
            left = left[count:]
            left = left[upper[left] >= np.sort(exact)[-rule.k]]
        scores = exact
    best = np.lexsort((rows, -scores))[: rule.k]
    return SlowRace(rounds, rows[best], n_multiplies)
