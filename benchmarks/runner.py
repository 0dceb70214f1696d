"""From a workload to records and rows: build, tune, time, check."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.goals import Goal, Line, Pair, Row
from benchmarks.machine import resident_bytes
from benchmarks.measure import Entrant, measure
from benchmarks.ours import Ours, build_authors
from benchmarks.peers import PEERS
from benchmarks.records import Record, State, best_flat, merge
from benchmarks.searchers import EFFORTS, Problem, Searcher
from benchmarks.truth import exact_scores, found_ids, plausible, shares_found
from benchmarks.workloads import Asked, Instance, Scale, Workload

__all__ = ["Contender", "Outcome", "check_answers", "compare", "run_workload"]

_SLOW_BUILD = 0.3
"""Seconds above which one fit of ours is timed, otherwise three."""


@dataclass
class Outcome:
    """What a section gives. `notes` are printed with the tables."""

    rows: list[Row] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    counts: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Contender:
    """A way of answering before it is built."""

    name: str
    kind: str
    build: Callable[[Any, int, Problem], Searcher]
    builds_index: bool = True
    shortfall: float = 0.0


@dataclass
class _Built:
    contender: Contender
    searcher: Searcher
    seconds: list[float]
    extra_bytes: int | None


def run_workload(workload: Workload, scale: Scale, missing: Sequence[str] = ()) -> Outcome:
    """Measure one workload. `missing` are peers that cannot be imported."""
    parts: dict[tuple[str, str], list[Record]] = {}
    notes: list[str] = []
    if not workload.asked(scale):
        return Outcome(notes=[f"{workload.name}: not part of a quick run"])
    for instance in workload.make(scale):
        contenders = _contenders(workload, scale, missing, instance.atoms.shape, notes)
        for record in _run_instance(workload, contenders, instance, scale):
            parts.setdefault((record.asked, record.name), []).append(record)
        del instance
        gc.collect()
    records = [merge(part) for part in parts.values()]
    rows = [
        row for asked in dict.fromkeys(record.asked for record in records) for row in compare(workload, records, asked)
    ]
    lines = _graph_lines(workload, records) if workload.graph_goals else []
    return Outcome(rows=rows, lines=lines, records=records, notes=list(dict.fromkeys(notes)))


def _contenders(
    workload: Workload, scale: Scale, missing: Sequence[str], shape: tuple[int, int], notes: list[str]
) -> list[Contender]:
    contenders = []
    for key in workload.peers + (() if scale.quick else workload.slow_peers):
        peer = PEERS[key]
        refusal = peer.refusal(shape[1])
        if key in missing:
            continue
        if refusal is not None:
            notes.append(f"{workload.name}: {peer.name} is left out, because {refusal}")
            continue
        contenders.append(Contender(peer.name, peer.kind, peer.build, key not in ("blas", "scipy")))
    contenders += [Contender(ours.label, "ours", ours.build, ours.fit, ours.shortfall) for ours in workload.ours]
    if workload.sigma is not None:
        sigma = workload.sigma
        contenders.append(
            Contender(
                "the paper's method", "authors", lambda atoms, threads, _: build_authors(atoms, threads, sigma), False
            )
        )
    return contenders


def _run_instance(
    workload: Workload, contenders: Sequence[Contender], instance: Instance, scale: Scale
) -> list[Record]:
    built = [_build(contender, instance.atoms, scale.threads, workload.problem) for contender in contenders]
    scores = exact_scores(instance.atoms, instance.queries, workload.problem.objective)
    costs = {"sum_seconds": _sum_seconds(instance.atoms), "atom_bytes": _bytes_of(instance.atoms)}
    records = []
    for asked in workload.asked(scale):
        requests, warm_up = asked.requests(instance, scale.n_queries)
        truth = _per_request(scores, requests)
        taking_part = [b for b in built if b.contender.kind != "approximate" or asked.batch is None]
        _tune(taking_part, requests, truth, asked.k)
        entrants = [Entrant(b.contender.name, b.searcher.search, requests, warm_up, asked.k) for b in taking_part]
        measure(entrants, scale.repeats * workload.repeats, scale.budget)
        records += [
            _record(workload, asked, instance, b, entrant, truth, costs)
            for b, entrant in zip(taking_part, entrants, strict=True)
        ]
    return records


def _record(
    workload: Workload,
    asked: Asked,
    instance: Instance,
    b: _Built,
    entrant: Entrant,
    truth: Sequence[NDArray[np.float64]],
    costs: dict[str, Any],
) -> Record:
    n, d = instance.atoms.shape
    return Record(
        workload.name,
        (n, d),
        str(asked),
        b.contender.name,
        b.contender.kind,
        entrant.warm,
        entrant.cold,
        check_answers(entrant.answers, truth, asked.k, b.contender.shortfall),
        b.seconds if b.contender.builds_index else [],
        extra_bytes=b.extra_bytes,
        setting=b.searcher.setting,
        **costs,
    )


def _sum_seconds(atoms: Any) -> float:
    """The faster of two sums over all atoms."""
    seconds = []
    dtype = np.float32 if atoms.dtype == np.float16 else None  # whose own sums overflow
    for _ in range(2):
        start = time.perf_counter()
        atoms.sum(dtype=dtype)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _bytes_of(atoms: Any) -> int:
    parts = (atoms.data, atoms.indices, atoms.indptr) if hasattr(atoms, "indptr") else (atoms,)
    return sum(int(part.nbytes) for part in parts)


def _per_request(scores: NDArray[np.float64], requests: Sequence[NDArray[Any]]) -> list[NDArray[np.float64]]:
    sizes = [len(np.atleast_2d(request)) for request in requests]
    return np.split(scores[: sum(sizes)], np.cumsum(sizes)[:-1])


def check_answers(
    answers: Sequence[Sequence[NDArray[Any]]],
    truth: Sequence[NDArray[np.float64]],
    k: int = 1,
    shortfall: float = 0.0,
) -> list[float]:
    """Which part of the wanted atoms each query found, in the worst of its repeats."""
    shares: list[float] = []
    for repeats, scores in zip(answers, truth, strict=False):
        checked = [shares_found(found_ids(found, len(scores)), scores, k, shortfall) for found in repeats]
        shares += np.min(checked, axis=0).tolist()
    return shares


def _build(contender: Contender, atoms: Any, threads: int, problem: Problem) -> _Built:
    before = resident_bytes()
    searcher, first = _timed_build(contender, atoms, threads, problem)
    after = resident_bytes()
    extra = searcher.extra_bytes
    if extra is None and before is not None and after is not None:
        extra = max(0, after - before)
    seconds = [first]
    if contender.kind == "ours" and contender.builds_index and first < _SLOW_BUILD:
        seconds = [_timed_build(contender, atoms, threads, problem)[1] for _ in range(3)]
    return _Built(contender, searcher, seconds, extra)


def _timed_build(contender: Contender, atoms: Any, threads: int, problem: Problem) -> tuple[Searcher, float]:
    start = time.perf_counter()
    searcher = contender.build(atoms, threads, problem)
    return searcher, time.perf_counter() - start


def _tune(
    built: Sequence[_Built], requests: Sequence[NDArray[Any]], truth: Sequence[NDArray[np.float64]], k: int
) -> None:
    """Give every approximate index the least effort at which it finds as much as we do."""
    approximate = [b for b in built if b.searcher.set_effort is not None]
    if not approximate:
        return
    ours = next(b.searcher for b in built if b.contender.kind == "ours")
    wanted = _recall(ours, requests, truth, k)
    for b in approximate:
        assert b.searcher.set_effort is not None
        for effort in EFFORTS:
            b.searcher.set_effort(effort)
            reached = _recall(b.searcher, requests, truth, k)
            if reached >= wanted:
                break
        b.searcher.setting = f"effort {effort}" + ("" if reached >= wanted else ", recall below ours")


def _recall(
    searcher: Searcher, requests: Sequence[NDArray[Any]], truth: Sequence[NDArray[np.float64]], k: int
) -> float:
    return float(np.mean(check_answers([[searcher.search(request, k)] for request in requests], truth, k)))


def compare(workload: Workload, records: Sequence[Record], asked: str) -> list[Row]:
    """Put each of our records of one kind of request beside the reference."""
    here = [record for record in records if record.asked == asked]
    by_name = {record.name: record for record in here}
    return [_row(workload, ours, by_name[ours.label], here) for ours in workload.ours if ours.label in by_name]


def _row(workload: Workload, ours: Ours, record: Record, records: Sequence[Record]) -> Row:
    return Row(
        workload.name,
        workload.title,
        record.shape,
        record.asked,
        ours.label,
        warm=_pair(record, records, "warm"),
        cold=_pair(record, records, "cold"),
        recall=record.recall,
        n_wrong=record.right.count(False),
        n_answers=len(record.right),
        answers_plausible=ours.delta is None or plausible(record.right, ours.delta),
        goals=ours.goals_for(record.asked),
        extra_bytes=record.extra_bytes if ours.fit else None,
        atom_bytes=record.atom_bytes,
        fit_seconds=record.build_median,
        sum_seconds=record.sum_seconds,
    )


def _pair(record: Record, records: Sequence[Record], state: State) -> Pair:
    reference = best_flat(records, state)
    mine, theirs = record.summary(state), reference.summary(state)
    return Pair(mine.median, mine.p95, theirs.median, theirs.p95, reference.name)


def _graph_lines(workload: Workload, records: Sequence[Record]) -> list[Line]:
    """Queries against the fastest approximate index that finds as much as we do; our fit against its build."""
    asked = records[0].asked
    here = [record for record in records if record.asked == asked]
    record = next(record for record in here if record.name == workload.ours[0].label)
    graphs = [record for record in here if record.kind == "approximate"]
    if not graphs:
        return []
    equal = [graph for graph in graphs if graph.recall >= record.recall]
    rival = min(equal or graphs, key=lambda graph: graph.summary().median)
    title = f"{workload.title} {record.shape[0]:,} x {record.shape[1]:,}"
    recall = "at equal recall" if equal else "although its recall is lower"
    fit, build = record.build_median, rival.build_median
    assert fit is not None
    assert build is not None
    mine, theirs = record.summary().median, rival.summary().median
    judged = (record.recall, len(record.right), plausible(record.right, 1e-3))
    return [
        Line(
            f"{title}, against {rival.name} {recall}",
            Goal("speed_up", 1.0),
            theirs / mine,
            mine,
            theirs,
            rival.name,
            *judged,
        ),
        Line(
            f"{title}, fit against {rival.name}'s build",
            Goal("speed_up", 20.0),
            build / fit,
            1e6 * fit,
            1e6 * build,
            rival.name,
            *judged,
        ),
    ]
