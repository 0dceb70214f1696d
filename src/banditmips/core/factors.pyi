import numpy as np
from numpy.typing import NDArray

def rough_factors(
    objective: str,
    totals: NDArray[np.float64] | None,
    squares: NDArray[np.float64],
    d: int,
    error: float,
    fine: tuple[float, float],
    may_be_tiny: bool,
) -> (
    tuple[NDArray[np.float64] | None, NDArray[np.float64] | None, NDArray[np.float64], NDArray[np.float64] | None]
    | None
): ...
