from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rows import Rows

BLOCK: Final = 48
STRETCH: Final = 1024
MOST_QUERIES: Final = 64
OF_SQUARES: Final[float]

def can_round(rows: Rows) -> bool: ...

class ByteProducts:
    def __init__(self, rows: Rows, queries: Sequence[NDArray[Any]], seed: int) -> None: ...
    @property
    def products(self) -> NDArray[np.float64]: ...
    @property
    def squares(self) -> NDArray[np.float64]: ...
    @property
    def n_blocks(self) -> int: ...
    def turn_to(self, rows: Rows) -> None: ...
    def fill(self, blocks: NDArray[np.int64]) -> None: ...
    def deviations(self, atoms: NDArray[np.int64] | None = None) -> NDArray[np.float64]: ...
    def radii(self, ends: Sequence[float]) -> list[float]: ...

def reaching_best(
    products: NDArray[np.float64],
    deviations: NDArray[np.float64],
    radii: Sequence[float],
    k: int,
    absolute: bool,
    scores: tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]
    | None = None,
    excluded: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]: ...
