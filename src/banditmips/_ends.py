"""A search at the ends that are asked for: the smallest scores are the largest of the negative query, negated."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._options import Ends
from banditmips._padding import at_most
from banditmips._result import SearchResult, Trace
from banditmips._validate import Options, as_finite, as_mask, as_queries
from banditmips.atoms import guard_of

__all__ = ["at_ends", "negative"]


def at_ends(
    find: Callable[[ArrayLike, int, ArrayLike | None], SearchResult],
    shape: tuple[int, int],
    queries: ArrayLike,
    k: int,
    mask: ArrayLike | None,
    options: Options,
    check_read: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Find the largest scores, the smallest, or both; a trace is told how long it took.

    Parameters
    ----------
    find : (queries, k, mask) -> SearchResult
        Finds the largest.
    shape : (n, d)
        Of the atoms.
    queries, k, mask
        As the user gave them. Where there are fewer than k atoms, the result has as many places as there are atoms:
        `widened` fills the others, when all else is done.
    options : Options
        For both ends, queries and their negatives are one batch, so that whatever a batch shares is shared by the ends.
        The result of the largest then holds that of the smallest.
    check_read : callable
        Raises if what was read of the atoms was not what is in their files. As for queries that are mapped, that comes
        before any other error, which may follow from it.
    """
    started = time.perf_counter()
    guard = guard_of(queries)
    try:
        found = _at_ends(find, shape, queries, at_most(k, shape[0]), mask, options.ends)
    finally:
        check_read()
        if guard is not None:
            guard.check()
    return found.took(time.perf_counter() - started) if options.trace else found


def _at_ends(
    find: Callable[[ArrayLike, int, ArrayLike | None], SearchResult],
    shape: tuple[int, int],
    queries: ArrayLike,
    k: int,
    mask: ArrayLike | None,
    ends: Ends,
) -> SearchResult:
    if ends == "largest":
        return find(queries, k, mask)
    rows, single = as_queries(queries, shape[1])
    masks = as_mask(mask, shape[0], len(rows), single)
    if rows.dtype not in (np.float32, np.float64) or not np.isfinite(rows).all():
        for number, row in enumerate(rows):
            as_finite(row, "" if single else f"row {number}, ")
    turned = negative(rows)
    if ends == "smallest":
        if single:
            return _negated(find(turned[0], k, None if masks is None else masks[0]))
        return _negated(find(turned, k, masks))
    both = find(np.concatenate([rows.astype(turned.dtype, copy=False), turned]), k, _twice(masks))
    if single:
        return replace(both[0], smallest=_negated(both[1]))
    m = len(rows)
    if m == 0:
        return replace(both, smallest=_negated(both))
    halves = [SearchResult.stack([both[i] for i in part]) for part in (range(m), range(m, 2 * m))]
    return replace(halves[0], smallest=_negated(halves[1]))


def negative(queries: NDArray[Any]) -> NDArray[Any]:
    """Return the queries with the other sign; integers may have none, and become floats as in any search."""
    return -(queries if queries.dtype.kind == "f" else queries.astype(np.float64))


def _twice(masks: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    return None if masks is None else np.concatenate([masks, masks])


def _negated(result: SearchResult) -> SearchResult:
    """Return what was found for the negative queries in terms of the queries."""
    trace = result.trace
    if trace is not None:
        trace = _negated_trace(trace) if isinstance(trace, Trace) else tuple(map(_negated_trace, trace))
    return replace(
        result,
        scores=_with_other_sign(result.scores),
        lower=_with_other_sign(result.upper),
        upper=_with_other_sign(result.lower),
        trace=trace,
    )


def _negated_trace(trace: Trace) -> Trace:
    rounds = tuple(
        replace(
            one,
            scores=_with_other_sign(one.scores),
            lower=_with_other_sign(one.upper),
            upper=_with_other_sign(one.lower),
        )
        for one in trace.rounds
    )
    return replace(trace, rounds=rounds)


def _with_other_sign(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return -scores, without turning 0 into -0."""
    turned: NDArray[np.float64] = 0.0 - scores
    return turned
