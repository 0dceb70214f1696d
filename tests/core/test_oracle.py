"""The compiled loop against the slow race of `banditmips.reference`: the same eliminations, the same multiplies.

Entries are integers, so that terms are exact; of many sizes, so that no two estimates are equal but for rounding.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from banditmips.atoms import DenseStore
from banditmips.core.answer import Times
from banditmips.core.cached_source import CachedSource
from banditmips.core.certain import ScoreMap
from banditmips.core.code_source import CodeSource, make_dither
from banditmips.core.codes import Codes
from banditmips.core.exact import Exact, ReaderExact, RowsExact
from banditmips.core.loop import Limits, race
from banditmips.core.records import StopReason
from banditmips.core.rotation import Rotation
from banditmips.core.rows import Rows
from banditmips.core.rule import BernsteinRule, CodeRule, HoeffdingRule, PairedRule
from banditmips.core.sample_source import MIN_SCATTER_SEEN, SampleSource
from banditmips.core.survivors import Survivors
from banditmips.race.readers import StoreReader
from banditmips.race.sampled import Problem
from banditmips.race.sampling import BottomKSampler, ReplacementSampler, UniformSampler
from banditmips.race.schedule import LimitedSchedule, Schedule
from banditmips.reference import CodedCells, Rule, SampledCells, slow_race, uniform_sample

N, D, DELTA = 24, 400, 0.05
SIGMA, WIDTH = 6.0, 4.0
UNITS = [1e4, 1e4, 1e2]
"""What terms of each objective are counted in: entries of atoms and queries are about a hundred."""
RULES = ["paired", "hoeffding", "hoeffding_serfling", "bernstein"]
every_k = pytest.mark.parametrize("k", [1, 3])
either_sign = pytest.mark.parametrize("absolute", [False, True])
every_objective = pytest.mark.parametrize("objective", [0, 1, 2])


def integers(seed, d=D):
    """Atoms at many levels, either sign, and a query with some zeros."""
    rng = np.random.default_rng(seed)
    atoms = rng.integers(-2, 3, size=(N, d)) + rng.permutation(np.linspace(-5, 5, N).round())[:, np.newaxis]
    atoms = 100 * atoms + rng.integers(-50, 51, size=(N, d))
    query = rng.integers(50, 350, size=d)
    query[rng.random(d) < 0.1] = 0
    return atoms.astype(np.float64), query.astype(np.float64)


def compiled_rule(name, n, k, absolute, unit):
    if name == "paired":
        return PairedRule(DELTA, n, k, absolute)
    if name == "bernstein":
        return BernsteinRule(DELTA, n, WIDTH * D * unit)
    return HoeffdingRule(DELTA, n, SIGMA * D * unit, True, name == "hoeffding_serfling")


def sizes_of(population):
    """Where the rounds of the default schedule end: 16 coordinates, then a quarter more each, up to 0.8 of them."""
    sizes, size = [], 16
    while size < 0.8 * population:
        sizes.append(size)
        size = max(size + 1, int(1.25 * size))
    return sizes


def run_both(name, cells, sampler, k, absolute, candidates):
    """The slow race and the compiled one."""
    unit = UNITS[cells.objective]
    rule = Rule(name, DELTA, candidates.size, k, absolute, SIGMA * D * unit, WIDTH * D * unit)
    slow = slow_race(cells, rule, sizes_of(sampler.population), candidates)
    costs = np.ones(D, dtype=np.int64) if cells.objective else (cells.query != 0.0).astype(np.int64)
    scores = ScoreMap(cells.factors, cells.offsets)
    problem = Problem(cells.query, cells.objective, scores, unit_costs=costs)
    reader = StoreReader(DenseStore(cells.atoms), problem)
    source = SampleSource(
        Survivors(candidates, candidates.size, k, absolute),
        None
        if cells.needed_scatter is None
        else SimpleNamespace(means=cells.centers, scatter=cells.needed_scatter / MIN_SCATTER_SEEN),
        problem,
        reader,
        sampler,
        Schedule(),
    )
    compiled = compiled_rule(name, candidates.size, k, absolute, unit)
    return slow, race(source, compiled, ReaderExact(reader), Limits(DELTA, traced=True))


def compare(slow, outcome, k, absolute):
    assert [(size, rows.size) for size, rows in slow.rounds] == [
        (entry.n_coordinates, entry.n_survivors) for entry in outcome.rounds
    ]
    np.testing.assert_array_equal(outcome.survivors, slow.rounds[-1][1])
    assert outcome.n_multiplies == slow.n_multiplies
    scores = np.abs(outcome.scores) if absolute else outcome.scores
    best = outcome.survivors[np.lexsort((outcome.survivors, -scores))[:k]]
    np.testing.assert_array_equal(best, slow.indices)


def checked_rounds(outcomes):
    """Rounds that dropped somebody, so that there was something to compare."""
    return sum(
        after.n_survivors < before.n_survivors
        for outcome in outcomes
        for before, after in zip(outcome.rounds, outcome.rounds[1:], strict=False)
    ) + sum(outcome.rounds[0].n_survivors < N for outcome in outcomes)


@every_k
@either_sign
@every_objective
@pytest.mark.parametrize("name", RULES)
def test_rounds_on_uniform_coordinates(name, objective, absolute, k):
    outcomes = []
    for seed in range(4):
        atoms, query = integers(seed)
        if objective:
            atoms *= 2.0 if name == "paired" else 1.0
        sampler = UniformSampler(D, seed, None)
        order = sampler.prefix(D).coordinates
        cells = SampledCells(atoms, query, uniform_sample(order, D), D, objective=objective)
        slow, outcome = run_both(name, cells, sampler, k, absolute, np.arange(N))
        compare(slow, outcome, k, absolute)
        outcomes.append(outcome)
    assert checked_rounds(outcomes) > 0


@every_k
@either_sign
@every_objective
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounds_on_cached_coordinates(dtype, objective, absolute, k):
    """One source for all queries, from rows of a cache; what it does not decide is handed over as it is."""
    n_cached, n_dropped = 150, 0
    atoms, _ = integers(0)
    schedule, sampler = LimitedSchedule(limit=n_cached, growth=1.5), UniformSampler(D, 5, None)
    order = sampler.prefix(D).coordinates
    facts = SimpleNamespace(means=atoms.mean(axis=1), scatter=D * atoms.var(axis=1))
    source = CachedSource(
        Survivors(None, N, k, absolute),
        facts,
        Problem(np.zeros(n_cached), objective),
        order[:n_cached],
        np.ascontiguousarray(atoms[:, order[:n_cached]], dtype=dtype),
        sampler,
        schedule,
    )
    rule = PairedRule(DELTA, N, k, absolute)
    for seed in range(4):
        _, query = integers(seed)
        source.look_at(query.astype(dtype))
        found = race(source, rule, Exact(), Limits(DELTA, traced=True), 0, lambda n_left: True)
        alive = Survivors(None, N, k, absolute)
        problem = Problem(query, objective)
        reader = StoreReader(DenseStore(atoms), problem)
        general = SampleSource(alive, facts, problem, reader, UniformSampler(D, 5, None), schedule)
        fresh = PairedRule(DELTA, N, k, absolute)
        expected = race(general, fresh, ReaderExact(reader), Limits(DELTA, traced=True), 0, lambda n_left: True)
        assert (found.stop_reason, found.handed_over) == (expected.stop_reason, expected.handed_over)
        assert (found.n_multiplies, found.n_rounds) == (expected.n_multiplies, expected.n_rounds)
        np.testing.assert_array_equal(found.survivors, expected.survivors)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-12)
        for one, other in zip(found.rounds, expected.rounds, strict=True):
            assert (one.n_coordinates, one.n_survivors) == (other.n_coordinates, other.n_survivors)
            np.testing.assert_allclose(one.upper, other.upper, rtol=1e-9)
        n_dropped += N - found.n_survivors
    assert n_dropped > 0


@every_k
@either_sign
@pytest.mark.parametrize("name", ["paired", "hoeffding", "bernstein"])
def test_rounds_with_replacement(name, absolute, k):
    outcomes = []
    for seed in range(3):
        atoms, query = integers(seed)
        sampler = ReplacementSampler(np.arange(D), np.ones(D), seed)
        order = sampler.prefix(D).coordinates
        cells = SampledCells(atoms, query, uniform_sample(order, D, True), D, with_replacement=True)
        slow, outcome = run_both(name, cells, sampler, k, absolute, np.arange(N))
        compare(slow, outcome, k, absolute)
        outcomes.append(outcome)
    assert checked_rounds(outcomes) > 0


@every_k
@either_sign
def test_rounds_on_weighted_coordinates(absolute, k):
    """The sample says how it speaks for all; what is made of it is the same."""
    outcomes = []
    for seed in range(3):
        atoms, query = integers(seed)
        support = np.flatnonzero(query)
        sampler = BottomKSampler(support, np.abs(query[support]), seed)
        cells = SampledCells(atoms, query, sampler.prefix, support.size)
        slow, outcome = run_both("paired", cells, sampler, k, absolute, np.arange(N))
        compare(slow, outcome, k, absolute)
        outcomes.append(outcome)
    assert checked_rounds(outcomes) > 0


@every_k
@either_sign
@pytest.mark.parametrize("name", RULES)
def test_a_mask_factors_and_what_is_known_already(name, absolute, k):
    """Some atoms take no part, each has a factor on its terms and a known part, and some must show their scatter."""
    outcomes = []
    for seed in range(4):
        rng = np.random.default_rng([seed, 1])
        atoms, query = integers(seed)
        candidates = np.flatnonzero(rng.random(N) < 0.8)
        factors, offsets = rng.choice([0.5, 1.0, 2.0], N), 3e6 * rng.integers(-4, 5, N)
        centers = atoms.mean(axis=1)
        scatter = ((atoms - centers[:, np.newaxis]) ** 2).sum(axis=1)
        needed = np.where(rng.random(N) < 0.5, np.nan, 0.95 * scatter)
        sampler = UniformSampler(D, seed, None)
        cells = SampledCells(
            atoms,
            query,
            uniform_sample(sampler.prefix(D).coordinates, D),
            D,
            factors=factors,
            offsets=offsets,
            centers=centers,
            needed_scatter=needed,
        )
        slow, outcome = run_both(name, cells, sampler, k, absolute, candidates)
        compare(slow, outcome, k, absolute)
        assert np.isin(outcome.survivors, candidates).all()
        outcomes.append(outcome)
    assert checked_rounds(outcomes) > 0


def test_cells_that_hold_much_of_a_difference():
    """Heavy tails, where the guard against single cells has a say."""
    finished = 0
    for seed in range(6):
        atoms, query = integers(seed)
        atoms[:, ::7] += 4e3 * np.random.default_rng(seed).integers(0, 2, size=atoms[:, ::7].shape)
        sampler = UniformSampler(D, seed, None)
        cells = SampledCells(atoms, query, uniform_sample(sampler.prefix(D).coordinates, D), D)
        slow, outcome = run_both("paired", cells, sampler, 1, False, np.arange(N))
        compare(slow, outcome, 1, False)
        finished += outcome.stop_reason is StopReason.FINISHED_EXACTLY
    assert finished > 0


@every_k
@either_sign
@pytest.mark.parametrize("n_bits", [1, 2, 3, 4])
def test_rounds_on_codes(n_bits, absolute, k):
    outcomes = []
    for seed in range(3):
        atoms, query = integers(seed, d=1_000)
        rotation = Rotation(1_000, seed)
        centre = atoms[: N // 2].mean(axis=0).round()
        codes = Codes(rotation, centre, N, rotation.width, n_bits)
        codes.encode(0, atoms)
        dither = make_dither(codes)
        cells = CodedCells(atoms, query, centre, rotation.rotated, dither, n_bits, rotation.rounding)
        sizes = codes.ends.tolist() + ([n_bits * rotation.width] if n_bits > 1 else [])
        slow = slow_race(cells, Rule("codes", DELTA, N, k, absolute), sizes, np.arange(N))
        source = CodeSource(Survivors(None, N, k, absolute), codes, query, dither, ScoreMap(), Times())
        exact = RowsExact(Rows([atoms]), query, 0, ScoreMap(), None, None)
        outcome = race(source, CodeRule(DELTA, N), exact, Limits(DELTA, traced=True))
        compare(slow, outcome, k, absolute)
        outcomes.append(outcome)
    assert checked_rounds(outcomes) > 0


def test_estimates_and_radii_on_codes_are_those_of_the_slow_race():
    atoms, query = integers(0, d=1_000)
    rotation = Rotation(1_000, 1)
    centre = atoms.mean(axis=0)
    codes = Codes(rotation, centre, N, rotation.width, 3)
    codes.encode(0, atoms)
    dither = make_dither(codes)
    cells = CodedCells(atoms, query, centre, rotation.rotated, dither, 3, rotation.rounding)
    alive = Survivors(None, N, 1, False)
    source = CodeSource(alive, codes, query, dither, ScoreMap(), Times())
    for size in [*codes.ends.tolist(), 3 * rotation.width]:
        source.advance(size)
        source.fill_radius(5.0, 1.0)
        radius = np.array([cells.radius(i, size, 5.0) for i in range(N)])
        np.testing.assert_allclose(alive.radius_array, radius, rtol=1e-3)
        expected = np.array([cells.estimate(i, size) for i in range(N)])
        np.testing.assert_allclose(alive.estimate_array, expected, rtol=1e-4, atol=1e-3 * radius.max())
