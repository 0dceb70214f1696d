"""Races over shards: the same answers as in one place, for about the same multiplies, at the same confidence."""

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.distributed import _exchange, _shard, _shard_query
from banditmips.distributed._messages import Duel, Play
from banditmips.race.rules import make_rule

SAMPLED = {"layout": "coordinates", "bound": "paired"}
"""What shards do, for an index in one place."""
CUTS = {1: [], 2: [130], 3: [3, 180], 5: [2, 9, 100, 230]}
"""One of three shards has 3 atoms, two of five have 2 and 7: fewer than some k."""


def ratings(n=300, d=2_000, m=4, seed=0):
    rng = np.random.default_rng(seed)
    movies, users = rng.normal(size=(n + m, 8)), 0.3 * rng.normal(size=(d, 8))
    table = 3.4 + 0.4 * rng.normal(size=(n + m, 1)) + 0.3 * rng.normal(size=d) + movies @ users.T
    table = np.clip(table, 0.0, 5.0)
    return table[:n], table[n:]


def normal_custom(n=300, d=2_000, m=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + rng.normal(size=(n, d)), rng.normal(size=(m, 1)) + rng.normal(size=(m, d))


def heavy_tails(n=300, d=2_000, m=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 1)) + rng.standard_t(3, size=(n, d)), 1.0 + rng.standard_t(2, size=(m, d))


def best(scores, k):
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


def assert_same_atoms(found, expected):
    """The order within an answer is promised only where the scores are exact."""
    assert (np.sort(found) == np.sort(expected)).all()


@pytest.mark.parametrize("rescore", [True, False])
@pytest.mark.parametrize(("make", "k"), [(ratings, 1), (normal_custom, 5), (heavy_tails, 5)])
def test_the_number_of_shards_does_not_matter(make_shards, make, k, rescore):
    atoms, queries = make()
    truth = queries @ atoms.T
    expected = best(truth, k)
    for cuts in CUTS.values():
        found = make_shards(atoms, cuts).search(queries, k, rescore=rescore)
        assert_same_atoms(found.indices, expected)
        assert found.exact.all() or not rescore
        assert (found.delta_spent <= 1e-3).all()
        if rescore:
            assert (found.indices == expected).all()
            np.testing.assert_allclose(found.scores, np.take_along_axis(truth, expected, axis=1), rtol=1e-12)
        else:
            exact = np.take_along_axis(truth, found.indices, axis=1)
            assert ((found.lower <= exact + 1e-9) & (exact <= found.upper + 1e-9)).all()


@pytest.mark.parametrize("rescore", [True, False])
@pytest.mark.parametrize(("make", "k"), [(ratings, 1), (ratings, 5), (normal_custom, 1), (heavy_tails, 3)])
def test_two_shards_take_about_the_multiplies_of_one_place(make_shards, make, k, rescore):
    atoms, queries = make(n=600, d=4_000, m=3)
    one = bm.BanditMIPS(rescore=rescore, minimise="multiplies", **SAMPLED).fit(atoms).search(queries, k)
    two = make_shards(atoms, [300]).search(queries, k, rescore=rescore)
    assert two.n_multiplies.sum() <= 1.5 * one.n_multiplies.sum()
    assert_same_atoms(two.indices, one.indices)


def test_one_shard_takes_the_multiplies_of_the_race_in_one_place(make_shards):
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(60, 1_500)), rng.normal(size=(2, 1_500))
    traced = bm.BanditMIPS(rescore=False, minimise="multiplies", **SAMPLED).fit(atoms).search(queries, 3)
    found = make_shards(atoms, []).search(queries, 3, rescore=False)
    assert (found.n_multiplies == traced.n_multiplies).all()
    assert (found.n_rounds == traced.n_rounds).all()
    assert (found.scores == traced.scores).all()
    assert (found.upper == traced.upper).all()


OPTIONS = [
    {"absolute": True},
    {"objective": "cosine"},
    {"objective": "neg_sqeuclidean"},
    {"objective": "neg_l1", "rescore": False},
    {"bound": "hoeffding"},
    {"bound": "hoeffding_serfling", "value_range": (-20.0, 20.0), "rescore": False},
    {"bound": "bernstein"},
    {"replacement": True},
    {"sampling": "weighted", "beta": 0.8},
    {"sampling": "uniform", "rescore": False},
    {"delta": 0.0},
    {"seed": 7},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_options_mean_what_they_mean_in_one_place(make_shards, options):
    atoms, queries = normal_custom(n=60, d=600, m=2, seed=3)
    queries -= 1.5  # some leading scores are negative
    seed = options.get("seed", 0)
    rest = {name: value for name, value in options.items() if name != "seed"}
    expected = bm.search(atoms, queries, 3, **{**rest, "delta": 0.0})
    found = make_shards(atoms, [2, 31], seed=seed).search(queries, 3, **rest)
    assert_same_atoms(found.indices, expected.indices)
    if found.exact.all():
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-10)


def test_the_seed_chooses_the_coordinates(make_shards):
    atoms, queries = normal_custom(m=1)
    counts = {int(make_shards(atoms, [100], seed=seed).search(queries[0]).n_multiplies) for seed in (0, 0, 1)}
    assert len(counts) == 2


@pytest.mark.parametrize("kind", ["float32", "float16", "int8", "sparse", "fortran", "no cache", "unchecked"])
def test_atoms_of_every_kind(make_shards, kind):
    rng = np.random.default_rng(1)
    atoms = rng.integers(-4, 5, size=(80, 500)).astype(np.float64)
    atoms[::7] *= rng.random(size=(12, 1)).round(1)
    queries = rng.integers(-4, 5, size=(2, 500)).astype(np.float64)
    settings = {"no cache": {"layout": "none"}, "unchecked": {"validate": False}}.get(kind, {})
    if kind in ("float32", "float16", "int8"):
        atoms = atoms.astype(kind)
    given = {"sparse": scipy.sparse.csr_array, "fortran": np.asfortranarray}.get(kind, np.asarray)(atoms)
    found = make_shards(given, [11, 40], **settings).search(queries, 4)
    truth = queries @ atoms.astype(np.float64).T
    np.testing.assert_allclose(found.scores, -np.sort(-truth)[:, :4])


def test_of_equal_atoms_the_first_is_found_wherever_it_lives(make_shards):
    atoms = np.random.default_rng(2).integers(-3, 4, size=(20, 400)).astype(float)
    atoms = np.concatenate([atoms, atoms, atoms])
    query = atoms[13]
    for cuts in ([], [20], [15, 40], [14, 33, 34, 53]):
        assert make_shards(atoms, cuts).search(query, 2).indices.tolist() == [13, 33]


def test_fewer_candidates_than_k(make_shards):
    atoms, queries = normal_custom(n=7, d=200, m=2)
    for rescore in (True, False):
        found = make_shards(atoms, [1, 4]).search(queries, 9, rescore=rescore)
        assert (np.sort(found.indices) == [-1, -1, 0, 1, 2, 3, 4, 5, 6]).all()
        assert (found.scores[:, 7:] == -np.inf).all()


def test_a_mask_reaches_over_shards(make_shards):
    atoms, queries = ratings(n=100, d=800, m=3)
    truth = queries @ atoms.T
    shards = make_shards(atoms, [20, 50])
    one_for_all = np.zeros(100, dtype=bool)
    one_for_all[best(truth, 2)[0]] = True
    one_for_all[:20] = True  # nothing is left of the first shard
    each = np.array([truth[0] > np.median(truth[0]), np.ones(100, dtype=bool), one_for_all])
    for mask in (one_for_all, each):
        found = shards.search(queries, 2, mask=mask)
        allowed = np.where(np.broadcast_to(mask, truth.shape), -np.inf, truth)
        expected = np.where(np.isneginf(-np.sort(-allowed)[:, :2]), -1, best(allowed, 2))
        assert (found.indices == expected).all()
    assert found.n_multiplies[1] == 0


def test_a_query_of_zeros(make_shards):
    atoms, _ = ratings(n=12, d=50)
    found = make_shards(atoms, [5]).search(np.zeros(50), 3)
    assert found.indices.tolist() == [0, 1, 2]
    assert found.scores.tolist() == [0.0, 0.0, 0.0]
    assert found.stop_reason is bm.StopReason.EXHAUSTED
    assert found.n_multiplies == 0


def test_a_query_with_few_entries_is_sampled_whole(make_shards):
    atoms, queries = ratings(n=40, d=300, m=1)
    query = np.where(np.arange(300) < 9, queries[0], 0.0)
    found = make_shards(atoms, [10]).search(query, 2)
    assert found.stop_reason is bm.StopReason.EXHAUSTED
    assert (found.indices == best((atoms @ query)[np.newaxis], 2)[0]).all()
    assert found.n_multiplies == 40 * 9
    assert found.delta_spent == 0.0


def test_a_batch_gives_what_each_query_gives_alone(make_shards):
    atoms, queries = normal_custom(n=120, d=1_000, m=5)
    shards = make_shards(atoms, [50])
    together = shards.search(queries, 2)
    for row, query in enumerate(queries):
        alone = shards.search(query, 2)
        assert (alone.indices == together.indices[row]).all()
        assert alone.n_multiplies == together.n_multiplies[row]


def test_epsilon_stops_early_and_keeps_its_word(make_shards):
    atoms, queries = ratings(n=200, d=3_000, m=4)
    truth = queries @ atoms.T
    shards = make_shards(atoms, [30, 90])
    epsilon = 0.02 * truth.max()
    strict, loose = (shards.search(queries, 3, epsilon=e, rescore=False) for e in (0.0, epsilon))
    assert loose.n_multiplies.sum() < strict.n_multiplies.sum()
    assert bm.StopReason.EPSILON in loose.stop_reason
    returned = np.take_along_axis(truth, loose.indices, axis=1)
    assert (returned.min(axis=1) >= np.sort(truth)[:, -3] - epsilon).all()


def test_delta_is_split_over_the_candidates_of_all_shards(make_shards, monkeypatch):
    atoms, queries = ratings(n=90, d=1_000, m=1)
    split_over = []

    def spy(options, sampler, query, known_range, delta, n_candidates, k):
        split_over.append((delta, n_candidates, k))
        return make_rule(options, sampler, query, known_range, delta, n_candidates, k)

    monkeypatch.setattr(_shard_query, "make_rule", spy)
    mask = np.arange(90) % 9 == 0
    make_shards(atoms, [10, 50]).search(queries[0], 2, mask=mask, delta=0.01)
    assert len(split_over) > 3  # several shards, and more than one exchange
    assert set(split_over) == {(0.01, 80, 2)}


def test_what_fit_knows_spares_other_shards_all_multiplies(make_shards):
    rng = np.random.default_rng(7)
    levels = np.concatenate([np.linspace(4.0, 5.0, 3), np.linspace(1.0, 2.0, 97)])
    atoms = levels[:, np.newaxis] + 0.2 * rng.normal(size=(100, 1_000))
    query = 3.0 + 0.5 * rng.normal(size=1_000)
    shards = make_shards(atoms, [3, 40])
    found = shards.search(query, 3)
    assert found.indices.tolist() == [2, 1, 0]
    assert (found.n_rounds, found.delta_spent, found.n_multiplies) == (0, 0.0, 3 * 1_000)
    # For one atom the three have to be told apart; the others are told that they need not play.
    assert shards.search(query, 1, rescore=False).n_multiplies <= 3 * 31
    unknown = make_shards(atoms, [3, 40], validate=False).search(query, 1, rescore=False)
    assert unknown.indices[0] == 2
    assert unknown.n_multiplies >= 100 * 16


def test_an_atom_that_can_just_reach_the_bar_plays(make_shards):
    # A constant atom's score is known exactly; that of an atom like the query is as large as its bound says.
    query = 2.0 + np.random.default_rng(8).normal(size=800)
    like_query = 1.0 + 0.1 * (query - query.mean())
    constant = np.full(800, like_query @ query / query.sum() * (1 - 1e-5))
    shards = make_shards(np.array([constant, 0.9 * constant, like_query, 0.8 * constant]), [2])
    for rescore in (True, False):
        assert shards.search(query, rescore=rescore).indices[0] == 2


def test_needles_are_found_on_any_shard(make_shards):
    data = bm.datasets.load("needle", n=50, d=4_000, seed=0)
    needle = data.params["atom"]
    for cuts in ([needle], [needle + 1], [10, 20, 30, 40]):
        assert make_shards(data.atoms, cuts).search(data.queries[0], rescore=False).indices[0] == needle


def orders_of(search, monkeypatch):
    """Run a search and return the kinds of orders that were given, and the search's result."""
    given = []
    take = _exchange.QueryRace.take

    def spy(race, reports):
        given.extend(race.orders.values())
        take(race, reports)

    monkeypatch.setattr(_exchange.QueryRace, "take", spy)
    return search(), given


def close_race(n_shards):
    """One atom far ahead, then on every shard one that is nearly as good as the best of the others."""
    rng = np.random.default_rng(4)
    query = rng.normal(size=5_000)
    atoms = rng.normal(size=(20 * n_shards, 5_000))
    atoms[::20] = query + 0.05 * rng.normal(size=(n_shards, 5_000))
    return atoms, query


def test_few_survivors_of_many_shards_are_brought_together(make_shards, monkeypatch):
    atoms, query = close_race(6)
    shards = make_shards(atoms, [20, 40, 60, 80, 100])
    found, orders = orders_of(lambda: shards.search(query, rescore=False), monkeypatch)
    assert any(isinstance(order, Duel) for order in orders)
    assert found.indices[0] == (atoms @ query).argmax()
    # The duel spares every other shard the leader's multiplies.
    monkeypatch.setattr(_exchange, "MAX_SHARED", 5_000)
    apart, orders = orders_of(lambda: shards.search(query, rescore=False), monkeypatch)
    assert not any(isinstance(order, Duel) for order in orders)
    assert apart.indices[0] == found.indices[0]
    assert found.n_multiplies < apart.n_multiplies


def test_what_may_not_be_moved_is_finished_exactly(make_shards, monkeypatch):
    atoms, query = close_race(3)
    monkeypatch.setattr(_exchange, "MAX_SHARED", 40)
    found, orders = orders_of(lambda: make_shards(atoms, [20, 40]).search(query, rescore=False), monkeypatch)
    assert found.stop_reason is bm.StopReason.FINISHED_EXACTLY
    assert found.exact.all()
    assert found.indices[0] == (atoms @ query).argmax()
    assert max(order.last_round for order in orders if isinstance(order, Play)) <= 5


@pytest.mark.parametrize("epsilon", [0.0, 50.0])
def test_a_large_shard_is_played_block_by_block(make_shards, monkeypatch, epsilon):
    atoms, queries = heavy_tails(n=300, d=2_000, m=3)
    shards = make_shards(atoms, [250])
    whole = shards.search(queries, 2, epsilon=epsilon)
    monkeypatch.setattr(_shard_query, "_MAX_VALUES", 1)
    monkeypatch.setattr(_shard_query, "_MIN_ROWS", 40)
    blocks = shards.search(queries, 2, epsilon=epsilon)
    assert (blocks.indices == whole.indices).all()
    # Until the first exchange a block knows no leaders but its own, and later every block plays with the guests.
    assert (blocks.n_multiplies != whole.n_multiplies).any()
    assert blocks.n_multiplies.sum() < 1.5 * whole.n_multiplies.sum()


def test_sparse_shards_count_what_is_stored(make_shards):
    rng = np.random.default_rng(6)
    atoms = scipy.sparse.random_array((400, 5_000), density=0.05, rng=rng, format="csc")
    atoms.data[:] = 1.0 + rng.normal(size=atoms.nnz)
    atoms = scipy.sparse.csc_array(atoms.multiply(0.5 + rng.random(size=(400, 1))))
    queries = 1.0 + rng.normal(size=(2, 5_000))
    truth = queries @ atoms.toarray().T
    shards = make_shards(atoms.tocsr(), [150])
    assert all(_shard.summarise(shard).too_sparse for shard in shards.shards)  # rows cannot be sampled by column
    found = shards.search(queries, 2)
    assert (found.indices == best(truth, 2)).all()
    assert (found.n_multiplies == atoms.nnz).all()
    assert set(found.stop_reason) == {bm.StopReason.FINISHED_EXACTLY}
    sampled = shards.search(queries, 2, rescore=False)
    assert_same_atoms(sampled.indices, best(truth, 2))
    assert (sampled.n_multiplies < 1.2 * atoms.nnz).all()


def test_no_message_grows_with_the_coordinates(make_shards):
    # Eight times the coordinates, all of them alike: as easy to tell apart, and no more to send.
    sent = {}
    for d in (4_000, 32_000):
        rng = np.random.default_rng(5)
        atoms = rng.permutation(60)[:, np.newaxis] / 20 + 0.1 * rng.normal(size=(60, d))
        shards = make_shards(atoms, [20, 40])
        shards.search(1.0 + 0.1 * rng.normal(size=d), 2, rescore=False)
        sent[d] = sum(work.bytes_exchanged for work in shards.last.works)
    assert sent[32_000] < 1.2 * sent[4_000]
