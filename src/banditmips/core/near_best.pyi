from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rows import Rows

ROUNDING_OF_DIFFERENCES: float

def rounding_units(single: bool, d: int) -> float: ...
def close_to_each(
    products: NDArray[Any],
    squares: NDArray[Any] | None,
    rows: Rows,
    norms: NDArray[np.float64],
    settings: tuple[int, bool],
    lost: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None: ...
