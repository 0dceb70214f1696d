"""What a second thread gains: one query that takes milliseconds, and a batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from banditmips import datasets
from benchmarks.goals import Goal, Line
from benchmarks.measure import Entrant, measure
from benchmarks.ours import Ours
from benchmarks.records import Record
from benchmarks.runner import Outcome, check_answers
from benchmarks.searchers import INNER_PRODUCT
from benchmarks.truth import exact_scores, plausible
from benchmarks.workloads import Scale

__all__ = ["NAME", "run_threads"]

NAME = "threads"
_ALONE, _TOGETHER = 1.5, 1.8
"""How many times as fast two threads should be as one: for one query, and for a batch."""
_K = 10
_CASES = (
    # A query that is worth dividing is one that reads all atoms; after `fit` that is one for which no race pays.
    ("symmetric_normal", Ours("fitted", True), False),
    ("symmetric_normal", Ours("no fit", False), False),
    ("normal_custom", Ours("fitted", True), True),
    ("normal_custom", Ours("no fit", False), True),
)


def run_threads(scale: Scale, shape: tuple[int, int] = (2_000, 50_000), n_batch: int = 64) -> Outcome:
    """Ask the same with one thread and with two, in turn, while BLAS has as many as the run gives to everybody."""
    outcome = Outcome()
    for name, ours, batched in _CASES:
        data = datasets.load(name, n=shape[0], d=shape[1], n_queries=n_batch)
        atoms, queries = data.atoms.astype(np.float32), data.queries.astype(np.float32)
        requests = [queries] if batched else list(queries[: scale.n_queries])
        one, two = _records(name, atoms, requests, ours, scale)
        outcome.records += [one, two]
        outcome.lines.append(_line(one, two, _TOGETHER if batched else _ALONE))
    return outcome


def _records(
    name: str, atoms: NDArray[np.float32], requests: list[NDArray[np.float32]], ours: Ours, scale: Scale
) -> list[Record]:
    entrants = []
    for n_threads in (1, 2):
        searcher = ours.build(atoms, n_threads, INNER_PRODUCT)
        entrants.append(Entrant(f"{ours.label}, n_jobs={n_threads}", searcher.search, requests, requests[-1], _K))
    measure(entrants, scale.repeats, scale.budget)
    truth = [exact_scores(atoms, np.atleast_2d(request)) for request in requests]
    asked = f"k = {_K}" + (f", batch of {len(requests[0])}" if requests[0].ndim == 2 else "")
    shape = (atoms.shape[0], atoms.shape[1])
    return [
        Record(
            f"{NAME}-{name}",
            shape,
            asked,
            entrant.name,
            "ours",
            entrant.warm,
            entrant.cold,
            check_answers(entrant.answers, truth, _K),
        )
        for entrant in entrants
    ]


def _line(one: Record, two: Record, wanted: float) -> Line:
    right = one.right + two.right
    alone, helped = one.summary("warm").median, two.summary("warm").median
    return Line(
        f"two threads against one: {one.section.removeprefix(f'{NAME}-')} {one.shape[0]:,} x {one.shape[1]:,}, "
        f"{one.asked}, {one.name.partition(',')[0]}",
        Goal("speed_up", wanted),
        alone / helped,
        ours=helped,
        reference=alone,
        reference_name="one thread",
        recall=float(np.mean(right)),
        n_answers=len(right),
        answers_plausible=plausible(right, 1e-3),
    )
