from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.plain import PlainKind
from banditmips.core.rows import Rows

class PlainScores(PlainKind):
    rows: Rows
    single: bool
    objective: int
    factors: NDArray[Any] | None
    offsets: NDArray[Any] | None
    squares: NDArray[Any]
    norms: NDArray[np.float64] | None
    means: NDArray[np.float64] | None
    longest: float
    low: float
    high: float
    wider: float
    lost: float
    most_close: int
    exponent: int
    most_level: float
    level: Callable[[NDArray[Any]], NDArray[Any]] | None
    lengths: Callable[[NDArray[Any]], tuple[Any, Any] | None] | None
    multiply: Callable[[NDArray[Any]], NDArray[Any]] | None
    by_columns: bool
