"""Races over shards: the same answers as in one place, for about the same multiplies, at the same confidence."""

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.distributed import _shard_query, _tasks
from banditmips.distributed._messages import Exact, Play
from banditmips.race import query as race_query
from banditmips.race import together
from banditmips.race.costs import Costs

SAMPLED = {"layout": "coordinates"}
"""The paper's race, on coordinates as they are."""
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


def genotypes(n=300, d=2_000, m=4, seed=0):
    """Counts of rare letters, and queries that are children of two atoms, less what all have in common."""
    rng = np.random.default_rng(seed)
    frequency = rng.beta(0.5, 1.5, size=d)
    atoms = rng.binomial(2, frequency, size=(n, d)).astype(np.float32)
    parents = rng.integers(n, size=(m, 2))
    children = np.where(rng.random((m, d)) < 0.5, atoms[parents[:, 0]], atoms[parents[:, 1]])
    return atoms, children - 2.0 * frequency


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
@pytest.mark.parametrize(("make", "k"), [(ratings, 1), (ratings, 5), (genotypes, 1), (heavy_tails, 3)])
def test_two_shards_take_the_multiplies_of_one_place(make_shards, make, k, rescore):
    atoms, queries = make(n=600, d=4_000, m=96)  # shards have other codes: of few queries one may be lucky
    one = bm.BanditMIPS(rescore=rescore, minimise="multiplies").fit(atoms).search(queries, k)
    two = make_shards(atoms, [300]).search(queries, k, rescore=rescore, minimise="multiplies")
    assert two.n_multiplies.sum() <= 1.05 * one.n_multiplies.sum()
    assert_same_atoms(two.indices, one.indices)


@pytest.mark.parametrize(("make", "k"), [(ratings, 1), (normal_custom, 5), (heavy_tails, 3)])
def test_two_shards_of_coordinates_take_half_as_many_multiplies_more_at_most(make_shards, make, k):
    # They compare pairs of their own atoms only, so each of them has to find its own best.
    atoms, queries = make(n=1_500, d=4_000, m=3)
    one = bm.BanditMIPS(minimise="multiplies", **SAMPLED).fit(atoms).search(queries, k)
    two = make_shards(atoms, [300], **SAMPLED).search(queries, k, minimise="multiplies")
    assert two.n_multiplies.sum() <= 1.5 * one.n_multiplies.sum()
    assert_same_atoms(two.indices, one.indices)


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=str)
@pytest.mark.parametrize("options", [{}, {"minimise": "multiplies"}, {"epsilon": 30.0, "rescore": False}], ids=str)
def test_one_shard_does_what_an_index_does(make_shards, settings, options):
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(60, 1_500)), rng.normal(size=(2, 1_500))
    one = bm.BanditMIPS(**settings, **options).fit(atoms).search(queries, 3)
    found = make_shards(atoms, [], **settings).search(queries, 3, **options)
    for name in ("indices", "scores", "lower", "upper", "exact", "n_multiplies", "n_rounds", "n_survivors"):
        assert (getattr(found, name) == getattr(one, name)).all(), name
    assert found.stop_reason == one.stop_reason
    np.testing.assert_allclose(found.delta_spent, one.delta_spent)


OPTIONS = [
    {"absolute": True},
    {"objective": "cosine"},
    {"objective": "neg_sqeuclidean"},
    {"objective": "neg_l1", "rescore": False},
    {"bound": "hoeffding"},
    {"bound": "hoeffding_serfling", "value_range": (-20.0, 20.0), "rescore": False},
    {"bound": "bernstein"},
    {"bound": "hoeffding", "sigma": "estimate"},
    {"bound": "codes", "minimise": "multiplies"},
    {"objective": "correlation", "rescore": False},
    {"sampling": "optimal"},
    {"absolute": True, "minimise": "multiplies", "rescore": False},
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
    expected = bm.BanditMIPS(**{**rest, "delta": 0.0}).fit(atoms).search(queries, 3)
    found = make_shards(atoms, [2, 31], seed=seed).search(queries, 3, **rest)
    assert_same_atoms(found.indices, expected.indices)
    if found.exact.all():
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-10)


def test_the_seed_chooses_the_rotation(make_shards):
    atoms, queries = normal_custom(m=1)
    counts = {
        int(make_shards(atoms, [100], seed=seed).search(queries[0], minimise="multiplies").n_multiplies)
        for seed in (0, 0, 1)
    }
    assert len(counts) == 2


@pytest.mark.parametrize(
    "kind", ["float32", "float16", "int8", "sparse", "fortran", "nothing kept", "unchecked", "copied"]
)
def test_atoms_of_every_kind(make_shards, kind):
    rng = np.random.default_rng(1)
    atoms = rng.integers(-4, 5, size=(80, 500)).astype(np.float64)
    atoms[::7] *= rng.random(size=(12, 1)).round(1)
    queries = rng.integers(-4, 5, size=(2, 500)).astype(np.float64)
    settings = {"nothing kept": {"layout": "none"}, "unchecked": {"validate": False}, "copied": {"layout": "full"}}
    settings = settings.get(kind, {})
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
    assert found.n_multiplies == 0


def test_a_query_with_few_entries_takes_few_multiplies(make_shards):
    atoms, queries = ratings(n=40, d=300, m=1)
    query = np.where(np.arange(300) < 9, queries[0], 0.0)
    found = make_shards(atoms, [10], **SAMPLED).search(query, 2)
    assert (found.indices == best((atoms @ query)[np.newaxis], 2)[0]).all()
    assert found.n_multiplies <= 40 * 9


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
    options = {"rescore": False, "minimise": "multiplies"}
    strict, loose = (shards.search(queries, 3, epsilon=e, **options) for e in (0.0, epsilon))
    assert loose.n_multiplies.sum() < strict.n_multiplies.sum()
    assert bm.StopReason.EPSILON in loose.stop_reason
    returned = np.take_along_axis(truth, loose.indices, axis=1)
    assert (returned.min(axis=1) >= np.sort(truth)[:, -3] - epsilon).all()


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=str)
def test_delta_is_split_over_the_candidates_of_all_shards(make_shards, monkeypatch, settings):
    atoms, queries = genotypes(n=90, d=4_000, m=1)
    split_over = []

    def spy(make, place):
        def made(*arguments):
            split_over.append((arguments[place[0]], arguments[place[1]]))
            return make(*arguments)

        return made

    monkeypatch.setattr(_shard_query, "CodeRule", spy(_shard_query.CodeRule, (0, 1)))
    monkeypatch.setattr(race_query, "make_rule", spy(race_query.make_rule, (4, 5)))
    mask = np.arange(90) % 9 == 0
    make_shards(atoms, [10, 50], **settings).search(queries[0], 2, mask=mask, delta=0.01, minimise="multiplies")
    assert len(split_over) >= 3  # several shards
    assert set(split_over) == {(0.01, 80)}


def test_what_fit_knows_spares_other_shards_all_multiplies(make_shards):
    rng = np.random.default_rng(7)
    levels = np.concatenate([np.linspace(4.0, 5.0, 3), np.linspace(1.0, 2.0, 97)])
    atoms = levels[:, np.newaxis] + 0.2 * rng.normal(size=(100, 1_000))
    query = 3.0 + 0.5 * rng.normal(size=1_000)
    shards = make_shards(atoms, [3, 40])
    found = shards.search(query, 3, minimise="multiplies")
    assert found.indices.tolist() == [2, 1, 0]
    assert (found.n_rounds, found.delta_spent, found.n_multiplies) == (0, 0.0, 3 * 1_000)
    # For one atom the three have to be told apart; the others are told that they need not play.
    assert shards.search(query, 1, rescore=False, minimise="multiplies").n_multiplies <= 3 * 1_000
    unknown = make_shards(atoms, [3, 40], validate=False).search(query, 1, rescore=False, minimise="multiplies")
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


def orders_of(shards, *arguments, **options):
    """Search, and return what every shard was ordered, exchange by exchange, for the first query."""
    shards.search(*arguments, **options)
    return [[orders[0] for orders in of_shard if 0 in orders] for of_shard in shards.last._orders]


def test_a_search_for_time_takes_two_exchanges_if_leaders_are_cheap(make_shards):
    atoms, queries = genotypes(n=3_000, d=4_000, m=2)
    for given in orders_of(make_shards(atoms, [1_000, 2_000]), queries, 1):
        assert len(given) <= 2
        assert [type(order) for order in given if isinstance(order, Play)] == [Play] * len(given)
        assert given[0].leads  # next to nothing, beside the first cells of so many atoms
    few = orders_of(make_shards(atoms[:60], [20, 40]), queries, 1, rescore=False)
    assert not any(given[0].leads for given in few)


def test_the_leaders_raise_the_bar_for_everybody(make_shards):
    atoms, queries = genotypes(n=600, d=4_000, m=1)
    orders = orders_of(make_shards(atoms, [200, 400]), queries[0], 2, minimise="multiplies")
    bars = [[order.bar for order in given if isinstance(order, Play)] for given in orders]
    assert all(bar == sorted(bar) and bar[0] == -np.inf for bar in bars)
    asked = np.concatenate([order.rows for given in orders for order in given if isinstance(order, Exact)])
    second = np.sort(atoms @ queries[0])[-2]
    assert 0.0 < max(bar[-1] for bar in bars) <= second * (1 + 1e-9)
    assert {*best((atoms @ queries[0])[np.newaxis], 2)[0].tolist()} <= set(asked.tolist())


def test_whoever_remembers_nothing_plays_again_and_comes_to_the_same(make_shards, monkeypatch):
    atoms, queries = genotypes(n=200, d=4_000, m=3)
    shards = make_shards(atoms, [70])
    remembered = shards.search(queries, 2, minimise="multiplies")
    serve = _tasks.serve
    n_served = []

    def forgetful(*arguments):
        _tasks._standings.clear()
        n_served.append(len(arguments[-1]))
        return serve(*arguments)

    monkeypatch.setattr("banditmips.distributed._serving.serve", forgetful)
    forgotten = shards.search(queries, 2, minimise="multiplies")
    assert max(n_served) >= 4
    for name in ("indices", "scores", "n_multiplies", "n_rounds", "n_survivors"):
        assert (getattr(forgotten, name) == getattr(remembered, name)).all()


def test_nothing_is_remembered_of_a_search_that_is_over(make_shards):
    shards = make_shards(*[genotypes(n=50)[0], [20]])
    shards.search(genotypes(n=50)[1], 2)
    assert len(_tasks._standings) == 1  # that of the last search, which the fixture keeps
    shards.last = None
    assert len(_tasks._standings) == 0


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=str)
@pytest.mark.parametrize("rescore", [True, False])
def test_a_budget_is_kept_and_the_intervals_are_honest(make_shards, settings, rescore):
    atoms, queries = normal_custom(n=300, d=4_000, m=4)
    truth = queries @ atoms.T
    shards = make_shards(atoms, [40, 200], **settings)
    for budget in (300, 20_000, 200_000, 10**9):
        found = shards.search(queries, 3, budget=budget, rescore=rescore, minimise="multiplies")
        assert (found.n_multiplies <= budget).all()
        exact = np.take_along_axis(truth, found.indices, axis=1)
        assert ((found.lower <= exact + 1e-9) & (exact <= found.upper + 1e-9)).all()
        stopped = [reason is bm.StopReason.BUDGET for reason in found.stop_reason]
        assert all(stopped) if budget == 300 else not any(stopped) or budget < 10**9
    assert_same_atoms(found.indices, best(truth, 3))


def test_sparse_shards_count_what_is_stored(make_shards):
    rng = np.random.default_rng(6)
    atoms = scipy.sparse.random_array((400, 5_000), density=0.05, rng=rng, format="csc")
    atoms.data[:] = 1.0 + rng.normal(size=atoms.nnz)
    atoms = scipy.sparse.csc_array(atoms.multiply(0.5 + rng.random(size=(400, 1))))
    queries = 1.0 + rng.normal(size=(2, 5_000))
    truth = queries @ atoms.toarray().T
    shards = make_shards(atoms.tocsr(), [150])
    found = shards.search(queries, 2)
    assert (found.indices == best(truth, 2)).all()
    assert (found.n_multiplies == atoms.nnz).all()
    assert set(found.stop_reason) == {bm.StopReason.FINISHED_EXACTLY}


def test_no_message_grows_with_the_atoms_or_the_coordinates(make_shards):
    sent = {}
    for n, d in ((60, 4_000), (60, 32_000), (1_200, 4_000)):
        rng = np.random.default_rng(5)
        atoms = rng.permutation(n)[:, np.newaxis] / n + 0.1 * rng.normal(size=(n, d))
        shards = make_shards(atoms, [n // 3, 2 * n // 3])
        shards.search(1.0 + 0.1 * rng.normal(size=d), 2, rescore=False)
        exchanges = shards.last.n_exchanges
        sent[n, d] = sum(work.bytes_exchanged for work in shards.last.works) / exchanges
    assert max(sent.values()) < 4_000


def test_a_batch_for_which_codes_do_not_pay_goes_over_to_products(make_shards, monkeypatch):
    """As in one place: the first races in vain are a warning to the queries that follow, where waiting is free."""
    monkeypatch.setattr(_tasks, "_EXCHANGE_TIME", 0.0)
    atoms, queries = genotypes(n=800, d=20_000, m=40)
    one = bm.BanditMIPS().fit(atoms).search(queries.astype(np.float32), 10)
    assert (one.n_multiplies >= atoms.size).any()  # or there would be nothing to be warned of
    for cuts in ([], [400]):
        found = make_shards(atoms, cuts).search(queries.astype(np.float32), 10)
        assert_same_atoms(found.indices, one.indices)
        assert found.n_multiplies.sum() <= 1.05 * max(one.n_multiplies.sum(), atoms.size * len(queries))


def test_queries_are_put_off_until_the_first_have_shown_whether_races_pay(make_shards, monkeypatch):
    monkeypatch.setattr(_tasks, "_EXCHANGE_TIME", 0.0)
    dear = Costs(product=1.0, own_product=1.0, tile=1.0, shared=10.0)  # so that races are worth it
    for module in ("batch", "code_search", "query", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: dear)
    atoms, queries = genotypes(n=500, d=16_000, m=16)
    queries = queries.astype(np.float32)
    shards = make_shards(atoms, [250])
    found = shards.search(queries, 10)
    assert_same_atoms(found.indices, best(queries @ atoms.T, 10))
    raced = found.n_rounds > 0
    assert raced[: _tasks.ASKED_TOGETHER].all()
    assert not raced[_tasks.ASKED_TOGETHER :].any()
    # By products alone: those of bytes, or of BLAS, and exact scores of a few rows.
    assert ((found.n_multiplies[~raced] >= atoms.size) & (found.n_multiplies[~raced] < 1.1 * atoms.size)).all()
    assert shards.last.n_exchanges <= 5


def test_what_looks_bad_to_one_shard_alone_is_put_off_and_raced(make_shards, monkeypatch):
    """All parents live on the first shard: the second can tell nothing apart until it hears of them."""
    atoms, queries = genotypes(n=250, d=12_000, m=16)
    strangers = genotypes(n=250, d=12_000, seed=1)[0]
    everybody, queries = np.concatenate([atoms, strangers]), queries.astype(np.float32)
    shards = make_shards(everybody, [250])
    at_once = shards.search(queries)
    n_exchanges = shards.last.n_exchanges
    monkeypatch.setattr(_tasks, "_EXCHANGE_TIME", 0.0)
    put_off = shards.search(queries)
    assert n_exchanges < shards.last.n_exchanges <= 5
    for found in (at_once, put_off):
        assert_same_atoms(found.indices, best(queries @ everybody.T, 1))
    assert put_off.n_multiplies.sum() <= 1.01 * at_once.n_multiplies.sum()


def test_shards_round_to_bytes_what_races_do_not_settle(make_shards, monkeypatch):
    """Where that takes less time than BLAS: all of delta is spent then, split over the atoms of all shards."""
    dear = Costs(near_cell=Costs().cell, own_product=0.06)  # races are given up early
    for module in ("code_search", "query", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: dear)
    split = []
    close_by_bytes = together.close_by_bytes
    monkeypatch.setattr(
        together, "close_by_bytes", lambda *given: split.append(given[2].n_atoms) or close_by_bytes(*given)
    )
    rng = np.random.default_rng(0)
    atoms, queries = (rng.normal(size=(size, 2_100)).astype(np.float32) for size in (2_000, 32))
    for k, absolute in ((1, False), (5, True)):
        shards = make_shards(atoms, [900])
        result = shards.search(queries, k, absolute=absolute)
        alone = shards.search(queries[3], k, absolute=absolute)
        assert (result[3].scores == alone.scores).all()  # to the bit
        scores = queries.astype(float) @ atoms.T.astype(float)
        assert_same_atoms(result.indices, best(np.abs(scores) if absolute else scores, k))
        rounded = result.delta_spent == 1e-3
        assert rounded.mean() > 0.5
        assert (result.n_multiplies[rounded] > atoms.size).all()
        assert (result.n_multiplies[rounded] < 1.6 * atoms.size).all()
        assert result.exact.all()
    assert set(split) == {2_000}
