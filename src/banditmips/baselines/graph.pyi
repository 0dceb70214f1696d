from typing import Any

import numpy as np
from numpy.typing import NDArray

class Graph:
    atoms: NDArray[Any]
    links: NDArray[np.int64]
    degrees: NDArray[np.int64]
    first_row: NDArray[np.int64]
    entry: int
    top: int
    def __init__(
        self,
        atoms: NDArray[Any],
        links: NDArray[np.int64],
        degrees: NDArray[np.int64],
        first_row: NDArray[np.int64],
        entry: int,
        top: int,
    ) -> None: ...
    def walk(self, query: NDArray[np.float64], ef: int) -> tuple[NDArray[np.int64], NDArray[np.float64], int]: ...

def build(
    atoms: NDArray[Any], layers: NDArray[np.int64], alphas: NDArray[np.float64], max_links: int, ef: int
) -> Graph: ...
