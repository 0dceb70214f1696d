"""A whole run: the sections one after another, then the tables, the raw rows and the charts."""

from __future__ import annotations

import functools
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks import grid, growth, multiplies
from benchmarks.charts import draw_frontier, draw_speed_ups
from benchmarks.machine import describe_machine, load_warning
from benchmarks.peers import PEERS, missing_peers
from benchmarks.report import aligned, grid_cells, main_cells, memory_line, peer_cells, write_rows, write_tables
from benchmarks.runner import Outcome, run_workload
from benchmarks.workloads import ML_100K, WORKLOADS, Scale

__all__ = ["choose", "run", "sections"]

Section = Callable[[Scale], Outcome]


def sections(missing: Sequence[str] = ()) -> dict[str, Section]:
    """Return all sections by name, in the order in which they run."""
    all_sections: dict[str, Section] = {
        workload.name: functools.partial(run_workload, workload, missing=missing) for workload in WORKLOADS
    }
    if not (ML_100K / "u.data").exists():
        all_sections["movielens-100k"] = _without_movielens
    all_sections[growth.NAME] = growth.run_growth
    all_sections[multiplies.NAME] = multiplies.run_multiplies
    all_sections[grid.NAME] = functools.partial(grid.run_grid, missing=tuple(missing))
    return all_sections


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
    raw = out / "raw.jsonl"
    raw.unlink(missing_ok=True)
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
        write_rows(raw, outcome.rows + [record.to_json() for record in outcome.records], facts)
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
    lines = [line for outcome in outcomes.values() for line in outcome.lines]
    plain = [record for name, outcome in outcomes.items() if name != grid.NAME for record in outcome.records]
    shapes = outcomes[grid.NAME].records if grid.NAME in outcomes else []
    memory = memory_line(plain)
    lines += [memory] if memory else []
    tables = [
        ("Figures and goals", main_cells(lines)),
        ("Every way of answering", peer_cells(plain)),
        ("Speed-up by shape, ratings, one query", grid_cells(shapes)),
    ]
    tables = [(title, cells) for title, cells in tables if len(cells) > 1]
    for title, cells in tables:
        print(f"\n{title}\n\n{aligned(cells)}")
    write_tables(out / "table.md", tables, facts, notes)
    written = [out / "table.md", out / "raw.jsonl"]
    try:
        written += draw_speed_ups(lines, out) + draw_frontier(shapes, out)
    except ImportError as error:
        print(f"no charts: {error}")
    print("\nwritten: " + ", ".join(str(path) for path in written))
