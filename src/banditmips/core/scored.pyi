from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.plain import PlainKind
from banditmips.core.rows import Rows

class ScoredAtoms:
    factors: NDArray[Any] | None
    offsets: NDArray[Any] | None
    squares: NDArray[Any] | None
    relative: NDArray[Any] | None
    norms: NDArray[np.float64] | None
    means: NDArray[np.float64] | None
    longest: float
    wider: float
    of_longest: float
    of_centre: float
    of_part: float
    exponent: int
    def __init__(self, rows: Rows) -> None: ...
    @property
    def rows(self) -> Rows: ...

class PlainScores(PlainKind):
    known: ScoredAtoms | None
    atom_type: int
    by_row: bool
    single: bool
    objective: int
    low: float
    high: float
    lost: float
    most_close: int
    needs_squares: bool
    scales: bool
    most_level: float
    level: Callable[[NDArray[Any]], NDArray[Any]] | None
    lengths: Callable[[NDArray[Any]], tuple[Any, Any] | None] | None
    learn: Callable[[ScoredAtoms, NDArray[Any] | None, NDArray[Any]], bool]
    measure_some: Callable[[ScoredAtoms, NDArray[np.int64]], bool]
    multiply: Callable[[Rows, NDArray[Any], NDArray[np.float64] | None], NDArray[Any]] | None
    by_columns: bool
    @property
    def is_closed(self) -> bool: ...
