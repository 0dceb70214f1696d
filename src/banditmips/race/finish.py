"""Exact scores of the atoms that are left, and the best of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.screen import best_places, exact_product, lead


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


@njit(cache=True, nogil=True)
def best_products(
    atoms: NDArray[Any],
    products: NDArray[Any],
    query: NDArray[Any],
    given: NDArray[Any],
    absolute: bool,
    rounding: float,
    best_rows: NDArray[np.int64],
    best_scores: NDArray[np.float64],
) -> bool:
    """Fill in the best rows by exact score: of those whose products are among the best, or too close to tell.

    `products` are those of the atoms with `query`, and `rounding` is their relative error; the exact scores are summed
    from the query as it was `given`. False if a number is not finite.
    """
    n, k = products.size, best_rows.size
    top, kth = 0, -np.inf
    total = 0.0
    for i in range(n):
        size = abs(products[i]) if absolute else products[i]
        total += np.float64(products[i])
        if size > kth:
            kth, top = size, i
    if not np.isfinite(total):
        return False
    if k > 1:
        ranked = np.abs(products) if absolute else products
        kth = np.partition(ranked, n - k)[n - k]
    norms = exact_product(atoms[top], atoms[top]) * exact_product(query, query)
    bar = kth - rounding * np.sqrt(norms)
    if not np.isfinite(bar):
        return False
    count = 0
    for i in range(n):
        if (abs(products[i]) if absolute else products[i]) >= bar:
            score = exact_product(atoms[i], given)
            if not np.isfinite(score):
                return False
            count = _insert(best_rows, best_scores, count, i, score, absolute)
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
            score = exact_product(atoms[row], query)
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
