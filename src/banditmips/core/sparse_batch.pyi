from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.sparse_products import SparseProducts

WIDTH: int

def row_products_of_many(
    matrix: SparseProducts, queries: Sequence[NDArray[Any]], columns: NDArray[np.int64] | None
) -> NDArray[np.float64]: ...
def column_products_of_many(
    matrix: SparseProducts, queries: Sequence[NDArray[Any]], columns: NDArray[np.int64] | None
) -> NDArray[np.float64]: ...
def roundings(matrix: SparseProducts) -> NDArray[np.float64]: ...
def best_rows(scores: NDArray[np.float64], k: int, absolute: bool) -> NDArray[np.int64] | None: ...
