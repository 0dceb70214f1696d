from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from banditmips.core.certain import ScoreMap
from banditmips.core.codes import Codes
from banditmips.core.source import Source
from banditmips.core.survivors import Survivors

REGRET: Final = 0.05

class RotatedQuery:
    def __init__(self, codes: Codes, query: NDArray[np.float64], dither: NDArray[np.uint8]) -> None: ...
    @property
    def norm(self) -> float: ...
    @property
    def unit(self) -> float: ...
    @property
    def along(self) -> float: ...
    @property
    def on_centre(self) -> float: ...

class _Times(Protocol):
    cell: float
    atom: float
    row: float
    full: float
    prepare: float
    risk: float

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
        times: _Times,
    ) -> None: ...
    @property
    def hopeless(self) -> bool: ...
    @property
    def time_spent(self) -> float: ...
    @property
    def n_cells_read(self) -> int: ...
    def affordable_size(self, size: int) -> int: ...

def make_dither(codes: Codes) -> NDArray[np.uint8]: ...
