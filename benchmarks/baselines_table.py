"""The baselines beside the published figures: measures the tables of ``docs/baselines.md`` and puts them there.

    python -m benchmarks.baselines_table published.csv docs/baselines.md

Counts and accuracies do not depend on the machine. It takes about five minutes on one core.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips import datasets
from banditmips.compare import Method

__all__ = ["Row", "main", "measure_comparison", "measure_trade_off", "to_markdown"]

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
DIMENSIONS = {"NORMAL_CUSTOM": (1045, 2429, 5646, 8606), "CORRELATED_NORMAL_CUSTOM": (1000, 4000, 7000, 10_000)}
COMPARISON_K = 5
"""What figure 2 was made with; the column k of its rows says 1 (see the documentation for the proof)."""
N_SWEEP = 24
"""Settings in each sweep of the trade-off figures, in geometric steps unless said otherwise."""


@dataclass(frozen=True)
class Published:
    """A published point."""

    experiment: str
    dataset: str
    algorithm: str
    d: int
    k: int
    epsilon: float
    delta: float
    multiplies: float
    accuracy: float


@dataclass(frozen=True)
class Row:
    """What was measured at a published point."""

    point: Published
    method: Method
    multiplies: float
    accuracy: float


def read_published(path: Path) -> list[Published]:
    """Return the points on the datasets that are measured here."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["dataset"] in DIMENSIONS and row["d"]]
    return [
        Published(
            row["experiment"],
            row["dataset"],
            row["algorithm"],
            d=int(row["d"]),
            k=int(row["k"]),
            epsilon=float(row["epsilon"] or "nan"),
            delta=float(row["delta"] or "nan"),
            multiplies=float(row["multiplies"]),
            accuracy=float(row["accuracy"]),
        )
        for row in rows
    ]


def comparison_methods(point: Published) -> list[Method]:
    """Return our methods with the settings that the authors' program has for a point of figure 2."""
    race = {"delta": point.delta, "minimise": "multiplies", "rescore": False}
    # Published per coordinate, here in units of the inner product.
    within_epsilon = {**race, "epsilon": point.epsilon * point.d}
    quantisers = {"codebooks": 3, "codewords": 20, "rerank": 1}
    chosen: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "BanditMIPS": [("banditmips_search", race), ("banditmips_search", within_epsilon)],
        "BanditMIPS-alpha": [
            ("banditmips_alpha", within_epsilon),
            ("banditmips_alpha", {**within_epsilon, "bound": "hoeffding", "sigma": 1.0}),
        ],
        "BoundedME": [("bounded_me", {"epsilon": point.epsilon, "delta": point.delta})],
        "LSH-MIPS": [
            ("lsh", {"n_functions": 3, "n_tables": 5}),
            ("lsh", {"n_functions": 3, "n_tables": 5, "variant": "simple"}),
        ],
        "NAPG-MIPS": [("napg", {"M": 8, "ef_construction": 8, "ef_search": 4})],
        "NEQ-MIPS": [("neq", {**quantisers, "method": "rq"}), ("neq", {**quantisers, "method": "pq"})],
        "PCA-MIPS": [("pca", {"depth": 2, "boost": False})],
    }
    return [Method(key, parameters) for key, parameters in chosen[point.algorithm]]


def trade_off_methods() -> dict[str, dict[int, Method]]:
    """Return our methods for some steps of the published sweeps, by algorithm and step."""
    budgets = np.geomspace(2, 200, N_SWEEP).astype(int).tolist()
    links = np.geomspace(4, 32, N_SWEEP).astype(int).tolist()
    efforts = np.geomspace(2, 500, N_SWEEP).astype(int).tolist()
    deltas = (0.5 * 2 ** np.linspace(-3, 0, N_SWEEP)).tolist()
    ratios = np.geomspace(1.2, 5, N_SWEEP).tolist()
    products = np.geomspace(0.9, 0.2, N_SWEEP).tolist()

    def graph(step: int) -> Method:
        effort = efforts[step]
        return Method("hnsw", {"M": links[step], "ef_construction": effort, "ef_search": effort})

    def hashing(step: int) -> Method:
        rounded = {"delta": deltas[step], "c0": ratios[step], "c": products[step]}
        return Method("h2_alsh", {**{name: round(value, 3) for name, value in rounded.items()}, "scan_limit": 10})

    return {
        "Greedy-MIPS": {step: Method("greedy", {"budget": budgets[step]}) for step in (0, 10, 23)},
        "HNSW-MIPS": {step: graph(step) for step in (0, 11, 23)},
        "H2-ALSH-MIPS": {step: hashing(step) for step in (11, 23)},
    }


def load_queries(dataset: str, n: int, d: int, n_seeds: int) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield atoms with their queries: three of them, or the only one that correlated atoms have."""
    n_queries = 1 if dataset == "CORRELATED_NORMAL_CUSTOM" else 3
    for seed in range(n_seeds):
        data = datasets.load(dataset.lower(), n=n, d=d, n_queries=n_queries, seed=seed)
        yield data.atoms, data.queries


def measure(
    points: Sequence[tuple[Published, Method]], k: int, data: Iterator[tuple[NDArray[Any], NDArray[Any]]]
) -> list[Row]:
    """Run the methods on the same data; return means over all queries."""
    counts: list[list[int]] = [[] for _ in points]
    accuracies: list[list[float]] = [[] for _ in points]
    for seed, (atoms, queries) in enumerate(data):
        truth = np.argsort(-(queries.astype(np.float64) @ atoms.T.astype(np.float64)), axis=1)[:, :k]
        for position, (_, method) in enumerate(points):
            index = Method(method.key, {**method.parameters, "seed": seed}).make()
            index.fit(atoms)
            for query, best in zip(queries, truth, strict=True):
                result = index.search(query, k)
                counts[position].append(int(result.n_multiplies))
                accuracies[position].append(float(np.isin(best, result.indices).mean()))
    return [
        Row(point, method, float(np.mean(counts[position])), float(np.mean(accuracies[position])))
        for position, (point, method) in enumerate(points)
    ]


def measure_comparison(published: Sequence[Published], dataset: str) -> list[Row]:
    """Measure figure 2 on one dataset: 30 queries for each d."""
    rows: list[Row] = []
    for d in DIMENSIONS[dataset]:
        points = [
            (point, method)
            for point in published
            if (point.experiment, point.dataset, point.d) == ("figure2_comparison", dataset, d)
            for method in comparison_methods(point)
        ]
        n_seeds = 30 if dataset == "CORRELATED_NORMAL_CUSTOM" else 10
        rows += measure(points, COMPARISON_K, load_queries(dataset, 100, d, n_seeds))
    return sorted(rows, key=lambda row: row.point.algorithm)


def measure_trade_off(published: Sequence[Published], dataset: str) -> list[Row]:
    """Measure some steps of the trade-off figures on one dataset, at k = 1: ten sets of atoms."""
    points = []
    for algorithm, methods in trade_off_methods().items():
        sweep = [
            point
            for point in published
            if (point.experiment, point.dataset, point.algorithm, point.k)
            == ("figure3_5_6_tradeoff", dataset, algorithm, 1)
        ]
        points += [(sweep[step], method) for step, method in methods.items()]
    return measure(points, 1, load_queries(dataset, 1000, 10_000, 10))


def to_markdown(rows: Sequence[Row]) -> str:
    """Return a table: ours beside the published figures."""
    lines = [
        "| published as | here | d | multiplies | published | ratio | accuracy | published |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        point = row.point
        ratio = row.multiplies / point.multiplies
        cells = (
            point.algorithm,
            f"`{describe(row.method)}`",
            f"{point.d:,}",
            f"{row.multiplies:,.0f}",
            f"{point.multiplies:,.0f}",
            f"{ratio:.3g}" if 0.5 <= ratio <= 2 else f"**{ratio:.3g}**",
            f"{row.accuracy:.3f}",
            f"{point.accuracy:.3f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def describe(method: Method) -> str:
    """Write a method as it is called."""
    parameters: Mapping[str, Any] = method.parameters
    return f"{method.key}({', '.join(f'{name}={_write(value)}' for name, value in parameters.items())})"


def _write(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


def main() -> None:
    """Measure, and put the tables into the documentation."""
    parser = argparse.ArgumentParser(description="Measure the tables of docs/baselines.md.")
    parser.add_argument("published", type=Path, help="the published figures, a .csv file")
    parser.add_argument("page", type=Path, help="the page to put the tables into")
    options = parser.parse_args()
    published = read_published(options.published)
    parts = [BEGIN]
    for dataset in DIMENSIONS:
        parts += [f"### {dataset}, n = 100, k = 5 (figure 2)", to_markdown(measure_comparison(published, dataset))]
    for dataset in DIMENSIONS:
        parts += [
            f"### {dataset}, n = 1,000, k = 1 (trade-off)",
            to_markdown(measure_trade_off(published, dataset)),
        ]
    page = options.page.read_text(encoding="utf-8")
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    options.page.write_text(before + "\n\n".join([*parts, END]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
