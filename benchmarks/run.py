"""A whole run: the sections one after another, then the tables, the raw rows and the charts."""

from __future__ import annotations

import functools
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import drawn, grid, growth, multiplies, real_rows, threads
from benchmarks.batches import batch_workloads
from benchmarks.charts import draw_frontier, draw_real
from benchmarks.docs_page import update_docs
from benchmarks.machine import describe_machine, load_warning
from benchmarks.options import option_workloads
from benchmarks.peers import PEERS, missing_peers
from benchmarks.real import SourceMissingError
from benchmarks.report import aligned, all_tables, write_tables
from benchmarks.results import read_sections, write_section
from benchmarks.runner import Outcome, run_workload
from benchmarks.synthetic import ML_100K, WORKLOADS
from benchmarks.workloads import Scale, Workload

__all__ = ["choose", "run", "sections", "write_docs"]

Section = Callable[[Scale], Outcome]


def sections(missing: Sequence[str] = ()) -> dict[str, Section]:
    """Return all sections by name, in the order in which they run."""
    every: dict[str, Section] = {
        workload.name: functools.partial(_run_real, workload, missing=missing)
        for workload in (*real_rows.real_workloads(), *real_rows.graph_workloads())
    }
    every |= {
        workload.name: functools.partial(run_workload, workload, missing=missing)
        for workload in (*WORKLOADS, *option_workloads(), *batch_workloads())
    }
    if not (ML_100K / "u.data").exists():
        every["movielens-100k"] = _without_movielens
    every[growth.NAME] = growth.run_growth
    every[threads.NAME] = threads.run_threads
    every[multiplies.NAME] = multiplies.run_multiplies
    every[drawn.NAME] = drawn.run_drawn
    every[grid.NAME] = functools.partial(grid.run_grid, missing=tuple(missing))
    return every


def _run_real(workload: Workload, scale: Scale, missing: Sequence[str]) -> Outcome:
    try:
        return run_workload(workload, real_rows.with_budget(scale), missing)
    except SourceMissingError as error:
        return Outcome(notes=[f"{workload.name}: skipped, because {error}"])


def _without_movielens(scale: Scale) -> Outcome:
    return Outcome(notes=[f"movielens-100k: skipped, because {ML_100K / 'u.data'} is not there"])


def choose(available: dict[str, Section], only: Sequence[str] | None) -> dict[str, Section]:
    """Return the sections whose name begins with one of those asked for; all if none are."""
    for wanted in only or ():
        if not any(name.startswith(wanted) for name in available):
            raise ValueError(f"--only: no row is called {wanted!r}; there are {', '.join(available)}")
    return {name: run for name, run in available.items() if only is None or name.startswith(tuple(only))}


def run(quick: bool, out: Path, only: Sequence[str] | None, threads: int) -> int:
    """Measure, print and write everything; return the exit code."""
    missing = missing_peers()
    try:
        chosen = choose(sections(tuple(missing)), only)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out.mkdir(parents=True, exist_ok=True)
    facts = describe_machine(threads)
    warning = load_warning(facts)
    if warning:
        print(f"\n{'!' * 100}\n{warning}\n{'!' * 100}\n", flush=True)
    notes = [
        f"{PEERS[key].name}: left out, because it cannot be imported ({reason})" for key, reason in missing.items()
    ]
    for note in notes:
        print(note, flush=True)
    outcomes, failed = {}, []
    for name, section in chosen.items():
        outcome = _run_section(name, section, Scale.of(quick, threads))
        if outcome is None:
            failed.append(name)
            notes.append(f"{name}: failed")
            continue
        outcomes[name] = outcome
        notes += outcome.notes
        # Written at once, so that a long run that is stopped leaves what it has measured.
        if outcome.records or outcome.counts:
            write_section(out / "raw", name, outcome, facts, quick)
    _publish(outcomes, out, facts, notes)
    if warning:
        print(f"\n{warning}")
    return 1 if failed else 0


def _run_section(name: str, section: Section, scale: Scale) -> Outcome | None:
    """Run one section and say how long it took; one that fails must not take the others with it."""
    start = time.perf_counter()
    print(f"{name} ...", end=" ", flush=True)
    try:
        outcome = section(scale)
    except Exception:
        print("failed", flush=True)
        traceback.print_exc()
        return None
    print(f"{time.perf_counter() - start:.1f} s", flush=True)
    for note in outcome.notes:
        print(note, flush=True)
    return outcome


def _publish(outcomes: dict[str, Outcome], out: Path, facts: dict[str, Any], notes: Sequence[str]) -> None:
    """Print the tables, and write them and the charts."""
    rows = [row for name, outcome in outcomes.items() if name != grid.NAME for row in outcome.rows]
    lines = [line for outcome in outcomes.values() for line in outcome.lines]
    plain = [record for name, outcome in outcomes.items() if name != grid.NAME for record in outcome.records]
    shapes = outcomes[grid.NAME].records if grid.NAME in outcomes else []
    tables = all_tables(rows, lines, plain, shapes)
    for title, cells in tables:
        print(f"\n{title}\n\n{aligned(cells)}")
    write_tables(out / "table.md", tables, facts, notes)
    written = [out / "table.md", out / "raw"]
    try:
        written += draw_real(rows, out) + draw_frontier(shapes, out)
    except ImportError as error:
        print(f"no charts: {error}")
    print("\nwritten: " + ", ".join(str(path) for path in written))


def write_docs(out: Path) -> int:
    """Put what earlier runs have left in `out` into the documentation; return the exit code."""
    measured = read_sections(out / "raw")
    if not measured:
        print(f"error: nothing was measured into {out / 'raw'}: run scripts/bench first", file=sys.stderr)
        return 2
    in_order = {name: measured[name] for name in sections() if name in measured}
    print("written: " + ", ".join(str(path) for path in update_docs(in_order)))
    return 0
