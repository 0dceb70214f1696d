"""What the report tells of the run itself: rows, seeds, settings, machine, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from banditmips.experiments.report.chart import Table
from banditmips.experiments.report.charts import FIGURE_TITLES
from banditmips.experiments.rows import Row

__all__ = ["rerun_command", "rows_table", "run_table"]


def rerun_command(run: Mapping[str, Any] | None) -> str:
    """Return the command that makes these rows again."""
    quick = " --quick" if run and run.get("quick") else ""
    return f"pip install 'banditmips[experiments]'\nbanditmips reproduce all{quick} --out DIR"


def rows_table(rows: Sequence[Row]) -> Table:
    """Return what there is of each figure."""
    body = []
    for figure in FIGURE_TITLES:
        own = [row for row in rows if row.figure == figure]
        if own:
            trials = {row.trial for row in own}
            seeds = {row.seed for row in own}
            surrogates = sorted({row.dataset for row in own if row.surrogate})
            seed_range = f"{min(seeds)} to {max(seeds)}" if len(seeds) > 1 else str(min(seeds))
            body.append((figure, f"{len(own):,}", str(len(trials)), seed_range, ", ".join(surrogates) or "none"))
    return Table("Rows of each figure", ("figure", "rows", "trials", "seeds", "surrogates"), tuple(body))


def run_table(run: Mapping[str, Any]) -> Table:
    """Return everything that ``run.json`` holds, one line for each value."""
    caption = "Settings, seeds, machine and versions (run.json)"
    return Table(caption, ("name", "value"), tuple(_flatten(run)), numbers=False)


def _flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}: ")
        elif isinstance(value, str):
            yield prefix + name, value
        elif isinstance(value, (list, tuple)) and all(not isinstance(item, (dict, list)) for item in value):
            yield prefix + name, ", ".join(map(str, value))
        else:
            yield prefix + name, json.dumps(value)
