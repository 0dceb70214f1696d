from collections.abc import Callable, Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from banditmips.core.exact import Exact
from banditmips.core.records import Round, StopReason
from banditmips.core.rule import Rule
from banditmips.core.source import Source
from banditmips.core.survivors import Survivors

N_TRACED: Final = 32

class Limits:
    delta: float
    epsilon: float
    budget: int | None
    traced: bool
    def __init__(self, delta: float, epsilon: float = 0.0, budget: int | None = None, traced: bool = False) -> None: ...

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

def race(
    source: Source,
    rule: Rule,
    exact: Exact,
    limits: Limits,
    n_rounds: int = 0,
    hands_over: Callable[[int], bool] | None = None,
) -> Outcome: ...
def record(source: Source, n_survivors: int) -> Round: ...
def can_lead(alive: Survivors, exact: Exact, limits: Limits, n_multiplies: int) -> bool: ...
def lead(alive: Survivors, exact: Exact) -> int: ...
def learn(alive: Survivors, rows: NDArray[np.int64], exact: Exact) -> int: ...
def finish(outcome: Outcome, source: Source, exact: Exact, may_skip: bool) -> None: ...
