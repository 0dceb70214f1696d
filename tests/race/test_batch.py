"""Plain queries that come together."""

import numpy as np
import pytest

import banditmips as bm
from banditmips import StopReason
from banditmips._search_options import Options
from banditmips.race import batch, costs
from banditmips.race.code_search import race_times
from banditmips.race.costs import Costs


@pytest.fixture
def costs_of_a_server(monkeypatch):
    """Costs that do not depend on the machine."""
    monkeypatch.setattr(costs, "costs", lambda: Costs(own_product=0.06))
    for module in ("batch", "direct", "passes", "code_search", "query", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: Costs(own_product=0.06))


def planted(n=600, d=8_192, m=40, noise=1.0, seed=0):
    """Queries that are atoms with noise."""
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(n, d)).astype(np.float32)
    queries = atoms[rng.integers(0, n, m)] + noise * rng.normal(size=(m, d)).astype(np.float32)
    return atoms, queries.astype(np.float32)


def hopeless(n=3_000, d=2_048, m=40, seed=0):
    """Atoms that many are as good as each other."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)).astype(np.float32), rng.normal(size=(m, d)).astype(np.float32)


@pytest.mark.parametrize("data", [planted, hopeless])
@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_batch_finds_what_its_queries_find_alone(costs_of_a_server, data, k, fitted, order):
    atoms, queries = data()
    atoms = np.asarray(atoms, order=order)
    search = bm.BanditMIPS().fit(atoms).search if fitted else lambda q, k: bm.search(atoms, q, k)
    together, alone = search(queries, k=k), [search(query, k=k) for query in queries]
    np.testing.assert_array_equal(together.indices, [one.indices for one in alone])
    np.testing.assert_array_equal(together.scores, [one.scores for one in alone])
    assert together.exact.all()
    np.testing.assert_array_equal(together.lower, together.scores)
    truth = np.argsort(-(queries.astype(np.float64) @ atoms.T), axis=1)[:, :k]
    np.testing.assert_array_equal(together.indices, truth)


def test_every_query_that_gains_by_it_races(costs_of_a_server):
    atoms, queries = planted()
    result = bm.BanditMIPS().fit(atoms).search(queries)
    assert (result.n_rounds > 0).all()
    assert result.n_multiplies.max() < atoms.size / 2


def test_a_race_is_the_same_alone_and_in_a_batch(costs_of_a_server):
    atoms, queries = planted(m=19)
    index = bm.BanditMIPS().fit(atoms)
    together, alone = index.search(queries, n_jobs=3), [index.search(query) for query in queries]
    assert (together.n_rounds > 0).all()
    for name in ("indices", "scores", "lower", "upper", "n_multiplies", "n_rounds", "n_survivors", "delta_spent"):
        np.testing.assert_array_equal(getattr(together, name), [getattr(one, name) for one in alone], err_msg=name)


def test_races_in_vain_end_for_the_whole_batch(costs_of_a_server):
    """They may take a twentieth of what all products take, and it is asked again before they could take more."""
    atoms, queries = hopeless(m=64)
    result = bm.BanditMIPS().fit(atoms).search(queries, k=10)
    raced = np.flatnonzero(result.n_rounds > 0)
    assert raced.size <= 2 * batch.ASKED_TOGETHER
    np.testing.assert_array_equal(raced, np.arange(raced.size))
    assert set(result.stop_reason) == {StopReason.FINISHED_EXACTLY}
    # Each byte of an atom is multiplied, and each number of those that are left.
    assert result.n_survivors[-1] < 100
    assert result.n_multiplies[-1] == atoms.size + result.n_survivors[-1] * atoms.shape[1]


def test_an_account_of_races():
    """All products take 10 for each query that shares them, and one more that shares them takes 4."""
    account = batch.Account(10.0, 100, more_time=4.0)
    assert account.allows_more
    assert account.n_sharing == 100
    account.add(49.0, in_vain=True)
    assert account.allows_more  # a twentieth of 1,000
    account.add(0.0, in_vain=True)
    account.add(7.0, in_vain=False)
    assert not account.allows_more  # as long as most need the products, an answer without them saves 4
    assert account.n_sharing == 66
    account.add(7.0, in_vain=False)
    assert account.allows_more  # if those that wait race again, two answers save 20 of the 63 that were spent
    assert account.n_sharing == 50

    few_lost = batch.Account(10.0, 100, more_time=4.0)
    for _ in range(50):
        few_lost.add(9.0, in_vain=False)
    assert few_lost.allows_more
    assert few_lost.n_sharing == 1
    few_lost.add(9.0, in_vain=True)
    assert few_lost.allows_more
    for _ in range(50):
        few_lost.add(0.1, in_vain=True)
    assert not few_lost.allows_more


def test_races_are_measured_by_the_products_that_would_answer_instead(costs_of_a_server):
    """Where bytes are likely to, they take less than BLAS; they are not where entries are too large for them."""
    rng = np.random.default_rng(0)
    atoms, queries = (rng.normal(size=(size, 4_096)).astype(np.float32) for size in (2_000, 40))
    atom_set = bm.BanditMIPS().fit(atoms)._fitted
    times = race_times(atom_set, Options(), len(queries))
    by_bytes = batch.account_of(atom_set, queries, 100, Options(), times)
    other = batch.account_of(atom_set, queries, 100, Options(objective="neg_l1"), times)
    assert by_bytes._full_time < 0.8 * other._full_time
    assert by_bytes._more_time < other._more_time
    queries[:, 5] = 1e4
    spiked = batch.account_of(atom_set, queries, 100, Options(), times)
    assert spiked._full_time == other._full_time == times.full + 100 * times.row


def test_as_many_may_be_tried_as_could_all_come_to_nothing():
    account = batch.Account(10.0, 100, more_time=4.0)
    assert account.n_allowed == 2  # nobody knows what a race takes
    account.add(4.0, in_vain=True)
    account.add(2.0, in_vain=True)
    assert account.n_allowed == 6  # of a twentieth of 1,000, 44 are left, but after eight it is enough
    for _ in range(6):
        assert account.allows_more
        account.add(3.0, in_vain=True)
    assert account.n_allowed == 0


def test_as_many_may_be_tried_as_could_all_come_to_nothing_after_one_that_has_saved():
    account = batch.Account(10.0, 100, more_time=8.0)
    account.add(4.0, in_vain=True)
    account.add(2.0, in_vain=False)
    assert account.n_allowed == 17  # of a twentieth of 1,000 and half of 2 that were saved, for races that take 3
    account.add(60.0, in_vain=True)
    assert account.n_allowed == 0
    assert not account.are_long
    account.add(1e6, in_vain=True)
    assert account.are_long


def test_few_that_wait_race_again_with_what_their_products_would_really_take(costs_of_a_server):
    """One query for which the products that all share would be cheaper has to take them alone: then it races on."""
    atoms, queries = planted(m=40)
    rng = np.random.default_rng(5)
    queries[7] = rng.normal(size=queries.shape[1])
    index = bm.BanditMIPS().fit(atoms)
    for batch_of in (index.search(queries, k=3), index.search(queries, k=3, epsilon=1e-9)):
        np.testing.assert_array_equal(batch_of.indices[7], index.search(queries[7], k=3).indices)
        np.testing.assert_array_equal(
            batch_of.indices, np.argsort(-(queries.astype(float) @ atoms.T.astype(float)), axis=1)[:, :3]
        )


def test_those_that_race_again_are_told_how_many_share():
    class One:
        waits, time_spent = True, 0.0

    begun, told = [One() for _ in range(10)], []
    for one in begun[3:]:
        one.waits = False

    def again(i, n_sharing):
        told.append((i, n_sharing))
        begun[i].waits = i == 1

    batch.race_again(begun, again, 10)
    assert told == [(0, 3), (1, 3), (2, 3), (1, 1)]
    told.clear()
    batch.race_again(begun[:1] + begun[1:2], again, 1)  # it was told so before
    assert told == []


@pytest.mark.parametrize("data", [planted, hopeless])
def test_the_number_of_threads_changes_nothing(costs_of_a_server, data):
    atoms, queries = data()
    index = bm.BanditMIPS().fit(atoms)
    one, two = (index.search(queries, k=3, n_jobs=n_jobs) for n_jobs in (1, 2))
    for name in ("indices", "scores", "n_multiplies", "n_rounds", "n_survivors", "delta_spent"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name), err_msg=name)
    assert one.stop_reason == two.stop_reason


def test_one_query_that_is_not_plain(costs_of_a_server):
    """Numbers whose squares are too large are somebody else's work, and so is saying where a NaN is."""
    atoms, queries = planted(m=3)
    index = bm.BanditMIPS().fit(atoms)
    expected = index.search(queries)
    huge = queries.astype(np.float64)
    huge[1] *= 1e140
    np.testing.assert_array_equal(index.search(huge).indices, expected.indices)
    queries[2, 5] = np.nan
    with pytest.raises(ValueError, match="row 2, column 5"):
        index.search(queries)


def test_a_traced_batch_tells_of_the_same_races(costs_of_a_server):
    atoms, queries = planted(m=10)
    index = bm.BanditMIPS().fit(atoms)
    plain, traced = index.search(queries), index.search(queries, trace=True)
    np.testing.assert_array_equal(plain.n_multiplies, traced.n_multiplies)
    assert [len(trace.rounds) for trace in traced.trace] == plain.n_rounds.tolist()
