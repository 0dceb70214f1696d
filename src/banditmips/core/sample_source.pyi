from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from banditmips.core.source import Source
from banditmips.core.statistics import Sample
from banditmips.core.survivors import Survivors
from banditmips.race.sampled import Problem, Reader
from banditmips.race.sampling import Sampler
from banditmips.race.schedule import Schedule

class PerAtom:
    row_scale: NDArray[np.float64]
    centers: NDArray[np.float64]
    needed_scatter: NDArray[np.float64]
    offsets: NDArray[np.float64] | None
    def __init__(
        self,
        row_scale: NDArray[np.float64],
        centers: NDArray[np.float64],
        needed_scatter: NDArray[np.float64],
        offsets: NDArray[np.float64] | None = None,
    ) -> None: ...
    @classmethod
    def nothing_known(cls, n: int) -> Self: ...
    def part(self, chosen: NDArray[np.integer[Any]] | NDArray[np.bool_]) -> PerAtom: ...

class SampleSource(Source):
    atoms: PerAtom
    problem: Problem
    reader: Reader
    sampler: Sampler
    schedule: Schedule
    sample: Sample
    def __init__(
        self, alive: Survivors, atoms: PerAtom, problem: Problem, reader: Reader, sampler: Sampler, schedule: Schedule
    ) -> None: ...
    @property
    def variances(self) -> NDArray[np.float64]: ...
    @property
    def row_scale(self) -> NDArray[np.float64]: ...
    def affordable_size(self, size: int) -> int: ...
