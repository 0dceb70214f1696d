from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

STRETCH: Final = 2048

def is_readable(dtype: np.dtype[Any]) -> bool: ...

class Rows:
    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None: ...
    n: Final[int]
    d: Final[int]
    row_bytes: Final[int]
    arrays: Final[tuple[NDArray[Any], ...]]
    are_contiguous: Final[bool]
    are_columns: Final[bool]
    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]: ...
    def rough_products(self, query: NDArray[Any], start: int, stop: int) -> NDArray[Any]: ...
    def column_products(self, query: NDArray[np.float64], start: int, stop: int) -> NDArray[np.float64]: ...
    def sums_of_columns(
        self, queries: NDArray[np.float64], start: int, stop: int, objective: int
    ) -> NDArray[np.float64]: ...
    def pair_sums(
        self, rows: NDArray[np.int64], begins: NDArray[np.int64], queries: NDArray[Any], objective: int
    ) -> NDArray[np.float64]: ...
    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]) -> None: ...
    def check(self, rows: NDArray[np.int64]) -> None: ...

def fill_block(rows: Rows, chosen: NDArray[np.int64], block: NDArray[Any]) -> None: ...
