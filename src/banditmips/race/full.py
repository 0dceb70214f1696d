"""The full product: every score of every query, by BLAS where it can, and exactly where its rounding matters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.atoms.collecting import by_row
from banditmips.atoms.facts import AtomFacts, length_of, longest
from banditmips.atoms.parts import PartStore, all_parts
from banditmips.atoms.protocol import AtomStore
from banditmips.core.batch import add_exactly
from banditmips.core.certain import ScoreMap
from banditmips.core.many_products import products_with_many
from banditmips.core.near_best import rounding_units
from banditmips.core.pairs import are_shared
from banditmips.core.passes import multiplies_columns, products_of_columns, rough_sums
from banditmips.core.rows import Rows
from banditmips.core.statistics import NEG_SQUARED_DIFFERENCE, PRODUCT
from banditmips.race.costs import costs

__all__ = [
    "BY_COLUMNS",
    "best_of_products",
    "can_stream",
    "can_use_blas",
    "column_time",
    "come_from_memory",
    "exact_sums",
    "how_they_lie",
    "is_for_many",
    "multiply",
    "products_with_all",
    "products_with_one",
    "rounding_of_products",
    "rows_held",
    "streamed_products",
    "sweeps_columns",
]

_MOST_READ_AGAIN = 0.04
"""Part of a file that may be read once more for exact scores of the best."""
_GROUPS_HELD = 4
"""Groups of rows that are held at a time: one that is multiplied, two that are read meanwhile, and room."""
BY_COLUMNS = (PRODUCT, NEG_SQUARED_DIFFERENCE)
"""Objectives whose terms are added up column by column."""
_FAR = 1 << 25
"""Bytes that no cache is taken to hold."""
_LEAST_PRODUCTS, _LEAST_EXACT = 1 << 20, 1 << 18
"""Multiplies that are worth a thread of their own, by BLAS and exactly."""


def can_use_blas(array: NDArray[Any]) -> bool:
    """Whether NumPy hands products with this array to BLAS without copying it."""
    return array.dtype in (np.float32, np.float64) and (array.flags.c_contiguous or array.flags.f_contiguous)


def how_they_lie(rows: Rows | None) -> tuple[bool, bool]:
    """Whether BLAS can read all of these matrices, and whether rows lie one after another, as far as is known."""
    arrays = () if rows is None else rows.arrays
    readable = bool(arrays) and all(can_use_blas(array) for array in arrays)
    return readable, all(array.strides[1] == array.itemsize for array in arrays)


def products_with_one(array: NDArray[Any], query: NDArray[Any]) -> NDArray[Any]:
    """Products of all atoms with a query of their own type."""
    if array.flags.c_contiguous:
        by_ourselves = costs().sweeps(array.size)
    else:  # BLAS would add up all columns in a row
        by_ourselves = array.dtype == np.float32 and Rows([array]).are_columns
    if by_ourselves:
        return Rows([array]).rough_products(query, 0, array.shape[0])
    products: NDArray[Any] = array @ query
    return products


def sweeps_columns(rows: Rows, n_queries: int) -> bool:
    """Whether our own loop over columns in single precision multiplies these: with one query always.

    BLAS would add up all columns in a row, whose rounding nobody could tell. It does not for several queries.
    """
    if not multiplies_columns(rows):
        return False
    return n_queries == 1 or costs().sweeps_columns(rows.n * rows.d, rows.arrays[0].itemsize, n_queries)


def is_for_many(rows: Rows, queries: NDArray[Any]) -> bool:
    """Whether our own loop for many queries multiplies these in no more time than others."""
    if not rows.are_contiguous and not rows.are_columns:
        return False
    converts = not can_use_blas(rows.arrays[0])
    return costs().multiplies_many(queries.itemsize, len(queries), rows.d, not rows.are_contiguous, converts)


def multiply(atoms: NDArray[Any], queries: NDArray[Any]) -> NDArray[Any]:
    """Products of floats with several queries, one row for each query: by our own loops, or BLAS if that takes less.

    BLAS does it whichever way round it is faster.
    """
    rows = Rows([atoms])
    if rows.are_contiguous and costs().tiles(len(queries), rows.d):
        return rough_sums(rows, np.arange(rows.n), np.ascontiguousarray(queries), PRODUCT).astype(queries.dtype)
    if is_for_many(rows, queries):
        return products_with_many(rows, np.ascontiguousarray(queries))
    if costs().turns(atoms.itemsize, atoms.strides[1] > atoms.strides[0]):
        return np.asarray(queries @ atoms.T)
    products = atoms @ queries.T
    return by_row(products.T, products.dtype)


def products_with_all(array: NDArray[Any], queries: NDArray[Any]) -> NDArray[Any]:
    """Products of all atoms with some queries, one row for each query; divided among the threads at hand."""
    m = len(queries)

    def work(start: int, stop: int) -> NDArray[Any]:
        part = array[start:stop]
        if m == 1:
            return products_with_one(part, queries[0])[np.newaxis]
        if sweeps_columns(Rows([part]), m):
            return products_of_columns(Rows([part]), np.ascontiguousarray(queries))
        return multiply(part, queries)

    least = max(1, _LEAST_PRODUCTS // (array.shape[1] * len(queries)))
    found = in_pieces(work, array.shape[0], least)
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def exact_sums(
    rows: Rows,
    queries: NDArray[Any],
    scales: NDArray[np.float64] | None,
    close: NDArray[np.int64],
    begins: NDArray[np.int64],
    objective: int,
) -> NDArray[np.float64]:
    """Sum the objective's terms of each query, times a power of two, with the rows that are wanted for it.

    `close` and `begins` are as `banditmips.core.near_best.close_to_each` gives them.
    """
    sums = np.empty(close.size)
    if rows.are_contiguous and not are_shared(close, rows.n, rows.row_bytes):

        def work(start: int, stop: int) -> None:
            add_exactly(rows, queries, scales, close, begins, objective, sums, (start, stop))

        in_pieces(work, len(queries), max(1, len(queries) * _LEAST_EXACT // max(close.size * rows.d, 1)))
        return sums
    if len(rows.arrays) > 1 and not rows.are_contiguous:
        return _exact_of_each_part(rows, queries, scales, close, begins, objective)
    taken = queries if scales is None else queries * scales[:, np.newaxis]
    if objective in BY_COLUMNS and rows.are_columns and _take_less(rows, len(queries), close):
        of_all = rows.sums_of_columns(np.ascontiguousarray(taken, dtype=np.float64), 0, rows.n, objective)
        return np.asarray(of_all[np.repeat(np.arange(len(queries)), np.diff(begins)), close])
    # Each row is read once for all queries; and one that is not contiguous shares cache lines with its neighbours.
    return rows.pair_sums(close, begins, np.ascontiguousarray(taken), objective)


def _exact_of_each_part(
    rows: Rows,
    queries: NDArray[Any],
    scales: NDArray[np.float64] | None,
    close: NDArray[np.int64],
    begins: NDArray[np.int64],
    objective: int,
) -> NDArray[np.float64]:
    """Do that for the rows of several matrices, one after another: neighbours are those of one matrix."""
    sums, place, first = np.empty(close.size), np.repeat(np.arange(len(queries)), np.diff(begins)), 0
    for array in rows.arrays:
        here = np.flatnonzero((first <= close) & (close < first + len(array)))
        own = np.searchsorted(place[here], np.arange(len(queries) + 1))
        sums[here] = exact_sums(Rows([array]), queries, scales, close[here] - first, own, objective)
        first += len(array)
    return sums


def _take_less(rows: Rows, n_queries: int, close: NDArray[np.int64]) -> bool:
    """Whether exact products of some queries with all columns take less than reading the rows that are wanted."""
    n_wanted = int(np.count_nonzero(np.bincount(close, minlength=1)))
    apart = costs().entries_apart(rows.n, rows.d, rows.arrays[0].itemsize, n_wanted, close.size)
    return rows.n * column_time(rows, n_queries) <= apart


def column_time(rows: Rows, n_queries: int) -> float:
    """Nanoseconds of a number of columns that are added up exactly for so many queries, and converted, if need be."""
    by_column = costs().columns_of(rows.n * rows.d, n_queries, rows.arrays[0].itemsize)
    if can_use_blas(rows.arrays[0]) or multiplies_columns(rows):
        return by_column
    return by_column + costs().readings(n_queries) * costs().convert


def come_from_memory(rows: Rows) -> bool:
    """Whether these are more than any cache is taken to hold."""
    return sum(array.nbytes for array in rows.arrays) >= _FAR


def can_stream(store: PartStore, k: int) -> bool:
    """Whether products by BLAS, and exact scores of the best k alone, take less than exact scores of all."""
    is_float = store.dtype in (np.float32, np.float64) and store.dtype.isnative
    return is_float and store.share_of_rows(k + 1) <= _MOST_READ_AGAIN


def rows_held(store: PartStore) -> int:
    """How many rows of a file may be held in a group, while others are read."""
    return store.memory_limit // (_GROUPS_HELD * store.shape[1] * store.dtype.itemsize)


def streamed_products(store: PartStore, queries: NDArray[Any]) -> NDArray[Any]:
    """Products of all atoms of a file with some queries, one row for each query, in one pass over the file."""
    n = store.shape[0]
    most = min(len(queries), rows_held(store))
    if most > 1 and not store.by_column:
        # BLAS goes over all queries for each group of rows: few rows at a time would take longer than reading them.
        groups = [products_with_all(rows, queries) for _, rows in store.read_groups(store.row_groups(most))]
        return np.concatenate(groups, axis=1)
    products = np.zeros((len(queries), n))
    for part in all_parts(store, 0):
        products[:, part.rows] += products_with_all(part.values, queries[:, part.first_column : part.stop_column])
    return products.astype(store.dtype)


def rounding_of_products(
    products: NDArray[Any], query: NDArray[np.float64], store: AtomStore, facts: AtomFacts | None
) -> float:
    """By how much products of a query with all atoms by BLAS may be wrong."""
    limits, d = np.finfo(products.dtype), store.shape[1]
    if facts is not None:
        largest = float(longest(facts.squared_norms.max(), d))
    else:
        # Nobody knows the norms, which would take as long as the products: those of the best row have to do.
        largest = 4.0 * length_of(_row_of(store, int(np.argmax(np.abs(products)))))
    # What underflows is less than the smallest normal number: in a product, or in an entry of the query.
    lost = float(limits.tiny) * np.sqrt(d) * (np.sqrt(d) + largest)
    units = rounding_units(products.dtype == np.float32, d)
    return float(units * float(limits.eps) * length_of(query) * largest + lost)


def _row_of(store: AtomStore, row: int) -> NDArray[Any]:
    """All entries of a row."""
    values: NDArray[Any] = np.empty((1, store.shape[1]))
    if isinstance(store, PartStore):
        ((_, values),) = store.read_groups(np.array([row, row + 1]))
    else:
        store.gather(np.array([row]), np.arange(values.size), values)
    return values.reshape(-1)


def best_of_products(
    products: NDArray[Any],
    rounding: float,
    scores: ScoreMap,
    exact: Callable[[NDArray[np.int64]], NDArray[np.float64]],
    k: int,
    absolute: bool,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the best k rows by exact score: of those whose products are among the best, or too close to tell.

    Parameters
    ----------
    products
        Inner products of all atoms with one query, as BLAS gives them.
    rounding
        By how much they may be wrong (`rounding_of_products`).
    scores
        How scores follow from them.
    exact
        Gives the exact scores of rows.
    """
    rough = products.astype(np.float64)
    width = np.full(1, rounding)
    if scores.factors is not None:
        rough *= scores.factors
        width = rounding * np.abs(scores.factors)
    if scores.offsets is not None:
        rough += scores.offsets
    close = _reaching_best(np.abs(rough) if absolute else rough, width, k)
    values = exact(close)
    order = np.lexsort((close, -(np.abs(values) if absolute else values)))[:k]
    return close[order], values[order]


def _reaching_best(ranked: NDArray[np.float64], width: NDArray[np.float64], k: int) -> NDArray[np.int64]:
    """Places of those that may be among the best k, if numbers may be wrong by so much."""
    if k >= ranked.size:
        return np.arange(ranked.size)
    # Of what overflowed on the way nobody knows how good it is; an exact score says what is wrong with it.
    unknown = ~np.isfinite(ranked + width)
    lower, upper = np.where(unknown, -np.inf, ranked - width), np.where(unknown, np.inf, ranked + width)
    return np.flatnonzero(upper >= np.partition(lower, ranked.size - k)[ranked.size - k])
