from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from banditmips.core.certain import ScoreMap
from banditmips.core.rows import Rows
from banditmips.race.sampled import Reader

class Exact:
    row_cost: int
    def scores(self, rows: NDArray[np.int64]) -> NDArray[np.float64]: ...
    def cost(self, rows: NDArray[np.int64]) -> int: ...

class RowsExact(Exact):
    def __init__(
        self,
        rows: Rows,
        query: NDArray[np.float64],
        objective: int,
        scores: ScoreMap,
        columns: NDArray[np.int64] | None,
        complain: Callable[[int], object],
    ) -> None: ...

class ReaderExact(Exact):
    def __init__(self, reader: Reader) -> None: ...
