from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

PRODUCT: Final = 0
NEG_SQUARED_DIFFERENCE: Final = 1
NEG_ABSOLUTE_DIFFERENCE: Final = 2

class _Prefix(Protocol):
    @property
    def coordinates(self) -> NDArray[np.int64]: ...
    @property
    def scale(self) -> NDArray[np.float64]: ...
    @property
    def unit(self) -> NDArray[np.float64]: ...
    @property
    def spread(self) -> NDArray[np.float64]: ...
    @property
    def total_unit(self) -> float: ...

class Sample:
    def __init__(self, prefix: _Prefix, query: NDArray[np.float64], objective: int) -> None: ...
    @property
    def coordinates(self) -> NDArray[np.int64]: ...
    @property
    def objective(self) -> int: ...
    @property
    def total_unit(self) -> float: ...
    @property
    def size(self) -> int: ...
    def estimates(
        self,
        values: NDArray[np.float64],
        row_scale: NDArray[np.float64],
        centers: NDArray[np.float64],
        scattered: bool,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
    def paired_variances(
        self,
        values: NDArray[np.float64],
        row_scale: NDArray[np.float64],
        estimates: NDArray[np.float64],
        leader: int,
        sign: float,
        rows: NDArray[np.int64],
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...

def spread_and_noise(terms: NDArray[np.float64], absolute: bool) -> tuple[float, float]: ...
