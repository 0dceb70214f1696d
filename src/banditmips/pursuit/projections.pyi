from typing import Any

import numpy as np
from numpy.typing import NDArray

class Projections:
    mixing: NDArray[np.float64]
    beta: NDArray[np.float64]
    energies: NDArray[np.float64]
    effective: NDArray[np.float64]
    def __init__(self, values: NDArray[np.float64], residual: NDArray[np.float64], prefix: Any) -> None: ...
    def covariances(
        self, stretch: NDArray[np.float64], norm_noise: NDArray[np.float64], leader: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
