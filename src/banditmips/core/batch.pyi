from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.plain import BytesFirst
from banditmips.core.products import PlainProducts
from banditmips.core.rows import Rows

def measure_queries(
    queries: NDArray[Any],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_]]: ...
def add_exactly(
    rows: Rows,
    queries: NDArray[Any],
    scales: NDArray[np.float64] | None,
    close: NDArray[np.int64],
    begins: NDArray[np.int64],
    objective: int,
    sums: NDArray[np.float64],
    part: tuple[int, int],
) -> None: ...
def best_of_each(
    close: NDArray[np.int64], begins: NDArray[np.int64], scores: NDArray[np.float64], k: int, absolute: bool
) -> tuple[NDArray[np.int64], NDArray[np.float64]] | None: ...

class PlainBatch(PlainProducts):
    n_queries: int
    by_tiles: bool
    by_ourselves: bool
    turns: bool
    bytes_first: BytesFirst
