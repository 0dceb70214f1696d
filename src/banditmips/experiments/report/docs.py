"""The verdicts of a run, pasted into a page of the documentation between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from banditmips._result_files import replacing
from banditmips._version import __version__
from banditmips.experiments.origins import where_from
from banditmips.experiments.report.markdown import verdict_markdown
from banditmips.experiments.report.run_tables import other_work
from banditmips.experiments.report.verdicts import Verdict, summary
from banditmips.experiments.rows import DRAWN, FIGURES, SURROGATE, Row

__all__ = ["BEGIN", "END", "update_docs"]

BEGIN, END = "<!-- verdicts: begin -->", "<!-- verdicts: end -->"


def update_docs(page: Path, verdicts: Sequence[Verdict], rows: Sequence[Row], run: Mapping[str, Any] | None) -> None:
    """Replace what stands between the marks of a page by the verdicts, with the run that they are of.

    Raises
    ------
    ValueError
        If the page does not have each mark once, the first before the second.
    """
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{page} must have a line {BEGIN!r} and, after it, a line {END!r}, each once")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    told = f"{_introduction(verdicts, rows, run or {})}\n\n{verdict_markdown(verdicts)}"
    with replacing(page) as file:
        file.write(f"{head}{BEGIN}\n\n{told}\n{END}{tail}".encode())


def _introduction(verdicts: Sequence[Verdict], rows: Sequence[Row], run: Mapping[str, Any]) -> str:
    runs = run.get("runs") or [{}]
    date = str(runs[-1].get("finished") or runs[-1].get("started") or "")[:10]
    size = "quick run (smaller sizes and fewer trials than the paper's)" if run.get("quick") else "full run"
    size += "" if runs[-1].get("finished", True) else " that is not finished"
    grades = summary(verdict.grade for verdict in verdicts)
    missing = [figure for figure in FIGURES if all(row.figure != figure for row in rows)]
    surrogates = sorted({row.dataset for row in rows if row.origin == SURROGATE})
    real = sorted({f"{row.dataset} ({where_from(row.origin)})" for row in rows if row.origin not in (DRAWN, SURROGATE)})
    parts = [
        f"Version {_versions(run)}, of a {size}{f' on {date}' if date else ''}: {len(rows):,} rows, "
        f"{len(verdicts)} claims, {grades}.",
        f"Nothing was run of {', '.join(missing)}." if missing else "",
        f"Surrogates stood in for {', '.join(surrogates)}." if surrogates else "",
        f"Real data: {', '.join(real)}." if real else "",
        other_work(run),
    ]
    return " ".join(part for part in parts if part)


def _versions(run: Mapping[str, Any]) -> str:
    """Return the versions that rows were made with: a run that was stopped may have been taken up by a later one."""
    last = str(run.get("versions", {}).get("banditmips", __version__))
    made = [str(each.get("version", last)) for each in run.get("runs", ()) if each.get("rows_written") != 0]
    return " and ".join(dict.fromkeys(made)) or last
