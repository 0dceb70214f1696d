"""How the time of a query grows from d = 10,000 to d = 1,000,000 where nothing is rescored: it should not."""

from __future__ import annotations

import numpy as np

from banditmips import datasets
from benchmarks.goals import Goal, Line
from benchmarks.measure import Entrant, measure
from benchmarks.ours import Ours
from benchmarks.records import Record, State
from benchmarks.runner import Outcome, check_answers
from benchmarks.searchers import INNER_PRODUCT
from benchmarks.truth import exact_scores, plausible
from benchmarks.workloads import Scale

__all__ = ["NAME", "run_growth"]

NAME = "growth-with-d"


def run_growth(scale: Scale, n: int = 100, sizes: tuple[int, int] = (10_000, 1_000_000)) -> Outcome:
    """Ask the same movies' ratings by few and by many users, in turn."""
    data = datasets.load("ratings", n=n, d=sizes[1], n_queries=scale.n_queries)
    few = {"minimise": "multiplies", "rescore": False}
    ways = (
        Ours("layout=coordinates", True, options={"layout": "coordinates", **few}),
        Ours("no fit", False, options=few),
    )
    entrants, builds, truths = [], [], []
    for d in sizes:
        # Copies: a slice of long rows would be another layout of memory.
        atoms, queries = np.ascontiguousarray(data.atoms[:, :d]), np.ascontiguousarray(data.queries[:, :d])
        scores = exact_scores(atoms, queries)
        for ours in ways:
            searcher = ours.build(atoms, scale.threads, INNER_PRODUCT)
            entrants.append(Entrant(ours.label, searcher.search, list(queries), queries[-1]))
            builds.append((d, searcher))
            truths.append(np.split(scores, len(scores)))
    measure(entrants, 2 * scale.repeats, scale.budget)
    records = [
        Record(
            NAME,
            (n, d),
            "k = 1",
            entrant.name,
            "ours",
            entrant.warm,
            entrant.cold,
            check_answers(entrant.answers, truth),
            extra_bytes=searcher.extra_bytes,
            setting=searcher.setting,
        )
        for entrant, (d, searcher), truth in zip(entrants, builds, truths, strict=True)
    ]
    pairs = list(zip(records[: len(ways)], records[len(ways) :], strict=True))
    return Outcome(lines=[_line(*pair, state) for pair in pairs for state in _STATES], records=records)


_STATES: tuple[State, ...] = ("warm", "cold")


def _line(small: Record, large: Record, state: State) -> Line:
    right = small.right + large.right
    long, short = large.summary(state).median, small.summary(state).median
    return Line(
        f"{state} time at d = {large.shape[1]:,} over d = {small.shape[1]:,}, n = {large.shape[0]:,}, {large.name}, "
        "minimise=multiplies, rescore=False",
        Goal("growth", 1.3),
        long / short,
        ours=long,
        reference=short,
        reference_name=f"ours at d = {small.shape[1]:,}",
        recall=float(np.mean(right)),
        n_answers=len(right),
        answers_plausible=plausible(right, 1e-3),
    )
