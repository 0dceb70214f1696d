"""Bounds that rest on a theorem, at sizes at which they decide: entries in a known range, 20,000 of them."""

from __future__ import annotations

import numpy as np
import pytest
from trials import RACING, Size, Way, assert_rate_at_most, count

from banditmips.atoms import DenseStore
from banditmips.core.rule import BernsteinRule, HoeffdingRule
from banditmips.core.sample_source import SampleSource
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.readers import StoreReader
from banditmips.race.sampled import Problem
from banditmips.race.sampling import ReplacementSampler, UniformSampler
from banditmips.race.schedule import Schedule

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


N_ATOMS, D, N_SAMPLED, N_TRIALS = 50, 20_000, 8_000, 100


@pytest.mark.parametrize("replacement", [False, True])
def test_all_intervals_hold_and_would_not_at_half_their_length(replacement: bool) -> None:
    """Terms that are as far apart as their range allows, and so many atoms that some error is a large one.

    In a race the bounds have more to spare than a factor of two, for what they share out over rounds that do not come:
    a bound that is wrong by so much loses no race. So one round is judged on its own.
    """
    delta, rng = 0.1, np.random.default_rng(9)
    atoms, query = rng.choice([-1.0, 1.0], size=(N_ATOMS, D)), rng.choice([-1.0, 1.0], size=D)
    problem = Problem(query, PRODUCT)
    reader = StoreReader(DenseStore(atoms), problem)
    rules = {
        "hoeffding": HoeffdingRule(delta, N_ATOMS, 1.0 * D, False, False),
        "bernstein": BernsteinRule(delta, N_ATOMS, 2.0 * D),
    }
    if not replacement:
        rules["hoeffding_serfling"] = HoeffdingRule(delta, N_ATOMS, 1.0 * D, False, True)
    missed, missed_by_half = dict.fromkeys(rules, 0), dict.fromkeys(rules, 0)
    for seed in range(N_TRIALS):
        sampler = ReplacementSampler(np.arange(D), np.ones(D), seed) if replacement else UniformSampler(D, seed, None)
        alive = Survivors(None, N_ATOMS, 1, False)
        source = SampleSource(alive, None, problem, reader, sampler, Schedule())
        source.advance(N_SAMPLED)
        errors = np.abs(alive.estimate_array - atoms @ query)
        for name, rule in rules.items():
            rule.fill_radius(source, 1)
            radius = alive.radius_array
            missed[name] += bool((errors > radius).any())
            missed_by_half[name] += bool((errors > radius / 2.0).any())
    for name in rules:
        assert_rate_at_most(delta, missed[name], N_TRIALS, f"missed scores, {name}")
        with pytest.raises(AssertionError, match="missed scores"):
            assert_rate_at_most(delta, missed_by_half[name], N_TRIALS, "missed scores")
