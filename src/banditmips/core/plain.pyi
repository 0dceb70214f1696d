from collections.abc import Sequence
from typing import Any

class PlainKind:
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
