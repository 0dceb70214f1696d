"""The verdict table: every claim judged by the same rule on three sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from banditmips.experiments.report.claims import CLAIMS, Claim
from banditmips.experiments.report.judging import Evidence, Finding, Grade
from banditmips.experiments.report.points import PUBLISHED, Point
from banditmips.experiments.rows import OURS, PAPER

__all__ = ["GRADE_SIGNS", "Verdict", "judge_claims", "summary", "verdict_markdown"]

GRADE_SIGNS = {Grade.REPRODUCED: "✓", Grade.PARTLY: "◐", Grade.NOT: "✗", Grade.NOT_RUN: "–"}


@dataclass(frozen=True)
class Verdict:
    """A claim with what was found in the authors' logs, with the paper's settings, and with this package's defaults."""

    claim: Claim
    published: Finding
    paper: Finding
    ours: Finding

    @property
    def grade(self) -> Grade:
        """The verdict proper, which is that of the measurement with the paper's settings."""
        return self.paper.grade

    @property
    def datasets(self) -> list[str]:
        """The datasets that any of the three sources has something on."""
        return list(dict.fromkeys([*self.published.lines, *self.paper.lines, *self.ours.lines]))

    @property
    def surrogates(self) -> tuple[str, ...]:
        """The datasets judged for which synthetic numbers stood in."""
        return tuple(dict.fromkeys((*self.paper.surrogates, *self.ours.surrogates)))

    def notes(self) -> list[str]:
        """Return what a reader of the verdict must know: datasets that were not run, and surrogates."""
        n_run, n_all = len(self.paper.lines), len(self.datasets)
        partial = [f"{n_run} of {n_all} datasets run"] if 0 < n_run < n_all else []
        return partial + ([f"surrogate data for {', '.join(self.surrogates)}"] if self.surrogates else [])


def judge_claims(measured: Iterable[Point], published: Iterable[Point]) -> list[Verdict]:
    """Return the verdict on every claim, in the order of the table."""
    points = [*measured, *published]
    evidence = {source: Evidence(source, points) for source in (PUBLISHED, PAPER, OURS)}
    return [Verdict(claim, *(claim.judge(evidence[source]) for source in evidence)) for claim in CLAIMS]


def summary(grades: Iterable[Grade]) -> str:
    """Return how many claims got which verdict, in words.

    Examples
    --------
    >>> summary([Grade.NOT, Grade.REPRODUCED, Grade.NOT])
    '1 reproduced, 2 not reproduced'
    """
    counts = Counter(grades)
    return ", ".join(f"{counts[grade]} {grade}" for grade in Grade if counts[grade])


def verdict_markdown(verdicts: Sequence[Verdict]) -> str:
    """Return the table and its rules in Markdown."""
    head = "| claim | paper | authors' logs | measured, paper's settings | measured, defaults | verdict |"
    lines = [head, "| --- | --- | --- | --- | --- | --- |"]
    for verdict in verdicts:
        claim = verdict.claim
        cells = [
            f"{claim.text} ({claim.where})",
            claim.paper,
            *(finding_markdown(finding) for finding in (verdict.published, verdict.paper, verdict.ours)),
            grade_text(verdict),
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    lines += ["", "| claim | counts as reproduced if |", "| --- | --- |"]
    lines += [f"| {verdict.claim.text} | {verdict.claim.rule} |" for verdict in verdicts]
    return "\n".join(lines) + "\n"


def finding_markdown(finding: Finding) -> str:
    """Return a finding as the text of one cell."""
    lines = [f"{'✓' if line.agrees else '✗'} {dataset}: {line.text}" for dataset, line in finding.lines.items()]
    return "<br>".join(lines) or "-"


def grade_text(verdict: Verdict) -> str:
    """Return a verdict in words, with its notes."""
    return "; ".join([f"{GRADE_SIGNS[verdict.grade]} {verdict.grade}", *verdict.notes()])
