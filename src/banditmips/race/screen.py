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
_STRETCH, _PART = 64, 1024


def rounding_of(dtype: np.dtype[Any]) -> float:
    """Relative error that sums of this precision may have here: stretches of 1,024, several entries side by side."""
    return 32.0 * float(np.finfo(dtype).eps)


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def _exact(row: NDArray[Any], query: NDArray[Any]) -> float:
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


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def query_moments(query: NDArray[Any]) -> tuple[float, float, float]:
    """Return the sums of q, of |q| and of the squares; the last two are not finite if an entry is not."""
    total, size, squares = 0.0, 0.0, 0.0
    for start in range(0, query.size, _PART):
        part, part_size, part_squares = _part_moments(query[start : start + _PART])
        total += part
        size += part_size
        squares += part_squares
    return total, size, squares


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def look_and_lead(
    atoms: NDArray[Any],
    query: NDArray[Any],
    largest: int,
    smallest: int,
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
) -> tuple[float, float, float]:
    """Return `query_moments`, and on the way the exact score of the atom that is likely to have the best centre.

    That is the atom with the largest mean, or with the smallest if the query's sum is negative, which its first entries
    tell well enough: both read the query, and reading it once is what this is for.
    """
    start = 0.0
    for j in range(min(query.size, _STRETCH)):
        start += query[j]
    row = largest if start > 0.0 else smallest
    atom = atoms[row]
    total, size, squares, score = 0.0, 0.0, 0.0, 0.0
    for first in range(0, query.size, _PART):
        # What has just been read for the one sum is near for the other.
        stretch = query[first : first + _PART]
        part, part_size, part_squares = _part_moments(stretch)
        total += part
        size += part_size
        squares += part_squares
        score += _exact(atom[first : first + _PART], stretch)
    known_rows[0] = row
    known_scores[0] = score
    return total, size, squares


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def count_nonzero(query: NDArray[Any]) -> int:
    """How many entries are not 0."""
    count = 0
    for j in range(query.size):
        count += query[j] != 0
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


@njit(cache=True, nogil=True, fastmath=FASTMATH)
def read_heads(
    atoms: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    heads: NDArray[np.int64],
    rows: NDArray[np.int64],
    n_rows: int,
    d: int,
    moments: tuple[float, float, float],
    rounding: float,
    means: NDArray[np.float64],
    scatter: NDArray[np.float64],
    fraction: float,
    offsets: NDArray[np.float64],
    needed_scatter: NDArray[np.float64],
    absolute: bool,
    centre: NDArray[np.float64],
    upper: NDArray[np.float64],
) -> None:
    """Read the head coordinates of each row: what they add to its score, and what is left to be known of it.

    `offsets` receives the sum of the rows' products there, `needed_scatter` what a sample has to show of the rest of
    their scatter, `centre` and `upper` where their scores can lie.
    """
    total, size, squares = moments
    for h in range(heads.size):
        q = np.float64(query[heads[h]])
        total -= q
        squares -= q * q
    n_rest = d - heads.size
    mean_rest = total / n_rest
    # Taking away what is nearly everything leaves the rounding of everything.
    deviation = np.sqrt(max(squares - total * mean_rest, 0.0) + rounding * moments[2])
    for t in range(n_rows):
        row = rows[t]
        mean = means[row]
        offset, sideways, seen = 0.0, 0.0, 0.0
        for h in range(heads.size):
            v = np.float64(atoms[heads[h], row] if by_column else atoms[row, heads[h]])
            offset += v * query[heads[h]]
            sideways += v - mean
            seen += (v - mean) * (v - mean)
        offsets[row] = offset
        rest = max(scatter[row] - seen, 0.0) + rounding * scatter[row]
        needed_scatter[row] = fraction * (scatter[row] - seen)
        middle = offset + mean * total - mean_rest * sideways
        centre[row] = abs(middle) if absolute else middle
        reach = np.sqrt(rest) * deviation * (1.0 + rounding) + rounding * (abs(mean) * size + abs(offset))
        upper[row] = centre[row] + reach


@njit(cache=True, nogil=True)
def head_coordinates(query: NDArray[Any], bar: float, most: int) -> NDArray[np.int64]:
    """Return the coordinates with the largest |q|, at most `most` of them and only where it is above the bar."""
    room = 4 * most
    found = np.empty(room, dtype=np.int64)
    sizes = np.empty(room)
    count = 0
    limit = query.dtype.type(bar)
    for first in range(0, query.size, _STRETCH):
        last = min(first + _STRETCH, query.size)
        n_above = 0
        for j in range(first, last):
            n_above += abs(query[j]) > limit
        if n_above == 0:
            continue
        for j in range(first, last):
            if not abs(query[j]) > limit:
                continue
            if count == room:
                # Only the largest so far can be among the largest of all: the bar rises to the least of them.
                kept = np.argsort(-sizes)[:most]
                found[:most] = found[kept]
                sizes[:most] = sizes[kept]
                count = most
                limit = query.dtype.type(sizes[most - 1])
                if not abs(query[j]) > limit:
                    continue
            found[count] = j
            sizes[count] = abs(query[j])
            count += 1
    return found[np.argsort(-sizes[:count])[:most]]


@njit(cache=True, nogil=True)
def best_products(
    atoms: NDArray[Any],
    products: NDArray[Any],
    query: NDArray[Any],
    given: NDArray[Any],
    k: int,
    absolute: bool,
    rounding: float,
    rows: NDArray[np.int64],
    scores: NDArray[np.float64],
) -> int:
    """Find the rows whose products are among the k best, or too close to tell by their rounding.

    `products` are those of the atoms with `query`; the exact scores are summed from the query as it was `given`.
    Returns how many of `rows` and `scores` are filled in, or -1 if a product is not finite.
    """
    n = products.size
    top, kth = 0, -np.inf
    total = 0.0
    for i in range(n):
        size = abs(products[i]) if absolute else products[i]
        total += np.float64(products[i])
        if size > kth:
            kth, top = size, i
    if not np.isfinite(total):
        return -1
    if k > 1:
        ranked = np.abs(products) if absolute else products
        kth = np.partition(ranked, n - k)[n - k]
    norms = _exact(atoms[top], atoms[top]) * _exact(query, query)
    bar = kth - rounding * np.sqrt(norms)
    if not np.isfinite(bar):
        return -1
    kept = 0
    for i in range(n):
        if (abs(products[i]) if absolute else products[i]) >= bar:
            rows[kept] = i
            scores[kept] = _exact(atoms[i], given)
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def _best_places(ranking: NDArray[np.float64], n_rows: int, k: int, places: NDArray[np.int64]) -> float:
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
def _lead(
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
            score = _exact(atoms[row], query)
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
) -> tuple[int, int]:
    """Drop the rows that cannot reach the exact scores of the k with the best centres.

    Those scores are computed only if it looks as if enough rows could be dropped. `rooms` are two workspaces.

    Returns
    -------
    n_rows, n_known
        How many rows stay (`rows` is compacted in place), and of how many the exact score is known now.
    """
    middles, ends = _by_row(rows, n_rows, centre, rooms[0]), _by_row(rows, n_rows, upper, rooms[1])
    # If the leaders' scores were what their centres say, how many would go?
    kth = _best_places(middles, n_rows, k, places)
    n_losing = 0
    for t in range(n_rows):
        n_losing += ends[t] < kth
    if _PROMISING * n_losing < n_rows:
        return n_rows, n_known
    bar, n_known = _lead(atoms, query, rows, places, k, absolute, known_rows, known_scores, n_known)
    # A leader's own score is no more than its upper end, so no leader is dropped.
    return _keep(rows, n_rows, ends, bar), n_known


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
    return _keep(rows, n_rows, ends, _best_places(lower, n_rows, k, places))


def known_intervals(
    facts: AtomFacts, query: NDArray[np.float64], absolute: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what `know` fills in; the intervals are endless where the query's squares overflow."""
    n = facts.means.size
    centre, upper = np.zeros(n), np.full(n, np.inf)
    moments = query_moments(query)
    if moments[2] < np.inf:
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
    _best_places(ranking, n_rows, k, places)
    return _lead(atoms, query, rows, places, k, absolute, known_rows, known_scores, n_known)


@njit(cache=True, nogil=True)
def finish_rows(
    atoms: NDArray[Any],
    query: NDArray[Any],
    rows: NDArray[np.int64],
    upper: NDArray[np.float64],
    bar: float,
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    n_known: int,
    scores: NDArray[np.float64],
) -> tuple[int, int]:
    """Compute exact scores of all the rows that can reach the bar; return how many those are, and how many were new.

    `rows` and `scores` are compacted in place. What is done for a row depends on no other, so that rows may be divided.
    """
    kept, n_new = 0, 0
    for t in range(rows.size):
        row = rows[t]
        score = np.nan
        for known in range(n_known):
            if known_rows[known] == row:
                score = known_scores[known]
        if np.isnan(score):
            if upper.size and upper[row] < bar:
                continue
            score = _exact(atoms[row], query)
            n_new += 1
        rows[kept] = row
        scores[kept] = score
        kept += 1
    return kept, n_new


@njit(cache=True, nogil=True)
def finish(
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
    scores: NDArray[np.float64],
) -> tuple[int, int]:
    """Compute exact scores of the rows, passing over those that cannot reach the k best by estimate.

    `upper` holds what the scores are at most, by atom; it is empty where nothing is known.

    Returns
    -------
    n_rows, n_known
        `rows` and `scores` hold so many rows and their exact scores, among them the k best. So many exact scores are
        in `known_rows` or have been computed beside those.
    """
    bar, n_known = finish_bar(
        atoms, query, rows, n_rows, k, absolute, upper, estimates, ranking, places, known_rows, known_scores, n_known
    )
    kept, n_new = finish_rows(atoms, query, rows[:n_rows], upper, bar, known_rows, known_scores, n_known, scores)
    return kept, n_known + n_new


@njit(cache=True, nogil=True)
def quick_answer(
    atoms: NDArray[Any],
    query: NDArray[Any],
    means: NDArray[np.float64],
    spreads: NDArray[np.float64],
    rounding: float,
    absolute: bool,
    largest: int,
    smallest: int,
    few: int,
    rows: NDArray[np.int64],
    centre: NDArray[np.float64],
    upper: NDArray[np.float64],
    estimates: NDArray[np.float64],
    ranking: NDArray[np.float64],
    rooms: NDArray[np.float64],
    places: NDArray[np.int64],
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    scores: NDArray[np.float64],
) -> tuple[tuple[float, float, float], int, int, int]:
    """Look at the query, screen all atoms for the best one, and finish if no more than a `few` are left: in one call.

    Returns
    -------
    moments, n_rows, n_kept, n_known
        `n_rows` atoms are left in `rows`. If they are few, the first `n_kept` are the ones that could not be passed
        over, with their exact scores in `scores`; 0 otherwise.
    """
    n, d = atoms.shape
    for i in range(n):
        rows[i] = i
    moments = look_and_lead(atoms, query, largest, smallest, known_rows, known_scores)
    if not moments[2] < np.inf:
        return moments, n, 0, 1
    know(means, spreads, d, moments, rounding, absolute, centre, upper)
    n_rows, n_known = screen(
        atoms, query, rows, n, 1, absolute, centre, upper, rooms, places, known_rows, known_scores, 1
    )
    if n_rows > few:
        return moments, n_rows, 0, n_known
    for t in range(n_rows):
        estimates[t] = centre[rows[t]]
    n_kept, n_known = finish(
        atoms, query, rows, n_rows, 1, absolute, upper, estimates, ranking, places, known_rows, known_scores, n_known,
        scores,
    )  # fmt: skip
    return moments, n_rows, n_kept, n_known
