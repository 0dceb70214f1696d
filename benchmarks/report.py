"""Tables of what was measured: aligned for the terminal, and in Markdown. What loses comes first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.goals import FIGURES, Line, Pair, Row, by_key, losses, misses, times, verdict
from benchmarks.machine import load_warning
from benchmarks.records import Record, best_flat

__all__ = [
    "aligned",
    "all_tables",
    "grid_cells",
    "line_cells",
    "losing_cells",
    "markdown",
    "peer_cells",
    "row_cells",
    "write_tables",
]

Cells = list[list[str]]
Tables = list[tuple[str, Cells]]

_TIMES = ["warm us", "reference", "ratio", "p95", "cold us", "reference", "ratio", "p95"]
_ROWS = ["row", *_TIMES, "recall", "goal", "missed", "extra memory", "fit", "fit/sum"]
_LOSING = ["row", "behind", *_TIMES, "recall"]
_LINES = ["row", "ours", "reference", "ratio", "goal", "reached", "recall"]
_PEERS = ["work", "asked", "by", "warm us", "p95", "cold us", "p95", "recall", "build", "extra memory", "setting"]
_TEXT = ("row", "work", "asked", "by", "setting", "n x d", "behind", "missed", "goal")
_SHORT = {"NumPy BLAS": "BLAS", "FAISS flat": "FAISS", "scipy.sparse": "scipy"}


def losing_cells(rows: Iterable[Row]) -> Cells:
    """The rows that are behind the full pass or wrong too often, the worst first."""
    behind = [(row, found) for row in rows if (found := losses(row))]
    behind.sort(key=lambda pair: min(pair[0].warm.speed_up, pair[0].cold.speed_up))
    return [_LOSING] + [
        [row.title, "; ".join(found), *_times(row.warm), *_times(row.cold), _recall(row)] for row, found in behind
    ]


def row_cells(rows: Sequence[Row], others: Mapping[str, Row] | None = None) -> Cells:
    """All rows, warm and cold, beside their goals. `others` are rows that a goal may name."""
    known = by_key(rows) if others is None else others
    return [_ROWS] + [
        [
            row.title,
            *_times(row.warm),
            *_times(row.cold),
            _recall(row),
            str(row.goals),
            "; ".join(misses(row, known)) or "-",
            _size(row.extra_bytes) + ("" if row.extra_share is None else f" ({row.extra_share:.1%})"),
            _seconds(row.fit_seconds),
            "-" if row.fit_of_sum is None else times(row.fit_of_sum),
        ]
        for row in rows
    ]


def line_cells(lines: Iterable[Line]) -> Cells:
    """Every other figure beside its goal."""
    return [_LINES] + [
        [
            line.row,
            _number(line.ours),
            f"{_number(line.reference)} ({line.reference_name})",
            FIGURES[line.goal.figure].write(line.value),
            str(line.goal),
            "yes" if verdict(line) else "no",
            f"{line.recall:.3f}",
        ]
        for line in lines
    ]


def peer_cells(records: Iterable[Record]) -> Cells:
    """Every way of answering on every workload."""
    cells = [_PEERS]
    for record in records:
        warm, cold = record.summary("warm"), record.summary("cold")
        cells.append(
            [
                f"{record.section} ({record.shape[0]:,} x {record.shape[1]:,})",
                record.asked,
                ("banditmips, " if record.kind == "ours" else "") + record.name,
                *(_number(value) for value in (warm.median, warm.p95, cold.median, cold.p95)),
                f"{record.recall:.3f}",
                _seconds(record.build_median),
                _size(record.extra_bytes),
                record.setting or "-",
            ]
        )
    return cells


def grid_cells(records: Sequence[Record]) -> Cells:
    """Speed-ups by shape, for each of our ways of answering, warm and cold."""
    ways = list(dict.fromkeys(record.name for record in records if record.kind == "ours"))
    cells = [["n x d", "reference us", *(f"{way}, {state}" for way in ways for state in ("warm", "cold"))]]
    for shape in dict.fromkeys(record.shape for record in records):
        here = [record for record in records if record.shape == shape]
        warm, cold = best_flat(here, "warm"), best_flat(here, "cold")
        by_name = {record.name: record for record in here}
        speed_ups = []
        for way in ways:
            speed_ups.append(warm.summary("warm").median / by_name[way].summary("warm").median)
            speed_ups.append(cold.summary("cold").median / by_name[way].summary("cold").median)
        cells.append(
            [
                f"{shape[0]:,} x {shape[1]:,}",
                f"{_number(warm.summary().median)} ({warm.name})",
                *(times(value) for value in speed_ups),
            ]
        )
    return cells


def all_tables(
    rows: Sequence[Row], lines: Sequence[Line], records: Sequence[Record], shapes: Sequence[Record]
) -> Tables:
    """Return every table that is not empty, with its title."""
    n_losing = len(losing_cells(rows)) - 1
    tables = [
        (f"Behind the full pass: {n_losing} of {len(rows)} rows", losing_cells(rows)),
        ("All rows", row_cells(rows)),
        ("Other figures", line_cells(lines)),
        ("Every way of answering", peer_cells(records)),
        ("Speed-up by shape, ratings, one query", grid_cells(shapes)),
    ]
    return [(title, cells) for title, cells in tables if len(cells) > 1]


def aligned(cells: Cells) -> str:
    """Columns of equal width, for the terminal: text to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    left = {column for column, name in enumerate(cells[0]) if name in _TEXT}
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


def write_tables(path: Path, tables: Tables, facts: Mapping[str, Any], notes: Iterable[str]) -> None:
    """Write all tables as one Markdown page that says what they were measured on."""
    warning = load_warning(facts)
    parts = ["# Benchmark", describe(facts), EXPLAINED]
    parts += [f"**{warning}.**"] if warning else []
    parts += [f"- {note}" for note in notes]
    for title, cells in tables:
        parts += [f"## {title}", markdown(cells)]
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


EXPLAINED = (
    "Times are medians in microseconds over all queries and repeats; *warm* is one request after another, *cold* "
    "has a pass over 64 MB of other memory before each request, for everybody. The reference is the faster of "
    "NumPy BLAS and FAISS flat (scipy.sparse for sparse atoms), in the same run on as many threads; *ratio* is "
    "its median over ours, and *p95* our 95th percentile over its own. Every answer was compared with float64 "
    "scores; recall is the part of the k best that was found. A row is behind if its median is more than 1.05 "
    "times the reference's, or its 95th percentile more than 1.1 times the reference's own, or if more answers "
    "are wrong than delta explains. *fit/sum* is the fit over one sum of the atoms."
)


def describe(facts: Mapping[str, Any]) -> str:
    """Say when, on what and with what it was measured."""
    versions = ", ".join(f"{name} {number}" for name, number in facts["versions"].items())
    return (
        f"{facts['date']}, commit {facts['commit']}. {facts['cpu']}, {facts['cores']} cores, {facts['threads']} "
        f"thread(s) for everyone. Python {facts['python']}, {versions}; BLAS: {facts['blas']}. "
        f"Load average before the start: {facts['load_average'][0]}."
    )


def _times(pair: Pair) -> list[str]:
    name = _SHORT.get(pair.reference_name, pair.reference_name)
    return [_number(pair.ours), f"{_number(pair.reference)} ({name})", times(pair.speed_up), times(pair.p95_ratio)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _recall(row: Row) -> str:
    return f"{row.recall:.3f}" + (f" ({row.n_wrong} of {row.n_answers} wrong)" if row.n_wrong else "")


def _size(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "-"
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes / 1e3:,.1f} kB"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:,.2f} s" if seconds >= 1 else f"{1e3 * seconds:,.1f} ms"
