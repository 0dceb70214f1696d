from typing import Final

import numpy as np
from numpy.typing import NDArray

from banditmips.core.answer import Times
from banditmips.core.certain import ScoreMap
from banditmips.core.codes import Codes
from banditmips.core.source import Source
from banditmips.core.survivors import Survivors

REGRET: Final = 0.05

class CodeSource(Source):
    row_cost: int
    leads_for_multiplies: bool
    def __init__(
        self,
        alive: Survivors,
        codes: Codes,
        query: NDArray[np.float64],
        dither: NDArray[np.uint8],
        scores: ScoreMap,
        times: Times,
    ) -> None: ...
    hopeless: Final[bool]
    time_spent: Final[float]
    n_cells_read: Final[int]
    def read_part(self, size: int, first: int, stop: int) -> None: ...
    def affordable_size(self, size: int) -> int: ...

def make_dither(codes: Codes) -> NDArray[np.uint8]: ...
