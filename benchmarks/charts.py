"""Charts: the speed-up on real data, warm and cold, and the frontier between the search and BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.goals import Row, times
from benchmarks.records import Record, best_flat

__all__ = ["draw_frontier", "draw_real", "real_bars", "speed_up_grid"]

_WARM, _COLD = "#D55E00", "#0072B2"


def draw_real(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw two bars, warm and cold, for each row of real data: fitted, rows in order, one query, k = 1 and k = 10."""
    chosen = real_bars(rows)
    if not chosen:
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.4 + 0.42 * len(chosen)), layout="constrained")
    axes = figure.subplots()
    heights = np.arange(len(chosen))[::-1]
    for shift, colour, state in ((0.19, _WARM, "warm"), (-0.19, _COLD, "cold")):
        values = [getattr(row, state).speed_up for row in chosen]
        axes.barh(heights + shift, np.array(values) - 1.0, left=1.0, color=colour, height=0.36, label=state)
        for height, value in zip(heights + shift, values, strict=True):
            place = (max(value, 1.0), height)
            axes.annotate(times(value), place, (4, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", lw=0.8)
    labels = [f"{row.work} {row.shape[0]:,} x {row.shape[1]:,}, {row.asked}" for row in chosen]
    axes.set_yticks(heights, labels, fontsize=8)
    axes.set_xlabel("times as fast (median; than the better of NumPy BLAS and FAISS flat, or SciPy)")
    axes.set_title("Real data, after fit, one query at a time", fontsize=10, loc="left")
    # Above the bars, where no number is.
    axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, fontsize=8, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12, y=0.01)
    return _save(figure, folder, "speed-up")


def real_bars(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that the chart of real data shows, in their order."""
    return [
        row
        for row in rows
        if row.section.startswith("real-")
        and not row.section.endswith("-columns")
        and row.way == "fitted"
        and row.asked in ("k = 1", "k = 10")
    ]


def speed_up_grid(records: Sequence[Record], way: str) -> tuple[list[int], list[int], Any]:
    """Return the n, the d, and the speed-ups of one way of answering, NaN where nothing was measured."""
    sizes_n = sorted({record.shape[0] for record in records})
    sizes_d = sorted({record.shape[1] for record in records})
    grid = np.full((len(sizes_n), len(sizes_d)), np.nan)
    for i, n in enumerate(sizes_n):
        for j, d in enumerate(sizes_d):
            here = [record for record in records if record.shape == (n, d)]
            ours = [record for record in here if record.kind == "ours" and record.name == way]
            if ours:
                grid[i, j] = best_flat(here).summary().median / ours[0].summary().median
    return sizes_n, sizes_d, grid


def draw_frontier(records: Sequence[Record], folder: Path) -> list[Path]:
    """Draw the speed-up for every shape, and a line between the shapes where we win and where BLAS does."""
    ways = list(dict.fromkeys(record.name for record in records if record.kind == "ours"))
    if not ways:
        return []
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(ways), 3.6), layout="constrained")
    for axes, way in zip(np.atleast_1d(figure.subplots(1, len(ways))), ways, strict=True):
        sizes_n, sizes_d, grid = speed_up_grid(records, way)
        norm = TwoSlopeNorm(0.0, vmin=-1.5, vmax=3.0)
        axes.pcolormesh(np.log10(grid), cmap="RdBu", norm=norm, edgecolors="white", linewidth=1)
        for (i, j), value in np.ndenumerate(grid):
            if np.isfinite(value):
                colour = "black" if 0.15 < value < 30 else "white"  # the ends of the scale are dark
                axes.text(j + 0.5, i + 0.5, times(value), color=colour, ha="center", va="center")
        for start, end in _frontier(grid >= 1.0, np.isfinite(grid)):
            axes.plot(*zip(start, end, strict=True), color="black", lw=2.5, solid_capstyle="round")
        axes.set_xticks(np.arange(len(sizes_d)) + 0.5, [f"{d:,}" for d in sizes_d])
        axes.set_yticks(np.arange(len(sizes_n)) + 0.5, [f"{n:,}" for n in sizes_n])
        axes.set(xlabel="d, coordinates of an atom", ylabel="n, atoms", title=f"{way}: times as fast as BLAS")
    figure.suptitle("Ratings, one query. Black line: the frontier; on its red side BLAS wins.", fontsize=10)
    return _save(figure, folder, "frontier")


def _frontier(wins: Any, measured: Any) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return the edges (x, y) between neighbouring cells of which one wins and the other does not."""
    edges = []
    rows, columns = wins.shape
    for i in range(rows):
        for j in range(columns):
            if j + 1 < columns and measured[i, j] and measured[i, j + 1] and wins[i, j] != wins[i, j + 1]:
                edges.append(((j + 1, i), (j + 1, i + 1)))
            if i + 1 < rows and measured[i, j] and measured[i + 1, j] and wins[i, j] != wins[i + 1, j]:
                edges.append(((j, i + 1), (j + 1, i + 1)))
    return edges


def _save(figure: Any, folder: Path, name: str) -> list[Path]:
    from matplotlib import rc_context

    paths = [folder / f"{name}.svg", folder / f"{name}.png"]
    # A fixed salt and no date: the same figures give the same file.
    with rc_context({"svg.hashsalt": name}):
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=150)
    return paths
