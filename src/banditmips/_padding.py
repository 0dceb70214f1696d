"""Results of k places where there are fewer atoms: nobody is looked for in the others; they are filled at the end."""

from __future__ import annotations

import math
import os
from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from banditmips._ids import no_id
from banditmips._options import Ends
from banditmips._result import SearchResult
from banditmips._validate import check_k

__all__ = ["at_most", "check_room", "memory_bytes", "widened"]

_Result = TypeVar("_Result", bound=SearchResult)

_BYTES_OF_A_PLACE = 16
"""What an index and its score take; intervals are made when they are asked for."""
_ADVICE = "ask for fewer atoms, or for fewer queries at a time"


def at_most(k: Any, n: int) -> Any:
    """Return how many atoms to look for among n: k, or all. A k that is none is left for the search to refuse."""
    return n if isinstance(k, (int, np.integer)) and k > n and check_k(k) else k


def widened(result: _Result, k: int, ends: Ends = "largest") -> _Result:
    """Fill the places that no atom is left for; for a result that nobody else has seen yet."""
    n_found = result.indices.shape[-1]
    if n_found == k:
        return result
    n_results = 2 if result.smallest is not None else 1
    check_room(k, n_results * math.prod(result.indices.shape[:-1]), f"k={n_found} finds all atoms")
    nobody = np.inf if ends == "smallest" else -np.inf
    ids = result.__dict__.get("ids")
    fillings = {"indices": -1, "scores": nobody, "lower": nobody, "upper": nobody, "exact": True, "_radius": 0.0}
    if ids is not None:
        fillings["ids"] = no_id(ids)
    fields = result.__dict__
    try:
        for name, filling in fillings.items():
            if fields.get(name) is not None:  # some are made of the others when they are asked for
                fields[name] = _filled(fields[name], k, filling)
    except MemoryError as error:
        raise MemoryError(f"there is no memory for results of k={k} places: k={n_found} finds all atoms") from error
    if result.smallest is not None:
        widened(result.smallest, k, "smallest")
    return result


def _filled(found: NDArray[Any], k: int, filling: Any) -> NDArray[Any]:
    """Put a value behind what was found for each query."""
    n_found = found.shape[-1]
    wide: NDArray[Any] = np.empty((*found.shape[:-1], k), dtype=found.dtype)
    wide[..., :n_found] = found
    wide[..., n_found:] = filling
    return wide


def check_room(k: int, n_queries: int, advice: str = _ADVICE, each: int = _BYTES_OF_A_PLACE) -> None:
    """Raise if results of k places would take more memory than there is, at so many bytes `each`.

    Linux gives memory to whoever asks, and ends the process that uses it.
    """
    taken, there = each * k * n_queries, memory_bytes()
    if there is not None and taken > there:
        what = f"results of k={k} for {n_queries} {'query' if n_queries == 1 else 'queries'}"
        problem = f"{what} take at least {taken / 1e9:,.1f} GB, and there are {there / 1e9:,.1f} GB of memory"
        raise MemoryError(f"{problem}: {advice}")


@cache  # every search asks
def memory_bytes() -> int | None:
    """Return how much memory this machine has; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
