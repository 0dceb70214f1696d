"""Charts: the speed-up of each row beside its goal, and the frontier between the race and BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.goals import FIGURES, Line, verdict
from benchmarks.records import Record, best_flat

__all__ = ["draw_frontier", "draw_speed_ups", "speed_up_grid"]

_REACHED, _MISSED, _NO_GOAL = "#0072B2", "#D55E00", "#999999"


def draw_speed_ups(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Draw a bar for each line that compares our time with the reference's, and a mark at its goal."""
    bars = [bar for line in lines if (bar := _bar(line)) is not None]
    if not bars:
        return []
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 1.2 + 0.3 * len(bars)), layout="constrained")
    axes = figure.subplots()
    heights = np.arange(len(bars))[::-1]
    colours = {True: _REACHED, False: _MISSED, None: _NO_GOAL}
    for height, (_, value, goal, reached) in zip(heights, bars, strict=True):
        axes.barh(height, value - 1.0, left=1.0, color=colours[reached], height=0.6)
        # Beyond the mark where the mark would cross the number.
        end = max(value, 1.0) if goal is None or goal > 4 * value else max(value, 1.0, goal)
        text = FIGURES["speed_up"].write(value)
        axes.annotate(text, (end, height), (5, 0), textcoords="offset points", va="center", fontsize=8)
        if goal is not None:
            axes.plot([goal, goal], [height - 0.42, height + 0.42], color="black", lw=2)
    axes.set_xscale("log")
    axes.axvline(1.0, color="black", lw=0.8)
    axes.set_yticks(heights, [bar[0] for bar in bars], fontsize=8)
    axes.set_xlabel("times as fast as the better of NumPy BLAS and FAISS flat (median)")
    axes.set_title("Black marks: goals. Blue: reached. Orange: not reached. Grey: no goal.", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.12, y=0.01)
    return _save(figure, folder, "speed-up")


def _bar(line: Line) -> tuple[str, float, float | None, bool | None] | None:
    """Name, speed-up, goal as a speed-up, and verdict; None for a line that is not about the reference's time."""
    if line.goal.figure not in ("speed_up", "of_reference") or line.reference_name not in ("NumPy BLAS", "FAISS flat"):
        return None
    limit = line.goal.limit
    if line.goal.figure == "speed_up":
        return line.row, line.value, limit, verdict(line)
    return line.row, 1.0 / line.value, None if limit is None else 1.0 / limit, verdict(line)


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
                grid[i, j] = best_flat(here).summary.median / ours[0].summary.median
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
                axes.text(j + 0.5, i + 0.5, FIGURES["speed_up"].write(value), color=colour, ha="center", va="center")
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
