"""Figures 3, 5 and 6: accuracy against speed-up for the best 1, 5 and 10 atoms, with hyperparameters swept.

The sweeps are those of the paper's section "Experimental Settings", as far as it says them, in the 24 steps of the
authors' logs, of which `Sizes` takes some. Where the text and the logs leave a sweep open:

- LSH-MIPS: from 1 hash function in each of 10 tables to 10 functions in one, which is what the first and last of the
  published counts come to.
- H2-ALSH-MIPS: c from 0.9 down to 0.2 (the text says "to 2", but c has to be below 1).
- PCA-MIPS: depths from 0 on, one for each step.
- NEQ-MIPS: as many codebooks as codewords, one of them for the norms.

BoundedME takes its delta and epsilon as at least 0.001, as the authors' program does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from banditmips.experiments.entries import Entry, baseline, bounded_me, race, settings_of
from banditmips.experiments.trials import Task, Trial, queries_for

__all__ = ["FIGURES", "N_STEPS", "RACES", "SIZES", "SWEEPS", "Sizes", "sweep_race", "tasks"]

FIGURES = {"figure3": 1, "figure5": 5, "figure6": 10}
"""k of each figure."""

N_STEPS = 24
_DELTAS = np.geomspace(1e-10, 0.99, N_STEPS).tolist()
_EPSILONS = np.geomspace(1e-10, 3, N_STEPS).tolist()
_LEAST_OF_BOUNDED_ME = 1e-3

RACES = ("BanditMIPS", "BanditMIPS-alpha", "Bucket_AE")


def _whole(first: float, last: float, step: int) -> int:
    return int(np.geomspace(first, last, N_STEPS)[step])


def _bounded_me(number: int) -> Callable[[int], Entry]:
    """Return BoundedME with products within an interval of length 1 (0) or of the true one (1), from a step."""
    return lambda step: bounded_me(_DELTAS[step], _EPSILONS[step], least=_LEAST_OF_BOUNDED_ME)[number]


def _graph(algorithm: str) -> Callable[[int], Entry]:
    def at(step: int) -> Entry:
        effort = _whole(2, 500, step)
        return baseline(algorithm, {"M": _whole(4, 32, step), "ef_construction": effort, "ef_search": effort})

    return at


def _greedy(step: int) -> Entry:
    return baseline("Greedy-MIPS", {"budget": _whole(2, 999, step)})


def _lsh(step: int) -> Entry:
    functions = round(float(np.linspace(1, 10, N_STEPS)[step]))
    return baseline("LSH-MIPS", {"n_functions": functions, "n_tables": 11 - functions})


def _h2_alsh(step: int) -> Entry:
    swept = {
        "delta": float(np.geomspace(1 / 16, 1 / 2, N_STEPS)[step]),
        "c0": float(np.geomspace(1.2, 5, N_STEPS)[step]),
        "c": float(np.geomspace(0.9, 0.2, N_STEPS)[step]),
    }
    # Subsets of more than ten atoms are hashed: the default of 400 would rank nearly all of them whole.
    return baseline("H2-ALSH-MIPS", {name: round(value, 4) for name, value in swept.items()}, scan_limit=10)


def _neq(step: int) -> Entry:
    size = _whole(100, 1, step)
    return baseline("NEQ-MIPS", {"codebooks": max(1, size - 1), "codewords": size}, rerank=1, method="pq")


def _pca(step: int) -> Entry:
    return baseline("PCA-MIPS", {"depth": round(float(np.linspace(0, 9, N_STEPS)[step]))}, boost=False)


SWEEPS: Mapping[str, Callable[[int], Entry]] = {
    "BoundedME": _bounded_me(0),
    "BoundedME, true range": _bounded_me(1),
    "Greedy-MIPS": _greedy,
    "LSH-MIPS": _lsh,
    "H2-ALSH-MIPS": _h2_alsh,
    "NEQ-MIPS": _neq,
    "PCA-MIPS": _pca,
    "HNSW-MIPS": _graph("HNSW-MIPS"),
    "NAPG-MIPS": _graph("NAPG-MIPS"),
}
"""From a step of the sweep to the baseline at that step."""


def sweep_race(algorithm: str, settings: str, dataset: str) -> Callable[[int], Entry]:
    """Return what gives one of the paper's own algorithms at a step: delta and epsilon are swept together."""

    def at(step: int) -> Entry:
        return race(algorithm, settings, dataset, _DELTAS[step], _EPSILONS[step])

    return at


@dataclass(frozen=True)
class Sizes:
    """How much to run.

    Attributes
    ----------
    dimensions
        d for each dataset.
    race_steps, baseline_steps
        How many of the 24 steps to take, evenly, first and last among them.
    race_trials, baseline_trials
        Trials of the paper's own algorithms, and of the baselines.
    n, n_queries
        Atoms, and queries in each trial.
    """

    dimensions: Mapping[str, int]
    race_steps: int = 8
    baseline_steps: int = 6
    race_trials: int = 10
    baseline_trials: int = 5
    n: int = 1000
    n_queries: int = 3


# The text has d = 10,000 for all; MovieLens has 6,040 users, and its logs have d = 5,000. MovieLens-100K has 943 users.
_FULL = {
    "NORMAL_CUSTOM": 10_000,
    "CORRELATED_NORMAL_CUSTOM": 10_000,
    "Netflix": 10_000,
    "MovieLens": 5000,
    "MovieLens-100K": 943,
}
SIZES = {
    "full": Sizes(_FULL),
    "quick": Sizes(
        {dataset: min(d, 4000) for dataset, d in _FULL.items()},
        race_steps=6,
        baseline_steps=5,
        race_trials=3,
        baseline_trials=3,
        n=400,
    ),
}


def tasks(sizes: Sizes, figures: Iterable[str] = tuple(FIGURES)) -> list[Task]:
    """Return a task for each dataset, trial and method; a method is fitted once for all figures."""
    questions = tuple((figure, FIGURES[figure]) for figure in figures)

    def trials(dataset: str, entries: tuple[Entry, ...], n_trials: int) -> list[Task]:
        size = (sizes.n, sizes.dimensions[dataset])
        n_queries = queries_for(dataset, sizes.n_queries)
        return [Trial(questions, dataset, entries, (size,), trial, n_queries) for trial in range(n_trials)]

    made: list[Task] = []
    for dataset in sizes.dimensions:
        for algorithm in RACES:
            for settings in settings_of(algorithm, dataset):
                entries = _distinct(sweep_race(algorithm, settings, dataset), sizes.race_steps)
                made += trials(dataset, entries, sizes.race_trials)
        for at in SWEEPS.values():
            made += trials(dataset, _distinct(at, sizes.baseline_steps), sizes.baseline_trials)
    return made


def _distinct(at: Callable[[int], Entry], n_steps: int) -> tuple[Entry, ...]:
    """Return the entries of some steps, each once (hyperparameters in whole numbers repeat)."""
    entries: list[Entry] = []
    for step in np.linspace(0, N_STEPS - 1, n_steps).round().astype(int):
        entry = at(int(step))
        if entry not in entries:
            entries.append(entry)
    return tuple(entries)
