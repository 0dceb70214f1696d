"""Bounds that rest on a theorem, at sizes at which they decide: entries in a known range, 20,000 of them."""

from __future__ import annotations

import pytest
from trials import RACING, Size, Way, assert_rate_at_most, count

pytestmark = pytest.mark.statistical

SIZE = Size(n=16, d=20_000, n_datasets=2, n_seeds=6)
RANGES = {
    "hash_codes": (-1.0, 1.0),
    "fingerprints": (0.0, 1.0),
    "one_hot": (0.0, 1.0),
    "half_precision_ratings": (0.5, 5.0),
}


@pytest.mark.parametrize("delta", [0.1, 0.01])
@pytest.mark.parametrize(
    ("bound", "replacement"),
    [
        ("hoeffding", False),
        ("hoeffding", True),
        ("hoeffding_serfling", False),  # which is about sampling without replacement
        ("bernstein", False),
        ("bernstein", True),
    ],
)
@pytest.mark.parametrize("name", RANGES)
def test_a_bound_with_a_theorem_decides_and_holds(name: str, bound: str, replacement: bool, delta: float) -> None:
    options = RACING | {"rescore": False, "bound": bound, "value_range": RANGES[name], "replacement": replacement}
    way = Way(0.75, atoms="bare", options=options)
    counted = count(name, way, SIZE, delta)
    assert_rate_at_most(delta, counted.wrong, counted.searches, "wrong answers")
    assert_rate_at_most(delta, counted.missed, counted.searches, "missed scores")
    assert counted.sampled >= way.least_share * counted.searches
