"""How the time of a query grows from d = 10,000 to d = 1,000,000 where nothing is rescored: it should not."""

from __future__ import annotations

import numpy as np

from banditmips import datasets
from benchmarks.goals import Goal, Line
from benchmarks.measure import Entrant, measure
from benchmarks.ours import Ours
from benchmarks.records import Record
from benchmarks.runner import Outcome, check_answers
from benchmarks.truth import exact_scores, plausible
from benchmarks.workloads import Scale

__all__ = ["NAME", "run_growth"]

NAME = "growth-with-d"


def run_growth(scale: Scale, n: int = 100, sizes: tuple[int, int] = (10_000, 1_000_000)) -> Outcome:
    """Ask the same movies' ratings by few and by many users, in turn."""
    data = datasets.load("ratings", n=n, d=sizes[1], n_queries=scale.n_queries)
    goals = (Goal("growth", 1.3),)
    ways = (
        Ours("fitted, rescore=False", True, goals, {"rescore": False}),
        Ours("no fit, rescore=False", False, goals, {"rescore": False}),
    )
    entrants, builds, truths = [], [], []
    for d in sizes:
        # Copies: a slice of long rows would be another layout of memory.
        atoms, queries = np.ascontiguousarray(data.atoms[:, :d]), np.ascontiguousarray(data.queries[:, :d])
        scores = exact_scores(atoms, queries)
        for ours in ways:
            searcher = ours.build(atoms, scale.threads)
            entrants.append(Entrant(ours.label, searcher.search, list(queries), queries[-1]))
            builds.append((d, searcher))
            truths.append(np.split(scores, len(scores)))
    measure(entrants, 4 * scale.repeats, scale.budget)
    records = [
        Record(
            NAME,
            (n, d),
            entrant.name,
            "ours",
            entrant.times,
            check_answers(entrant.answers, truth),
            extra_bytes=searcher.extra_bytes,
            setting=searcher.setting,
        )
        for entrant, (d, searcher), truth in zip(entrants, builds, truths, strict=True)
    ]
    lines = [
        _line(ours, small, large)
        for ours, small, large in zip(ways, records[: len(ways)], records[len(ways) :], strict=True)
    ]
    return Outcome(lines=lines, records=records)


def _line(ours: Ours, small: Record, large: Record) -> Line:
    right = small.right + large.right
    return Line(
        f"time at d = {large.shape[1]:,} over d = {small.shape[1]:,}, n = {large.shape[0]:,}, {ours.label}",
        ours.goals[0],
        large.summary.median / small.summary.median,
        ours=large.summary.median,
        reference=small.summary.median,
        reference_name=f"ours at d = {small.shape[1]:,}",
        p95_ratio=large.summary.p95 / small.summary.median,
        recall=float(np.mean(right)),
        n_answers=len(right),
        answers_plausible=plausible(right, ours.delta),
        extra_bytes=large.extra_bytes if ours.fit else None,
    )
