from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from banditmips.core.exact import Exact
from banditmips.core.records import Round, StopReason
from banditmips.core.survivors import Survivors

class Outcome:
    survivors: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64]
    exact: NDArray[np.bool_]
    n_multiplies: int
    n_rounds: int
    n_survivors: int
    n_raced: int
    time_spent: float
    stop_reason: StopReason
    delta_spent: float
    rounds: list[Round]
    handed_over: bool
    def __init__(
        self,
        alive: Survivors,
        stop_reason: StopReason,
        *,
        exact: bool = False,
        n_multiplies: int = 0,
        n_rounds: int = 0,
        delta_spent: float = 0.0,
        rounds: Iterable[Round] = (),
    ) -> None: ...
    def best(self, k: int, absolute: bool) -> NDArray[np.int64]: ...
    def keep_best(self, k: int, absolute: bool) -> None: ...
    def rescore(self, k: int, absolute: bool, exact: Exact, budget: int | None = None) -> None: ...
    @staticmethod
    def finished(
        rows: NDArray[np.int64],
        scores: NDArray[np.float64],
        n_multiplies: int,
        begun: Outcome | None = None,
        best_first: bool = False,
    ) -> Outcome: ...
    @property
    def waits(self) -> bool: ...
    def add_multiplies(self, n_before: int) -> None: ...
