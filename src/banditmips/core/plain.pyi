from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

class BytesFirst:
    most_peaked: float
    delta: float
    close: Callable[
        [NDArray[Any], NDArray[Any], NDArray[np.float64] | None, NDArray[np.bool_] | None, bool],
        tuple[NDArray[np.int64], NDArray[np.int64]] | None,
    ]

def without_rows(begins: NDArray[np.int64]) -> NDArray[np.int64]: ...

class PlainKind:
    n_uses: int
    def __init__(
        self,
        asked: tuple[Any, ...],
        shape: tuple[int, int],
        type_num: int,
        k: int,
        absolute: bool,
        few_entries: int,
        result_type: type[Any],
        fields: dict[str, Any],
    ) -> None: ...

def answer_plainly(
    kinds: Sequence[PlainKind], atoms: Any, row: Any, k: Any, asked: tuple[Any, ...], mask: Any = None
) -> Any: ...
