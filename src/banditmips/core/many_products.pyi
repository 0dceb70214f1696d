from typing import Any

from numpy.typing import NDArray

from banditmips.core.rows import Rows

MOST_SHARING: int
LANES: int

def products_with_many(rows: Rows, queries: NDArray[Any]) -> NDArray[Any]: ...
