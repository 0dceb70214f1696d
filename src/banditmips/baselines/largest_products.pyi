from typing import Any

import numpy as np
from numpy.typing import NDArray

def first_atoms(
    values: NDArray[Any], order: NDArray[Any], query: NDArray[np.float64], budget: int
) -> tuple[NDArray[np.int64], int]: ...
