from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.certain import MeasuredQuery
from banditmips.core.plain import PlainKind
from banditmips.core.rows import Rows

class Best:
    def __init__(self, k: int, absolute: bool) -> None: ...
    @property
    def indices(self) -> NDArray[np.int64]: ...
    @property
    def scores(self) -> NDArray[np.float64]: ...

def best_of_all(
    products: NDArray[Any], squares: NDArray[Any] | None, rows: Rows, query: MeasuredQuery, k: int, absolute: bool
) -> Best | None: ...
def best_of_rows(
    rows: Rows, squares: NDArray[Any] | None, query: NDArray[Any], query_squares: float, settings: tuple[int, bool]
) -> Best | None: ...
def best_of(rows: NDArray[np.int64], scores: NDArray[np.float64], k: int, absolute: bool) -> Best | None: ...

class PlainProducts(PlainKind):
    squares: NDArray[Any] | None
