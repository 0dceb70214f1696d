"""Which atoms can be among the best of a batch's queries, by products of bytes: faster than those of BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import in_pieces
from banditmips.core.byte_products import BLOCK, ByteProducts, can_round, reaching_best
from banditmips.core.rows import Rows
from banditmips.core.rule import deviations_of_ends
from banditmips.race.costs import Costs, costs

__all__ = ["close_by_bytes", "may_round", "time_by_blas", "time_by_bytes"]

_TRIED = 16
"""Of so many blocks of atoms one is tried first: a sixteenth of the products of bytes is lost if they fail."""
_LEAST_BLOCKS = 8
"""Blocks below which one that is tried would be too large a part of them."""
_WORTHWHILE = 0.8
"""Part of the time of BLAS that products of bytes may take, with the rows that they cannot tell apart."""
_FAR_TOO_MANY = 4.0
"""A query that leaves so many times the rows that pay counts for no more: BLAS answers it, and not the others."""
_INTERVAL, _QUERY = 10.0, 5_000.0
"""Nanoseconds of an estimate's interval and its comparison with the best, and of a query whatever the atoms (measured:
8 to 12, and 3,000 to 6,000, for 1,000 to 10,000 atoms)."""
_GROUP = 16
"""Queries that cost as much as one of them."""


def close_by_bytes(
    rows: Rows,
    queries: Sequence[NDArray[Any]],
    k: int,
    absolute: bool,
    delta: float,
    seed: int,
    n_atoms: int | None = None,
) -> list[NDArray[np.int64] | None]:
    """Rows that can be among the best k of each query, up to delta; None where BLAS would take less time than they do.

    `n_atoms` are those that delta is split over, if these rows are a part of them.

    Nothing but time is lost by what is guessed here: who is left out is decided by `core.rule`.
    """
    nobody: list[NDArray[np.int64] | None] = [None] * len(queries)
    most = _most_rows(costs(), rows, len(queries), k)
    if most <= 0.0 or delta <= 0.0:
        return nobody
    found = ByteProducts(rows, queries, seed)
    radii = found.radii(deviations_of_ends(delta, n_atoms or rows.n, k, absolute))
    blocks = np.arange(found.n_blocks)
    first = blocks[_TRIED // 2 :: _TRIED].copy() if blocks.size > _TRIED else blocks[:1]
    found.fill(first)
    tried = (first[:, np.newaxis] * BLOCK + np.arange(BLOCK)).ravel()
    tried = tried[tried < rows.n]
    share = tried.size / rows.n
    with np.errstate(over="ignore", invalid="ignore"):
        products, deviations = np.ascontiguousarray(found.products[:, tried]), found.deviations(tried)
        least = max(1, round(k * share))
        some = [
            reaching_best(of_query, radius, radii, least, absolute)
            for of_query, radius in zip(products, deviations, strict=True)
        ]
        too_many = _FAR_TOO_MANY * most * share
        besides = [too_many if one is None else min(one.size - least, too_many) for one in some]
        if np.mean(besides) > most * share:
            return nobody
        others = np.setdiff1d(blocks, first)
        in_pieces(lambda start, stop: found.fill(others[start:stop]), others.size, 1)
        close = [
            reaching_best(of_query, radius, radii, k, absolute)
            for of_query, radius in zip(found.products, found.deviations(), strict=True)
        ]
    limit = k + most
    n_left = sum(one is None or one.size > limit for one in close)
    if n_left:  # BLAS reads all atoms for however few
        limit = max(limit, _rows_for_blas(costs(), rows, n_left))
    return [one if one is not None and one.size <= limit else None for one in close]


def may_round(rows: Rows, n_queries: int, k: int) -> bool:
    """Whether products of bytes could take less than BLAS."""
    return _most_rows(costs(), rows, n_queries, k) > 0.0


def _most_rows(here: Costs, rows: Rows, n_queries: int, k: int) -> float:
    """How many rows beside the best k may be read for each query, if products of bytes are to take less than BLAS."""
    if rows.n < _LEAST_BLOCKS * BLOCK or k >= rows.n or not can_round(rows):
        return 0.0
    saved = _time_by_blas(here, rows, n_queries) - time_by_bytes(here, rows.arrays[0].dtype.itemsize, n_queries)
    around = n_queries * (here.byte_entry + (rows.n * _INTERVAL + _QUERY) / rows.d)
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
