from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.facts import AtomFacts
from banditmips.core.sample_source import SampleSource
from banditmips.core.survivors import Survivors
from banditmips.race.sampled import Problem
from banditmips.race.sampling import Sampler
from banditmips.race.schedule import Schedule

class CachedSource(SampleSource):
    def __init__(
        self,
        alive: Survivors,
        facts: AtomFacts | None,
        problem: Problem,
        order: NDArray[np.int64],
        values: NDArray[Any],
        sampler: Sampler,
        schedule: Schedule,
    ) -> None: ...
    def look_at(self, row: NDArray[Any]) -> float: ...
