"""What a rule sees and what it says: the points of one source, and a finding with a grade.

The same rule judges five sources: the authors' logs, the measurement with the paper's settings, the same with its sigma
read as a variance, and this package's defaults without an index and after `fit`. The first of these shows what the
claim rested on; the verdict is that of the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from banditmips.experiments.entries import DATASETS
from banditmips.experiments.report.points import PUBLISHED, Point
from banditmips.experiments.report.styles import BASELINES
from banditmips.experiments.rows import PAPER, VARIANCE

__all__ = ["Agreement", "Evidence", "Finding", "Grade", "Judge", "Line", "judge_each", "same_reading", "surrogates"]


class Grade(StrEnum):
    """The verdict on a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly reproduced"
    NOT = "not reproduced"
    NOT_RUN = "not run"


class Agreement(StrEnum):
    """Whether what was found on a dataset agrees with a claim.

    "Barely" is a difference of the right sign that is smaller than the rule's margin, or no larger than the spread of
    the trials.
    """

    YES = "agrees"
    BARELY = "agrees, but not by the margin"
    NO = "does not agree"


@dataclass(frozen=True)
class Line:
    """What was found on one dataset, and whether it agrees with the claim."""

    text: str
    agreement: Agreement

    @classmethod
    def of(cls, text: str, agrees: bool) -> Line:
        """Return a line of a rule without a margin."""
        return cls(text, Agreement.YES if agrees else Agreement.NO)

    @property
    def agrees(self) -> bool:
        """Whether it agrees, by the margin."""
        return self.agreement is Agreement.YES


@dataclass(frozen=True)
class Finding:
    """What a rule found in one source.

    Attributes
    ----------
    lines
        By dataset; one that was not run has none.
    surrogates
        The datasets among those judged for which synthetic numbers stood in.
    beside
        Datasets that the paper does not have: their lines are told, and do not count.
    """

    grade: Grade
    lines: Mapping[str, Line] = field(default_factory=dict)
    surrogates: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def same_reading(dataset: str) -> bool:
    """Whether the paper's constant is the same number as sigma and as a variance (or no constant is read at all)."""
    return dataset not in DATASETS or DATASETS[dataset].sigma == 1.0


_WITHOUT_SIGMA = ("beyond_sampling",)
"""Figures whose bounds need no constant of the paper."""


class Evidence:
    """The points of one source, with the baselines, which all measured sources share.

    Parameters
    ----------
    source
        "published", or one of `banditmips.experiments.rows.SETTINGS`.
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
        if self.source == VARIANCE and point.source == PAPER:
            return same_reading(point.dataset) or point.figure in _WITHOUT_SIGMA
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


BESIDE = ("MovieLens-100K",)
"""Datasets that the paper does not have."""

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
    partly reproduced if any agrees, if barely, and not reproduced if none does. `judge` returns None where it lacks
    points. What was found on datasets that the paper does not have is told too, and does not count.
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
            refuted = all(line.agreement is Agreement.NO for line in lines.values())
            grade = Grade.NOT if refuted else Grade.PARTLY
        others = {name: line for name in BESIDE if name not in expected and (line := judge(evidence, name)) is not None}
        return Finding(grade, {**lines, **others}, surrogates(evidence, figure, lines), tuple(others))

    return rule


def surrogates(evidence: Evidence, figure: str, datasets: Iterable[str]) -> tuple[str, ...]:
    """Return those of a figure's datasets for which synthetic numbers stood in."""
    return tuple(name for name in datasets if any(point.surrogate for point in evidence.of(figure, name)))
