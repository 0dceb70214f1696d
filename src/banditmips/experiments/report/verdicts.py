"""The verdict table: every claim judged by one rule on five sources, with the reasons where it does not come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from banditmips.experiments.report.causes import Cause, Known
from banditmips.experiments.report.claims import CLAIMS, Claim
from banditmips.experiments.report.judging import Agreement, Evidence, Finding, Grade, Line, same_reading
from banditmips.experiments.report.points import PUBLISHED, Point
from banditmips.experiments.rows import FITTED, OURS, PAPER, VARIANCE

__all__ = ["GRADE_SIGNS", "HEADINGS", "SIGNS", "Verdict", "judge_claims", "summary"]

GRADE_SIGNS = {Grade.REPRODUCED: "✓", Grade.PARTLY: "◐", Grade.NOT: "✗", Grade.NOT_RUN: "–"}
SIGNS = {Agreement.YES: "✓", Agreement.BARELY: "≈", Agreement.NO: "✗"}
HEADINGS = {
    PUBLISHED: "authors' logs",
    PAPER: "paper's settings",
    VARIANCE: "paper's settings, sigma read as a variance",
    OURS: "defaults, no index",
    FITTED: "defaults after fit",
}
"""The sources that are judged, and what their columns are called."""


@dataclass(frozen=True)
class Verdict:
    """A claim with what was found in each source."""

    claim: Claim
    findings: Mapping[str, Finding]

    @property
    def grade(self) -> Grade:
        """The verdict proper, which is that of the source that decides: mostly the paper's settings."""
        return self.findings[self.claim.decided_by].grade

    @property
    def datasets(self) -> list[str]:
        """The datasets that any source has something on; those that the paper does not have last."""
        names = dict.fromkeys(name for finding in self.findings.values() for name in finding.lines)
        return sorted(names, key=lambda name: name in self.beside)

    @property
    def beside(self) -> set[str]:
        """Datasets that do not count, as the paper does not have them."""
        return {name for finding in self.findings.values() for name in finding.beside}

    @property
    def surrogates(self) -> tuple[str, ...]:
        """The datasets judged for which synthetic numbers stood in."""
        return tuple(dict.fromkeys(name for finding in self.findings.values() for name in finding.surrogates))

    def notes(self) -> list[str]:
        """Return what a reader of the verdict must know: datasets that were not run, and surrogates."""
        counted = [name for name in self.datasets if name not in self.beside]
        n_run = sum(name in self.findings[self.claim.decided_by].lines for name in counted)
        partial = [f"{n_run} of {len(counted)} datasets run"] if 0 < n_run < len(counted) else []
        return partial + ([f"surrogate data for {', '.join(self.surrogates)}"] if self.surrogates else [])

    def causes(self, dataset: str) -> list[Cause]:
        """Return why the claim did not come out on a dataset, as far as that is known; nothing where it did."""
        line = self._line(self.claim.decided_by, dataset)
        if line is None or line.agrees:
            return []
        known = [Known.MARGIN] if line.agreement is Agreement.BARELY else []
        other = self._line(VARIANCE, dataset)
        if other is not None and not same_reading(dataset) and _rank(other.agreement) < _rank(line.agreement):
            known.append(Known.VARIANCE)
        known += [
            cause
            for cause, datasets in self.claim.causes
            if (not datasets or dataset in datasets) and cause.value.rival in line.text
        ]
        logged = self._line(PUBLISHED, dataset)
        if logged is not None and not logged.agrees:
            known.append(Known.LOGS)
        known = known or [Known.UNKNOWN]
        if dataset in self.surrogates:
            known.append(Known.SURROGATE)
        return [cause.value for cause in known]

    def _line(self, source: str, dataset: str) -> Line | None:
        return self.findings[source].lines.get(dataset)


def _rank(agreement: Agreement) -> int:
    return list(Agreement).index(agreement)


def judge_claims(measured: Iterable[Point], published: Iterable[Point]) -> list[Verdict]:
    """Return the verdict on every claim, in the order of the table."""
    points = [*measured, *published]
    evidence = {source: Evidence(source, points) for source in HEADINGS}
    return [Verdict(claim, {source: claim.judge(evidence[source]) for source in evidence}) for claim in CLAIMS]


def summary(grades: Iterable[Grade]) -> str:
    """Return how many claims got which verdict, in words.

    Examples
    --------
    >>> summary([Grade.NOT, Grade.REPRODUCED, Grade.NOT])
    '1 reproduced, 2 not reproduced'
    """
    counts = Counter(grades)
    return ", ".join(f"{counts[grade]} {grade}" for grade in Grade if counts[grade])
