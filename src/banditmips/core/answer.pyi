from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.core.certain import CertainBounds, MeasuredQuery, ScoreMap
from banditmips.core.code_source import CodeSource
from banditmips.core.codes import Codes
from banditmips.core.exact import Exact
from banditmips.core.loop import Limits
from banditmips.core.outcome import Outcome
from banditmips.core.plain import PlainKind
from banditmips.core.products import Best
from banditmips.core.rows import Rows
from banditmips.core.rule import CodeRule
from banditmips.core.survivors import Survivors

class Known:
    bounds: CertainBounds | None
    codes: Codes | None
    dither: NDArray[np.uint8] | None
    def __init__(self, bounds: CertainBounds | None, codes: Codes | None, dither: NDArray[np.uint8] | None) -> None: ...

class Times:
    cell: float
    row: float
    full: float
    prepare: float
    atom: float
    risk: float
    fine_cell: float
    fine_atom: float
    def __init__(
        self,
        cell: float = 0.0,
        row: float = 0.0,
        full: float = 0.0,
        prepare: float = 0.0,
        atom: float = 0.0,
        risk: float = ...,
        fine_cell: float | None = None,
        fine_atom: float = 0.0,
    ) -> None: ...

def answer(
    known: Known,
    alive: Survivors,
    query: NDArray[np.float64],
    scores: ScoreMap,
    exact: Exact,
    limits: Limits,
    times: Times,
) -> Outcome: ...
def leave_certain(known: Known, alive: Survivors, query: MeasuredQuery, scores: ScoreMap) -> None: ...
def is_worth_a_round(source: CodeSource, rule: CodeRule, exact: Exact | None = None) -> bool: ...
def answer_survivors(
    known: Known,
    alive: Survivors,
    query: NDArray[np.float64],
    scores: ScoreMap,
    exact: Exact,
    limits: Limits,
    times: Times,
) -> Outcome: ...

class Direct:
    def __init__(self, rows: Rows, known: Known, settings: tuple[int, bool, float], times: Times) -> None: ...
    def survivors(self, query: MeasuredQuery) -> Survivors: ...
    def finish(self, alive: Survivors, query: MeasuredQuery) -> tuple[Best, int] | None: ...
    def few(self, alive: Survivors) -> bool: ...

class PlainRace(PlainKind):
    direct: Direct
    go_on: Callable[[MeasuredQuery, Survivors | None, int], Outcome | None]
    past: Any
