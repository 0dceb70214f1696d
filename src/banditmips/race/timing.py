"""How long reading and multiplying take on this machine: the planner's constants (`race.costs`) are measured here."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import collect_facts
from banditmips.core.answer import Known, Times, answer
from banditmips.core.byte_products import BLOCK, ByteProducts, reaching_best
from banditmips.core.certain import CertainBounds, MeasuredQuery, ScoreMap
from banditmips.core.code_source import CodeSource, make_dither
from banditmips.core.codes import MAX_BITS, Codes
from banditmips.core.exact import RowsExact
from banditmips.core.loop import Limits
from banditmips.core.many_products import products_with_many
from banditmips.core.measuring import time_cells, time_rotation
from banditmips.core.passes import products_of_columns, rough_sums
from banditmips.core.rotation import Rotation
from banditmips.core.rows import Rows
from banditmips.core.rule import CodeRule
from banditmips.core.survivors import Survivors

__all__ = ["measure"]

_N, _D = 1024, 8192
"""Rows and columns of what is read from the cache, or multiplied at once."""
_SHORT = 64
"""Entries of rows whose products take next to nothing."""
_AROUND = 2.0
"""What is around a race, whatever its size, beside what the core does of it (measured: 17 microseconds, and 8.6)."""
_SHORT_CODE = 704
"""Coordinates of codes of which what is around their cells takes a good part, as do vectors that they half fill."""


def measure() -> dict[str, float]:
    """Measure the constants that differ most between machines, in nanoseconds: the names are those of `Costs`."""
    # More than any cache holds.
    apart = np.empty((_N, 4 * _D), dtype=np.float32)
    apart[:, :: 4096 // apart.itemsize] = 1.0  # pages that nobody has written to would all be one
    near = np.ones((_N, _N), dtype=np.float32)
    seconds = _of_rows(apart, near) | _of_columns(apart, near) | _of_codes()
    stream = seconds["stream"]
    # What is near takes no longer than what is far, nor many products at once longer than one by one: where it seems
    # so, other work was in the way.
    seconds["near_stream"] = min(seconds["near_stream"], stream)
    seconds |= _of_batches(apart, seconds["near_stream"])
    held = _held_by_a_cache(apart, seconds["near_stream"], seconds["stream"])
    return {name: 1e9 * value for name, value in seconds.items()} | _of_turning() | held


def _held_by_a_cache(apart: NDArray[np.float32], near: float, far: float) -> dict[str, float]:
    """How much of what memory takes longer than the cache 32 and 64 MB do, between next to nothing and all of it."""
    found, query = {}, np.ones(4 * _D, dtype=np.float32)
    for name, part in (("at_32_mb", apart[: _N // 4]), ("at_64_mb", apart[: _N // 2])):
        longer = _best_time(lambda some=part: some @ query, 6) / part.size - near  # type: ignore[misc]
        found[name] = float(np.clip(longer / (far - near), 0.02, 1.0)) if far > near else 1.0
    found["at_64_mb"] = max(found.values())
    return found


def _of_rows(apart: NDArray[np.float32], near: NDArray[np.float32]) -> dict[str, float]:
    """Seconds of a value of atoms by row: read for one query, from memory and from the cache, or gathered."""
    far, near_rows, query, every = Rows([apart]), Rows([near]), np.ones(4 * _D, dtype=np.float32), np.arange(_N)
    # Other columns each time: what was read once would be near.
    columns = np.random.default_rng(0).permutation(4 * _D)[:128].reshape(4, 32)
    out = np.empty((_N, columns.shape[1]))
    gather = min(_best_time(partial(far.gather, every, some, out), 1) for some in columns)
    halves = Rows([apart[: _N // 2].view(np.float16)])
    wide = np.ones((1, 8 * _D), dtype=np.float32)
    return {
        "gather": gather / out.size,
        "stream": _best_time(lambda: apart @ query, 2) / apart.size,
        "sweep": _best_time(lambda: far.rough_products(query, 0, _N), 2) / apart.size,
        "near_stream": _best_time(lambda: near @ query[:_N], 10) / near.size,
        "near_sweep": _best_time(lambda: near_rows.rough_products(query[:_N], 0, _N), 10) / near.size,
        "convert": _best_time(lambda: rough_sums(halves, every[: _N // 2], wide, 0), 2) / (_N // 2 * 8 * _D),
        "row": _best_time(lambda: far.scores(every[::2].copy(), None, np.ones(4 * _D), 0), 2) / (_N // 2 * 4 * _D),
        "short_row": _best_time(lambda: halves.scores(every[: _N // 4], None, np.ones(8 * _D), 0), 2) / (_N * 2 * _D),
    }


def _of_columns(apart: NDArray[np.float32], near: NDArray[np.float32]) -> dict[str, float]:
    """Seconds of a value of atoms by column: read for one query, from memory and from the cache."""
    # As many rows as have their sums added at a time, but for some: columns that all begin at the same place of a page
    # push each other out of the cache.
    n_tall, n_columns, n_near = 8 * _N - 16, _D // 2, _N - 16
    tall = apart.reshape(-1)[: n_columns * n_tall].reshape(n_columns, n_tall).T
    far, close, few = Rows([tall]), Rows([near[:, :n_near].T]), np.ones(n_columns, dtype=np.float32)
    exact, entries = np.ones(n_columns), np.ones(_N, dtype=np.float32)
    columns = _best_time(lambda: far.column_products(exact, 0, n_tall), 2) / tall.size
    eight = _best_time(lambda: far.sums_of_columns(np.ones((8, n_columns)), 0, n_tall, 0), 2) / tall.size

    def of_pairs(step: int, m: int) -> float:
        # A value of one row in so many, for so many queries
        some, begins = np.arange(0, n_near, step), len(range(0, n_near, step)) * np.arange(m + 1)
        work = partial(close.pair_sums, np.tile(some, m), begins, np.ones((m, _N), dtype=np.float32), 0)
        return _best_time(work, 10) / (_N * some.size)

    part = Rows([tall[:, : n_columns // 4]])

    def copied(m: int) -> Callable[[], Any]:
        return partial(products_with_many, part, np.ones((m, n_columns // 4), dtype=np.float32))

    few_copied, many_copied = (
        seconds / part.arrays[0].size for seconds in _best_times(copied(16), copied(64), repeats=3)
    )
    near_sweep = _best_time(lambda: close.rough_products(entries, 0, n_near), 10) / (_N * n_near)
    eight_near = _best_time(lambda: products_of_columns(close, np.ones((8, _N), dtype=np.float32)), 10) / (_N * n_near)
    every, lone, shared = of_pairs(1, 1), of_pairs(16, 1), of_pairs(1, 5)
    return {
        "columns": columns,
        "own_column": max(few_copied - (many_copied - few_copied) / 3, 0.1 * few_copied),
        "more_columns": max(eight - columns, 0.1 * eight) / 7,
        "apart": every,
        "apart_line": max(lone - every, 0.1 * lone),
        "more_apart": max(shared - every, 0.1 * shared) / 4,
        "column_facts": _best_time(lambda: collect_facts(DenseStore(close.arrays[0])), 4) / (_N * n_near),
        "column_stream": _best_time(lambda: tall @ few, 2) / tall.size,
        "column_sweep": _best_time(lambda: far.rough_products(few, 0, n_tall), 2) / tall.size,
        "near_columns": _best_time(lambda: close.column_products(exact[:_N], 0, n_near), 10) / (_N * n_near),
        "near_column_sweep": near_sweep,
        "more_column_sweep": max(eight_near - near_sweep, 0.1 * eight_near) / 7,
    }


def _of_batches(apart: NDArray[np.float32], near_stream: float) -> dict[str, float]:
    """Seconds of a product for one of many queries: by BLAS, by our own loops, of bytes; and of what they share."""
    atoms, halves, every = np.ones((_N, _D), dtype=np.float32), Rows([apart[: _N // 2].view(np.float16)]), np.arange(_N)

    def by_blas(m: int) -> Callable[[], Any]:
        queries = np.ones((m, _D), dtype=np.float32)
        return lambda: atoms @ queries.T

    def by_tiles(m: int) -> float:
        queries = np.ones((m, 8 * _D), dtype=np.float32)
        return _best_time(lambda: rough_sums(halves, every[: _N // 16], queries, 0))

    def by_bytes(m: int, far: NDArray[np.float32] = apart) -> Callable[[], Any]:
        # Few enough that a processor without such instructions takes no longer than for the rest.
        products = ByteProducts(Rows([far]), [np.ones(far.shape[1], dtype=np.float32)] * m, 0)
        return partial(products.fill, np.arange(2))

    def best_by_bytes(n: int, m: int) -> float:
        numbers = np.random.default_rng(0).standard_normal((n + m, _SHORT), dtype=np.float32)
        rows, queries = Rows([numbers[:n]]), numbers[n:]

        def work() -> None:
            products = ByteProducts(rows, [queries], 0)
            products.fill(np.arange(products.n_blocks))
            reaching_best(products.products, products.deviations(), products.radii((5.0, 4.0)), 1, False)

        return _best_time(work, 10)

    own = partial(products_with_many, Rows([atoms]), np.ones((64, _D), dtype=np.float32))
    few, many, own_many = _best_times(by_blas(8), by_blas(64), own)
    # So far apart that other work does not hide the difference.
    some_tiles, more_tiles = by_tiles(4), by_tiles(32)
    tile = max(more_tiles - some_tiles, 0.5 * more_tiles) / (_N // 16 * 8 * _D * (32 - 4))
    short_rows, short_queries = Rows([atoms[:, :_SHORT].copy()]), np.ones((8, _SHORT), dtype=np.float32)
    ends = _best_time(lambda: rough_sums(short_rows, every, short_queries, 0), 10) / (_N * 8)
    columns = apart.reshape(-1)[: (4 * _D - 16) * _N].reshape(4 * _D - 16, _N).T
    few_bytes, many_bytes, few_columns = _best_times(by_bytes(16), by_bytes(64), by_bytes(16, columns))
    by_column = few_columns / (2 * BLOCK * 4 * _D)
    product = min(max(many - few, 0.1 * many) / (_N * _D * (64 - 8)), near_stream)
    byte_product = max(many_bytes - few_bytes, 0.1 * many_bytes) / (2 * BLOCK * 4 * _D * (64 - 16))
    byte_entry = max(few_bytes / (2 * BLOCK * 4 * _D) - 16 * byte_product, byte_product)
    # With next to no products, and with as few as there can be.
    batch, whole = best_by_bytes(BLOCK, 1), best_by_bytes(_N, 64)
    filled = ByteProducts(Rows([np.ones((_N, _SHORT), dtype=np.float32)]), [np.ones((16, _SHORT), dtype=np.float32)], 0)
    short = _best_time(partial(filled.fill, np.arange(filled.n_blocks)), 10) / _N
    byte_row = max(short - _SHORT * (byte_entry + 16 * byte_product), 0.1 * short)
    intervals = max(whole - batch - _N * (byte_row + _SHORT * (byte_entry + 64 * byte_product)), 0.3 * whole)
    return {
        "product": product,
        "shared": max(few / (_N * _D) - 8 * product, product),
        "own_product": own_many / (_N * _D * 64),
        "tile": tile,
        "tile_end": max(ends - _SHORT * tile, 0.1 * ends),
        "byte_product": byte_product,
        "byte_entry": byte_entry,
        "byte_row": byte_row,
        "byte_interval": intervals / (_N * 64),
        "byte_batch": batch,
        "byte_column_entry": max(by_column - 16 * byte_product, byte_product),
    }


def _of_turning() -> dict[str, float]:
    """What products of queries with atoms take, as a part of those of atoms with queries."""
    # Some rows and columns less than a power of two, of which many would share their places in the cache.
    found, n, d = {}, _N // 2 - 12, _D // 2 - 96
    for prefix, dtype in (("", np.float32), ("wide_", np.float64)):
        rows, queries = np.ones((n, d), dtype=dtype), np.ones((8, d), dtype=dtype)
        for suffix, atoms in (("", rows), ("_columns", np.asfortranarray(rows))):
            straight, turned = _best_times(partial(np.matmul, atoms, queries.T), partial(np.matmul, queries, atoms.T))
            found[f"{prefix}turned{suffix}"] = turned / straight
    return found


def _of_codes() -> dict[str, float]:
    """Seconds of a cell in a round on all atoms, of whatever else it does with an atom, and of a rotated entry."""
    # More than the second cache holds; and, apart, more than any.
    rotation, n = Rotation(_D, 0), 16 * _N
    codes, apart = (Codes(rotation, np.zeros(_D), size, 2048) for size in (n, 10 * n))
    for some in (codes, apart):
        some.first[:] = 0x5555555555555555  # pages that nobody has written to would all be one
    codes.scales[:], codes.errors[:] = np.random.default_rng(0).random(n), 1.0
    query, dither, rule = np.ones(_D), make_dither(codes), CodeRule(1e-3, n)

    def second_round(source: CodeSource) -> None:
        source.advance(codes.n_first)
        rule.judge_round(source, 2)
        source.keep()

    cells = _best_time(lambda: time_cells(codes), 5) / n
    rounds = []
    for _ in range(5):
        source = CodeSource(Survivors(None, n, 10, False), codes, query, dither, ScoreMap(), Times())
        source.advance(64)  # a query is rotated once, and that is told apart
        rounds.append(_best_time(partial(second_round, source), 1) / n)
    # Of short codes and of long ones: the difference is that of their cells.
    short, long, far = _of_all_bits(_SHORT_CODE, 4 * n), _of_all_bits(_D, n // 16), _of_all_bits(_D, n // 2)
    near_fine = max(long - short, 0.1 * long) / (MAX_BITS * (_D - _SHORT_CODE))
    return {
        "cell": max(_best_time(lambda: time_cells(apart), 2) / (10 * n), cells) / codes.n_first,
        "near_cell": cells / codes.n_first,
        "fine_cell": max(near_fine + (far - long) / (MAX_BITS * _D), near_fine),
        "near_fine_cell": near_fine,
        "fine_atom": max(short - MAX_BITS * _SHORT_CODE * near_fine, 0.1 * short),
        "atom": max(min(rounds) - cells, 0.1 * cells),
        "rotate": _best_time(lambda: time_rotation(rotation), 5) / _D,
        "call_overhead": _AROUND * _best_time(_tiny_race(), 50),
        "bound": _of_bounds(n),
    }


def _tiny_race() -> Callable[[], Any]:
    """A race of next to nothing, which takes what is around it."""
    numbers = np.random.default_rng(0).standard_normal((_SHORT, _SHORT), dtype=np.float32)
    norms = np.linalg.norm(numbers, axis=1).astype(np.float64)
    codes = Codes(Rotation(_SHORT, 0), np.zeros(_SHORT), _SHORT, _SHORT)
    codes.scales[:], codes.errors[:] = norms, 0.1
    bounds = CertainBounds(numbers.mean(axis=1, dtype=np.float64), norms, norms[np.newaxis], _SHORT, 1e-6)
    known, query, limits = Known(bounds, codes, make_dither(codes)), numbers[0].astype(np.float64), Limits(1e-3)

    def complain(row: int) -> None:
        raise ValueError(f"the score of row {row} is not finite")

    def race() -> None:
        exact = RowsExact(Rows([numbers]), query, 0, ScoreMap(), None, complain)
        outcome = answer(known, Survivors(None, _SHORT, 1, False), query, ScoreMap(), exact, limits, Times())
        outcome.rescore(1, False, exact, None)

    return race


def _of_bounds(n: int) -> float:
    """Seconds of an atom whose score is bounded for certain, where that leaves all of them."""
    entries, axes = np.random.default_rng(0).random((n, _SHORT), dtype=np.float32), np.eye(_SHORT, dtype=np.float32)[:8]
    norms = np.linalg.norm(entries, axis=1).astype(np.float64)
    along = np.ascontiguousarray(entries[:, :8].T)
    bounds = CertainBounds(
        entries.mean(axis=1, dtype=np.float64), norms, np.stack([norms, norms]), _SHORT, 1e-6, axes, along
    )
    query, scores = MeasuredQuery(entries[0]), ScoreMap(1.0 / norms, None)
    alive = Survivors(None, n, 10, False)
    return _best_time(lambda: bounds.bound(alive, query, scores), 5) / n


def _of_all_bits(d: int, n: int) -> float:
    """Seconds of an atom of d coordinates in a round that reads all bits of n codes."""
    codes = Codes(Rotation(d, 0), np.zeros(d), n, d, MAX_BITS)
    for some in (codes.first, codes.rest, codes.finer):
        some[:] = 0x5555555555555555
    times = []
    for _ in range(3):
        source = CodeSource(Survivors(None, n, 10, False), codes, np.ones(d), make_dither(codes), ScoreMap(), Times())
        source.advance(64)
        times.append(_best_time(lambda s=source: s.advance(d * MAX_BITS), 1) / n)  # type: ignore[misc]
    return min(times)


def _best_time(work: Callable[[], Any], repeats: int = 3) -> float:
    """Seconds of the fastest of a few runs, of this thread's own time: other work on the machine is no part of it."""
    return _best_times(work, repeats=repeats)[0]


def _best_times(*works: Callable[[], Any], repeats: int = 5) -> list[float]:
    """The same of several works that are compared with each other, one after another each time.

    Processors change their pace, and two that were measured one behind the other differ by half for no other reason.
    """
    best = [np.inf] * len(works)
    for _ in range(repeats):
        for place, work in enumerate(works):
            start = time.thread_time()
            work()
            best[place] = min(best[place], time.thread_time() - start)
    return best
