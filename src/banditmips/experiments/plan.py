"""Which tasks a figure consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from banditmips.experiments import (
    beyond,
    beyond_clock,
    beyond_failures,
    figure1,
    figure2,
    figure4,
    figure7,
    figure8,
    figure9,
    tradeoffs,
)
from banditmips.experiments.rows import FIGURES
from banditmips.experiments.trials import Task

__all__ = ["choose_figures", "plan"]

_MAKERS: dict[str, Callable[[str], list[Task]]] = {
    "figure1": lambda effort: figure1.tasks(figure1.SIZES[effort]),
    "figure2": lambda effort: figure2.tasks(figure2.SIZES[effort]),
    "figure4": lambda effort: figure4.tasks(figure4.SIZES[effort]),
    "figure7": lambda effort: figure7.tasks(figure7.SIZES[effort]),
    "figure8": lambda effort: figure8.tasks(figure8.SIZES[effort]),
    "figure9": lambda effort: figure9.tasks(figure9.SIZES[effort]),
    "beyond_bounds": lambda effort: beyond.bounds_tasks(beyond.SIZES[effort]),
    "beyond_theorem1": lambda effort: beyond.theorem_1_tasks(beyond.SIZES[effort]),
    "beyond_failures": lambda effort: beyond_failures.tasks(beyond_failures.SIZES[effort]),
    "beyond_clock": lambda effort: beyond_clock.tasks(beyond_clock.SIZES[effort]),
}


def choose_figures(names: Iterable[str]) -> list[str]:
    """Return the figures that some names stand for, in their order: "all", "beyond", "figure3", or just "3".

    Examples
    --------
    >>> choose_figures(["7", "figure3"])
    ['figure3', 'figure7']
    >>> choose_figures(["beyond"])
    ['beyond_bounds', 'beyond_clock', 'beyond_failures', 'beyond_theorem1']
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
    """Return the tasks of some figures, by their names in `FIGURES`; the effort is "full" or "quick"."""
    wanted = list(figures)
    tasks: list[Task] = []
    for figure in wanted:
        if figure in _MAKERS:
            tasks += _MAKERS[figure](effort)
    # One fit of a method answers for all of these figures.
    shared = [figure for figure in wanted if figure in tradeoffs.FIGURES]
    if shared:
        tasks += tradeoffs.tasks(tradeoffs.SIZES[effort], shared)
    return tasks
