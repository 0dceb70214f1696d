"""What the report tells of the run itself: rows, seeds, settings, machine, versions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from banditmips.experiments.report.chart import Table
from banditmips.experiments.report.charts import FIGURE_TITLES
from banditmips.experiments.rows import Row

__all__ = ["other_work", "rerun_command", "rows_table", "run_table"]

_MOST_NAMES = 3


def rerun_command(run: Mapping[str, Any] | None) -> str:
    """Return the command that makes these rows again."""
    quick = " --quick" if run and run.get("quick") else ""
    return f"pip install 'banditmips[experiments]'\nbanditmips reproduce all{quick} --out DIR"


def other_work(run: Mapping[str, Any] | None) -> str:
    """Say that other work shared the machine, if there was as much as a core of it when a run began; "" if not.

    Examples
    --------
    >>> other_work({"machine": {"cores": 2}, "runs": [{"load_average": [0.1, 0.4, 0.9]}]})
    ''
    """
    runs = [each for each in (run or {}).get("runs", ()) if each.get("rows_written") != 0]
    load = max((each["load_average"][0] for each in runs if each.get("load_average")), default=0.0)
    if run is None or load < 1.0:
        return ""
    cores = run.get("machine", {}).get("cores")
    on = f" on {cores} cores" if cores else ""
    return (
        f"Other work shared the machine (a load of {load:.1f}{on} when the run began): times say less than multiplies."
    )


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
    """Yield names and values; what is nested deeper than three levels stands in one line."""
    for name, value in values.items():
        path = prefix + name
        if isinstance(value, Mapping) and path.count(": ") < _MOST_NAMES - 1:
            yield from _flatten(value, f"{path}: ")
        elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
            for number, item in enumerate(value, start=1):
                yield f"{path}: {number}", _inline(item)
        else:
            yield path, _inline(value)


def _inline(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{name} {_bracketed(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(_bracketed, value)) or "none"
    return value if isinstance(value, str) else json.dumps(value)


def _bracketed(value: Any) -> str:
    return f"({_inline(value)})" if isinstance(value, Mapping) else _inline(value)
