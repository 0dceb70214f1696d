from typing import Final

import numpy as np
from numpy.typing import NDArray

from banditmips.race.sampling import SamplePrefix

PRODUCT: Final = 0
NEG_SQUARED_DIFFERENCE: Final = 1
NEG_ABSOLUTE_DIFFERENCE: Final = 2

class Sample:
    def __init__(self, prefix: SamplePrefix, query: NDArray[np.float64], objective: int) -> None: ...
    coordinates: Final[NDArray[np.int64]]
    objective: Final[int]
    total_unit: Final[float]
    size: Final[int]

def spread_and_noise(terms: NDArray[np.float64], absolute: bool) -> tuple[float, float]: ...
