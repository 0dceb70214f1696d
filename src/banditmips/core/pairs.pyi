import numpy as np
from numpy.typing import NDArray

def are_shared(rows: NDArray[np.int64], n: int, row_bytes: int) -> bool: ...
