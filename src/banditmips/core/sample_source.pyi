import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.facts import AtomFacts
from banditmips.core.source import Source
from banditmips.core.statistics import Sample
from banditmips.core.survivors import Survivors
from banditmips.race.sampled import Problem, Reader
from banditmips.race.sampling import Sampler
from banditmips.race.schedule import Schedule

class SampleSource(Source):
    problem: Problem
    reader: Reader
    sampler: Sampler
    schedule: Schedule
    sample: Sample
    def __init__(
        self,
        alive: Survivors,
        facts: AtomFacts | None,
        problem: Problem,
        reader: Reader,
        sampler: Sampler,
        schedule: Schedule,
    ) -> None: ...
    def variances(self) -> NDArray[np.float64]: ...
    def variances_of_differences(self, leader: int, sign: float, places: NDArray[np.int64]) -> NDArray[np.float64]: ...
    def scatter_seen(self, t: int) -> float: ...
    @property
    def factors(self) -> NDArray[np.float64]: ...
    def affordable_size(self, size: int) -> int: ...
