import numpy as np
from numpy.typing import NDArray

def read_runs(descriptor: int, begins: NDArray[np.int64], sizes: NDArray[np.int64], room: NDArray[np.uint8]) -> int: ...
