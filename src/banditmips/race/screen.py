"""What `fit` knows drops atoms for certain, before anything is sampled and again at the finish.

With the mean m and the scatter s^2 (sum of squares about the mean) of an atom v, and c the mean of the query,

    sum of q*v  =  m * sum(q)  +  sum of (q - c)*(v - m),

and by Cauchy and Schwarz the second sum is at most ``|q - c| * s``. So every score lies within a *reach* of a *centre*
that costs nothing to know: an atom whose centre and reach together stay below the exact score of another one has lost,
with certainty and without a single multiply. Where a query stands out at a few coordinates (its heads), those are read
for all atoms, and the same holds for the rest with a much shorter reach.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import FASTMATH
from banditmips.race.rounds import insert_leader

if TYPE_CHECKING:
    from banditmips.atoms.facts import AtomFacts

_PROMISING = 4
"""The screen computes exact products of its leaders only if it looks as if it would drop one atom in so many."""
_LEAST_SQUARE, _LEAST_SCALE = 1e-34, 1e-140
"""Mean square of a query in single precision, and size of numbers in double precision, whose squares are not too small
to be summed."""
_STRETCH = 64
PART = 1024
"""Entries of a query that are summed in its own precision."""


def least_squares(dtype: np.dtype[Any], d: int, facts: AtomFacts | None) -> float:
    """Return the least sum of squares of a query, in this precision, with which the screen can be trusted.

    Below that its squares underflow; and all of them do where the squares of the atoms have.
    """
    if facts is not None and 0.0 < facts.scale < _LEAST_SCALE:
        return np.inf
    return d * (_LEAST_SQUARE if dtype.itemsize == 4 else _LEAST_SCALE**2)


def rounding_of(dtype: np.dtype[Any]) -> float:
    """Relative error that sums of this precision may have here: stretches of 1,024, several entries side by side."""
    return 32.0 * float(np.finfo(dtype).eps)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def exact_product(row: NDArray[Any], query: NDArray[Any]) -> float:
    total = 0.0
    for j in range(query.size):
        total += np.float64(row[j]) * np.float64(query[j])
    return total


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _part_moments(query: NDArray[Any]) -> tuple[Any, Any, Any]:
    """Moments of a short part, in the query's own precision: `rounding` of the bounds allows for it."""
    kind = query.dtype.type
    part, part_size, part_squares = kind(0), kind(0), kind(0)
    for j in range(query.size):
        part += query[j]
        part_size += abs(query[j])
        part_squares += query[j] * query[j]
    return part, part_size, part_squares


def make_parts(d: int) -> NDArray[np.float64]:
    """Make room for the sums of q and of its squares in each part of a query."""
    return np.empty((2, (d + PART - 1) // PART))


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def query_moments(query: NDArray[Any], parts: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the sums of q, of |q| and of the squares; the last two are not finite if an entry is not.

    The first and the last of them are filled in for each part.
    """
    total, size, squares = 0.0, 0.0, 0.0
    for first in range(0, query.size, PART):
        part, part_size, part_squares = _part_moments(query[first : first + PART])
        parts[0, first // PART] = part
        parts[1, first // PART] = part_squares
        total += part
        size += part_size
        squares += part_squares
    return total, size, squares


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def beginning(query: NDArray[Any]) -> float:
    """Return the sum of the first entries over the root of their sum of squares: which sign the whole sum may have."""
    total, squares = 0.0, 0.0
    for j in range(min(query.size, PART)):
        total += query[j]
        squares += query[j] * query[j]
    return total / np.sqrt(squares) if squares > 0.0 else 0.0


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def look_and_lead(
    atom: NDArray[Any], query: NDArray[Any], given: NDArray[Any], parts: NDArray[np.float64]
) -> tuple[tuple[float, float, float], float]:
    """Return `query_moments`, and the exact score of an atom that is likely to lead, with the query as it was `given`.

    Both read the query, and reading it once is what this is for.
    """
    total, size, squares, score = 0.0, 0.0, 0.0, 0.0
    for first in range(0, query.size, PART):
        # What has just been read for the one sum is near for the other.
        part, part_size, part_squares = _part_moments(query[first : first + PART])
        parts[0, first // PART] = part
        parts[1, first // PART] = part_squares
        total += part
        size += part_size
        squares += part_squares
        score += exact_product(atom[first : first + PART], given[first : first + PART])
    return (total, size, squares), score


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _part_nonzero(query: NDArray[Any]) -> Any:
    """Count in the query's own precision, which is several entries at a time, and exact for so few."""
    kind = query.dtype.type
    count = kind(0)
    for j in range(query.size):
        count += kind(1) if query[j] != 0 else kind(0)
    return count


@njit(cache=True, nogil=True)
def count_nonzero(query: NDArray[Any]) -> int:
    """How many entries are not 0."""
    count = 0
    for first in range(0, query.size, PART):
        count += int(_part_nonzero(query[first : first + PART]))
    return count


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def know(
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
    d: int,
    moments: tuple[float, float, float],
    rounding: float,
    absolute: bool,
    centre: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Fill in the centre and the upper end of each atom's score from its mean and the root of its scatter.

    Of its size, if `absolute`; the lower end is as far below the centre as the upper end is above.
    """
    total, size, squares = moments
    reach = np.sqrt(max(squares - total * total / d, 0.0) + rounding * squares) * (1.0 + rounding)
    slack = rounding * size
    for i in range(means.size):
        middle = abs(means[i] * total) if absolute else means[i] * total
        centre[i] = middle
        upper[i] = middle + spreads[i] * reach + abs(means[i]) * slack


@njit(cache=True, nogil=True)
def best_places(ranking: NDArray[np.float64], n_rows: int, k: int, places: NDArray[np.int64]) -> float:
    """Find the positions of the k largest of the first `n_rows` values, largest first; return the k-th."""
    count = 0
    least = -np.inf
    for first in range(0, n_rows, _STRETCH):
        last = min(first + _STRETCH, n_rows)
        # Most stretches hold nothing new, which a simple count finds out several values at a time.
        n_better = 0
        for t in range(first, last):
            n_better += ranking[t] > least
        if n_better == 0 and count == k:
            continue
        for t in range(first, last):
            if count < k or ranking[t] > least:
                count = insert_leader(ranking, places, count, k, ranking[t], t)
                least = ranking[places[count - 1]]
    return least


@njit(cache=True, nogil=True)
def lead(
    atoms: NDArray[Any],
    query: NDArray[Any],
    rows: NDArray[np.int64],
    places: NDArray[np.int64],
    k: int,
    absolute: bool,
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    n_known: int,
) -> tuple[float, int]:
    """Make sure that the exact scores of the rows at these k places are known.

    Returns
    -------
    bar, n_known
        The least of those k scores (by size if `absolute`), and how many rows are known now.
    """
    bar = np.inf
    n_before = n_known
    for place in range(k):
        row = rows[places[place]]
        score = np.nan
        for known in range(n_before):
            if known_rows[known] == row:
                score = known_scores[known]
        if np.isnan(score):
            score = exact_product(atoms[row], query)
            known_rows[n_known] = row
            known_scores[n_known] = score
            n_known += 1
        bar = min(bar, abs(score) if absolute else score)
    return bar, n_known


@njit(cache=True, nogil=True)
def _keep(rows: NDArray[np.int64], n_rows: int, upper: NDArray[np.float64], bar: float) -> int:
    """Keep the rows whose upper ends reach the bar; return how many."""
    kept = 0
    for first in range(0, n_rows, _STRETCH):
        last = min(first + _STRETCH, n_rows)
        n_lost = 0
        for t in range(first, last):
            n_lost += upper[t] < bar
        if n_lost == last - first:
            continue
        for t in range(first, last):
            rows[kept] = rows[t]
            kept += not upper[t] < bar
    return kept


@njit(cache=True, nogil=True)
def _by_row(
    rows: NDArray[np.int64], n_rows: int, values: NDArray[np.float64], room: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the rows' values side by side: as they are, if all atoms are rows (in order)."""
    if n_rows == values.size:
        return values
    for t in range(n_rows):
        room[t] = values[rows[t]]
    return room


@njit(cache=True, nogil=True)
def screen(
    atoms: NDArray[Any],
    query: NDArray[Any],
    rows: NDArray[np.int64],
    n_rows: int,
    k: int,
    absolute: bool,
    centre: NDArray[np.float64],
    upper: NDArray[np.float64],
    rooms: NDArray[np.float64],
    places: NDArray[np.int64],
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    n_known: int,
    eager: bool,
) -> tuple[int, int]:
    """Drop the rows that cannot reach the exact scores of the k with the best centres.

    Those scores are computed only if it looks as if enough rows could be dropped, or if `eager`. `rooms` are two
    workspaces.

    Returns
    -------
    n_rows, n_known
        How many rows stay (`rows` is compacted in place), and of how many the exact score is known now.
    """
    middles, ends = _by_row(rows, n_rows, centre, rooms[0]), _by_row(rows, n_rows, upper, rooms[1])
    # If the leaders' scores were what their centres say, how many would go?
    kth = best_places(middles, n_rows, k, places)
    n_losing = 0
    for t in range(n_rows):
        n_losing += ends[t] < kth
    bar = -np.inf
    if eager or _PROMISING * n_losing >= n_rows:
        bar, n_known = lead(atoms, query, rows, places, k, absolute, known_rows, known_scores, n_known)
    if k == 1:
        for known in range(n_known):
            bar = max(bar, abs(known_scores[known]) if absolute else known_scores[known])
    # The score that makes the bar is no more than its own atom's upper end, so the k best are not dropped.
    return (_keep(rows, n_rows, ends, bar) if bar > -np.inf else n_rows), n_known


@njit(cache=True, nogil=True)
def settle(
    rows: NDArray[np.int64],
    n_rows: int,
    k: int,
    centre: NDArray[np.float64],
    upper: NDArray[np.float64],
    rooms: NDArray[np.float64],
    places: NDArray[np.int64],
) -> int:
    """Drop the rows that cannot reach the k best lower ends, without any exact score; return how many stay."""
    middles, ends = _by_row(rows, n_rows, centre, rooms[0]), _by_row(rows, n_rows, upper, rooms[1])
    lower = rooms[0]
    for t in range(n_rows):
        lower[t] = 2.0 * middles[t] - ends[t]
    return _keep(rows, n_rows, ends, best_places(lower, n_rows, k, places))


def known_intervals(
    facts: AtomFacts, query: NDArray[np.float64], absolute: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what `know` fills in; the intervals are endless where squares overflow or underflow."""
    n = facts.means.size
    centre, upper = np.zeros(n), np.full(n, np.inf)
    moments = query_moments(query, make_parts(query.size))
    if least_squares(query.dtype, query.size, facts) <= moments[2] < np.inf:
        spreads, rounding = np.sqrt(facts.scatter), rounding_of(query.dtype)
        know(facts.means, spreads, query.size, moments, rounding, absolute, centre, upper)
    return centre, upper


def possible_winners(
    facts: AtomFacts, query: NDArray[np.float64], rows: NDArray[np.int64], k: int, absolute: bool
) -> NDArray[np.int64]:
    """Return the rows that are not certain to be beaten by k others, by what is known without a multiply."""
    if rows.size <= k:
        return rows
    centre, upper = known_intervals(facts, query, absolute)
    rooms, places = np.empty((2, centre.size)), np.empty(k, dtype=np.int64)
    left = rows.copy()
    return left[: settle(left, left.size, k, centre, upper, rooms, places)]
