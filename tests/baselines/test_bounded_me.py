"""BoundedME: its schedule, its published counts and what it promises."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from banditmips.baselines import BoundedME
from banditmips.baselines.bounded_me import elimination_schedule

SYNTHETIC_AND_NETFLIX = {
    449: 43_964,
    685: 66_386,
    1045: 99_728,
    1593: 148_701,
    2429: 219_399,
    3703: 319_207,
    5646: 455_974,
    8606: 636_943,
    13120: 867_401,
    19999: 1_149_801,
}
MOVIE_LENS = {
    449: 43_964,
    588: 57_154,
    768: 74_131,
    1004: 95_952,
    1312: 123_871,
    1714: 159_253,
    2240: 203_768,
    2928: 259_575,
    3826: 328_376,
    5000: 412_312,
}
# Published: multiplies at n = 100, by d. The accuracies beside them are multiples of 1/150, from 30 queries: the
# first two comparisons are for k = 5.
COMPARISON = [
    pytest.param(SYNTHETIC_AND_NETFLIX, 5, 0.1, id="NORMAL_CUSTOM and Netflix"),
    pytest.param(MOVIE_LENS, 5, 0.1, id="MovieLens"),
    pytest.param({d: 100 * (d - 1) for d in range(1000, 10_001, 1000)}, 1, 0.001, id="CORRELATED_NORMAL_CUSTOM"),
]

# Published: multiplies at n = 1,000 of the trade-off figures, by (d, k), for 24 values each of epsilon (1e-10 to 3)
# and delta (1e-10 to 0.99) in geometric steps; the smaller settings all come to n * (d - 1).
TRADE_OFF = {
    (10_000, 1): [9_998_000, 9_991_125, 9_924_936, 9_354_422, 6_281_987, 1_955_499, 357_691, 48_635],
    (10_000, 5): [9_998_000, 9_991_145, 9_925_221, 9_357_053, 6_297_221, 1_987_933, 389_553, 61_554],
    (10_000, 10): [9_998_000, 9_991_172, 9_925_587, 9_360_360, 6_316_802, 2_025_399, 427_415, 77_346],
    (5_000, 1): [4_999_000, 4_997_500, 4_980_438, 4_831_348, 3_805_837, 1_497_970, 306_896, 45_162],
    (5_000, 5): [4_999_000, 4_997_502, 4_980_498, 4_832_024, 3_810_865, 1_512_283, 323_987, 54_889],
    (5_000, 10): [4_999_000, 4_997_505, 4_980_577, 4_832_888, 3_816_457, 1_529_594, 344_133, 66_835],
}


def multiplies(schedule):
    return sum(n_atoms * n_new for n_atoms, n_new in schedule)


@pytest.mark.parametrize(("published", "k", "error"), COMPARISON)
def test_published_counts_of_the_comparison(published, k, error):
    for d, expected in published.items():
        assert multiplies(elimination_schedule(100, d, k, epsilon=error, delta=error)) == expected, d


def test_a_search_performs_a_published_count():
    atoms = np.random.default_rng(0).normal(size=(100, 449))
    assert BoundedME(epsilon=0.1, delta=0.1).fit(atoms).search(atoms[0], k=5).n_multiplies == 43_964


@pytest.mark.parametrize(("d", "k"), TRADE_OFF)
def test_published_counts_of_the_trade_off(d, k):
    # The published runs raise both settings to 0.001 where they are smaller.
    epsilons = np.maximum(np.geomspace(1e-10, 3, 24), 1e-3)
    deltas = np.maximum(np.geomspace(1e-10, 0.99, 24), 1e-3)
    counts = [
        multiplies(elimination_schedule(1000, d, k, epsilon=epsilon, delta=delta))
        for epsilon, delta in zip(epsilons, deltas, strict=True)
    ]
    assert counts[-8:] == TRADE_OFF[d, k]
    assert set(counts[:-8]) == {1000 * (d - 1)}


def test_the_count_depends_on_nothing_but_sizes_and_settings():
    rng = np.random.default_rng(0)
    index = BoundedME(epsilon=2.0, delta=0.2)
    counts = {
        index.fit(scale * rng.normal(size=(60, 400))).search(rng.normal(size=400), k=3).n_multiplies
        for scale in (0.1, 1.0, 100.0)
    }
    assert counts == {multiplies(elimination_schedule(60, 400, 3, epsilon=2.0, delta=0.2))}


def slow_search(atoms, query, k, order, epsilon, delta, value_range):
    """Median elimination product by product, with every quantity of the paper under its own name."""
    n, d = atoms.shape
    survivors = list(range(n))
    sums = dict.fromkeys(survivors, 0.0)
    n_products, n_rounds = 0, 0
    t_previous = 0.0
    read = []
    while len(survivors) > k:
        n_rounds += 1
        eps_l, delta_l = epsilon / 4 * 0.75 ** (n_rounds - 1), delta / 2**n_rounds
        excess = len(survivors) - k
        u = 2 * (value_range / eps_l) ** 2 * math.log(2 * excess / (delta_l * (excess // 2 + 1)))
        t = min((u + 1) / (1 + u / d), (u + u / d) / (1 + u / d))
        fresh = list(order[len(read) : len(read) + int(t - t_previous)])
        t_previous = t
        read += fresh
        for i in survivors:
            for j in fresh:
                sums[i] += atoms[i, j] * query[j]
                n_products += 1
        survivors.sort(key=lambda i: (-sums[i], i))
        survivors = survivors[: len(survivors) - math.ceil(excess / 2)]
    return survivors, n_products, n_rounds, {i: d / len(read) * sums[i] for i in survivors}


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize(("epsilon", "delta", "value_range"), [(0.1, 0.1, 1.0), (2.0, 0.5, 1.0), (2.0, 0.01, 3.0)])
def test_counts_what_a_counting_version_counts(k, epsilon, delta, value_range):
    rng = np.random.default_rng(k)
    atoms, query = rng.integers(-3, 4, size=(30, 60)), rng.integers(-3, 4, size=60)
    index = BoundedME(epsilon=epsilon, delta=delta, value_range=value_range, seed=3).fit(atoms)
    result = index.search(query, k=k)
    order = np.random.default_rng(3).permutation(60)
    survivors, n_products, n_rounds, scores = slow_search(atoms, query, k, order, epsilon, delta, value_range)
    assert result.n_multiplies == n_products
    assert result.n_rounds == n_rounds
    assert result.indices.tolist() == survivors
    np.testing.assert_allclose(result.scores, [scores[i] for i in survivors], rtol=1e-12)


def test_epsilon_zero_reads_everything_once():
    rng = np.random.default_rng(5)
    atoms, queries = rng.normal(size=(80, 50)), rng.normal(size=(20, 50))
    result = BoundedME(epsilon=0.0).fit(atoms).search(queries, k=4)
    products = queries @ atoms.T
    np.testing.assert_array_equal(result.indices, np.argsort(-products, axis=1)[:, :4])
    np.testing.assert_allclose(result.scores, -np.sort(-products, axis=1)[:, :4], rtol=1e-12)
    assert result.exact.all()
    assert (result.n_multiplies == 80 * 50).all()


def test_rounds_never_read_more_than_there_is():
    for d in (1, 2, 3, 10, 1000):
        for epsilon in (0, 1e-12, 1e-6, 0.1, 1.0, 30.0, 1e6):
            for n, k in ((2, 1), (100, 1), (100, 99), (101, 7)):
                schedule = elimination_schedule(n, d, k, epsilon=epsilon, delta=0.1)
                sizes = [n_atoms for n_atoms, _ in schedule]
                assert 1 <= sum(n_new for _, n_new in schedule) <= d
                assert sizes[0] == n
                assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
                assert all(n_new >= 0 for _, n_new in schedule)


def test_a_larger_range_asks_for_more_coordinates():
    counts = [
        multiplies(elimination_schedule(100, 10_000, 1, epsilon=1.0, delta=0.1, value_range=value_range))
        for value_range in (0.5, 1.0, 2.0, 8.0)
    ]
    assert counts == sorted(set(counts))


def test_returned_atoms_are_nearly_best_as_promised():
    # 0/1 products lie in an interval of length 1, so that the guarantee holds; 60 trials may fail 6 times each.
    rng = np.random.default_rng(6)
    n, d, epsilon, delta = 50, 2000, 0.3, 0.1
    failures = 0
    for seed in range(60):
        atoms = (rng.random((n, d)) < rng.uniform(0.3, 0.7, size=(n, 1))).astype(np.float64)
        result = BoundedME(epsilon=epsilon, delta=delta, seed=seed).fit(atoms).search(np.ones(d))
        failures += atoms.sum(axis=1).max() - atoms[result.indices[0]].sum() > epsilon * d
    assert failures <= 60 * delta


def test_intervals_hold_the_scores():
    rng = np.random.default_rng(7)
    n, d = 40, 1000
    missed = 0
    for seed in range(50):
        atoms = rng.uniform(size=(n, d))
        result = BoundedME(epsilon=1.5, delta=0.1, seed=seed).fit(atoms).search(np.ones(d), k=5)
        truth = atoms[result.indices].sum(axis=1)
        missed += not ((result.lower <= truth) & (truth <= result.upper)).all()
        assert not result.exact.any()
        assert (result.upper - result.lower < d).all(), "an interval must say something"
    assert missed <= 50 * 0.1


def test_all_atoms_wanted_are_ranked_exactly():
    atoms = np.random.default_rng(8).normal(size=(6, 9))
    result = BoundedME(epsilon=5.0).fit(atoms).search(np.ones(9), k=8)
    assert result.exact.all()
    assert result.n_multiplies == 54
    np.testing.assert_array_equal(result.indices[:6], np.argsort(-atoms.sum(axis=1)))


def test_the_seed_decides_the_order_of_the_coordinates():
    rng = np.random.default_rng(9)
    atoms, query = rng.normal(size=(50, 300)), rng.normal(size=300)
    scores = {BoundedME(epsilon=3.0, seed=seed).fit(atoms).search(query).scores[0] for seed in range(5)}
    assert len(scores) == 5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epsilon": -0.1}, ValueError, "epsilon must be at least 0, but came as -0.1"),
        ({"epsilon": math.nan}, ValueError, "epsilon must be"),
        ({"epsilon": math.inf}, ValueError, "epsilon must be finite"),
        ({"delta": 0}, ValueError, "delta must be above 0, but came as 0.0"),
        ({"delta": 1.0}, ValueError, "delta must be below 1, but came as 1.0"),
        ({"value_range": 0.0}, ValueError, "value_range must be above 0"),
        ({"epsilon": "small"}, TypeError, "epsilon must be a real number, but came as 'small'"),
        ({"delta": True}, TypeError, "delta must be a real number, but came as True"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        BoundedME(**arguments)


def test_the_true_range_is_that_of_the_corners():
    rng = np.random.default_rng(0)
    atoms, query = rng.uniform(-1, 3, size=(50, 400)), rng.uniform(-2, 1, size=400)
    corners = np.multiply.outer([query.min(), query.max()], [atoms.min(), atoms.max()])
    length = corners.max() - corners.min()
    assert length >= (products := atoms * query).max() - products.min()
    auto = BoundedME(epsilon=0.5, value_range="auto").fit(atoms).search(query, k=3)
    told = BoundedME(epsilon=0.5, value_range=float(length)).fit(atoms).search(query, k=3)
    assert auto.n_multiplies == told.n_multiplies
    np.testing.assert_array_equal(auto.indices, told.indices)
    np.testing.assert_array_equal(auto.lower, told.lower)


def test_atoms_that_are_all_zero_have_a_range_of_no_length():
    result = BoundedME(value_range="auto").fit(np.zeros((5, 20))).search(np.ones(20))
    assert result.scores.tolist() == [0.0]


def test_another_word_than_auto_is_refused():
    with pytest.raises(TypeError, match="value_range must be a real number, but came as 'wide'"):
        BoundedME(value_range="wide")
