"""From a workload to records and lines: build, tune, time, check."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.goals import Goal, Line
from benchmarks.machine import resident_bytes
from benchmarks.measure import Entrant, measure
from benchmarks.ours import Ours, build_authors
from benchmarks.peers import EFFORTS, PEERS, Searcher
from benchmarks.records import Record, best_flat, merge
from benchmarks.truth import exact_scores, first_ids, plausible, right_answers
from benchmarks.workloads import Instance, Scale, Workload

__all__ = ["Contender", "Outcome", "check_answers", "compare", "run_workload"]

_SLOW_BUILD = 1.0
"""Seconds above which one fit of ours is timed, otherwise three; always after a first one."""


@dataclass
class Outcome:
    """What a section gives. `notes` are printed with the tables."""

    lines: list[Line] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Contender:
    """A way of answering before it is built."""

    name: str
    kind: str
    build: Callable[[NDArray[Any], int], Searcher]
    builds_index: bool = True


@dataclass
class _Built:
    contender: Contender
    searcher: Searcher
    seconds: list[float]
    extra_bytes: int | None


def run_workload(workload: Workload, scale: Scale, missing: Sequence[str] = ()) -> Outcome:
    """Measure one workload. `missing` are peers that cannot be imported."""
    contenders = _contenders(workload, scale, missing)
    parts: dict[str, list[Record]] = {contender.name: [] for contender in contenders}
    for instance in workload.make(scale):
        for record in _run_instance(workload, contenders, instance, scale):
            parts[record.name].append(record)
        del instance
        gc.collect()
    records = [merge(part) for part in parts.values()]
    return Outcome(lines=compare(workload, records), records=records)


def _contenders(workload: Workload, scale: Scale, missing: Sequence[str]) -> list[Contender]:
    keys = [key for key in workload.peers + (() if scale.quick else workload.slow_peers) if key not in missing]
    contenders = [Contender(PEERS[key].name, PEERS[key].kind, PEERS[key].build, key != "blas") for key in keys]
    contenders += [Contender(ours.label, "ours", ours.build, ours.fit) for ours in workload.ours]
    if workload.sigma is not None:
        sigma = workload.sigma
        contenders.append(
            Contender(
                "the paper's method", "authors", lambda atoms, threads: build_authors(atoms, threads, sigma), False
            )
        )
    return contenders


def _run_instance(
    workload: Workload, contenders: Sequence[Contender], instance: Instance, scale: Scale
) -> list[Record]:
    built = [_build(contender, instance.atoms, scale.threads) for contender in contenders]
    queries = np.vstack([np.atleast_2d(request) for request in instance.requests])
    truth = _per_request(exact_scores(instance.atoms, queries), instance.requests)
    _tune(built, instance.requests, truth)
    entrants = [Entrant(b.contender.name, b.searcher.search, instance.requests, instance.warm_up) for b in built]
    measure(entrants, scale.repeats * workload.repeats, scale.budget)
    n, d = instance.atoms.shape
    return [
        Record(
            workload.name,
            (n, d),
            b.contender.name,
            b.contender.kind,
            entrant.times,
            check_answers(entrant.answers, truth),
            b.seconds if b.contender.builds_index else [],
            b.extra_bytes,
            b.searcher.setting,
        )
        for b, entrant in zip(built, entrants, strict=True)
    ]


def _per_request(scores: NDArray[np.float64], requests: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
    sizes = [len(np.atleast_2d(request)) for request in requests]
    return np.split(scores, np.cumsum(sizes)[:-1])


def check_answers(answers: Sequence[Sequence[NDArray[Any]]], truth: Sequence[NDArray[np.float64]]) -> list[bool]:
    """Whether each query was answered rightly in every repeat."""
    right: list[bool] = []
    for repeats, scores in zip(answers, truth, strict=False):
        checked = [right_answers(first_ids(found), scores) for found in repeats]
        right += np.all(checked, axis=0).tolist()
    return right


def _build(contender: Contender, atoms: NDArray[Any], threads: int) -> _Built:
    before = resident_bytes()
    searcher, first = _timed_build(contender, atoms, threads)
    after = resident_bytes()
    extra = searcher.extra_bytes
    if extra is None and before is not None and after is not None:
        extra = max(0, after - before)
    seconds = [first]
    if contender.kind == "ours" and contender.builds_index:
        n_builds = 3 if first < _SLOW_BUILD else 1
        seconds = [_timed_build(contender, atoms, threads)[1] for _ in range(n_builds)]
    return _Built(contender, searcher, seconds, extra)


def _timed_build(contender: Contender, atoms: NDArray[Any], threads: int) -> tuple[Searcher, float]:
    start = time.perf_counter()
    searcher = contender.build(atoms, threads)
    return searcher, time.perf_counter() - start


def _tune(built: Sequence[_Built], requests: Sequence[NDArray[Any]], truth: Sequence[NDArray[np.float64]]) -> None:
    """Give every approximate index the least effort at which it is right as often as we are."""
    approximate = [b for b in built if b.searcher.set_effort is not None]
    if not approximate:
        return
    ours = next(b.searcher for b in built if b.contender.kind == "ours")
    wanted = _n_right(ours, requests, truth)
    for b in approximate:
        assert b.searcher.set_effort is not None
        for effort in EFFORTS:
            b.searcher.set_effort(effort)
            reached = _n_right(b.searcher, requests, truth)
            if reached >= wanted:
                break
        b.searcher.setting = f"effort {effort}" + ("" if reached >= wanted else ", recall below ours")


def _n_right(searcher: Searcher, requests: Sequence[NDArray[Any]], truth: Sequence[NDArray[np.float64]]) -> int:
    return sum(check_answers([[searcher.search(request)] for request in requests], truth))


def compare(workload: Workload, records: Sequence[Record]) -> list[Line]:
    """Put each of our records beside the reference, and beside the graphs where that is a goal."""
    by_name = {record.name: record for record in records}
    reference = best_flat(records)
    title = f"{workload.title} {reference.shape[0]:,} x {reference.shape[1]:,}"
    lines = [
        _line(f"{title}, {ours.label}", ours, goal, by_name[ours.label], reference)
        for ours in workload.ours
        for goal in ours.goals
    ]
    graphs = [record for record in records if record.kind == "graph"]
    if workload.graph_goals and graphs:
        lines += _graph_lines(title, workload.ours[0], by_name[workload.ours[0].label], graphs)
    return lines


def _line(row: str, ours: Ours, goal: Goal, record: Record, reference: Record) -> Line:
    mine, theirs = record.summary, reference.summary
    value = {
        "speed_up": theirs.median / mine.median,
        "of_reference": mine.median / theirs.median,
        "p95_of_reference": mine.p95 / theirs.median,
        "added_us": mine.median - theirs.median,
    }[goal.figure]
    return Line(
        row,
        goal,
        value,
        ours=mine.median,
        reference=theirs.median,
        reference_name=reference.name,
        p95_ratio=mine.p95 / theirs.median,
        recall=record.recall,
        n_answers=len(record.right),
        answers_plausible=plausible(record.right, ours.delta),
        extra_bytes=record.extra_bytes if ours.fit else None,
        fit_seconds=record.build_median,
    )


def _graph_lines(title: str, ours: Ours, record: Record, graphs: Sequence[Record]) -> list[Line]:
    """Queries against the fastest graph that is right as often as we are; our fit against its build."""
    equal = [graph for graph in graphs if graph.recall >= record.recall]
    rival = min(equal or graphs, key=lambda graph: graph.summary.median)
    recall = "at equal recall" if equal else "although its recall is lower"
    queries = _line(f"{title}, against {rival.name} {recall}", ours, Goal("speed_up", 1.0), record, rival)
    fit, build = record.build_median, rival.build_median
    assert fit is not None
    assert build is not None
    return [
        queries,
        replace(
            queries,
            row=f"{title}, fit against {rival.name}'s build",
            goal=Goal("speed_up", 50.0),
            value=build / fit,
            ours=1e6 * fit,
            reference=1e6 * build,
            p95_ratio=None,
        ),
    ]
