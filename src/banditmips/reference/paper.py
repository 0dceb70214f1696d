"""Algorithm 1 of the paper, line by line.

Corrections to the printed text are marked. ``k`` and ``epsilon`` are the paper's extensions of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Algorithm1Result", "algorithm_1"]


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
