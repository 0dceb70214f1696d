"""Exact scores of the atoms that are left, and the best of them.

A row is read no further than it can win. With the mean m of an atom, its scatter, and c the mean of the query, what the
entries still to be read add to its score is

    m * (sum of their q)  +  c * (sum of their v - m)  +  sum of (q - c)*(v - m),

where the sums of v - m and of its squares over the rest are what `fit` knows of the whole row less what has been read
of it. By Cauchy and Schwarz the last sum is at most the root of the rest's sums of squares.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.kernels import FASTMATH
from banditmips.race.screen import PART, best_places, exact_product, lead

_PARTS = 2
_PIECE = _PARTS * PART
"""Entries of a row that are read before it is asked again whether it can win: so many parts of the query."""
_STRETCH = 256
"""Products that are asked together whether one of them is large enough: most have none that is."""
_ROUNDING = 1e-12
"""Relative error allowed for in sums of double precision, over a row in pieces."""


@njit(cache=True, nogil=True)
def _insert(
    best_rows: NDArray[np.int64], best_scores: NDArray[np.float64], count: int, row: int, score: float, absolute: bool
) -> int:
    """Insert a row into the best so far (best first; of equals the one with the smaller index); return how many."""
    k = best_rows.size
    size = abs(score) if absolute else score
    place = count
    while place > 0:
        other = abs(best_scores[place - 1]) if absolute else best_scores[place - 1]
        if size < other or (size == other and row > best_rows[place - 1]):
            break
        if place < k:
            best_rows[place], best_scores[place] = best_rows[place - 1], best_scores[place - 1]
        place -= 1
    if place < k:
        best_rows[place], best_scores[place] = row, score
        count = min(count + 1, k)
    return count


@njit(cache=True, nogil=True)
def take_best(
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
    n_rows: int,
    absolute: bool,
    best_rows: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> bool:
    """Fill in the best of the rows, best first. There must be as many as are wanted. False if a score is not finite."""
    count = 0
    for t in range(n_rows):
        if not np.isfinite(scores[t]):
            return False
        count = _insert(best_rows, best_scores, count, rows[t], scores[t], absolute)
    return True


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _total(values: NDArray[Any]) -> float:
    """Sum the values: not finite if one of them is not."""
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


@njit(cache=True, nogil=True)
def _count_from(values: NDArray[Any], bar: float, absolute: bool) -> int:
    """How many values, or their sizes, reach the bar."""
    count = 0
    if absolute:
        for i in range(values.size):
            count += abs(values[i]) >= bar
    else:
        for i in range(values.size):
            count += values[i] >= bar
    return count


@njit(cache=True, nogil=True)
def _first_from(values: NDArray[Any], start: int, bar: float, absolute: bool) -> int:
    """Return the first position from `start` on whose value, or its size, reaches the bar; the end if none does."""
    for first in range(start, values.size, _STRETCH):
        last = min(first + _STRETCH, values.size)
        if _count_from(values[first:last], bar, absolute) == 0:
            continue
        for i in range(first, last):
            if (abs(values[i]) if absolute else values[i]) >= bar:
                return i
    return values.size


@njit(cache=True, nogil=True)
def _place_of_largest(values: NDArray[Any], absolute: bool) -> int:
    """Return the position of the largest of finite values, or of their sizes."""
    place = 0
    largest = abs(values[0]) if absolute else values[0]
    for first in range(0, values.size, _STRETCH):
        last = min(first + _STRETCH, values.size)
        if _count_from(values[first:last], largest, absolute) == 0:
            continue
        for i in range(first, last):
            size = abs(values[i]) if absolute else values[i]
            if size > largest:
                place, largest = i, size
    return place


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _score_and_norms(row: NDArray[Any], query: NDArray[Any]) -> tuple[float, float]:
    """Return `exact_product`, and the product of the norms, in one pass."""
    score, of_row, of_query = 0.0, 0.0, 0.0
    for j in range(query.size):
        v, q = np.float64(row[j]), np.float64(query[j])
        score += v * q
        of_row += v * v
        of_query += q * q
    return score, np.sqrt(of_row * of_query)


@njit(cache=True, nogil=True)
def best_products(
    atoms: NDArray[Any],
    products: NDArray[Any],
    given: NDArray[Any],
    absolute: bool,
    rounding: float,
    best_rows: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> bool:
    """Fill in the best rows by exact score: of those whose products are among the best, or too close to tell.

    `products` are those of the atoms with the query in their precision, right to an eighth of the `rounding` of sums.
    The exact scores are summed from the query as it was `given`. False if a number is not finite.
    """
    n, k = products.size, best_rows.size
    if not np.isfinite(_total(products)):
        return False
    top = _place_of_largest(products, absolute)
    kth = abs(products[top]) if absolute else products[top]
    if k > 1:
        ranked = np.abs(products) if absolute else products
        kth = np.partition(ranked, n - k)[n - k]
    top_score, norms = _score_and_norms(atoms[top], given)
    bar = kth - rounding / 8.0 * norms
    if not np.isfinite(bar):
        return False
    count = 0
    i = _first_from(products, 0, bar, absolute)
    while i < n:
        score = top_score if i == top else exact_product(atoms[i], given)
        if not np.isfinite(score):
            return False
        count = _insert(best_rows, best_scores, count, i, score, absolute)
        i = _first_from(products, i + 1, bar, absolute)
    return True


@njit(cache=True, nogil=True)
def finish_bar(
    atoms: NDArray[Any],
    query: NDArray[Any],
    rows: NDArray[np.int64],
    n_rows: int,
    k: int,
    absolute: bool,
    upper: NDArray[np.float64],
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    places: NDArray[np.int64],
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    n_known: int,
) -> tuple[float, int]:
    """Return the least of the exact scores of the k best by estimate, and how many exact scores are known then."""
    if upper.size == 0 or n_rows <= k:
        return -np.inf, n_known
    for t in range(n_rows):
        ranking[t] = abs(estimates[t]) if absolute else estimates[t]
    best_places(ranking, n_rows, k, places)
    return lead(atoms, query, rows, places, k, absolute, known_rows, known_scores, n_known)


@njit(cache=True, nogil=True)
def query_tails(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of the query and of its squares, from the beginning of each piece to the end of the query.

    `parts` are the sums that `screen.query_moments` fills in.
    """
    n_parts = parts.shape[1]
    n_pieces = (n_parts + _PARTS - 1) // _PARTS
    tails = np.zeros((2, n_pieces + 1))
    for piece in range(n_pieces - 1, -1, -1):
        for moment in range(2):
            total = 0.0
            for part in range(_PARTS * piece, min(_PARTS * (piece + 1), n_parts)):
                total += parts[moment, part]
            tails[moment, piece] = tails[moment, piece + 1] + total
    return tails


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _read_part(row: NDArray[Any], query: NDArray[Any], mean: Any) -> tuple[Any, Any, Any]:
    """Sums of the products with the row about the mean, of that, and of its squares, in the row's own precision."""
    kind = row.dtype.type
    product, total, scatter = kind(0), kind(0), kind(0)
    for j in range(query.size):
        v = row[j] - mean
        product += v * query[j]
        total += v
        scatter += v * v
    return product, total, scatter


@njit(cache=True, nogil=True)
def score_unless_lost(
    row: NDArray[Any],
    query: NDArray[Any],
    given: NDArray[Any],
    tails: NDArray[np.float64],
    rounding: float,
    mean: float,
    scatter: float,
    heads: NDArray[np.int64],
    absolute: bool,
    bar: float,
) -> tuple[float, int]:
    """Return the exact score of a row and d; or a NaN and how many entries it took to see that it is below the bar.

    What the heads (coordinates at which the row has been read before) add is known before they are reached. The row is
    read in its own precision, with the `query` in the same and sums of a relative error `rounding` (those in `tails`
    too); once it has not lost, the exact score is summed with the query as it was `given`.
    """
    kind = row.dtype.type
    d = query.size
    query_total, all_squares = tails[0, 0], tails[1, 0]
    centre = query_total / d
    near_mean = kind(mean)
    middle_of_row = np.float64(near_mean)
    shift = d * (mean - middle_of_row)
    scatter += shift * (mean - middle_of_row)
    # With an error e of the sum of |q|, that of the squares about the centre is at most three times e of all squares.
    tails_error = (4.0 * rounding + _ROUNDING) * all_squares
    scatter_error = (2.0 * rounding + _ROUNDING) * scatter
    slack = (4.0 * rounding + _ROUNDING) * np.sqrt(all_squares * (scatter + d * mean * mean))
    product, total, seen = 0.0, 0.0, 0.0
    # The last piece would say no more than the exact score does.
    for last in range(_PIECE, d, _PIECE):
        for first in range(last - _PIECE, last, PART):
            part = _read_part(row[first : first + PART], query[first : first + PART], near_mean)
            product += part[0]
            total += part[1]
            seen += part[2]
        rest_total, squares = tails[0, last // _PIECE], tails[1, last // _PIECE]
        squares += centre * ((d - last) * centre - 2.0 * rest_total)
        rest = scatter - seen
        middle = middle_of_row * query_total + product + centre * (shift - total)
        for head in heads:
            if head >= last:
                q, v = np.float64(query[head]) - centre, np.float64(row[head]) - middle_of_row
                middle += q * v
                squares -= q * q
                rest -= v * v
        squares = max(squares, 0.0) + tails_error
        rest = max(rest, 0.0) + scatter_error
        most = (abs(middle) if absolute else middle) + np.sqrt(squares * rest) + slack
        # Where squares overflow in the row's precision, nothing is said.
        if most < bar and np.isfinite(product + seen):
            return np.nan, last
    return exact_product(row, given), d


@njit(cache=True, nogil=True)
def finish_rows(
    atoms: NDArray[Any],
    query: NDArray[Any],
    given: NDArray[Any],
    rows: NDArray[np.int64],
    absolute: bool,
    upper: NDArray[np.float64],
    facts: NDArray[np.float64],
    heads: NDArray[np.int64],
    tails: NDArray[np.float64],
    rounding: float,
    bar: float,
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    n_known: int,
    scores: NDArray[np.float64],
) -> tuple[int, int]:
    """Compute exact scores of all the rows that can reach the bar; return how many those are, and the entries read.

    `rows` and `scores` are compacted in place. What is done for a row depends on no other, so that rows may be divided.
    """
    kept, n_entries = 0, 0
    for t in range(rows.size):
        row = rows[t]
        score = np.nan
        for known in range(n_known):
            if known_rows[known] == row:
                score = known_scores[known]
        if np.isnan(score):
            if upper.size and upper[row] < bar:
                continue
            if upper.size and bar > -np.inf:
                score, n_read = score_unless_lost(
                    atoms[row], query, given, tails, rounding, facts[0, row], facts[1, row], heads, absolute, bar
                )
                n_entries += n_read
                if n_read < query.size:
                    continue
            else:
                score = exact_product(atoms[row], given)
                n_entries += query.size
        rows[kept] = row
        scores[kept] = score
        kept += 1
    return kept, n_entries


@njit(cache=True, nogil=True)
def finish(
    atoms: NDArray[Any],
    query: NDArray[Any],
    given: NDArray[Any],
    rows: NDArray[np.int64],
    n_rows: int,
    k: int,
    absolute: bool,
    upper: NDArray[np.float64],
    facts: NDArray[np.float64],
    heads: NDArray[np.int64],
    parts: NDArray[np.float64],
    rounding: float,
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    places: NDArray[np.int64],
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    n_known: int,
    scores: NDArray[np.float64],
) -> tuple[int, int]:
    """Compute exact scores of the rows, passing over those that cannot reach the k best by estimate.

    `upper` holds what the scores are at most, by atom; it is empty where nothing is known. `facts` then are the means
    and the scatters of the atoms, in its first two rows, and `parts` the sums of the query's parts, with their relative
    `rounding`.

    Returns
    -------
    n_rows, n_entries
        `rows` and `scores` hold so many rows and their exact scores, among them the k best. So many entries have been
        read for scores, those in `known_rows` included.
    """
    bar, n_known = finish_bar(
        atoms, given, rows, n_rows, k, absolute, upper, estimates, ranking, places, known_rows, known_scores, n_known
    )
    tails = query_tails(parts) if bar > -np.inf else parts
    kept, n_entries = finish_rows(
        atoms, query, given, rows[:n_rows], absolute, upper, facts, heads, tails, rounding, bar, known_rows,
        known_scores, n_known, scores,
    )  # fmt: skip
    return kept, n_known * query.size + n_entries
