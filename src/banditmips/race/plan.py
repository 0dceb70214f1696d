"""The plan: which way is expected to take the least time, by what things cost on this machine.

Every number here is a measured cost (`race.costs`) times a count; nothing is fitted to data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips.core.answer import Times
from banditmips.core.numbers import permuted_coordinates
from banditmips.race.costs import Costs

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.core.codes import Codes

__all__ = ["NO_TIMES", "Probe", "code_times", "full_time", "probe_sampling", "sampling_can_pay"]

NO_TIMES = Times()
"""Where not time but multiplies are to be saved."""
REGRET = 0.05
"""Part of the time of the full product that finding out whether sampling pays may take."""
_N_PROBED, _PROBE_SIZE = 48, 64
"""Atoms and coordinates of a probe; half of the coordinates say who leads, the other half by how much."""


def full_time(costs: Costs, n: int, d: int, itemsize: int, by_blas: bool) -> float:
    """Nanoseconds of all products."""
    value = costs.stream_of(n * d) * itemsize / 4
    return n * d * (value if by_blas else max(value, costs.convert))


def code_times(costs: Costs, codes: Codes, n: int, itemsize: int, contiguous: bool, by_blas: bool) -> Times:
    """What the steps of a race on codes take."""
    d = codes.rotation.d
    full = full_time(costs, n, d, itemsize, by_blas)
    row = d * (costs.row * itemsize / 4 if contiguous else costs.gather) + costs.row_overhead
    return Times(cell=costs.cell, row=row, full=full, prepare=codes.rotation.width * costs.rotate + costs.call_overhead)


def sampling_can_pay(costs: Costs, n: int, d: int, itemsize: int, first: int) -> bool:
    """Whether a race on gathered coordinates could be faster than all products, at its best."""
    full = full_time(costs, n, d, itemsize, by_blas=True)
    probe = _N_PROBED * _PROBE_SIZE * costs.gather + costs.probe_overhead
    best = n * first * costs.gather + d * costs.row + 4 * costs.round_overhead
    return probe <= REGRET * full and 2.0 * best <= full


@dataclass(frozen=True)
class Probe:
    """What a few atoms say about the whole race.

    Attributes
    ----------
    needed : float
        Coordinates that it takes to drop a typical atom; infinite where nothing stands out.
    """

    needed: float

    def pays(self, costs: Costs, n: int, d: int, itemsize: int) -> bool:
        """Whether dropping typical atoms on so many coordinates takes less than half of the full product."""
        full = full_time(costs, n, d, itemsize, by_blas=True)
        return 2.0 * n * self.needed * (costs.gather + costs.arithmetic) <= full


def probe_sampling(store: AtomStore, query: NDArray[np.float64], quantile: float, seed: int, absolute: bool) -> Probe:
    """Sample a few atoms on a few uniform coordinates, and guess what the race among all of them would need.

    The leader of all atoms is not among the few: what it is ahead by follows from the spread of their scores on one half of the
    coordinates, as far as it shows again on the other half.
    """
    n, d = store.shape
    rows = np.unique(np.linspace(0, n - 1, min(n, _N_PROBED)).astype(np.int64))
    coordinates = permuted_coordinates(seed, d, 0, min(_PROBE_SIZE, d))
    values = np.empty((rows.size, coordinates.size))
    store.gather(rows, coordinates, values)
    with np.errstate(over="ignore", invalid="ignore"):
        terms = values * query[coordinates]
        middle = terms.mean(axis=0)
        apart = terms - middle
        half = terms.shape[1] // 2
        one, other = apart[:, :half].mean(axis=1), apart[:, half:].mean(axis=1)
        # Noise of the halves has nothing to do with each other, so their product is the spread of the scores alone.
        spread = float((one * other).mean())
        noise = float(apart.var(axis=1, ddof=1).mean())
        if absolute:
            level = terms[:, :half].mean(axis=1) * terms[:, half:].mean(axis=1)
            spread = max(spread, float(level.mean()))
    if not (np.isfinite(spread) and np.isfinite(noise)) or spread <= 0.0:
        return Probe(np.inf)
    ahead = np.sqrt(spread) * np.sqrt(2.0 * np.log(max(n, 2)))
    return Probe(quantile**2 * 2.0 * noise / ahead**2 if ahead > 0.0 else np.inf)
