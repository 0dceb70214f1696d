"""One pass over atoms in memory: rough scores of all, and the rows that their rounding cannot tell from the best.

`core.passes` adds up terms of all atoms, in single precision where that holds the atoms' numbers. Here is by how much
each score that follows may be wrong: whoever is not beaten for certain gets an exact score afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.atoms.collecting import by_row, converted
from banditmips.core.passes import (
    LANE_TERMS,
    column_moments,
    gives_squares,
    pass_dtype,
    products_and_squares,
    products_of_columns,
    rough_sums,
)
from banditmips.core.rows import Rows
from banditmips.core.statistics import PRODUCT
from banditmips.race.costs import costs
from banditmips.race.full import can_use_blas, is_for_many, multiply, products_with_all, sweeps_columns
from banditmips.race.rules import OBJECTIVE_CODES

__all__ = ["close_by_differences", "pass_products", "products_of_blocks", "rounding_of_sums"]

_LEAST_SUMMED = 1 << 20
"""Terms that are worth a thread of their own."""
_BEYOND_LANES = 8
"""Roundings of a term beside those of its lane: of a difference, its square, and between lanes."""
_BLOCK = 1 << 20
"""Entries that are converted for BLAS at a time: few enough to stay in a processor's last cache, and so many that the
queries, which BLAS lays out anew each time, are few beside them."""
_LEAST_ROWS, _MOST_ROWS = 1 << 8, 1 << 14
"""Rows in a block, if there are so many, which are few beside the queries otherwise; and of atoms in Fortran order: so
many that what is read lies together."""
_EXACT_TERMS = 2048
"""Terms that an exact score adds in a row, at most."""


def rounding_of_sums(dtype: np.dtype[Any], d: int, lane_terms: int = LANE_TERMS) -> float:
    """Error of a rough sum of d positive terms, so many of which are added in a row, as a part of it."""
    n_added = lane_terms + _BEYOND_LANES
    if dtype == np.float64:
        # Sums of lanes go on in the same precision, and exact scores are no more exact than theirs.
        n_added += _EXACT_TERMS + d // LANE_TERMS
    return n_added * float(np.finfo(dtype).eps)


def pass_products(
    rows: Rows, queries: NDArray[Any], moments: NDArray[np.float64] | None = None, totals: bool = True
) -> NDArray[Any]:
    """Products of all atoms with queries of the `pass_dtype`, one row for each query, by whoever is faster.

    Parameters
    ----------
    moments : float64 array of shape (2, n), or None
        Takes the atoms' sums and sums of squares.
    totals
        Whether these sums are wanted, or their squares alone.
    """
    if len(rows.arrays) > 1 and len({array.dtype for array in rows.arrays}) == 1:
        return _of_each_part(rows, queries, moments, totals)
    by_blas = all(can_use_blas(array) and array.dtype == queries.dtype for array in rows.arrays)
    by_tiles = rows.are_contiguous and costs().tiles(len(queries), rows.d)
    by_ourselves = is_for_many(rows, queries)
    if (moments is None or not totals) and sweeps_columns(rows, len(queries)):
        return _by_columns(rows, queries, None if moments is None else moments[1])
    share_a_reading = rows.are_columns and costs().readings(len(queries)) == 1
    if moments is None and share_a_reading and queries.dtype == np.float64 and not by_blas:
        # Integers that are no floats: sums in double precision take less than what BLAS would need them converted for.
        return _exact_by_columns(rows, queries)
    if moments is not None and not totals and by_blas and gives_squares(rows):
        if len(queries) == 1:
            return _with_squares(rows, queries[0], moments[1])[np.newaxis]
        if not by_tiles:
            _with_squares(rows, queries[0], moments[1])
            return products_with_all(rows.arrays[0], queries)
    if by_tiles and (moments is not None or not by_blas):
        return _sums(rows, queries, PRODUCT, moments).astype(queries.dtype)
    has_moments = moments is None or rows.are_contiguous or (by_blas and rows.are_columns)
    if not ((by_blas or by_ourselves) and has_moments):
        return products_of_blocks(rows, queries, moments)
    if moments is not None and rows.are_contiguous:
        _sums(rows, queries[:1], PRODUCT, moments)
    elif moments is not None:
        in_pieces(partial(_add_moments, rows.arrays[0], moments), rows.n, max(1, _LEAST_SUMMED // rows.d))
    parts = [products_with_all(array, queries) for array in rows.arrays]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def _of_each_part(rows: Rows, queries: NDArray[Any], moments: NDArray[np.float64] | None, totals: bool) -> NDArray[Any]:
    """Do that for the rows of several matrices of one type, each in the way that is best for it."""
    found, first = [], 0
    for array in rows.arrays:
        own = None if moments is None else moments[:, first : first + len(array)]
        found.append(pass_products(Rows([array]), queries, own, totals))
        first += len(array)
    return np.concatenate(found, axis=1)


def _with_squares(rows: Rows, query: NDArray[Any], squares: NDArray[np.float64]) -> NDArray[Any]:
    """Products of all rows that come with squares with one query; their sums of squares go to `squares`."""
    (array,) = rows.arrays

    def work(start: int, stop: int) -> NDArray[Any]:
        products, squares[start:stop] = products_and_squares(Rows([array[start:stop]]), query)
        return products

    found = in_pieces(work, rows.n, max(1, _LEAST_SUMMED // rows.d))
    return found[0] if len(found) == 1 else np.concatenate(found)


def _by_columns(rows: Rows, queries: NDArray[Any], squares: NDArray[np.float64] | None) -> NDArray[Any]:
    """Products of all rows by column; their sums of squares go to `squares`."""
    (array,) = rows.arrays

    def work(start: int, stop: int) -> NDArray[Any]:
        own = None if squares is None else np.empty(stop - start, dtype=np.float32)
        products = products_of_columns(Rows([array[start:stop]]), queries, own)
        if squares is not None:
            squares[start:stop] = own
        return products

    found = in_pieces(work, rows.n, max(1, _LEAST_SUMMED // (rows.d * len(queries))))
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def _exact_by_columns(rows: Rows, queries: NDArray[Any]) -> NDArray[Any]:
    """Products of all rows by column with a few queries in double precision, as exact as any."""
    (array,) = rows.arrays

    def work(start: int, stop: int) -> NDArray[Any]:
        return Rows([array[start:stop]]).sums_of_columns(np.ascontiguousarray(queries), 0, stop - start, PRODUCT)

    found = in_pieces(work, rows.n, max(1, _LEAST_SUMMED // (rows.d * len(queries))))
    return found[0] if len(found) == 1 else np.concatenate(found, axis=1)


def products_of_blocks(rows: Rows, queries: NDArray[Any], moments: NDArray[np.float64] | None) -> NDArray[Any]:
    """Products of rows that BLAS cannot read, or whose moments are asked for: some are laid out for it at a time."""
    if moments is not None:
        moments[:] = 0.0
    if rows.are_contiguous and len(rows.arrays) == 1 and rows.n * rows.d <= _BLOCK:
        block = converted(rows.arrays[0], queries.dtype)
        if moments is not None:
            moments += _moments(block)
        return multiply(block, queries)
    products = np.zeros((len(queries), rows.n))

    def work(start: int, stop: int) -> None:
        for some, columns, block in _blocks(rows, start, stop, queries.dtype, converted):
            if moments is not None:
                moments[:, some] += _moments(block)
            products[:, some] += multiply(block, queries[:, columns])

    in_pieces(work, rows.n, max(1, _BLOCK // rows.d))
    return products.astype(queries.dtype)


def _add_moments(array: NDArray[Any], moments: NDArray[np.float64], start: int, stop: int) -> None:
    moments[:, start:stop] = _moments(array[start:stop])


def _moments(block: NDArray[Any]) -> NDArray[np.float64]:
    """Sums and sums of squares of rows, as rough as those of `rough_sums`."""
    if block.strides[0] == block.itemsize:
        return column_moments(block)
    n, d = block.shape
    found = np.zeros((2, n))
    rough_sums(Rows([by_row(block, block.dtype)]), np.arange(n), np.zeros((1, d), dtype=block.dtype), PRODUCT, found)
    return found


def _blocks(
    rows: Rows, start: int, stop: int, dtype: np.dtype[Any], layout: Callable[..., NDArray[Any]]
) -> Iterator[tuple[slice, slice, NDArray[Any]]]:
    """Some of the rows in blocks of about a million numbers, laid out as floats: which rows and columns, and these.

    Of long rows a block has some columns: queries are laid out anew for each block that has the same.
    """
    begin = 0
    for array in rows.arrays:
        low, high = max(start, begin), min(stop, begin + len(array))
        part = array[low - begin : max(high, low) - begin]
        height = _MOST_ROWS if part.strides[1] != part.itemsize else max(_BLOCK // rows.d, _LEAST_ROWS)
        height = max(1, min(len(part), height))
        width = max(1, _BLOCK // height)
        for row in range(0, len(part), height):
            for column in range(0, rows.d, width):
                block = layout(part[row : row + height, column : column + width], dtype)
                some = slice(low + row, low + row + len(block))
                yield some, slice(column, column + block.shape[1]), block
        begin += len(array)


def _sums(
    rows: Rows, queries: NDArray[Any], objective: int, moments: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Rough sums of all rows, divided by rows among the threads at hand; and moments of contiguous ones, if wanted."""

    def of_rows(start: int, stop: int) -> NDArray[np.float64]:
        own = None if moments is None else moments[:, start:stop]
        return rough_sums(rows, np.arange(start, stop), queries, objective, own)

    def of_blocks(start: int, stop: int) -> NDArray[np.float64]:
        # A row of numbers that lie apart touches a cache line for each, which it shares with its neighbours.
        sums = np.zeros((len(queries), stop - start))
        for some, columns, block in _blocks(rows, start, stop, queries.dtype, by_row):
            entries, here = np.ascontiguousarray(queries[:, columns]), slice(some.start - start, some.stop - start)
            sums[:, here] += rough_sums(Rows([block]), np.arange(len(block)), entries, objective)
        return sums

    found = in_pieces(of_rows if rows.are_contiguous else of_blocks, rows.n, _LEAST_SUMMED // max(queries.size, 1))
    sums: NDArray[np.float64] = found[0] if len(found) == 1 else np.concatenate(found, axis=1)
    return sums


def close_by_differences(
    rows: Rows, queries: NDArray[Any], objective: str, k: int, excluded: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """For each query, the rows that are among the best k by sums of differences, or too close to them to tell.

    Returns
    -------
    As those of `close_to_each`; None where a sum is not finite.
    """
    dtype = pass_dtype(rows)
    with np.errstate(over="ignore", invalid="ignore"):
        vectors = queries.astype(dtype, copy=False)
        sums = _sums(rows, vectors, OBJECTIVE_CODES[objective])
    if not np.isfinite(sums).all():
        return None
    rounding = rounding_of_sums(dtype, rows.d)
    rest = None if vectors.dtype == queries.dtype else queries - vectors
    if objective == "neg_l1":
        width = rounding * sums
        if rest is not None:
            width += np.abs(rest).sum(axis=1, keepdims=True)
    else:
        width = rounding * sums + rows.d * float(np.finfo(dtype).tiny)
        if rest is not None:
            left = np.sqrt(np.square(rest).sum(axis=1, keepdims=True))
            width += left * (2.1 * np.sqrt(sums) + left)
    upper = sums + width
    if excluded is not None:
        upper[np.broadcast_to(excluded, upper.shape)] = np.inf
    k = min(k, rows.n)
    bar = np.partition(upper, k - 1, axis=1)[:, k - 1 : k]
    places, close = np.nonzero(sums - width <= bar)
    return np.ascontiguousarray(close), np.searchsorted(places, np.arange(len(queries) + 1))
