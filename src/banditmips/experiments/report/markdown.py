"""The verdicts in Markdown: a short table of all claims, and each of them with what was found and why."""

from __future__ import annotations

from collections.abc import Sequence

from banditmips.experiments.report.verdicts import GRADE_SIGNS, HEADINGS, SIGNS, Verdict
from banditmips.experiments.rows import PAPER, VARIANCE

__all__ = ["verdict_markdown"]


def verdict_markdown(verdicts: Sequence[Verdict]) -> str:
    """Return a table of the verdicts, then every claim by its number: its rule, what each dataset gives, and why."""
    numbered = list(enumerate(verdicts, start=1))
    lines = [*_head("no.", "claim", "the paper", "verdict")]
    lines += [
        _row(str(number), verdict.claim.text, verdict.claim.paper, _grade(verdict)) for number, verdict in numbered
    ]
    for number, verdict in numbered:
        lines += ["", *_claim(number, verdict)]
    return "\n".join(lines) + "\n"


def _claim(number: int, verdict: Verdict) -> list[str]:
    claim = verdict.claim
    told = "; ".join([_grade(verdict), *verdict.notes()])
    lines = [
        f"**{number}. {_escaped(claim.text)}**: {told}",
        "",
        f"{_escaped(claim.said)} Rule: {_escaped(claim.rule)}.",
    ]
    if verdict.datasets:
        lines += ["", *_head("dataset", *HEADINGS.values())]
        lines += [_row(_dataset(verdict, name), *_cells(verdict, name)) for name in verdict.datasets]
    reasons = _reasons(verdict)
    if reasons:
        lines += ["", "Why:", "", *(f"- {', '.join(names)}: {reason}" for reason, names in reasons.items())]
    return lines


def _grade(verdict: Verdict) -> str:
    return f"{GRADE_SIGNS[verdict.grade]} {verdict.grade}"


def _dataset(verdict: Verdict, name: str) -> str:
    if name in verdict.beside:
        return f"{name} (real, not in the paper; does not count)"
    return f"{name} (surrogate)" if name in verdict.surrogates else name


def _cells(verdict: Verdict, dataset: str) -> list[str]:
    """Return what each source has on a dataset; where both readings of sigma give the same, it is told once."""
    lines = {source: verdict.findings[source].lines.get(dataset) for source in HEADINGS}
    cells = {source: "-" if line is None else f"{SIGNS[line.agreement]} {line.text}" for source, line in lines.items()}
    if lines[VARIANCE] is not None and lines[VARIANCE] == lines[PAPER]:
        cells[VARIANCE] = "the same"
    return list(cells.values())


def _reasons(verdict: Verdict) -> dict[str, list[str]]:
    """Return the reasons in words, each with the datasets that it holds for."""
    reasons: dict[str, list[str]] = {}
    for dataset in verdict.datasets:
        for cause in verdict.causes(dataset):
            place = f" ({cause.document})" if cause.document else ""
            reasons.setdefault(cause.text + place, []).append(dataset)
    return reasons


def _head(*names: str) -> list[str]:
    return [_row(*names), "| --- " * len(names) + "|"]


def _row(*cells: str) -> str:
    return "| " + " | ".join(map(_escaped, cells)) + " |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")
