from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from banditmips.core.survivors import Survivors

class ScoreMap:
    def __init__(
        self, factors: NDArray[np.float64] | None = None, offsets: NDArray[np.float64] | None = None
    ) -> None: ...
    factors: Final[NDArray[np.float64] | None]
    offsets: Final[NDArray[np.float64] | None]
    def of_sums(self, sums: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]: ...

class MeasuredQuery:
    def __init__(self, given: NDArray[np.float32] | NDArray[np.float64]) -> None: ...
    given: Final[NDArray[Any]]
    exact: Final[NDArray[np.float64]]
    @property
    def total(self) -> float: ...
    @property
    def size(self) -> float: ...
    @property
    def squares(self) -> float: ...
    @property
    def largest(self) -> float: ...
    @property
    def n_nonzero(self) -> int: ...
    @property
    def unevenness(self) -> float: ...
    @property
    def is_fine(self) -> bool: ...

class CertainBounds:
    def __init__(
        self,
        means: NDArray[np.float64],
        norms: NDArray[np.float64],
        spreads: NDArray[np.float64],
        d: int,
        rounding: float,
        axes: NDArray[Any] | None = None,
        along: NDArray[np.float32] | None = None,
    ) -> None: ...
    def bound(self, alive: Survivors, query: MeasuredQuery, scores: ScoreMap) -> bool: ...
