"""What races have come to is remembered, and those that never pay are seldom tried."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.race.code_search import code_search
from banditmips.race.costs import Costs
from banditmips.race.past import Past


def tried(past, saved, n_searches):
    """Which of so many searches try a race, if every race saves so much."""
    found = []
    for i in range(n_searches):
        if past.allows_races:
            found.append(i)
            past.add(saved)
        else:
            past.leave_out()
    return found


def test_races_in_vain_are_tried_ever_more_seldom():
    found = tried(Past(), -1.0, 1_000)
    assert found[:5] == [0, 1, 4, 9, 18]
    assert set(np.diff(found)[6:]) == {65}
    assert tried(Past(), 0.0, 5) == [0, 1, 4]


def test_races_that_save_time_are_always_tried():
    assert tried(Past(), 1.0, 100) == list(range(100))


def test_a_race_that_saves_time_is_followed_by_others():
    past = Past()
    tried(past, -1.0, 30)
    while not past.allows_races:
        past.leave_out()
    past.add(1e-3)
    assert tried(past, -1.0, 4) == [0, 1]


def test_many_in_vain_are_no_reason_where_others_save_more():
    past = Past()
    past.add(100.0)
    for _ in range(10):
        past.add(-1.0)
        assert past.allows_races
    for _ in range(30):
        past.add(-3.0)
    assert not past.allows_races


def test_searches_that_certain_bounds_have_answered_are_no_reason_to_do_without():
    past = Past()
    past.add_certain(3, 10.0)
    one_by_one = Past()
    for _ in range(3):
        one_by_one.add(10.0)
    assert past._saved == pytest.approx(one_by_one._saved)
    past.add(-1.0)
    past.add(-1.0)
    assert past.allows_races
    assert tried(past, -1.0, 60)[-1] < 59
    while not past.allows_races:
        past.leave_out()
    past.add_certain(1, 10.0)
    assert tried(past, -1.0, 4) == [0, 1, 2, 3]


def test_an_index_whose_races_are_left_out_asks_no_certain_bounds_either():
    """Bounds that settle nothing take a good part of the products of short atoms; those that do are asked again."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(4_000, 2_000)).astype(np.float32)
    atoms[:5] *= 100.0
    index, query = bm.BanditMIPS().fit(atoms), atoms[2] + rng.normal(size=2_000).astype(np.float32)
    past = code_search(index._atom_set, 1, index._parameters.options).past()
    assert index.search(query).indices[0] == 2
    (kind,) = index._atom_set.prepared["plain"]
    if not hasattr(kind, "past"):
        pytest.skip("all products take less time here than any race")
    for _ in range(6):
        found = index.search(query)
        assert found.indices[0] == 2
        assert found.n_multiplies != atoms.size  # a race, or bounds that were enough
    past.add(-1e12)
    past.add(-1e12)
    for n_left_out in (2, 1):
        assert past.n_left_out == n_left_out
        found = index.search(query)
        assert found.indices[0] == 2
        assert found.n_multiplies == found.n_survivors * 2_000 == atoms.size
    assert index.search(query).n_multiplies != atoms.size


@pytest.mark.parametrize("objective", ["inner_product", "cosine"])
def test_an_index_learns_that_races_do_not_pay_and_answers_alike(objective):
    """Nothing stands out, so that every race comes to nothing; answers do not depend on whether there was one."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(3_000, 3_000)).astype(np.float32)
    queries = rng.normal(size=(12, 3_000)).astype(np.float32)
    index = bm.BanditMIPS(objective=objective).fit(atoms)
    scores = queries.astype(float) @ atoms.T.astype(float)
    if objective == "cosine":
        scores /= np.linalg.norm(atoms.astype(float), axis=1)
    options = index._parameters.options
    past = code_search(index._atom_set, 3, options).past()
    for row, wanted in zip(queries, scores, strict=True):
        np.testing.assert_array_equal(index.search(row, k=3).indices, np.argsort(-wanted)[:3])
    past.add(-1e12)
    past.add(-1e12)
    assert not past.allows_races
    before = past.n_left_out
    found = index.search(queries[0], k=3)
    assert found.n_rounds == 0
    np.testing.assert_array_equal(found.indices, np.argsort(-scores[0])[:3])
    assert past.n_left_out < before


@pytest.mark.parametrize("shape", [(300, 2_000), (3_000, 3_000)])
@pytest.mark.parametrize("objective", ["inner_product", "neg_sqeuclidean"])
def test_batches_do_without_races_for_a_while(monkeypatch, shape, objective):
    dear = Costs(
        product=1.0,
        own_product=1.0,
        shared=10.0,
        near_stream=1.0,
        stream=1.0,
        sweep=1.0,
        near_sweep=1.0,
        call_overhead=1.0,
    )
    for module in ("code_search", "query", "batch", "direct"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: dear)
    rng = np.random.default_rng(1)
    atoms, queries = rng.normal(size=shape).astype(np.float32), rng.normal(size=(8, shape[1])).astype(np.float32)
    index = bm.BanditMIPS(objective=objective).fit(atoms)
    past = code_search(index._atom_set, 2, index._parameters.options).past(8)
    first = index.search(queries, k=2)
    assert first.n_rounds.any()
    past.add(-1e12)
    past.add(-1e12)
    n_before = past.n_left_out
    assert n_before > 0
    for _ in range(n_before):
        found = index.search(queries, k=2)
        assert not found.n_rounds.any()
        np.testing.assert_array_equal(found.indices, first.indices)
        np.testing.assert_array_equal(found.scores, first.scores)
    assert past.allows_races
    assert all(kind.n_uses <= 0 for kind in index._atom_set.prepared.get("plain", ()))


def test_a_traced_search_or_one_for_multiplies_is_not_left_out():
    rng = np.random.default_rng(2)
    atoms, query = rng.normal(size=(400, 3_000)).astype(np.float32), rng.normal(size=3_000).astype(np.float32)
    index = bm.BanditMIPS(minimise="multiplies").fit(atoms)
    counts = {int(index.search(query).n_multiplies) for _ in range(6)}
    assert len(counts) == 1
