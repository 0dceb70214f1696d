"""The best guess within a budget that all products exceed, where sampling would take longer than all of them.

A coordinate that is read on its own takes as long as dozens that are read in a row, so that a budget spent on sampling
may take a hundred times as long as the product that it does not allow. Instead, a few neighbouring coordinates of every
atom, where the query is largest, say who is promising, and the rest of the budget goes to whole rows of these. Nothing
is said about the others: the scores that are returned are exact, and the answer is a guess.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from banditmips.core.exact import Exact
from banditmips.core.outcome import Outcome
from banditmips.core.records import StopReason
from banditmips.core.rows import Rows
from banditmips.race.costs import costs
from banditmips.race.plan import full_time
from banditmips.race.sampled import Problem

__all__ = ["guess_within"]

_LINE = 64
"""Bytes of a cache line: whoever reads a coordinate has its neighbours at hand."""
_LOOK = 0.25
"""Part of the budget, and of the time of all products, that the look at every atom may take."""
_LOOK_BY_COLUMN = 0.75
"""The same where coordinates lie together, and looking at them takes as long as all products take of as many."""


def guess_within(
    budget: float, rows: Rows, problem: Problem, exact: Exact, candidates: NDArray[np.int64], k: int, absolute: bool
) -> Outcome | None:
    """Guess the best k of the candidates by so many multiplies; None where these do not suffice for k rows.

    What it reads depends on the budget and on the machine's costs, not on what other queries come along.
    """
    here, itemsize, by_row = costs(), rows.arrays[0].itemsize, not rows.are_columns
    n, d = candidates.size, rows.d
    full = full_time(here, rows.n, d, itemsize, itemsize >= 4, contiguous=by_row)
    part, width = (_LOOK, max(_LINE // itemsize, 1)) if by_row else (_LOOK_BY_COLUMN, 1)
    most = int(part * budget) // n
    if by_row:
        n_lines = int(part * full / (n * (here.gather + width * here.arithmetic)))
        most = min(most, width * max(n_lines, 1))
    columns = _heaviest(problem.query, width, most)
    row_cost = exact.cost(candidates[:1])
    n_rows = int(budget - n * columns.size) // max(row_cost, 1)
    if columns.size == 0 or n_rows < k:
        return None
    row_time = d * (here.row * itemsize / 4 if by_row else here.gather) + here.row_overhead
    n_rows = min(n_rows, n, max(k, int((1.0 - part) * full / row_time)))
    with np.errstate(over="ignore", invalid="ignore"):
        sums = rows.scores(candidates, columns, problem.query[columns], problem.objective)
        ranks = problem.scores.of_sums(sums, candidates)
    ranks = np.where(np.isnan(ranks), inf, np.abs(ranks) if absolute else ranks)
    chosen = np.sort(candidates[np.argpartition(ranks, n - n_rows)[n - n_rows :]]) if n_rows < n else candidates
    outcome = Outcome.finished(chosen, exact.scores(chosen), n * columns.size + exact.cost(chosen))
    outcome.stop_reason, outcome.n_survivors, outcome.n_raced = StopReason.BUDGET, n, n
    return outcome


def _heaviest(query: NDArray[np.float64], width: int, most: int) -> NDArray[np.int64]:
    """At most so many coordinates where the query is largest, runs of neighbours together; none where it is 0."""
    d = query.size
    if most < width:
        width = 1
    sizes = np.add.reduceat(np.abs(query), np.arange(0, d, width))
    n_runs = min(most // width, sizes.size)
    if n_runs == 0:
        return np.empty(0, dtype=np.int64)
    runs = np.sort(np.argpartition(sizes, sizes.size - n_runs)[sizes.size - n_runs :])
    columns = (runs[:, np.newaxis] * width + np.arange(width)).reshape(-1)
    columns = columns[columns < d]
    weighty: NDArray[np.int64] = columns[query[columns] != 0.0]
    return weighty
