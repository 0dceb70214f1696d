from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

CELLS_IN_WORD: Final = 64

class Rotation:
    def __init__(self, d: int, seed: int) -> None: ...
    d: Final[int]
    width: Final[int]
    seed: Final[int]
    @property
    def nbytes(self) -> int: ...
    rounding: Final[float]
    def rotated(self, vectors: ArrayLike) -> NDArray[np.float32]: ...
