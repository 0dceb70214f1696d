"""Queries that come together and share their products: the same answers as alone, with nothing in Python for each."""

from dataclasses import replace

import numpy as np
import pytest

import banditmips as bm
from banditmips import StopReason
from banditmips._validate import Options
from banditmips.atoms import DenseStore
from banditmips.core.many_products import LANES
from banditmips.race import batch, costs
from banditmips.race import together as together_module
from banditmips.race.atom_set import AtomSet
from banditmips.race.costs import Costs
from banditmips.race.passes import pass_products
from banditmips.race.query import Query
from banditmips.race.situation import less_their_levels
from banditmips.race.together import Together

OBJECTIVES = ["inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1"]
DTYPES = ["f4", "f8", "f2", "i1", "u1", "?", "i4"]
FIELDS = ("indices", "scores", "lower", "upper", "exact", "n_multiplies", "n_rounds", "n_survivors", "delta_spent")


@pytest.fixture
def no_queries_alone(monkeypatch):
    """Refuse whatever is done for each query."""

    def refuse(*arguments, **named):
        raise AssertionError("a query was looked at alone")

    monkeypatch.setattr(Query, "__init__", refuse)


@pytest.fixture
def costs_of_a_server(monkeypatch):
    monkeypatch.setattr(costs, "costs", lambda: Costs(own_product=0.06))
    for module in ("batch", "direct", "passes", "code_search", "query", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: Costs(own_product=0.06))


def make(dtype="f4", n=70, d=300, m=20, seed=0):
    rng = np.random.default_rng(seed)
    values = 20.0 * rng.normal(size=(n, d)) + 60.0 * (dtype == "u1")
    atoms = values > 0.0 if dtype == "?" else values.clip(0.0 if dtype == "u1" else -120.0, 120.0).astype(dtype)
    return atoms, (20.0 * rng.normal(size=(m, d)) + 60.0 * (dtype == "u1")).astype("f8" if dtype == "f8" else "f4")


def search_of(atoms, fitted, **options):
    if fitted:
        return bm.BanditMIPS(**options).fit(atoms).search
    return lambda queries, k, **more: bm.search(atoms, queries, k, **options, **more)


def assert_as_alone(together, alone):
    for name in FIELDS:
        np.testing.assert_array_equal(getattr(together, name), [getattr(one, name) for one in alone], err_msg=name)
    assert together.stop_reason == tuple(one.stop_reason for one in alone)
    assert together.bytes_read.tolist() == [0] * len(alone)


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_batch_gives_what_its_queries_give_alone(objective, dtype, fitted):
    atoms, queries = make(dtype)
    search = search_of(atoms, fitted, objective=objective)
    rng = np.random.default_rng(1)
    masks = (None, rng.random(len(atoms)) < 0.3, rng.random((len(queries), len(atoms))) < 0.3)
    for k in (1, 7, len(atoms) + 2):
        for mask in masks:
            together = search(queries, k, mask=mask)
            alone = [
                search(query, k, mask=mask[i] if mask is not None and mask.ndim == 2 else mask)
                for i, query in enumerate(queries)
            ]
            assert_as_alone(together, alone)
    if not objective.startswith("neg_"):
        together = search(queries, 5, absolute=True)
        assert_as_alone(together, [search(query, 5, absolute=True) for query in queries])


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("dtype", ["f4", "f2", "i1"])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_nothing_is_done_for_each_query(no_queries_alone, objective, dtype, fitted):
    atoms, queries = make(dtype)
    search = search_of(atoms, fitted, objective=objective)
    for mask in (None, np.arange(len(atoms)) % 3 == 0):
        for some in (queries, queries.astype(np.float64), np.asfortranarray(queries)):
            result = search(some, 3, mask=mask)
            assert set(result.stop_reason) == {StopReason.FINISHED_EXACTLY}
            n_candidates = len(atoms) if mask is None else np.count_nonzero(~mask)
            assert (result.n_multiplies == n_candidates * atoms.shape[1]).all()
            assert (result.n_survivors == n_candidates).all()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("m", [2, 9, 64, 65, 130])
def test_any_number_of_queries(m, order):
    """By our own loops, by BLAS, and in several groups."""
    atoms, queries = make(m=m)
    atoms = np.asarray(atoms, order=order)
    for objective in OBJECTIVES:
        search = search_of(atoms, fitted=True, objective=objective)
        assert_as_alone(search(queries, 4), [search(query, 4) for query in queries])
        helped = search(queries, 4, n_jobs=2)
        np.testing.assert_array_equal(helped.scores, search(queries, 4).scores)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_queries_of_other_kinds_in_a_batch(objective):
    """Those with few entries, without any, and with numbers that are hard to square go their own way."""
    atoms, queries = make("f8")
    queries[3, 5:] = 0.0
    queries[8] *= 1e-170
    queries[9] *= 1e150
    if objective not in ("cosine", "correlation"):
        queries[15] = 0.0
    search = search_of(atoms, fitted=True, objective=objective)
    together, alone = search(queries, 3), [search(query, 3) for query in queries]
    assert_as_alone(together, alone)
    queries[12, 7] = np.inf
    with pytest.raises(ValueError, match="queries has inf at row 12, column 7"):
        search(queries, 3)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_an_atom_that_is_not_finite_is_named_unless_it_takes_no_part(objective):
    atoms, queries = make()
    expected = bm.search(atoms, queries, 3, objective=objective, mask=np.arange(70) == 40)
    atoms[40, 17] = np.nan
    with pytest.raises(ValueError, match="row 40, column 17"):
        bm.search(atoms, queries, 3, objective=objective)
    if objective not in ("cosine", "correlation"):  # norms are those of all atoms
        found = bm.search(atoms, queries, 3, objective=objective, mask=np.arange(70) == 40)
        np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_atoms_that_were_added_and_removed(objective):
    atoms, queries = make()
    index = bm.BanditMIPS(objective=objective).fit(atoms[:50]).add(atoms[50:])
    index.remove([3, 60])
    for mask in (None, np.arange(70) < 20):
        together = index.search(queries, 4, mask=mask)
        assert_as_alone(together, [index.search(query, 4, mask=mask) for query in queries])
        assert not np.isin(together.indices, [3, 60]).any()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_nobody_is_left(objective):
    atoms, queries = make()
    mask = np.zeros((20, 70), dtype=bool)
    mask[4], mask[5, 2:] = True, True
    result = bm.search(atoms, queries, 3, objective=objective, mask=mask)
    assert result.indices[4].tolist() == [-1, -1, -1]
    assert (result.scores[4] == -np.inf).all()
    assert sorted(result.indices[5]) == [-1, 0, 1]
    assert result.stop_reason[4] == StopReason.EXHAUSTED
    assert result.n_multiplies[4] == 0
    assert result.n_survivors[5] == 2
    everybody = bm.search(atoms, queries, 2, objective=objective, mask=np.ones(70, dtype=bool))
    assert (everybody.indices == -1).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_atoms_that_rounding_cannot_tell_apart(objective):
    rng = np.random.default_rng(2)
    base = 100.0 + rng.normal(size=2_000)
    atoms = np.repeat(base[np.newaxis], 90, axis=0).astype(np.float32)
    atoms[np.arange(90), rng.integers(0, 2_000, 90)] *= np.float32(1.0 + 1e-5)
    atoms[60:] = atoms[5]
    queries = base + 1e-2 * rng.normal(size=(12, 2_000))
    for fitted in (True, False):
        search = search_of(atoms, fitted, objective=objective, delta=0.0)
        assert_as_alone(search(queries, 4), [search(query, 4) for query in queries])


@pytest.mark.parametrize("objective", ["cosine", "correlation", "neg_sqeuclidean"])
def test_races_in_vain_end_for_the_whole_batch(costs_of_a_server, objective):
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(3_000, 4_096)).astype(np.float16), rng.normal(size=(64, 4_096))
    result = bm.BanditMIPS(objective=objective).fit(atoms).search(queries, k=10)
    raced = np.flatnonzero(result.n_rounds > 0)
    assert raced.size <= 2 * batch.ASKED_TOGETHER
    np.testing.assert_array_equal(raced, np.arange(raced.size))
    assert result.exact.all()


@pytest.mark.parametrize("objective", ["cosine", "neg_sqeuclidean"])
def test_races_that_pay_go_on(costs_of_a_server, objective):
    """So many atoms that products of bytes take longer than races, and all that is around these."""
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(2_400, 8_192)).astype(np.float32)
    queries = atoms[:40] + rng.normal(size=(40, 8_192)).astype(np.float32)
    result = bm.BanditMIPS(objective=objective).fit(atoms).search(queries)
    np.testing.assert_array_equal(result.indices[:, 0], np.arange(40))
    assert (result.n_multiplies < atoms.size / 2).all()


@pytest.mark.parametrize("fitted", [True, False])
def test_the_next_small_batch_of_the_same_kind(fitted):
    """It is answered in one call: by its own numbers, and with a result of its own."""
    atoms, queries = make(n=40, d=30)
    search = search_of(atoms, fitted)
    first = search(queries, 2)
    first_indices = first.indices.copy()
    others = queries[::-1].copy()
    second = search(others, 2)
    np.testing.assert_array_equal(second.indices, first_indices[::-1])
    for name in ("indices", "n_rounds", "n_survivors", "delta_spent", "bytes_read", "lower"):
        assert not np.shares_memory(getattr(first, name), getattr(second, name))
    np.testing.assert_array_equal(first.indices, first_indices)
    assert second.atoms_shape == (40, 30)
    assert second.seed == 0
    assert second.checked == fitted
    assert_as_alone(second, [search(query, 2) for query in others])
    others[4] = 0.0
    others[7] *= 1e30  # products that are too large for floats
    assert_as_alone(search(others, 2), [search(query, 2) for query in others])
    others[6, 3] = np.nan
    with pytest.raises(ValueError, match="row 6, column 3"):
        search(others, 2)


def test_when_our_own_loops_are_taken():
    here = Costs(product=0.02, shared=0.4, tile=0.06, own_product=1.0)
    assert here.tiles(10)
    assert not here.tiles(11)
    assert Costs(product=0.05, tile=0.05, own_product=1.0).tiles(1_000)
    here = replace(here, own_product=0.02)  # for as many as fit a vector, what 0.06 is for a third of them
    assert here.tiles(2)
    assert not here.tiles(LANES)


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("objective", ["cosine", "correlation", "neg_sqeuclidean"])
@pytest.mark.parametrize("scale", [1e-25, 1e-10, 1e18])
def test_norms_that_are_hard_to_square(objective, scale, fitted):
    """Some atoms are so short or long that their squares are no floats, and one is 0."""
    atoms, queries = make(n=40)
    atoms[::3] *= np.float32(scale)
    atoms[7] = 0.0
    queries[3] = atoms[9] / np.float32(scale)
    search = search_of(atoms, fitted, objective=objective)
    assert_as_alone(search(queries, 3), [search(query, 3) for query in queries])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_what_races_in_vain_took_is_told(n_jobs, monkeypatch):
    """Queries of a batch that race before they share their products count both, at any number of threads."""
    rng = np.random.default_rng(1)
    atoms = rng.normal(size=(400, 6_000)).astype(np.float32)
    queries = rng.normal(size=(24, 6_000)).astype(np.float32)
    mask = np.zeros(400, dtype=bool)
    mask[7] = True
    # Races are cheap by these costs, and then come to nothing.
    dear = Costs(
        product=1.0,
        own_product=1.0,
        tile=1.0,
        shared=10.0,
        near_stream=1.0,
        stream=1.0,
        sweep=1.0,
        near_sweep=1.0,
        call_overhead=1.0,
    )
    for module in ("code_search", "query", "batch", "direct", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: dear)
    found = bm.BanditMIPS(n_jobs=n_jobs).fit(atoms).search(queries, k=50, mask=mask)
    scores = queries.astype(float) @ atoms.T.astype(float)
    scores[:, 7] = -np.inf
    np.testing.assert_array_equal(np.sort(found.indices), np.sort(np.argsort(-scores, axis=1)[:, :50]))
    assert found.exact.all()
    raced = found.n_rounds > 0
    assert raced.any()
    finished = found.delta_spent == 0.0
    assert (found.n_multiplies[raced & finished] > 399 * 6_000).all()


def test_races_that_are_all_won_before_others_are_left_to_products(monkeypatch):
    """Nobody of those that share their products has raced before."""
    rng = np.random.default_rng(2)
    atoms = (rng.normal(size=(60, 1)) + rng.normal(size=(60, 4_500))).astype(np.float32)
    queries = (2.0 + rng.normal(size=(12, 4_500))).astype(np.float32)
    mask = np.zeros(60, dtype=bool)
    mask[7] = True
    dear = Costs(
        product=1.0,
        own_product=1.0,
        tile=1.0,
        shared=10.0,
        near_stream=1.0,
        stream=1.0,
        sweep=1.0,
        near_sweep=1.0,
        call_overhead=1.0,
    )
    for module in ("race.code_search", "race.query", "race.batch", "race.direct", "race.rounded"):
        monkeypatch.setattr(f"banditmips.{module}.costs", lambda: dear)
    n_asked = iter([8, 0])
    monkeypatch.setattr(batch.Account, "n_allowed", property(lambda account: next(n_asked)))
    index = bm.BanditMIPS().fit(atoms)
    found = index.search(queries, mask=mask)
    scores = queries.astype(float) @ atoms.T.astype(float)
    scores[:, 7] = -np.inf
    np.testing.assert_array_equal(found.indices[:, 0], scores.argmax(axis=1))
    assert (found.n_multiplies[:8] < 59 * 4_500).all()
    assert not found.n_rounds[8:].any()
    # Products of bytes with all that take part, and the rows that these have left.
    assert (found.n_multiplies[8:] == (59 + found.n_survivors[8:]) * 4_500).all()
    assert (found.n_survivors[8:] < 59).all()


def test_bytes_that_decide_for_queries_with_epsilon_are_told(monkeypatch):
    """What products of bytes leave out costs delta, whoever waits for them."""
    rng = np.random.default_rng(3)
    atoms = rng.normal(size=(2_000, 2_100)).astype(np.float32)
    queries = rng.normal(size=(32, 2_100)).astype(np.float32)
    for module in (
        "race.code_search",
        "race.query",
        "race.batch",
        "race.direct",
        "race.rounded",
        "race.passes",
    ):
        monkeypatch.setattr(f"banditmips.{module}.costs", lambda: Costs(own_product=0.06))
    found = bm.BanditMIPS().fit(atoms).search(queries, epsilon=1e-6)
    np.testing.assert_array_equal(found.indices[:, 0], (queries.astype(float) @ atoms.T.astype(float)).argmax(axis=1))
    rounded = found.delta_spent == 1e-3
    assert rounded.any()
    assert (found.n_multiplies[rounded] > atoms.size).all()
    assert (found.n_survivors[rounded] < 2_000).all()


KINDS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "positive": lambda rng, n, d: rng.random((n, d)),
    "far from 0": lambda rng, n, d: 50.0 + rng.normal(size=(n, d)),
    "nearly constant": lambda rng, n, d: 1.0 + 10.0 ** rng.uniform(-6, 0, size=(n, 1)) * rng.normal(size=(n, d)),
    "heavy tails": lambda rng, n, d: rng.pareto(1.1, size=(n, d)),
    "few entries": lambda rng, n, d: rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.01),
    "one direction": lambda rng, n, d: rng.normal(size=(1, d)) + 1e-3 * rng.normal(size=(n, d)),
    "mixed lengths": lambda rng, n, d: 10.0 ** rng.uniform(-5, 5, size=(n, 1)) * rng.normal(size=(n, d)),
}


@pytest.mark.parametrize("objective", ["cosine", "correlation"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["C", "F"])
def test_scores_by_rough_norms_are_wrong_by_no_more_than_is_said(objective, kind, order):
    """Of every atom and every query, where nobody knows norms: the error, and by how much it is said to be at most."""
    rng = np.random.default_rng(0)
    for d in (40, 3_000):
        atoms = np.asarray(KINDS[kind](rng, 150, d), dtype=np.float32, order=order)
        queries = np.concatenate([KINDS[kind](rng, 6, d), rng.normal(size=(6, d)), atoms[:3]]).astype(np.float32)
        taken = less_their_levels(queries) if objective == "correlation" else queries
        together = Together(AtomSet(DenseStore(atoms)), 1, Options(objective=objective))
        moments, norms = np.empty((2, len(atoms))), np.linalg.norm(taken.astype(np.float64), axis=1)
        products = pass_products(together._rows, taken.astype(np.float32), moments).astype(np.float64)
        factors = together._ranking.by_products(moments)
        rough = (products * factors.factors.astype(np.float32)).astype(np.float32)
        if factors.offsets is not None:
            centres = together._ranking.centres(taken).astype(np.float32)
            rough -= np.multiply.outer(centres, factors.offsets.astype(np.float32))
        wide, squares = factors.widened(rough, norms, together.measure(taken).centres, d)
        known = np.isfinite(squares)  # of the others nothing is said: their exact scores are computed
        said = 4.0 * np.finfo(np.float32).eps * np.multiply.outer(wide, np.sqrt(squares[known]))
        exact, asked = atoms.astype(np.longdouble), queries.astype(np.longdouble)
        if objective == "correlation":
            exact, asked = exact - exact.mean(axis=1, keepdims=True), asked - asked.mean(axis=1, keepdims=True)
        lengths = np.sqrt(np.square(exact).sum(axis=1))
        scores = asked @ exact.T / np.where(lengths > 0.0, lengths, np.inf)
        wrong = np.abs(rough - scores.astype(np.float64))
        assert (wrong[:, known] <= said).all()


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("order", ["C", "F"])
def test_differences_that_single_precision_cannot_tell_are_told_in_double(fitted, order, monkeypatch):
    """Products in double precision, for the queries that need them; the sums of all differences are not computed."""
    rng = np.random.default_rng(0)
    atoms = np.asarray(1e4 + rng.normal(size=(200, 700)), dtype=np.float32, order=order)
    queries = np.concatenate([1e4 + rng.normal(size=(5, 700)), rng.normal(size=(3, 700))]).astype(np.float32)
    n_in_double, multiply = [], together_module.products_of_blocks

    def counted(rows, some, moments):
        n_in_double.append(len(some))
        return multiply(rows, some, moments)

    monkeypatch.setattr(together_module, "products_of_blocks", counted)
    monkeypatch.setattr(together_module, "close_by_differences", None)
    index = bm.BanditMIPS(objective="neg_sqeuclidean").fit(atoms)
    mask = rng.random((8, 200)) < 0.3
    for out in (None, mask):
        n_in_double.clear()
        named = {"k": 4, "mask": out}
        found = (
            index.search(queries, **named)
            if fitted
            else bm.search(atoms, queries, objective="neg_sqeuclidean", **named)
        )
        # Where sums of the atoms' squares are rough, nothing is told by them.
        assert n_in_double == [5 if fitted else 8]
        for i, query in enumerate(queries):
            scores = -np.square(atoms.astype(np.float64) - query).sum(axis=1)
            if out is not None:
                scores[out[i]] = -np.inf
            best = np.argsort(-scores)[:4]
            assert found.indices[i].tolist() == best.tolist()
            np.testing.assert_allclose(found.scores[i], scores[best], rtol=1e-12)


def test_queries_that_want_all_rows_are_not_mixed_with_those_that_want_few(monkeypatch):
    """The last part of a batch is small, and may take another way than those whose few rows are read for them alone."""
    atoms, queries = make(n=200, d=400, m=150)
    together = Together(AtomSet(DenseStore(np.asfortranarray(atoms))), 3, Options())
    monkeypatch.setattr(Together, "exact_by_columns", lambda self, n_queries: n_queries == 22)
    monkeypatch.setattr(Together, "_may_ask_bytes", False)
    monkeypatch.setattr(together_module, "_MOST_PRODUCTS", 64 * 200)
    real, counts = together_module.exact_scores, []

    def counted(atoms, rows, objective, queries, measured, wanted):
        counts.append((len(queries), wanted[0].size))
        return real(atoms, rows, objective, queries, measured, wanted)

    monkeypatch.setattr(together_module, "exact_scores", counted)
    found = together.best(queries, together.measure(queries), None)
    assert [n for n, _ in counts] == [128, 22]
    assert counts[0][1] < 4 * 128
    assert counts[1][1] == 22 * 200
    scores = queries.astype(float) @ atoms.T.astype(float)
    np.testing.assert_array_equal(found.indices, np.argsort(-scores, axis=1)[:, :3])
    np.testing.assert_allclose(found.scores, np.take_along_axis(scores, found.indices, axis=1), rtol=1e-12)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize(("gather", "share"), [(1e-3, False), (1e3, True)])
def test_queries_with_few_entries_are_multiplied_where_their_columns_take_longer(m, gather, share, monkeypatch):
    atoms, queries = make(n=200, d=3_000, m=m)
    queries[:, 100:] = 0.0
    together = Together(AtomSet(DenseStore(atoms)), 3, Options())
    monkeypatch.setattr(together_module, "costs", lambda: Costs(gather=gather))
    measured = together.measure(queries)
    assert (measured.fine == share).all()
    scores = queries.astype(float) @ atoms.T.astype(float)
    found = together.best(queries, measured, None)
    np.testing.assert_array_equal(found.indices, np.argsort(-scores, axis=1)[:, :3])
    for row, own in zip(queries, found.scores, strict=True):
        np.testing.assert_array_equal(bm.search(atoms, row.astype(np.float64), 3).scores, own)
