"""What ``banditmips demo`` does: three ways to the same answers, measured, and a picture."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from banditmips import datasets
from banditmips._index import BanditMIPS
from banditmips._result import SearchResult
from banditmips._result_files import replacing
from banditmips._search import search as search_atoms
from banditmips._version import __version__
from banditmips.cli._console import duration, say, working

__all__ = ["demonstrate"]

_BLOCK_ENTRIES = 1 << 22


def demonstrate(shape: tuple[int, int], n_queries: int, k: int, delta: float, seed: int, picture: Path) -> None:
    """Search film ratings beside the full product, print what each took, and draw a race."""
    n, d = shape
    with working("making ratings"):
        data = datasets.load("ratings", n=n, d=d, n_queries=n_queries, seed=seed)
    print(f"banditmips {__version__} on one thread: {n:,} movies rated by {d:,} users (synthetic), float32;")
    print(f"{n_queries:,} more movies as queries, k = {k}, delta = {delta:g}")
    rows, first = _compare(data, k, delta, seed)
    _print_answer(first)
    _print_comparison(rows, n * d)
    with working("racing"):
        # The bounds of an index settle ratings without a race. The paper's race has no index, and counts multiplies.
        raced = search_atoms(
            data.atoms, data.queries[0], k, delta=delta, seed=seed, minimise="multiplies", rescore=False, trace=True
        )
    _draw(raced, n * d, picture)


@dataclass(frozen=True)
class _Row:
    """What was measured of one method; medians and means over the queries."""

    method: str
    fit_seconds: float | None
    seconds: float
    n_multiplies: float
    recall: float


def _compare(data: datasets.Dataset, k: int, delta: float, seed: int) -> tuple[list[_Row], SearchResult]:
    """Measure the three methods; the second value is the index's answer to the first query."""
    atoms, queries = data.atoms, data.queries
    with working("computing the true answers"):
        truth = _true_answers(atoms, queries, k)

    def blas(query: NDArray[np.float32]) -> tuple[NDArray[np.int64], int]:
        return _top(atoms @ query, k), atoms.size

    def direct(query: NDArray[np.float32]) -> tuple[NDArray[np.int64], int]:
        result = search_atoms(atoms, query, k, delta=delta, seed=seed)
        return result.indices, result.n_multiplies

    def fitted(query: NDArray[np.float32]) -> tuple[NDArray[np.int64], int]:
        result = index.search(query, k)
        return result.indices, result.n_multiplies

    with working("measuring"):
        BanditMIPS(delta=delta, seed=seed).fit(atoms)  # warm-up
        start = time.perf_counter()
        index = BanditMIPS(delta=delta, seed=seed).fit(atoms)
        fit_seconds = time.perf_counter() - start
        rows = [
            _measure("BLAS, all products", None, blas, queries, truth),
            _measure("search, no index", None, direct, queries, truth),
            _measure("search, fitted index", fit_seconds, fitted, queries, truth),
        ]
    return rows, index.search(queries[0], k)


def _measure(
    method: str,
    fit_seconds: float | None,
    answer: Callable[[NDArray[np.float32]], tuple[NDArray[np.int64], int]],
    queries: NDArray[np.float32],
    truth: list[set[int]],
) -> _Row:
    answer(queries[0])  # warm-up
    seconds, counts, recalls = [], [], []
    for query, true_atoms in zip(queries, truth, strict=True):
        start = time.perf_counter()
        indices, n_multiplies = answer(query)
        seconds.append(time.perf_counter() - start)
        counts.append(n_multiplies)
        recalls.append(len(true_atoms.intersection(indices.tolist())) / len(true_atoms))
    return _Row(method, fit_seconds, float(np.median(seconds)), float(np.mean(counts)), float(np.mean(recalls)))


def _true_answers(atoms: NDArray[np.float32], queries: NDArray[np.float32], k: int) -> list[set[int]]:
    """Return each query's k best atoms in double precision, converting a block of atoms at a time."""
    columns = queries.astype(np.float64).T
    step = max(1, _BLOCK_ENTRIES // atoms.shape[1])
    blocks = [atoms[start : start + step].astype(np.float64) @ columns for start in range(0, len(atoms), step)]
    return [set(_top(scores, k).tolist()) for scores in np.concatenate(blocks).T]


def _top(scores: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    if k == 1:
        return np.array([scores.argmax()])
    if k >= scores.size:
        return np.argsort(-scores)
    best = np.argpartition(-scores, k)[:k]
    return best[np.argsort(-scores[best])]


def _print_answer(result: SearchResult) -> None:
    print("\nBest for the first query:")
    for index, score, lower, upper in zip(result.indices, result.scores, result.lower, result.upper, strict=True):
        how_sure = "exact" if lower == upper else f"between {lower:,.1f} and {upper:,.1f}"
        print(f"  movie {index}, score {score:,.1f} ({how_sure})")


def _print_comparison(rows: list[_Row], n_products: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "fit", "per query", "multiplies", "of n*d", "recall"):
        table.add_column(name, justify="right" if name else "left")
    for row in rows:
        table.add_row(
            row.method,
            "-" if row.fit_seconds is None else duration(row.fit_seconds),
            duration(row.seconds),
            f"{row.n_multiplies:,.0f}",
            f"{100 * row.n_multiplies / n_products:.3g} %",
            f"{row.recall:.3f}",
        )
    Console().print(table)
    blas = rows[0]
    print("Times are medians over the queries after a warm-up, counts and recall are means. BLAS is NumPy's.")
    for row in rows[1:]:
        count = _times(blas.n_multiplies, row.n_multiplies, "fewer", "more")
        print(f"{row.method}: {count} multiplies, {_times(blas.seconds, row.seconds, 'less', 'more')} time than BLAS")


def _times(blas: float, ours: float, less: str, more: str) -> str:
    if ours == blas:
        return "as many" if less == "fewer" else "as much"
    ratio, word = (blas / ours, less) if ours < blas else (ours / blas, more)
    return f"{ratio:,.0f} times {word}" if ratio >= 100 else f"{ratio:.3g} times {word}"


def _draw(result: SearchResult, n_products: int, picture: Path) -> None:
    try:
        figure = result.plot()
    except ImportError as error:
        say(f"no picture: {error}")
        return
    with replacing(picture) as file:
        figure.savefig(file, format=picture.suffix[1:] or "png")
    share = 100 * int(result.n_multiplies) / n_products
    print(f"\nThe race of the first query without an index, for few multiplies ({share:.3g} %), is drawn in {picture}")
