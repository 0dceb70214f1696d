"""Options that say how to sample, where nothing is sampled: certain bounds and rows, or all products as for others."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.race import few_rows, unsampled
from banditmips.race import query as race_query
from banditmips.race.code_search import code_search
from banditmips.race.costs import Costs
from banditmips.race.plan import SamplingPlan

HOW = [
    {"bound": "paired"},
    {"bound": "bernstein"},
    {"bound": "hoeffding"},
    {"bound": "hoeffding_serfling"},
    {"sampling": "uniform"},
    {"sampling": "weighted"},
    {"sampling": "optimal"},
    {"replacement": True},
]


def one_far_ahead(n=400, d=3_000, seed=0):
    """Atoms whose means tell most of them apart, and a query whose sum is far from 0."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(size=(n, 1))
    levels[7] = 6.0
    atoms = (levels + rng.normal(size=(n, d))).astype(np.float32)
    return atoms, (2.0 + rng.normal(size=d)).astype(np.float32)


@pytest.fixture
def no_sampling(monkeypatch):
    """Sampling never pays, trying bounds always does, whatever the machine."""
    monkeypatch.setattr(SamplingPlan, "can_pay", lambda self, first: False)
    monkeypatch.setattr(unsampled, "_may_try", lambda atoms, n_queries: True)
    for module in (unsampled, race_query, few_rows):
        monkeypatch.setattr(module, "costs", lambda: Costs(row=0.1, row_overhead=1.0, stream=0.2, near_stream=0.2))


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_certain_bounds_leave_few_rows(no_sampling, how, dtype, order):
    atoms, query = one_far_ahead()
    atoms = np.asarray((100.0 * atoms).astype(dtype), order=order)
    index = bm.BanditMIPS(**how).fit(atoms)
    scores = atoms.astype(np.longdouble) @ query.astype(np.longdouble)
    for k in (1, 3):
        found = index.search(query, k=k)
        np.testing.assert_array_equal(found.indices, np.argsort(-scores)[:k])
        np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][:k].astype(float), rtol=1e-12)
        assert found.exact.all()
        assert found.delta_spent == 0.0
        if order == "C":
            assert found.n_multiplies == found.n_survivors * 3_000 < atoms.size / 4
            assert found.stop_reason == ("finished_exactly" if found.n_survivors > k else "separated")


def test_of_those_that_may_win_few_are_read_once_the_best_is_known(no_sampling):
    """Bounds leave those whose ends cross; the exact score of the most promising leaves out most of these."""
    atoms, query = one_far_ahead()
    atoms[7] = atoms[8]
    index = bm.BanditMIPS(bound="bernstein").fit(atoms)
    query -= query.mean() - 0.75
    scores = atoms.astype(float) @ query
    alive = race_query.Query(index._atom_set, query, 1, index._parameters.options, None)._bounded()
    found = index.search(query)
    assert found.indices[0] == scores.argmax()
    assert 1 <= found.n_survivors < alive.n < 400


def test_a_budget_for_fewer_rows_is_kept(no_sampling):
    atoms, query = one_far_ahead()
    index = bm.BanditMIPS(bound="paired").fit(atoms)
    needed = index.search(query, k=3).n_multiplies
    assert needed < atoms.size
    for budget in (400, 3_000, needed - 1, needed, atoms.size):
        assert index.search(query, k=3, budget=budget).n_multiplies <= budget


def test_explain_says_so(no_sampling):
    atoms, query = one_far_ahead()
    text = bm.BanditMIPS(bound="bernstein").fit(atoms).explain(query)
    assert "of 400 atoms" in text
    assert "way: exact rows of these" in text


@pytest.mark.parametrize("how", [{}, *HOW], ids=str)
@pytest.mark.parametrize("layout", ["auto", "coordinates", "none"])
@pytest.mark.parametrize("m", [None, 1, 5])
def test_short_products_are_those_of_anybody_else(monkeypatch, how, layout, m):
    """An index goes the shortest way, with the same answers to the bit."""
    monkeypatch.setattr(unsampled, "_may_try", lambda atoms, n_queries: False)
    rng = np.random.default_rng(1)
    atoms = rng.normal(size=(90, 300)).astype(np.float32)
    queries = rng.normal(size=(300,) if m is None else (m, 300)).astype(np.float32)
    index = bm.BanditMIPS(layout=layout, **how).fit(atoms)
    wanted = bm.search(atoms, queries, k=4)
    for _ in range(3):
        found = index.search(queries, k=4)
        np.testing.assert_array_equal(found.indices, wanted.indices)
        np.testing.assert_array_equal(found.scores, wanted.scores)
        np.testing.assert_array_equal(found.n_multiplies, wanted.n_multiplies)
        assert found.checked
    if how:
        assert index._atom_set.once("all products", lambda: None).codes is None


@pytest.mark.parametrize("how", [how for how in HOW if how != {"sampling": "optimal"}], ids=str)
@pytest.mark.parametrize("m", [None, 5, 70])
def test_bare_arrays_likewise(how, m):
    rng = np.random.default_rng(1)
    atoms = rng.normal(size=(90, 300)).astype(np.float32)
    queries = rng.normal(size=(300,) if m is None else (m, 300)).astype(np.float32)
    if "bound" in how and how["bound"] != "paired":
        how = {**how, "value_range": (-9.0, 9.0)}
    wanted, found = bm.search(atoms, queries, k=4), bm.search(atoms, queries, k=4, **how)
    np.testing.assert_array_equal(found.indices, wanted.indices)
    np.testing.assert_array_equal(found.scores, wanted.scores)


def test_what_a_bound_needs_is_asked_for_all_the_same():
    atoms, query = np.ones((90, 300), dtype=np.float32), np.ones(300, dtype=np.float32)
    with pytest.raises(ValueError, match="needs to know the range"):
        bm.search(atoms, query, bound="bernstein")
    with pytest.raises(ValueError, match="column norms"):
        bm.search(atoms, query, sampling="optimal")
    with pytest.raises(ValueError, match="value_range is"):
        bm.BanditMIPS(bound="bernstein").fit(atoms).search(query, value_range=(2.0, 3.0))
    with pytest.raises(ValueError, match="bound='codes' is about codes"):
        bm.BanditMIPS(bound="codes").fit(atoms).search(query, sampling="uniform")


@pytest.mark.parametrize("how", [{"bound": "bernstein"}, {"bound": "hoeffding"}, {"sampling": "optimal"}], ids=str)
def test_all_products_need_to_know_nothing_unless_a_budget_forbids_them(how):
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(90, 300)), rng.normal(size=300)
    index = bm.BanditMIPS(validate=False, delta=0.0, **how).fit(atoms)
    best = (atoms @ query).argmax()
    assert bm.search(atoms, query, delta=0.0, **how).indices[0] == best
    assert index.search(query).indices[0] == best
    assert index.search(query, budget=90 * 300).indices[0] == best
    with pytest.raises(ValueError, match=r"needs to know the range|column norms"):
        index.search(query, budget=90 * 300 - 1)


def test_an_index_learns_that_neither_bounds_nor_samples_tell(no_sampling):
    """Nothing stands out: after two tries in vain the next two searches do without, then four, and so on."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(300, 500)).astype(np.float32)
    index, query = bm.BanditMIPS(bound="paired").fit(atoms), rng.normal(size=500).astype(np.float32)
    past = code_search(index._atom_set, 1, index._parameters.options).past(1)
    wanted, left_out = index.search(query), []
    for _ in range(12):
        left_out.append(past.n_left_out)
        found = index.search(query)
        assert found.indices[0] == wanted.indices[0]
        assert found.scores[0] == wanted.scores[0]
    assert left_out == [0, 2, 1, 0, 4, 3, 2, 1, 0, 8, 7, 6]


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "correlation", "neg_sqeuclidean"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i2", "i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_atoms_that_were_added_are_searched_in_one_call_like_others(objective, dtype, order):
    rng = np.random.default_rng(2)
    atoms = np.asarray((30.0 * rng.normal(size=(200, 130))).clip(-120, 120).astype(dtype), order=order)
    query = rng.normal(size=130).astype(np.float32)
    index = bm.BanditMIPS(objective=objective, layout="none").fit(atoms[:120]).add(atoms[120:150]).add(atoms[150:])
    whole = bm.BanditMIPS(objective=objective, layout="none").fit(atoms)
    mask = rng.random(200) < 0.2
    for out in (None, mask):
        for k in (1, 7):
            wanted = whole.search(query, k=k, mask=out)
            for _ in range(2):
                found = index.search(query, k=k, mask=out)
                np.testing.assert_array_equal(found.indices, wanted.indices)
                np.testing.assert_array_equal(found.scores, wanted.scores)
                assert found.n_multiplies == wanted.n_multiplies
    assert index._atom_set.prepared["plain"]
