"""What a rule sees and what it says: the points of one source, and a finding with a grade.

The same rule judges three sources: the authors' logs, the measurement with the paper's settings, and the one with this
package's defaults. The first of these shows what the claim rested on; the verdict is that of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from banditmips.experiments.report.points import PUBLISHED, Point
from banditmips.experiments.report.styles import BASELINES

__all__ = ["Evidence", "Finding", "Grade", "Judge", "Line", "judge_each", "surrogates"]


class Grade(StrEnum):
    """The verdict on a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly reproduced"
    NOT = "not reproduced"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Line:
    """What was found on one dataset, and whether it agrees with the claim."""

    text: str
    agrees: bool


@dataclass(frozen=True)
class Finding:
    """What a rule found in one source.

    Attributes
    ----------
    lines
        By dataset; one that was not run has none.
    surrogates
        The datasets among those judged for which synthetic numbers stood in.
    """

    grade: Grade
    lines: Mapping[str, Line] = field(default_factory=dict)
    surrogates: tuple[str, ...] = ()


class Evidence:
    """The points of one source, with the baselines, which both measured sources share.

    Parameters
    ----------
    source
        "published", "paper" or "ours".
    points
        All points that there are.
    """

    def __init__(self, source: str, points: Iterable[Point]) -> None:
        self.source = source
        self._points: dict[str, dict[str, list[Point]]] = {}
        for point in points:
            if self._belongs(point):
                self._points.setdefault(point.figure, {}).setdefault(point.dataset, []).append(point)

    def _belongs(self, point: Point) -> bool:
        if point.algorithm in BASELINES:
            return (point.source == PUBLISHED) == (self.source == PUBLISHED)
        return point.source == self.source

    def of(self, figure: str, dataset: str, algorithm: str | None = None) -> list[Point]:
        """Return the points of a figure's dataset, of one algorithm or of all."""
        points = self._points.get(figure, {}).get(dataset, [])
        return [point for point in points if algorithm in (None, point.algorithm)]

    def baselines(self, figure: str, dataset: str) -> list[Point]:
        """Return the points of all algorithms that the paper compares with."""
        return [point for point in self.of(figure, dataset) if point.algorithm in BASELINES]

    def datasets(self, figure: str) -> list[str]:
        """Return the datasets of a figure, as they come."""
        return list(self._points.get(figure, {}))


Judge = Callable[[Evidence], Finding]
"""A rule: from the points of one source to a finding."""


def judge_each(
    figure: str,
    datasets: Sequence[str] | None,
    judge: Callable[[Evidence, str], Line | None],
    *,
    required: int | None = None,
) -> Judge:
    """Return the rule that asks ``judge`` about every dataset (None: all that the figure has) and sums up.

    Reproduced needs ``required`` datasets (by default all of them) that agree, and all of them run. Otherwise it is
    partly reproduced if any agrees, and not reproduced if none does. `judge` returns None where it lacks points.
    """

    def rule(evidence: Evidence) -> Finding:
        expected = evidence.datasets(figure) if datasets is None else datasets
        lines = {dataset: line for dataset in expected if (line := judge(evidence, dataset)) is not None}
        if not lines:
            return Finding(Grade.NOT_RUN)
        agreeing = sum(line.agrees for line in lines.values())
        needed = len(expected) if required is None else required
        if agreeing >= needed and len(lines) == len(expected):
            grade = Grade.REPRODUCED
        else:
            grade = Grade.PARTLY if agreeing else Grade.NOT
        return Finding(grade, lines, surrogates(evidence, figure, lines))

    return rule


def surrogates(evidence: Evidence, figure: str, datasets: Iterable[str]) -> tuple[str, ...]:
    """Return those of a figure's datasets for which synthetic numbers stood in."""
    return tuple(name for name in datasets if any(point.surrogate for point in evidence.of(figure, name)))
