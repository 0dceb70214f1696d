"""Which atoms can be among the best of a batch's queries, by products of bytes: faster than those of BLAS."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.core.batch import measure_queries
from banditmips.core.byte_products import BLOCK, MOST_QUERIES, STRETCH, ByteProducts, can_round, reaching_best
from banditmips.core.quantiles import normal_quantile
from banditmips.core.rows import Rows
from banditmips.core.rule import deviations_of_ends
from banditmips.race.costs import Costs, costs
from banditmips.race.full import sweeps_columns

__all__ = [
    "Close",
    "Ranked",
    "Scores",
    "Settings",
    "are_likely",
    "are_peaked",
    "close_by_bytes",
    "is_cheap_to_try",
    "most_peaked",
    "time_by_blas",
    "times_by_bytes",
]

_TRIED = 32
"""One block of atoms of so many is multiplied first, but one at least."""
_MOST_LOST = 0.05
"""Part of the time of BLAS that may be lost by trying without having looked whether it could pay."""
_LOOKED_AT, _COLUMNS_LOOKED_AT = 8, 4096
"""Atoms whose largest entries are looked at where trying takes more; and how many entries of those by column."""
_WORTHWHILE = 0.9
"""Part of the time of BLAS that products of bytes may take, with the rows that they cannot tell apart."""
_BESIDES = 0.3
"""Rows that are read in vain for each that is returned, where products of bytes are likely (measured: 0.1 to 0.35)."""
_FAR_TOO_MANY = 4.0
"""A query that leaves so many times the rows that pay counts for no more: BLAS answers it, and not the others."""
_HEAVIER = 1.5
"""How many times as many rows are left as follows from the largest entries (measured: 0.6 to 1.7 times for numbers
about 0 of many kinds, normal and with heavy tails; 2 to 3 times for numbers that are all positive)."""
_MOST_OF_NORM = 0.25
"""Part of a norm that its largest entry may be, if scores are to be those of random directions."""
_DISTINCT = 0.25
"""Part of the atoms that were tried which may be left: where more are, it is so for all atoms."""

Close = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]
"""Rows, where those of each query begin, and which queries are left to BLAS (see `reaching_best`)."""
Scores = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], float, NDArray[np.float64]]
"""How what is ranked follows from products (see `reaching_best`)."""
Ranked = Callable[[NDArray[np.float64], NDArray[np.int64]], Scores | None]
"""The same from sums of squares of some atoms, and which these are; None where nobody knows."""
_Asked = tuple[Ranked | None, NDArray[np.bool_] | None]
"""What is ranked, and which atoms take no part."""


class Settings(NamedTuple):
    """What is asked for.

    Attributes
    ----------
    k, absolute, delta, seed
        As those of a search.
    n_atoms
        Those that delta is split over, if there are more of them than rows.
    """

    k: int
    absolute: bool
    delta: float
    seed: int
    n_atoms: int | None = None


def close_by_bytes(
    rows: Rows,
    queries: NDArray[Any],
    settings: Settings,
    ranked: Ranked | None = None,
    tries: bool = True,
    excluded: NDArray[np.bool_] | None = None,
) -> Close | None:
    """Rows that can be among the best k of each query, up to delta; None where BLAS would take less time than they do.

    Products are ranked themselves where there is no `ranked`. Some atoms are tried first, unless that is not wanted.
    `excluded`, of shape (n,) or (m, n), take no part.

    Nothing but time is lost by what is guessed here: who is left out is decided by `core.rule`.
    """
    k, absolute, delta, seed, n_atoms = settings
    most = _most_rows(costs(), rows, len(queries), k)
    if most <= 0.0 or delta <= 0.0:
        return None
    ends = deviations_of_ends(delta, n_atoms or rows.n, k, absolute)
    with np.errstate(over="ignore", invalid="ignore"):
        products = ByteProducts(rows, [queries], seed)
        left = np.arange(products.n_blocks)
        if tries:
            tried = _tried_blocks(products.n_blocks)
            products.fill(tried)
            if not _could_pay(products, tried, ends, settings, (ranked, excluded), most):
                return None
            left = np.delete(left, tried)
        in_pieces(lambda start, stop: products.fill(left[start:stop]), left.size, 1)
        found = _reaching(products, np.arange(rows.n), ends, k, absolute, (ranked, excluded))
    return None if found is None else _without_many(*found, k + most, rows)


def _could_pay(
    products: ByteProducts,
    tried: NDArray[np.int64],
    ends: tuple[float, float],
    settings: Settings,
    asked: _Asked,
    most: float,
) -> bool:
    """Whether products of some blocks say that no more than so many rows will be left for each query."""
    k, n = settings.k, products.squares.size
    some = (BLOCK * tried[:, np.newaxis] + np.arange(BLOCK)).ravel()
    some = some[some < n]
    least = max(1, round(k * some.size / n))
    found = _reaching(products, some, ends, least, settings.absolute, asked)
    if found is None:
        return False
    besides = np.where(found[2], some.size, np.diff(found[1]) - least)
    # Of numbers that lie far apart at their end, as many times as few are wanted are close to these.
    besides = besides * np.where(besides <= _DISTINCT * some.size, k / least, n / some.size)
    return bool(np.minimum(besides, _FAR_TOO_MANY * most).mean() <= most)


def is_cheap_to_try(rows: Rows, n_queries: int) -> bool:
    """Whether a few products of bytes take next to nothing beside those of BLAS, so that it may as well be tried."""
    here, n_blocks = costs(), -(-rows.n // BLOCK)
    tried = BLOCK * _tried_blocks(n_blocks).size * _time_by_bytes(here, rows, n_queries)
    return tried + n_queries * here.byte_entry <= _MOST_LOST * rows.n * _time_by_blas(here, rows, n_queries)


def are_likely(rows: Rows, queries: NDArray[Any], k: int, absolute: bool, delta: float) -> bool:
    """Whether queries that come together are likely to be answered by products of bytes, if all share them."""
    some = np.ascontiguousarray(queries[:: -(-len(queries) // _LOOKED_AT)])
    squares, largest, *_ = measure_queries(some)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        peaks = largest * sqrt(rows.d) / np.sqrt(squares)
    return not are_peaked(rows, peaks, len(queries), k, absolute, delta)


def are_peaked(rows: Rows, peaks: NDArray[np.float64], n_queries: int, k: int, absolute: bool, delta: float) -> bool:
    """Whether products of bytes are not likely to tell atoms apart, by the largest entries of queries and some atoms.

    `peaks` are those of some of the queries, beside their root mean square.
    """
    limit = most_peaked(rows, min(n_queries, MOST_QUERIES), k, absolute, delta)
    if 2 * np.count_nonzero(peaks <= limit) <= peaks.size:
        return True
    array = rows.arrays[0]
    if rows.are_contiguous:
        some = array[:: max(1, rows.n // _LOOKED_AT)][: _LOOKED_AT + 1]  # from all over
    else:
        # Each number of a row takes a cache line, which it shares with its neighbours.
        first = max(0, rows.n - _LOOKED_AT) // 2
        some = array[first : first + _LOOKED_AT + 1, :: -(-rows.d // _COLUMNS_LOOKED_AT)]
    some = np.ascontiguousarray(some, dtype=array.dtype if array.dtype in (np.float32, np.float64) else np.float32)
    squares, largest, *_ = measure_queries(some)
    return bool(2 * np.count_nonzero(largest * sqrt(some.shape[1]) <= limit * np.sqrt(squares)) <= len(some))


def most_peaked(rows: Rows, n_queries: int, k: int, absolute: bool, delta: float) -> float:
    """How large the largest entry of a query may be beside its root mean square if products of bytes are to be tried.

    Errors grow with it. They are compared with scores that are scattered as those of random directions are, which they
    are not where one entry makes up much of a norm.
    """
    most = _most_rows(costs(), rows, n_queries, k)
    if most <= 0.0 or delta <= 0.0:
        return 0.0
    deviation = sqrt(2.0 / 12.0) / 127.0  # of an atom and a query that are as peaked, for a peak of 1
    reach = deviation * sum(deviations_of_ends(delta, rows.n, k, absolute))
    scores_close = k * max(normal_quantile(1.0 - k / rows.n), 1.0)  # for each deviation of the scores
    return min(most / (_HEAVIER * scores_close * reach), _MOST_OF_NORM * sqrt(rows.d))


def _tried_blocks(n_blocks: int) -> NDArray[np.int64]:
    """Some blocks, from all over."""
    count = max(1, n_blocks // _TRIED)
    return (np.arange(count) * n_blocks + (n_blocks - 1) // 2) // count


def _reaching(
    products: ByteProducts,
    atoms: NDArray[np.int64],
    ends: tuple[float, float],
    k: int,
    absolute: bool,
    asked: _Asked,
) -> Close | None:
    """Which of some atoms, whose products are there, reach the best k; None where nobody knows what is ranked."""
    (ranked, excluded), estimates, squares = asked, products.products, products.squares
    if atoms.size < squares.size:
        estimates, squares = np.ascontiguousarray(estimates[:, atoms]), squares[atoms]
        excluded = None if excluded is None else excluded[..., atoms]
    scores = None if ranked is None else ranked(squares, atoms)
    if ranked is not None and scores is None:
        return None
    return reaching_best(estimates, products.deviations(atoms), products.radii(ends), k, absolute, scores, excluded)


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


def times_by_bytes(rows: Rows, n_queries: int, k: int) -> tuple[float, float]:
    """Nanoseconds of what so many queries share of products of bytes, and of what each takes of them besides.

    The rows that are returned are no part of it, but those that are read in vain are.
    """
    here = costs()
    own = rows.n * rows.d * here.byte_product + _around(here, rows) + _BESIDES * k * rows.d * here.row
    shared = rows.n * rows.d * (_time_by_bytes(here, rows, n_queries) - n_queries * here.byte_product)
    return max(shared, 0.0) + here.byte_batch, own


def _around(here: Costs, rows: Rows) -> float:
    """Nanoseconds of a query beside its products: it is rounded, laid out, which takes as long again, and compared."""
    return 2.0 * rows.d * here.byte_entry + rows.n * here.byte_interval


def _most_rows(here: Costs, rows: Rows, n_queries: int, k: int) -> float:
    """How many rows beside the best k may be read for each query, if products of bytes are to take less than BLAS."""
    if k >= rows.n or not can_round(rows):
        return 0.0
    saved = _time_by_blas(here, rows, n_queries) - _time_by_bytes(here, rows, n_queries)
    around = n_queries * _around(here, rows) + here.byte_batch
    return (rows.n * saved - around / rows.d) / (n_queries * here.row)


def _rows_for_blas(here: Costs, rows: Rows, n_queries: int) -> float:
    """How many rows may be read for each of these queries, if that is to take less than their products by BLAS."""
    return rows.n * _time_by_blas(here, rows, n_queries) / (n_queries * here.row)


def _time_by_bytes(here: Costs, rows: Rows, n_queries: int) -> float:
    around = here.byte_row * -(-rows.d // STRETCH) / rows.d
    return around + here.bytes_of(rows.arrays[0].dtype.itemsize, n_queries, by_column=not rows.are_contiguous)


def _time_by_blas(here: Costs, rows: Rows, n_queries: int) -> float:
    """The same by BLAS, or by our own loops where these take less."""
    dtype, n_values = rows.arrays[0].dtype, rows.n * rows.d
    if sweeps_columns(rows, n_queries):
        return _WORTHWHILE * here.column_sweep_of(n_values, dtype.itemsize, n_queries)
    if dtype.kind == "f" and dtype.itemsize >= 4:
        return time_by_blas(here, dtype.itemsize, n_queries, by_column=not rows.are_contiguous, d=rows.d, n=rows.n)
    if not rows.are_contiguous and dtype.itemsize < 4:
        return _WORTHWHILE * here.column_products_of(n_values, dtype.itemsize, n_queries)
    if here.tiles(n_queries, rows.d):  # for few of them nobody converts
        return _WORTHWHILE * (here.convert + n_queries * here.tile)
    return time_by_blas(here, dtype.itemsize, n_queries, here.convert, d=rows.d)


def time_by_blas(
    here: Costs,
    itemsize: int,
    n_queries: int,
    converted: float = 0.0,
    by_column: bool = False,
    d: float = inf,
    n: int = 0,
) -> float:
    """Nanoseconds that products of bytes may take for an entry: most of what BLAS, and converting for it, do."""
    n_values = int(n * d) if n else 0
    return _WORTHWHILE * (converted + here.together_of(max(itemsize, 4), n_queries, by_column, d, n_values))
