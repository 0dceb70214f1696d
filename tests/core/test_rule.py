"""The radii against their formulas, written out again here, how delta is divided, and when a race is settled.

A bound that is wrong by a factor passes every test of answers; these would not let it pass.
"""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import t as student

from banditmips.atoms import DenseStore
from banditmips.core.certain import ScoreMap
from banditmips.core.exact import ReaderExact
from banditmips.core.loop import Limits, race
from banditmips.core.records import StopReason
from banditmips.core.rule import BernsteinRule, HoeffdingRule, PairedRule, share_of_round
from banditmips.core.sample_source import SampleSource
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.readers import StoreReader
from banditmips.race.sampled import Problem
from banditmips.race.sampling import ReplacementSampler, UniformSampler
from banditmips.race.schedule import Schedule

N_ATOMS, D, SIZE = 7, 400, 60


def source_of(atoms, query, sampler, k=1, absolute=False, facts=None, scores=None):
    n = len(atoms)
    problem = Problem(query, PRODUCT, scores or ScoreMap())
    reader = StoreReader(DenseStore(atoms), problem)
    return SampleSource(Survivors(None, n, k, absolute), facts, problem, reader, sampler, Schedule())


def make_round(replacement=False, absolute=False, size=SIZE, seed=0, k=1, facts=None, scores=None, lift=0.0):
    """A source that has read `size` cells, and the terms there."""
    rng = np.random.default_rng(seed)
    atoms, query = rng.normal(size=(N_ATOMS, D)) + np.arange(N_ATOMS)[:, np.newaxis], lift + rng.normal(size=D)
    sampler = ReplacementSampler(np.arange(D), np.ones(D), 1) if replacement else UniformSampler(D, 1, None)
    source = source_of(atoms, query, sampler, k, absolute, facts, scores)
    source.advance(size)
    columns = sampler.prefix(size).coordinates
    return source, query[columns] * atoms[:, columns]


def radius_by(rule, source, number):
    """The radii that a rule fills in."""
    rule.fill_radius(source, number)
    return source.alive.radius_array.copy()


def share(delta, number):
    """One atom's share of delta in a round."""
    return delta * 6.0 / (np.pi * number) ** 2 / N_ATOMS


def test_the_shares_of_all_rounds_sum_to_one():
    shares = [share_of_round(number) for number in range(1, 200_001)]
    assert sum(shares) < 1.0
    assert sum(shares) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("number", [1, 3, 8])
def test_hoeffding(number):
    source, _ = make_round()
    radius = radius_by(HoeffdingRule(0.05, N_ATOMS, 3.0 * D, False, False), source, number)
    # P(|mean - mu| > r) <= 2 exp(-N r^2 / (2 sigma^2)), set equal to the share, for the sum over D coordinates.
    expected = D * 3.0 * np.sqrt(2.0 / SIZE * np.log(2.0 / share(0.05, number)))
    np.testing.assert_allclose(radius, expected)


def test_hoeffding_with_an_estimated_sigma():
    """The largest sample deviation of the first round that is judged, kept for the rounds after it."""
    source, terms = make_round()
    rule = HoeffdingRule(0.05, N_ATOMS, None, False, False)
    sigma = D * terms.std(axis=1, ddof=1).max()
    for number, size in ((1, SIZE), (2, 90)):
        source.advance(size)
        expected = sigma * np.sqrt(2.0 / size * np.log(2.0 / share(0.05, number)))
        np.testing.assert_allclose(radius_by(rule, source, number), expected)


@pytest.mark.parametrize(
    ("size", "rho"), [(60, 1 - 59 / 400), (200, 1 - 199 / 400), (300, (1 - 300 / 400) * (1 + 1 / 300))]
)
def test_hoeffding_serfling(size, rho):
    source, _ = make_round(size=size)
    low, high = -2.0, 4.0  # of one term; (high - low)/2 is its sub-Gaussian parameter
    rule = HoeffdingRule(0.05, N_ATOMS, D * (high - low) / 2, False, True)
    one_side = share(0.05, 3) / 2.0
    expected = D * (high - low) * np.sqrt(rho * np.log(1.0 / one_side) / (2.0 * size))
    np.testing.assert_allclose(radius_by(rule, source, 3), expected)


def test_bernstein_with_replacement():
    source, terms = make_round(replacement=True)
    radius = radius_by(BernsteinRule(0.05, N_ATOMS, 5.0 * D), source, 3)
    log_term = np.log(3.0 / share(0.05, 3))
    expected = D * (np.sqrt(2.0 * terms.var(axis=1) * log_term / SIZE) + 3.0 * 5.0 * log_term / SIZE)
    np.testing.assert_allclose(radius, expected)


def test_bernstein_without_replacement():
    source, terms = make_round()
    radius = radius_by(BernsteinRule(0.05, N_ATOMS, 5.0 * D), source, 3)
    log_term = np.log(5.0 / (share(0.05, 3) / 2.0))
    rho, kappa = 1.0 - (SIZE - 1) / D, 7.0 / 3.0 + 3.0 / np.sqrt(2.0)
    expected = D * (terms.std(axis=1) * np.sqrt(2.0 * rho * log_term / SIZE) + kappa * 5.0 * log_term / SIZE)
    np.testing.assert_allclose(radius, expected)


def test_paired_score_radius():
    size = 200
    source, terms = make_round(size=size, lift=3.0)
    radius = radius_by(PairedRule(0.05, N_ATOMS, 2, False), source, 3)
    z = student.isf(share(0.05, 3) / 2.0, size - 1)
    expected = z * D * terms.std(axis=1, ddof=1) * np.sqrt((1.0 - size / D) / size)
    np.testing.assert_allclose(radius, expected, rtol=1e-6)


def test_a_score_that_hangs_on_one_cell_has_no_interval():
    rng = np.random.default_rng(0)
    atoms, query = rng.uniform(1.0, 2.0, size=(N_ATOMS, D)), np.ones(D)
    sampler = UniformSampler(D, 1, None)
    atoms[2, sampler.prefix(100).coordinates[50]] = 100.0
    source = source_of(atoms, query, sampler)
    source.advance(100)
    rule = PairedRule(0.05, N_ATOMS, 1, False)
    assert np.isinf(radius_by(rule, source, 1)).tolist() == [False, False, True, False, False, False, False]
    atoms[:5, sampler.prefix(100).coordinates[50]] = 100.0
    source = source_of(atoms, query, sampler)
    source.advance(100)
    # Where most do, the others are believed to have missed what matters.
    assert np.isinf(radius_by(rule, source, 1)).all()


def test_a_score_has_no_interval_if_all_its_cells_are_the_same():
    """Entries that were not seen may be anything, whatever they have in common with each other."""
    rng = np.random.default_rng(0)
    atoms = rng.uniform(1.0, 2.0, size=(N_ATOMS, D))
    atoms[1], atoms[3] = 0.0, 0.1
    source = source_of(atoms, np.ones(D), UniformSampler(D, 1, None))
    source.advance(100)
    radius = radius_by(PairedRule(0.05, N_ATOMS, 1, False), source, 1)
    assert np.isinf(radius).tolist() == [False, True, False, True, False, False, False]


def test_a_score_has_no_interval_on_few_cells():
    source, _ = make_round(size=8, lift=3.0)
    assert np.isinf(radius_by(PairedRule(0.05, N_ATOMS, 1, False), source, 1)).all()


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 2, 3])
def test_paired_drops_what_loses_to_all_k_leaders(k, absolute):
    n_beaten = 0
    for seed in range(20):
        source, terms = make_round(absolute=absolute, seed=seed, size=40, k=k, lift=0.8)
        estimates = source.alive.estimate_array
        scores = np.abs(estimates) if absolute else estimates
        leaders = np.argsort(-scores)[:k]
        tail = 0.05 * 6.0 / (np.pi * 3) ** 2 / (k * (N_ATOMS - k) * (2 if absolute else 1))
        z = student.isf(tail, 39)
        expected = np.zeros(N_ATOMS, dtype=bool)
        for i in set(range(N_ATOMS)) - set(leaders.tolist()):
            expected[i] = True
            for leader in leaders:
                turned = np.sign(estimates[leader]) if absolute else 1.0
                for sign in (1.0, -1.0) if absolute else (1.0,):
                    difference = turned * terms[leader] - sign * terms[i]
                    error = difference.std(ddof=1) * np.sqrt((1.0 - 40 / D) / 40)
                    squares = np.array([(difference - difference.mean()) ** 2, difference**2])
                    share = (squares.max(axis=1) / squares.sum(axis=1)).max()
                    one_cell = share > max(2.0 / np.log(1.0 / tail), 2.0 / 40)
                    expected[i] &= difference.mean() > z * error and not one_cell
        count = PairedRule(0.05, N_ATOMS, k, absolute).judge_round(source, 3)
        np.testing.assert_array_equal(source.alive.beaten_array.astype(bool), expected)
        assert count == expected.sum()
        n_beaten += count
    assert n_beaten > 0


def test_paired_drops_nobody_on_fewer_cells_than_its_tail_asks_for():
    """With a tail probability p, 2 log(1/p) cells are the least, if that is not half of all."""
    for seed in range(5):
        source, _ = make_round(seed=seed, size=12, lift=0.8)
        rule = PairedRule(1e-4, N_ATOMS, 1, False)
        tail = 1e-4 * 6.0 / np.pi**2 / (N_ATOMS - 1)
        least = int(np.ceil(2.0 * np.log(1.0 / tail)))
        assert 12 < least < 60
        for size in range(12, least):
            source.advance(size)
            assert rule.judge_round(source, 1) == 0
        source.advance(D - 1)
        assert rule.judge_round(source, 1) > 0


def test_draws_that_come_again_are_no_half_of_all():
    """Of two coordinates, four draws may all be the same one: its spread of 0 says nothing."""
    atoms = np.array([[3.0, 5.0], [1.0, 2.0]])
    for seed in range(40):
        source = source_of(atoms, np.ones(2), ReplacementSampler(np.arange(2), np.ones(2), seed))
        source.advance(4)
        rule = PairedRule(1e-6, 2, 1, False)
        assert np.isinf(radius_by(rule, source, 1)).all()
        assert rule.judge_round(source, 1) == 0


def test_a_difference_that_hangs_on_one_cell_drops_nobody():
    """All cells but one agree on who is better, by far enough; the one holds nearly all of the variance."""
    rng = np.random.default_rng(0)
    atoms = np.arange(N_ATOMS, dtype=np.float64)[:, np.newaxis] + 0.01 * rng.normal(size=(N_ATOMS, D))
    query, sampler = np.ones(D), UniformSampler(D, 1, None)
    for spike, n_beaten in ((0.0, N_ATOMS - 1), (0.5, 0)):
        atoms[-1, sampler.prefix(SIZE).coordinates[5]] += spike
        source = source_of(atoms, query, sampler)
        source.advance(SIZE)
        difference = (atoms[-1] - atoms[-2])[sampler.prefix(SIZE).coordinates]
        assert difference.mean() > 10.0 * difference.std() / np.sqrt(SIZE)
        assert PairedRule(0.05, N_ATOMS, 1, False).judge_round(source, 3) == n_beaten


def test_paired_with_a_part_of_the_scores_known():
    """What is known moves the estimates and not the variances, and a difference varies at least as it is told."""
    source, terms = make_round(seed=34)
    rule = PairedRule(0.05, N_ATOMS, 1, False)
    leader = int(np.argmax(source.alive.estimate_array))
    rule.judge_round(source, 3)
    plain = source.alive.beaten_array.astype(bool)
    assert plain.sum() == N_ATOMS - 2
    spared = next(i for i in range(N_ATOMS) if i != leader and not plain[i])
    # What is known of the leader alone: enough to beat the one that is spared, or not quite.
    z = student.isf(0.05 / (N_ATOMS - 1) * 6.0 / (np.pi * 3) ** 2, SIZE - 1)
    difference = terms[leader] - terms[spared]
    error = D * difference.std(ddof=1) * np.sqrt((1.0 - SIZE / D) / SIZE)
    missing = z * error - D * difference.mean()
    at_leader = np.arange(N_ATOMS) == leader
    for factor in (0.999, 1.001):
        known = ScoreMap(offsets=np.where(at_leader, factor * missing, 0.0))
        ahead, _ = make_round(seed=34, scores=known)
        rule.judge_round(ahead, 3)
        assert ahead.alive.beaten_array[spared] == (factor > 1.0)


def test_an_atom_that_was_not_seen_fairly_neither_drops_nor_is_dropped():
    source, _ = make_round(seed=3, lift=0.8)
    rule = PairedRule(0.05, N_ATOMS, 1, False)
    assert rule.judge_round(source, 3) > 1
    dropped = int(np.flatnonzero(source.alive.beaten_array)[0])
    for shy in (dropped, int(np.argmax(source.alive.estimate_array))):
        facts = SimpleNamespace(means=np.zeros(N_ATOMS), scatter=np.full(N_ATOMS, np.nan))
        facts.scatter[shy] = np.inf
        guarded, _ = make_round(seed=3, facts=facts, lift=0.8)
        rule.judge_round(guarded, 3)
        assert not guarded.alive.beaten_array[shy]
        assert guarded.alive.radius_array[shy] == np.inf


# --- epsilon ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 5])
def test_equal_estimates_settle_nothing(k):
    """A sample that has seen nothing but zeros says the same of all atoms, and that is not to be within epsilon."""
    atoms = np.zeros((20, 2_000))
    sampler = UniformSampler(2_000, 0, None)
    unseen = sampler.prefix(2_000).coordinates[1_900]
    atoms[7:12, unseen] = 1_000.0
    query = np.ones(2_000)
    rule = HoeffdingRule(0.01, 20, 500.0 * 2_000, False, False)
    source = source_of(atoms, query, sampler, k)
    reader = StoreReader(DenseStore(atoms), Problem(query, PRODUCT))
    outcome = race(source, rule, ReaderExact(reader), Limits(0.01, epsilon=10.0))
    assert outcome.stop_reason is not StopReason.EPSILON
    best = outcome.survivors[np.argsort(-outcome.scores, kind="stable")[:k]]
    assert np.isin(best, range(7, 12)).all()


@pytest.mark.parametrize(
    "rule_of",
    [lambda k: HoeffdingRule(0.05, 12, 3.0 * D, False, False), lambda k: PairedRule(0.05, 12, k, False)],
    ids=["hoeffding", "paired"],
)
@pytest.mark.parametrize("k", [1, 3])
def test_epsilon_is_what_a_leader_may_be_behind(rule_of, k):
    """The race stops once nobody can be more than epsilon above a leader, and never before."""
    settled = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        atoms, query = rng.normal(size=(12, D)) + 0.1 * rng.normal(size=(12, 1)), np.ones(D)
        for epsilon in (1.0, 60.0, 300.0, 1_500.0):
            source = source_of(atoms, query, UniformSampler(D, seed, None), k)
            reader = StoreReader(DenseStore(atoms), Problem(query, PRODUCT))
            outcome = race(source, rule_of(k), ReaderExact(reader), Limits(0.05, epsilon=epsilon))
            scores = atoms @ query
            best = outcome.survivors[np.argsort(-outcome.scores, kind="stable")[:k]]
            assert scores[best].min() >= np.sort(scores)[-k] - epsilon
            settled += outcome.stop_reason is StopReason.EPSILON
    assert settled > 0
