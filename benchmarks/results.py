"""What a run leaves behind: a JSON file for each section, so that later runs replace what they measured and no more."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.goals import Line, Row
from benchmarks.records import Record
from benchmarks.runner import Outcome

__all__ = ["Kept", "read_sections", "write_section"]


@dataclass(frozen=True)
class Kept:
    """A section that was measured, with the facts of the machine and whether it was a quick run."""

    outcome: Outcome
    facts: dict[str, Any]
    quick: bool


def write_section(folder: Path, name: str, outcome: Outcome, facts: Mapping[str, Any], quick: bool) -> Path:
    """Write the rows and raw times of a section."""
    folder.mkdir(parents=True, exist_ok=True)
    written = {
        "section": name,
        "quick": quick,
        "machine": dict(facts),
        "rows": [row.to_json() for row in outcome.rows],
        "lines": [asdict(line) for line in outcome.lines],
        "counts": outcome.counts,
        "notes": outcome.notes,
        "records": [record.to_json() for record in outcome.records],
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(written, allow_nan=False), encoding="utf-8")
    return path


def read_sections(folder: Path) -> dict[str, Kept]:
    """Return every section of which a file is there."""
    kept = {}
    for path in sorted(folder.glob("*.json")):
        values = json.loads(path.read_text(encoding="utf-8"))
        outcome = Outcome(
            [Row.from_json(row) for row in values["rows"]],
            [Line.from_json(line) for line in values["lines"]],
            [Record.from_json(record) for record in values["records"]],
            values["counts"],
            values["notes"],
        )
        kept[values["section"]] = Kept(outcome, values["machine"], values["quick"])
    return kept
