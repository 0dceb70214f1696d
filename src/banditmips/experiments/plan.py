"""Which tasks a figure consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from banditmips.experiments import (
    beyond,
    beyond_clock,
    beyond_failures,
    beyond_sampling,
    beyond_sweeps,
    beyond_warm_start,
    figure1,
    figure2,
    figure4,
    figure7,
    figure8,
    figure9,
    tradeoffs,
)
from banditmips.experiments.origins import origin_of
from banditmips.experiments.rows import FIGURES
from banditmips.experiments.trials import Task

__all__ = ["SIZES_BY_FIGURE", "choose_figures", "plan"]

SIZES_BY_FIGURE: dict[str, Mapping[str, Any]] = {
    "figure1": figure1.SIZES,
    "figure2": figure2.SIZES,
    "figure3": tradeoffs.SIZES,
    "figure4": figure4.SIZES,
    "figure5": tradeoffs.SIZES,
    "figure6": tradeoffs.SIZES,
    "figure7": figure7.SIZES,
    "figure8": figure8.SIZES,
    "figure9": figure9.SIZES,
    "beyond_bounds": beyond.SIZES,
    "beyond_clock": beyond_clock.SIZES,
    "beyond_delta": beyond_sweeps.SIZES,
    "beyond_epsilon": beyond_sweeps.SIZES,
    "beyond_failures": beyond_failures.SIZES,
    "beyond_kinds": beyond_failures.KINDS_SIZES,
    "beyond_sampling": beyond_sampling.SIZES,
    "beyond_theorem1": beyond.SIZES,
    "beyond_warm_start": beyond_warm_start.SIZES,
}
"""How much each figure runs, by effort ("full" or "quick")."""

_MAKERS: dict[str, Callable[[Any], list[Task]]] = {
    "figure1": figure1.tasks,
    "figure2": figure2.tasks,
    "figure4": figure4.tasks,
    "figure7": figure7.tasks,
    "figure8": figure8.tasks,
    "figure9": figure9.tasks,
    "beyond_bounds": beyond.bounds_tasks,
    "beyond_clock": beyond_clock.tasks,
    "beyond_delta": beyond_sweeps.delta_tasks,
    "beyond_epsilon": beyond_sweeps.epsilon_tasks,
    "beyond_failures": beyond_failures.tasks,
    "beyond_kinds": beyond_failures.kinds_tasks,
    "beyond_sampling": beyond_sampling.tasks,
    "beyond_theorem1": beyond.theorem_1_tasks,
    "beyond_warm_start": beyond_warm_start.tasks,
}


def choose_figures(names: Iterable[str]) -> list[str]:
    """Return the figures that some names stand for, in their order: "all", "beyond", "figure3", or just "3".

    Examples
    --------
    >>> choose_figures(["7", "figure3"])
    ['figure3', 'figure7']
    >>> choose_figures(["beyond"])[:3]
    ['beyond_bounds', 'beyond_clock', 'beyond_delta']
    >>> choose_figures(["10"])
    Traceback (most recent call last):
    ValueError: there is no figure '10'; known are all, 1 to 9 (or figure1 to figure9), beyond, beyond_bounds, ...
    """
    chosen: set[str] = set()
    for name in names:
        word = name.lower()
        if word == "all":
            chosen.update(FIGURES)
        elif word == "beyond":
            chosen.update(figure for figure in FIGURES if figure.startswith("beyond"))
        elif f"figure{word}" in FIGURES or word in FIGURES:
            chosen.add(word if word in FIGURES else f"figure{word}")
        else:
            others = ", ".join(figure for figure in FIGURES if figure.startswith("beyond"))
            raise ValueError(
                f"there is no figure {name!r}; known are all, 1 to 9 (or figure1 to figure9), beyond, {others}"
            )
    return [figure for figure in FIGURES if figure in chosen]


def plan(figures: Iterable[str], effort: str) -> list[Task]:
    """Return the tasks of some figures, by their names in `FIGURES`; the effort is "full" or "quick".

    Every task is given the origin that its dataset has now. One that is only run on real data is left out where these
    are not there.
    """
    wanted = list(figures)
    tasks: list[Task] = []
    for figure in wanted:
        if figure in _MAKERS:
            tasks += _MAKERS[figure](SIZES_BY_FIGURE[figure][effort])
    # One fit of a method answers for all of these figures.
    shared = [figure for figure in wanted if figure in tradeoffs.FIGURES]
    if shared:
        tasks += tradeoffs.tasks(tradeoffs.SIZES[effort], shared)
    origins = {dataset: origin_of(dataset) for dataset in {task.dataset for task in tasks}}
    return [
        replace(task, origin=origins[task.dataset])  # type: ignore[type-var]
        for task in tasks
        if origins[task.dataset] is not None
    ]
