"""Tables of what was measured: aligned for the terminal, and in Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.goals import FIGURES, Goal, Line, verdict
from benchmarks.machine import load_warning
from benchmarks.records import Record, best_flat

__all__ = ["aligned", "grid_cells", "main_cells", "markdown", "memory_line", "peer_cells", "write_rows", "write_tables"]

Cells = list[list[str]]

_MAIN = ["row", "ours", "reference", "ratio", "goal", "reached", "p95/ref.", "recall", "extra memory", "fit"]
_PEERS = ["work", "by", "median us", "q25", "q75", "p95", "recall", "build", "extra memory", "setting"]
_TEXT = ("row", "work", "by", "setting", "n x d")


def main_cells(lines: Iterable[Line]) -> Cells:
    """Every figure beside its goal. Times are medians in microseconds."""
    cells = [_MAIN]
    for line in lines:
        reached = verdict(line)
        cells.append(
            [
                line.row,
                _number(line.ours),
                _number(line.reference) + (f" ({line.reference_name})" if line.reference_name else ""),
                FIGURES[line.goal.figure].write(line.value),
                str(line.goal),
                "-" if reached is None else "yes" if reached else "no",
                "-" if line.p95_ratio is None else f"{line.p95_ratio:.3g}",
                _recall(line.recall, line.n_answers),
                _size(line.extra_bytes),
                _seconds(line.fit_seconds),
            ]
        )
    return cells


def peer_cells(records: Iterable[Record]) -> Cells:
    """Every way of answering on every workload."""
    cells = [_PEERS]
    for record in records:
        summary = record.summary
        cells.append(
            [
                f"{record.section} ({record.shape[0]:,} x {record.shape[1]:,})",
                ("banditmips, " if record.kind == "ours" else "") + record.name,
                *(_number(value) for value in (summary.median, summary.q25, summary.q75, summary.p95)),
                _recall(record.recall, len(record.right)),
                _seconds(record.build_median),
                _size(record.extra_bytes),
                record.setting or "-",
            ]
        )
    return cells


def grid_cells(records: Sequence[Record]) -> Cells:
    """Speed-ups by shape, for each of our ways of answering."""
    ways = list(dict.fromkeys(record.name for record in records if record.kind == "ours"))
    cells = [["n x d", "reference us", *ways]]
    for shape in dict.fromkeys(record.shape for record in records):
        here = [record for record in records if record.shape == shape]
        reference = best_flat(here)
        by_name = {record.name: record for record in here}
        speed_ups = [reference.summary.median / by_name[way].summary.median for way in ways]
        cells.append(
            [
                f"{shape[0]:,} x {shape[1]:,}",
                f"{_number(reference.summary.median)} ({reference.name})",
                *(FIGURES["speed_up"].write(value) for value in speed_ups),
            ]
        )
    return cells


def memory_line(records: Iterable[Record]) -> Line | None:
    """The largest share of extra memory among fitted records of long atoms, beside the goal of a tenth."""
    shares = {}
    for record in records:
        n, d = record.shape
        copies = "layout='full'" in record.setting  # the user asked for a copy of the atoms
        if record.kind == "ours" and record.extra_bytes and d >= 10_000 and not copies:
            shares[f"{record.section} {n:,} x {d:,}"] = (record.extra_bytes, 4 * n * d)
    if not shares:
        return None
    worst = max(shares, key=lambda name: shares[name][0] / shares[name][1])
    extra, atoms = shares[worst]
    return Line(
        f"extra memory after fit, d >= 10,000 (largest: {worst})",
        Goal("of_atoms", 0.1),
        extra / atoms,
        extra_bytes=extra,
    )


def aligned(cells: Cells) -> str:
    """Columns of equal width, for the terminal: text to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    left = {cells[0].index(name) for name in _TEXT if name in cells[0]}
    rows = [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]
    rows.insert(1, "-" * max(len(row) for row in rows))
    return "\n".join(rows)


def markdown(cells: Cells) -> str:
    """Write the table in Markdown."""
    rows = ["| " + " | ".join(row) + " |" for row in cells]
    rows.insert(1, "|" + " --- |" * len(cells[0]))
    return "\n".join(rows)


def write_rows(path: Path, rows: Iterable[dict[str, Any]], facts: dict[str, Any]) -> None:
    """Add raw rows to a file of JSON lines, each with the facts of the machine, so that files can be joined."""
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, "machine": facts}, allow_nan=False) + "\n")


def write_tables(path: Path, tables: Sequence[tuple[str, Cells]], facts: dict[str, Any], notes: Iterable[str]) -> None:
    """Write all tables as one Markdown page that says what they were measured on."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    parts = [
        "# Benchmark",
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores, {facts['threads']} "
        f"thread(s) for everyone. Python {facts['python']}, {versions}; BLAS: {facts['blas']}. "
        f"Load average before the start: {facts['load_average'][0]}.",
        "Times are medians in microseconds over all queries and repeats. The reference is the faster of NumPy BLAS and "
        "FAISS flat, unless another is named. Every answer was compared with float64 products. Each "
        "block of queries begins with a request that is not timed, and that differs from the first one that is.",
    ]
    warning = load_warning(facts)
    parts += [f"**{warning}.**"] if warning else []
    parts += [f"- {note}" for note in notes]
    for title, cells in tables:
        parts += [f"## {title}", markdown(cells)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _recall(recall: float | None, n_answers: int) -> str:
    if recall is None:
        return "-"
    n_wrong = round((1 - recall) * n_answers)
    return f"{recall:.3f}" + (f" ({n_wrong} of {n_answers} wrong)" if n_wrong else "")


def _size(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "-"
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.1f} kB"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
