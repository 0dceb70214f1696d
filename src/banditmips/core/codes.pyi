from collections.abc import Mapping
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rotation import Rotation

MAX_BITS: Final = 4

def prefix_ends(n_cells: int) -> NDArray[np.int64]: ...
def bytes_for_atom(n_cells: int, n_bits: int) -> int: ...

class Codes:
    def __init__(
        self,
        rotation: Rotation,
        centre: NDArray[np.float32] | NDArray[np.float64],
        n: int,
        n_cells: int,
        n_bits: int = 1,
    ) -> None: ...
    rotation: Final[Rotation]
    n: Final[int]
    n_cells: Final[int]
    n_first: Final[int]
    n_bits: Final[int]
    centre: Final[NDArray[np.float32] | NDArray[np.float64]]
    along: Final[NDArray[np.float64]]
    ends: Final[NDArray[np.int64]]
    scales: Final[NDArray[np.float32]]
    errors: Final[NDArray[np.float32]]
    first: Final[NDArray[np.uint64]]
    rest: Final[NDArray[np.uint64]]
    finer: Final[NDArray[np.uint64]]
    @property
    def nbytes(self) -> int: ...
    def arrays(self) -> dict[str, NDArray[Any]]: ...
    @classmethod
    def from_arrays(cls, rotation: Rotation, n_cells: int, n_bits: int, arrays: Mapping[str, NDArray[Any]]) -> Self: ...
    def like(self, n: int) -> Codes: ...
    def joined(self, other: Codes) -> Codes: ...
    def look_and_encode(
        self,
        first_row: int,
        atoms: NDArray[np.float32] | NDArray[np.float64],
        bases: NDArray[np.float64],
        means: NDArray[np.float64],
        scatters: NDArray[np.float64],
        column_squares: NDArray[np.float64],
    ) -> tuple[float, float]: ...
    def encode(self, first_row: int, atoms: NDArray[np.float32] | NDArray[np.float64]) -> None: ...
