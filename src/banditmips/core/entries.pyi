import numpy as np
from numpy.typing import NDArray

def look_at(
    values: NDArray[np.float32] | NDArray[np.float64],
    bases: NDArray[np.float64],
    means: NDArray[np.float64],
    scatters: NDArray[np.float64],
    column_squares: NDArray[np.float64] | None = None,
) -> tuple[float, float]: ...
def look_at_columns(
    values: NDArray[np.float32] | NDArray[np.float64],
    bases: NDArray[np.float64],
    means: NDArray[np.float64],
    scatters: NDArray[np.float64],
    column_squares: NDArray[np.float64] | None = None,
) -> tuple[float, float]: ...
def add_rows(
    values: NDArray[np.float32] | NDArray[np.float64], rows: NDArray[np.int64], totals: NDArray[np.float64]
) -> None: ...
def turn(
    values: NDArray[np.float32] | NDArray[np.float64], rows: NDArray[np.float32] | NDArray[np.float64]
) -> None: ...
def sums_of_squares(
    vectors: NDArray[np.float32] | NDArray[np.float64], means: NDArray[np.float64] | None = None
) -> NDArray[np.float64]: ...
def sums_of_rows(vectors: NDArray[np.float32] | NDArray[np.float64]) -> NDArray[np.float64]: ...
