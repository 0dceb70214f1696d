from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rows import Rows

LANE_TERMS: int
SQUARE_TERMS: int

def pass_dtype(rows: Rows) -> np.dtype[Any]: ...
def rough_sums(
    rows: Rows,
    chosen: NDArray[np.int64],
    queries: NDArray[Any],
    objective: int,
    moments: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]: ...
def column_moments(block: NDArray[Any]) -> NDArray[np.float64]: ...
def fills_products(rows: Rows) -> bool: ...
def gives_squares(rows: Rows) -> bool: ...
def products_and_squares(rows: Rows, query: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]: ...
