from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from banditmips.core.scored import PlainScores

class ScoresBatch(PlainScores):
    n_queries: int
    most_peaked: float
    by_bytes: Callable[[NDArray[Any], NDArray[Any]], Any]
