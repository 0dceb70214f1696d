"""Wrong answers at delta = 0.001, in so many small searches that twice as many as allowed would be seen."""

from __future__ import annotations

import pytest
from kinds import KINDS, N_QUERIES
from scipy.stats import binom
from trials import RACING, Count, Way, assert_rate_at_most, dataset, judged, one_query

import banditmips as bm

pytestmark = pytest.mark.statistical

DELTA, SIGNIFICANCE = 0.001, 0.01
N_ATOMS, D, N_SEEDS = 24, 1_024, 60
WAYS = [
    Way(0.45),
    Way(0.28, k=3, options=RACING | {"rescore": False}),
    Way(0.38, objective="cosine"),
    Way(0.65, objective="neg_sqeuclidean"),
]
N_SEARCHES = len(KINDS) * N_SEEDS * N_QUERIES


def test_twice_the_rate_would_be_seen() -> None:
    least = binom.isf(SIGNIFICANCE, N_SEARCHES, DELTA) + 1
    assert binom.sf(least - 1, N_SEARCHES, 2.0 * DELTA) >= 0.8


def test_wrong_answers_in_many_small_searches() -> None:
    """An index answers all queries of its kind, in one of the ways; each index has a seed of its own."""
    totals = [Count() for _ in WAYS]
    for name in KINDS:
        where = (name, N_ATOMS, D, 0)
        atoms, queries = dataset(*where)
        for seed in range(N_SEEDS):
            way = WAYS[seed % len(WAYS)]
            index = bm.BanditMIPS(seed=seed, delta=DELTA, objective=way.objective, **way.options).fit(atoms)
            batch = index.search(queries, k=way.k)
            for row in range(N_QUERIES):
                totals[seed % len(WAYS)] += judged(one_query(batch, row), where, row, way.objective)
    total = sum(totals, Count())
    assert total.searches == N_SEARCHES
    assert_rate_at_most(DELTA, total.wrong, N_SEARCHES, "wrong answers", SIGNIFICANCE)
    assert_rate_at_most(DELTA, total.missed, N_SEARCHES, "missed scores", SIGNIFICANCE)
    for way, counted in zip(WAYS, totals, strict=True):
        assert counted.sampled >= way.least_share * counted.searches
    assert total.estimated >= 0.02 * total.searches
