"""Draw docs/multiplies.svg: the multiplies that a search counts as d grows, beside the n*d of the full product.

Run as ``python docs/make_multiplies_chart.py [FILE]`` with the ``plot`` extra installed; it takes about two minutes and
4 GB of memory. Everything is counted, nothing is timed, and every answer is compared with the full product's.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import NDArray

import banditmips as bm
from banditmips import datasets

N_ATOMS = 100
SIZES = np.array([1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000])
# name: (label, where it is written, colour, number of seeds). The hopeless case varies little and is slow at d = 10^6.
SETS = {
    "symmetric_normal": ("SymmetricNormal\n(atoms all alike)", 3.3e7, "#D55E00", 3),
    "normal_custom": ("NORMAL_CUSTOM", 1.9e4, "#0072B2", 16),
    "correlated_normal_custom": ("CORRELATED_\nNORMAL_CUSTOM", 3.1e3, "#009E73", 16),
}


def count_multiplies(name: str, seed: int) -> list[int]:
    """Search the same atoms and query cut to each size; what decides the answer (theta) is the same at every d."""
    data = datasets.load(name, n=N_ATOMS, d=int(SIZES[-1]), seed=seed)
    counts = []
    for d in SIZES:
        atoms, query = np.ascontiguousarray(data.atoms[:, :d]), data.queries[0, :d]
        found = bm.search(atoms, query, rescore=False, seed=seed)
        best = int(np.argmax(atoms @ query.astype(np.float64)))
        if found.indices[0] != best:
            raise RuntimeError(f"{name}, seed {seed}, d = {d}: found atom {found.indices[0]}, but {best} is best")
        counts.append(found.n_multiplies)
    return counts


def draw(counts: dict[str, NDArray[np.int64]], path: Path) -> None:
    """Draw every search as a dot, the medians as lines, and n*d above them."""
    figure = Figure(figsize=(7.6, 4.4), layout="constrained")
    axes = figure.subplots()
    right = 1.25 * SIZES[-1]
    axes.loglog(SIZES, N_ATOMS * SIZES, color="black", lw=1.5)
    axes.text(right, 1.5e8, "full product, n·d", va="center")
    for name, (label, height, colour, _) in SETS.items():
        table = counts[name]
        axes.loglog(np.broadcast_to(SIZES, table.shape), table, ".", color=colour, ms=6, alpha=0.35, mew=0)
        axes.loglog(SIZES, np.median(table, axis=0), color=colour, lw=2)
        axes.text(right, height, label, color=colour, va="center")
    axes.set(xlim=(800, 1.1e6), ylim=(1e3, 2.5e8))
    axes.set(xlabel="d, coordinates of an atom", ylabel="multiplies for one query")
    axes.set_title(f"Best of {N_ATOMS} atoms, delta = 0.001 (lines: medians, dots: single searches)", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, which="major")
    axes.minorticks_off()
    # A fixed salt and no date: the same counts give the same file.
    with rc_context({"svg.hashsalt": "multiplies"}):
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=150)


def main() -> None:
    """Count, print the medians, draw."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("multiplies.svg")
    counts = {}
    for name, (_, _, _, n_seeds) in SETS.items():
        counts[name] = np.array([count_multiplies(name, seed) for seed in range(n_seeds)])
        print(name, dict(zip(SIZES.tolist(), np.median(counts[name], axis=0).astype(int).tolist(), strict=True)))
    draw(counts, path)


if __name__ == "__main__":
    main()
