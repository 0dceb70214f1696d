"""Figures beside their goals: what a number means, when it is good enough, and how it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["FIGURES", "Figure", "Goal", "Line", "verdict"]


@dataclass(frozen=True)
class Figure:
    """A kind of number that has goals.

    Attributes
    ----------
    at_least
        Whether larger is better.
    write
        The number as text.
    """

    at_least: bool
    write: Callable[[float], str]


def _times(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}x"
    if value >= 2:
        return f"{value:.1f}x"
    return f"{value:.2f}x" if value >= 0.1 else f"{value:.2g}x"


FIGURES = {
    "speed_up": Figure(True, _times),
    "of_reference": Figure(False, lambda value: f"{_times(value)} its time"),
    "p95_of_reference": Figure(False, lambda value: f"{_times(value)} its time (p95)"),
    "added_us": Figure(False, lambda value: f"{value:+.1f} us"),
    "growth": Figure(False, _times),
    "of_published": Figure(False, _times),
    "of_atoms": Figure(False, lambda value: f"{100 * value:.1f} %"),
}
"""Reference time over ours; our median and our 95th percentile over the reference's median; our time minus the
reference's; our time at a large d over that at a small one; our multiplies over the published ones; extra memory over
that of the atoms."""


@dataclass(frozen=True)
class Goal:
    """A figure, and the least (or largest) value that is good enough; None where there is no goal."""

    figure: str
    limit: float | None = None

    def __str__(self) -> str:
        """Write the goal for a table."""
        if self.limit is None:
            return "-"
        figure = FIGURES[self.figure]
        return ("" if figure.at_least else "<= ") + figure.write(self.limit)

    def reached_by(self, value: float) -> bool | None:
        """Whether a value is good enough; None where there is no goal."""
        if self.limit is None:
            return None
        return value >= self.limit if FIGURES[self.figure].at_least else value <= self.limit


@dataclass(frozen=True)
class Line:
    """One line of the main table: a figure beside its goal.

    Attributes
    ----------
    row
        What was measured.
    value
        The figure that the goal is about.
    ours, reference
        Medians in microseconds (multiplies or bytes, where the figure is about those).
    reference_name
        What the reference is.
    p95_ratio
        Our 95th percentile over the reference's median.
    recall, n_answers
        Part of the distinct answers that were right, and their number.
    answers_plausible
        Whether the wrong ones are no more than delta explains.
    extra_bytes, fit_seconds
        What the fit cost; None where there was none.
    """

    row: str
    goal: Goal
    value: float
    ours: float | None = None
    reference: float | None = None
    reference_name: str = ""
    p95_ratio: float | None = None
    recall: float | None = None
    n_answers: int = 0
    answers_plausible: bool = True
    extra_bytes: int | None = None
    fit_seconds: float | None = None


def verdict(line: Line) -> bool | None:
    """Whether a line reaches its goal: a fast answer that is wrong too often does not."""
    reached = line.goal.reached_by(line.value)
    return None if reached is None else reached and line.answers_plausible
