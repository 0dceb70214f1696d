from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from banditmips.core.exact import Exact
from banditmips.core.outcome import Outcome
from banditmips.core.records import Round
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
