from collections.abc import Callable
from typing import Any

from banditmips.core.answer import Known, Times
from banditmips.core.certain import MeasuredQuery
from banditmips.core.plain import PlainKind
from banditmips.core.products import Best
from banditmips.core.rows import Rows
from banditmips.core.survivors import Survivors

class Direct:
    def __init__(self, rows: Rows, known: Known, settings: tuple[int, bool, float], times: Times) -> None: ...
    def survivors(self, query: MeasuredQuery) -> Survivors: ...
    def finish(self, alive: Survivors, query: MeasuredQuery) -> tuple[Best, int] | None: ...
    def few(self, alive: Survivors) -> bool: ...

class PlainRace(PlainKind):
    direct: Direct
    go_on: Callable[[MeasuredQuery, Survivors], Any]
