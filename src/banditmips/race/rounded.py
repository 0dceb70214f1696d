"""Which atoms can be among the best of a batch's queries, by products of bytes: faster than those of BLAS."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.core.byte_products import ByteProducts, can_round, reaching_best
from banditmips.core.quantiles import normal_quantile
from banditmips.core.rows import Rows
from banditmips.core.rule import deviations_of_ends
from banditmips.race.costs import Costs, costs

__all__ = ["Close", "Scores", "close_by_bytes", "most_peaked", "time_by_blas", "time_by_bytes"]

_GROUP = 16
"""Queries that cost as much as one of them."""
_TRIED, _LEAST_TRIED = 32, 12
"""One atom of so many is tried first with a group of the queries, but so many at least."""
_MOST_LOST = 0.05
"""Part of the time of BLAS that may be lost by trying."""
_WORTHWHILE = 0.8
"""Part of the time of BLAS that products of bytes may take, with the rows that they cannot tell apart."""
_FAR_TOO_MANY = 4.0
"""A query that leaves so many times the rows that pay counts for no more: BLAS answers it, and not the others."""
_HEAVIER = 3.0
"""How many times as many rows may be left as for normal numbers, before it is worth trying."""
_DISTINCT = 0.25
"""Part of the atoms that were tried which may be left: where more are, it is so for all atoms."""
_INTERVAL, _QUERY = 4.0, 1_000.0
"""Nanoseconds of an estimate's interval and its comparison with the best, and of a query whatever the atoms (measured:
3 to 5, and 500 to 1,000, for 300 to 10,000 atoms)."""

Close = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""Rows, where those of each query begin, and which queries are left to BLAS (see `reaching_best`)."""
Scores = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]
"""How what is ranked follows from products (see `reaching_best`)."""
Ranked = Callable[[NDArray[np.float64], slice, slice], Scores | None]
"""The same from sums of squares of some atoms, which these are, and which queries; None where nobody knows."""


def close_by_bytes(
    rows: Rows,
    queries: NDArray[Any],
    k: int,
    absolute: bool,
    delta: float,
    seed: int,
    n_atoms: int | None = None,
    ranked: Ranked | None = None,
) -> Close | None:
    """Rows that can be among the best k of each query, up to delta; None where BLAS would take less time than they do.

    `n_atoms` are those that delta is split over, if these rows are a part of them. Products are ranked themselves where
    there is no `ranked`.

    Nothing but time is lost by what is guessed here: who is left out is decided by `core.rule`.
    """
    most = _most_rows(costs(), rows, len(queries), k)
    if most <= 0.0 or delta <= 0.0:
        return None
    ends = deviations_of_ends(delta, n_atoms or rows.n, k, absolute)
    some, few, every = _tried_atoms(rows), slice(None, None, -(-len(queries) // _GROUP)), slice(None)
    with np.errstate(over="ignore", invalid="ignore"):
        tried = ByteProducts(Rows([rows.arrays[0][some]]), [queries[few]], seed)
        n_tried = tried.products.shape[1]
        least = max(1, round(k * n_tried / rows.n))
        found = _reaching(tried, ends, least, absolute, ranked, (some, few))
        if found is None:
            return None
        besides = np.where(found[2], n_tried, np.diff(found[1]) - least)
        # Of numbers that lie far apart at their end, as many times as few are wanted are close to these.
        besides = besides * np.where(besides <= _DISTINCT * n_tried, k / least, rows.n / n_tried)
        if np.minimum(besides, _FAR_TOO_MANY * most).mean() > most:
            return None
        found = _reaching(ByteProducts(rows, [queries], seed), ends, k, absolute, ranked, (every, every))
    return None if found is None else _without_many(*found, k + most, rows)


def most_peaked(rows: Rows, n_queries: int, k: int, absolute: bool, delta: float) -> float:
    """How large a query's largest entry may be beside its root mean square if products of bytes are to be tried.

    Errors grow with it. They are compared with scores that are scattered as those of random directions are.
    """
    most = _most_rows(costs(), rows, n_queries, k)
    if most <= 0.0 or delta <= 0.0:
        return 0.0
    deviation = sqrt(2.0 / 12.0) / 127.0  # of an atom and a query that are as peaked, for a peak of 1
    reach = deviation * sum(deviations_of_ends(delta, rows.n, k, absolute))
    scores_close = k * max(normal_quantile(1.0 - k / rows.n), 1.0)  # for each deviation of the scores
    return most / (_HEAVIER * scores_close * reach)


def _reaching(
    products: ByteProducts,
    ends: tuple[float, float],
    k: int,
    absolute: bool,
    ranked: Ranked | None,
    places: tuple[slice, slice],
) -> Close | None:
    """Multiply, and find the rows that reach the best k; None where nobody knows what is ranked."""
    in_pieces(lambda start, stop: products.fill(np.arange(start, stop)), products.n_blocks, 1)
    scores = None if ranked is None else ranked(products.squares, *places)
    if ranked is not None and scores is None:
        return None
    return reaching_best(products.products, products.deviations(), products.radii(ends), k, absolute, scores)


def _without_many(
    close: NDArray[np.int64], begins: NDArray[np.int64], unknown: NDArray[np.bool_], most: float, rows: Rows
) -> Close | None:
    """The same without those of queries that have more than pays; None where all of them have."""
    counts = np.diff(begins)
    n_left = int(np.count_nonzero(unknown | (counts > most)))
    if n_left:  # BLAS reads all atoms for however few
        unknown = unknown | (counts > max(most, _rows_for_blas(costs(), rows, n_left)))
    if unknown.all():
        return None
    if unknown.any():
        close, counts = close[np.repeat(~unknown, counts)], np.where(unknown, 0, counts)
    return close, np.concatenate(([0], np.cumsum(counts))), unknown


def _tried_atoms(rows: Rows) -> slice:
    """Some atoms, from all over; those in Fortran order side by side, since they share what is read from memory."""
    count = min(max(_LEAST_TRIED, rows.n // _TRIED), rows.n)
    if rows.are_contiguous:
        return slice(rows.n // count // 2, None, rows.n // count)
    first = (rows.n - count) // 2
    return slice(first, first + count)


def _most_rows(here: Costs, rows: Rows, n_queries: int, k: int) -> float:
    """How many rows beside the best k may be read for each query, if products of bytes are to take less than BLAS."""
    if k >= rows.n or not can_round(rows):
        return 0.0
    by_blas, itemsize = _time_by_blas(here, rows, n_queries), rows.arrays[0].dtype.itemsize
    tried = max(_LEAST_TRIED, rows.n // _TRIED) * time_by_bytes(here, itemsize, _GROUP) + _GROUP * here.byte_entry
    if tried > _MOST_LOST * rows.n * by_blas:
        return 0.0
    saved = by_blas - time_by_bytes(here, itemsize, n_queries)
    around = tried + n_queries * (here.byte_entry + (rows.n * _INTERVAL + _QUERY) / rows.d)
    return (rows.n * saved - around) / (n_queries * here.row)


def _rows_for_blas(here: Costs, rows: Rows, n_queries: int) -> float:
    """How many rows may be read for each of these queries, if that is to take less than their products by BLAS."""
    return rows.n * _time_by_blas(here, rows, n_queries) / (n_queries * here.row)


def _time_by_blas(here: Costs, rows: Rows, n_queries: int) -> float:
    dtype = rows.arrays[0].dtype
    converted = here.convert if dtype.kind != "f" or dtype.itemsize < 4 else 0.0
    return time_by_blas(here, dtype.itemsize, n_queries, converted)


def time_by_blas(here: Costs, itemsize: int, n_queries: int, converted: float = 0.0) -> float:
    """Nanoseconds that products of bytes may take for an entry: most of what BLAS, and converting for it, do."""
    return _WORTHWHILE * (converted + max(itemsize / 4, 1.0) * (here.shared + n_queries * here.product))


def time_by_bytes(here: Costs, itemsize: int, n_queries: int) -> float:
    """Nanoseconds that products of bytes take for an entry of an atom."""
    n_multiplied = -(-n_queries // _GROUP) * _GROUP
    return max(itemsize / 4, 1.0) * here.byte_entry + n_multiplied * here.byte_product
