"""Failure rates on kinds of data that hide what decides, for every way to search, judged by a binomial test.

The randomness is the seed's: the data of a kind is fixed, and each of its queries is asked with several seeds. One kind
alone: ``pytest tests/statistical/test_kinds.py -k word_counts``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from kinds import KINDS
from trials import RACING, Count, Size, Way, assert_rate_at_most, count, dataset

pytestmark = pytest.mark.statistical

SMALL = Size(n=64, d=4_032, n_datasets=2, n_seeds=6)
"""Of a length at which the windows of the rotation overlap least."""
POOLED = Size(n=64, d=4_096, n_datasets=2, n_seeds=2)
LARGE = Size(n=400, d=12_000, n_datasets=1, n_seeds=2)
SHORT = Size(n=200, d=784, n_datasets=1, n_seeds=6)
QUICK = Size(n=32, d=1_000, n_datasets=1, n_seeds=1)

ESTIMATES = RACING | {"rescore": False}
WAYS = {
    "fitted": Way(0.5),
    "ten": Way(0.25, k=10),
    "cosine": Way(0.4, objective="cosine"),
    "squares": Way(0.4, objective="neg_sqeuclidean"),
    "grown": Way(0.5, atoms="grown"),
    "batch": Way(0.5, batch=True),
    "estimates": Way(0.45, k=3, options=ESTIMATES),
    "bare": Way(0.3, atoms="bare"),
}
LEAST_SHARE_OF_A_KIND = 0.5


def kinds_for(way: Way) -> list[str]:
    """Return all kinds; sampled coordinates promise nothing about needles (docs/guarantees.md)."""
    samples = way.atoms in ("bare", "coordinates")
    return [name for name, kind in KINDS.items() if not (samples and kind.needles)]


def asks_everywhere(name: str) -> bool:
    """Whether most entries of the queries are not 0; else the products are fewer than the cells of an estimate."""
    _, queries = dataset(name, SMALL.n, SMALL.d, 0)
    return np.count_nonzero(queries) >= queries.size / 2


# What holds for one way at two deltas holds for the others, which run the same rules, if it holds at one.
DELTAS = {"fitted": [0.1, 0.01], "bare": [0.1, 0.01]}
CASES = [
    pytest.param(way, name, delta, id=f"{way}-{name}-{delta}")
    for name in KINDS
    for way in WAYS
    if name in kinds_for(WAYS[way])
    for delta in DELTAS.get(way, [0.1])
]


@pytest.mark.parametrize(("way", "name", "delta"), CASES)
def test_wrong_answers_of_a_kind(way: str, name: str, delta: float) -> None:
    counted = count(name, WAYS[way], SMALL, delta)
    assert_rate_at_most(delta, counted.wrong, counted.searches, f"wrong answers, {way}, {name}")
    assert_rate_at_most(delta, counted.missed, counted.searches, f"missed scores, {way}, {name}")
    if way == "fitted" and KINDS[name].separable and asks_everywhere(name):
        assert counted.sampled >= LEAST_SHARE_OF_A_KIND * counted.searches


def added_up(counts: Mapping[str, Count]) -> tuple[Count, str]:
    """Add up what was counted for all kinds, and name those with wrong answers."""
    guilty = [
        f"{name} {one.wrong} wrong {one.missed} missed" for name, one in counts.items() if one.wrong or one.missed
    ]
    return sum(counts.values(), Count()), ", ".join(guilty)


def pooled(way: Way, size: Size, delta: float) -> tuple[Count, str]:
    """Count over all kinds, and name those with wrong answers."""
    return added_up({name: count(name, way, size, delta) for name in kinds_for(way)})


BUDGETED = {
    atoms: Way(0.0, k=POOLED.n - 1, atoms=atoms, options=ESTIMATES | {"budget": POOLED.n * POOLED.d // 4})
    for atoms in ("fitted", "bare")
}
SMALL_DELTA = 0.001


@cache
def counted_together() -> dict[tuple[str, float], dict[str, Count]]:
    """Count all kinds in all ways and with a budget, kind after kind: atoms, indexes and true scores are made once."""
    asked = {(way, SMALL_DELTA): WAYS[way] for way in WAYS}
    asked |= {(f"budgeted {atoms}", delta): way for atoms, way in BUDGETED.items() for delta in (0.1, 0.01)}
    found: dict[tuple[str, float], dict[str, Count]] = {key: {} for key in asked}
    for name in KINDS:
        for (key, delta), way in asked.items():
            if name in kinds_for(way):
                found[key, delta][name] = count(name, way, POOLED, delta)
    return found


@pytest.mark.parametrize("way", WAYS)
def test_wrong_answers_of_all_kinds(way: str) -> None:
    delta = SMALL_DELTA
    total, guilty = added_up(counted_together()[way, delta])
    assert_rate_at_most(delta, total.wrong, total.searches, f"wrong answers, {way}: {guilty}")
    assert_rate_at_most(delta, total.missed, total.searches, f"missed scores, {way}: {guilty}")
    assert total.sampled >= WAYS[way].least_share * total.searches


@pytest.mark.parametrize("atoms", ["fitted", "bare"])
@pytest.mark.parametrize("delta", [0.1, 0.01])
def test_intervals_of_all_atoms(atoms: str, delta: float) -> None:
    """With a budget and k = n - 1, all atoms but one come back with intervals: these hold at once but in delta.

    (With k = n there would be nothing to find out, and no round.)
    """
    counts = counted_together()[f"budgeted {atoms}", delta]
    for name, counted in counts.items():
        assert_rate_at_most(delta, counted.missed, counted.searches, f"missed scores, {name}")
    total, _ = added_up(counts)
    assert_rate_at_most(delta, total.missed, total.searches, "missed scores of all kinds")
    assert total.estimated >= 0.5 * total.searches


@pytest.mark.parametrize("atoms", ["coordinates", "bare"])
def test_sums_of_absolute_differences(atoms: str) -> None:
    """No product gives them, so that no code does: coordinates are sampled, with an index and without."""
    delta = 0.1
    way = Way(0.4, objective="neg_l1", atoms=atoms, options=ESTIMATES)
    total, guilty = pooled(way, QUICK, delta)
    assert_rate_at_most(delta, total.wrong, total.searches, f"wrong answers: {guilty}")
    assert_rate_at_most(delta, total.missed, total.searches, f"missed scores: {guilty}")
    assert total.sampled >= way.least_share * total.searches


@pytest.mark.parametrize("size", [LARGE, SHORT], ids=["long", "short"])
def test_wrong_answers_by_the_clock(size: Size) -> None:
    """The options that everybody uses, at a size at which they need not end in the full product."""
    delta = 0.001
    total, guilty = pooled(Way(0.0, options={}), size, delta)
    assert_rate_at_most(delta, total.wrong, total.searches, f"wrong answers: {guilty}")
    if size is LARGE:
        assert total.sampled >= 0.25 * total.searches
