"""Puts what was measured into the documentation: the tables of ``docs/performance.md`` and the charts beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from benchmarks import grid, real_rows
from benchmarks.charts import draw_frontier, draw_real
from benchmarks.goals import Row, by_key
from benchmarks.machine import load_warning
from benchmarks.report import EXPLAINED, describe, line_cells, losing_cells, markdown, row_cells
from benchmarks.results import Kept

__all__ = ["BEGIN", "END", "page_parts", "update_docs"]

BEGIN, END = "<!-- benchmark: begin (python -m benchmarks --update-docs) -->", "<!-- benchmark: end -->"
DOCS = Path(__file__).parents[1] / "docs"


def update_docs(kept: Mapping[str, Kept], docs: Path = DOCS) -> list[Path]:
    """Replace what is between the marks of ``performance.md``, and the charts; return what was written."""
    page = docs / "performance.md"
    text = page.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page} must hold the marks {BEGIN!r} and {END!r} once each")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    page.write_text(before + "\n\n".join([BEGIN, *page_parts(kept), END]) + after, encoding="utf-8")
    rows = [row for section in kept.values() for row in section.outcome.rows]
    charts = draw_real([row for row in rows if _is_real(row)], docs)
    shapes = kept[grid.NAME].outcome.records if grid.NAME in kept else []
    charts += draw_frontier(shapes, docs)
    for unused in (path for path in charts if path.suffix == ".png"):
        unused.unlink()
    return [page, *(path for path in charts if path.suffix == ".svg")]


def page_parts(kept: Mapping[str, Kept]) -> list[str]:
    """Return the paragraphs and tables: what loses first, then real data, then everything else."""
    rows = [row for name, section in kept.items() if name != grid.NAME for row in section.outcome.rows]
    lines = [line for section in kept.values() for line in section.outcome.lines]
    known = by_key(rows)
    losing = losing_cells(rows)
    parts = [*_measured(kept), EXPLAINED, f"### Behind the full pass: {len(losing) - 1} of {len(rows)} rows"]
    parts += [markdown(losing)] if len(losing) > 1 else ["None."]
    for title, chosen in (
        ("Real data", [row for row in rows if _is_real(row)]),
        ("Drawn data, options and dtypes", [row for row in rows if not _is_real(row)]),
    ):
        parts += [f"### {title}", markdown(row_cells(chosen, known))] if chosen else []
    parts += ["### Other figures", markdown(line_cells(lines))] if lines else []
    return parts


def _is_real(row: Row) -> bool:
    return row.section.startswith(f"{real_rows.NAME}-")


def _measured(kept: Mapping[str, Kept]) -> list[str]:
    """When and on what: a paragraph for each run that a section comes from."""
    runs: dict[str, list[str]] = {}
    for name, section in kept.items():
        kind = "Quick run" if section.quick else "Full run"
        warning = load_warning(section.facts)
        text = f"{kind}, {describe(section.facts)}" + (f" **{warning}.**" if warning else "")
        runs.setdefault(text, []).append(name)
    if len(runs) == 1:
        return list(runs)
    return [f"{text} Sections: {', '.join(names)}." for text, names in runs.items()]
