"""Races on codes that are prepared once go as those that look at everything anew."""

import numpy as np
import pytest

import banditmips as bm
from banditmips import _threads
from banditmips._search_options import Options
from banditmips.core import code_source
from banditmips.race import code_search as code_search_module
from banditmips.race.code_search import code_search
from banditmips.race.costs import Costs
from banditmips.race.query import Query

K = 3


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(7)
    atoms = (rng.normal(size=(120, 1)) + rng.normal(size=(120, 3_000))).astype(np.float32)
    return atoms, (0.3 + rng.normal(size=(6, 3_000))).astype(np.float32)


def atom_set_of(atoms, **parameters):
    return bm.BanditMIPS(**parameters).fit(atoms)._atom_set


CASES = [
    {},
    {"epsilon": 30.0},
    {"budget": 150_000},
    {"absolute": True},
    {"rescore": False},
    {"objective": "cosine"},
    {"objective": "correlation"},
    {"objective": "neg_sqeuclidean"},
    {"objective": "cosine", "rescore": False, "epsilon": 1e-3},
    {"delta": 0.1, "trace": True},
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_race_is_the_same_in_both_ways(data, case, masked):
    atoms, queries = data
    known = atom_set_of(atoms)
    # By the clock, all products of so small a matrix take less than any race.
    options = Options(**case, minimise="multiplies")
    excluded = np.arange(len(atoms)) % 5 == 2 if masked else None
    search = code_search(known, K, options)
    assert search.serves
    n_rounds = 0
    for row in queries:
        short = search.outcome(known, row, excluded)
        long = Query(known, row.astype(np.float64), K, options, excluded).outcome()
        assert short is not None
        for name in ("survivors", "scores", "radius", "exact"):
            np.testing.assert_array_equal(getattr(short, name), getattr(long, name))
        for name in ("n_multiplies", "n_rounds", "n_survivors", "n_raced", "stop_reason", "delta_spent"):
            assert getattr(short, name) == getattr(long, name)
        assert len(short.rounds) == len(long.rounds)
        n_rounds += short.n_rounds
    assert n_rounds > 0


def test_what_was_prepared_comes_again_for_the_same_options_alone(data):
    known, options = atom_set_of(data[0]), Options(epsilon=1.0)
    search = code_search(known, K, options)
    assert code_search(known, K, options) is search
    assert code_search(known, K + 1, options) is not search
    assert code_search(known, K, Options(epsilon=1.0)) is not search
    for t in range(100):  # what is remembered does not grow without end
        code_search(known, K, Options(epsilon=float(t)))
    assert len(known.prepared["code searches"]) <= 64


@pytest.mark.parametrize(
    "row",
    [np.zeros(3_000), np.full(3_000, 1e200), np.full(3_000, np.nan), np.arange(3_000), np.eye(1, 3_000)[0]],
    ids=["zero", "huge", "NaN", "integers", "one entry"],
)
def test_queries_out_of_the_ordinary_go_the_long_way(data, row):
    known, options = atom_set_of(data[0]), Options(minimise="multiplies")
    assert code_search(known, K, options).outcome(known, row, None) is None


def test_who_is_not_served(data):
    atoms, _ = data
    known = atom_set_of(atoms)
    for case in ({"objective": "neg_l1"}, {"delta": 0.0}, {"bound": "paired"}, {"sampling": "uniform"}):
        assert not code_search(known, K, Options(**case)).serves
    assert not code_search(atom_set_of(atoms, layout="none"), K, Options()).serves
    tiny = atoms.astype(np.float64)
    tiny[4] *= 1e-150
    assert not code_search(atom_set_of(tiny), K, Options(objective="cosine")).serves
    assert code_search(atom_set_of(tiny), K, Options()).serves


def test_a_score_that_overflows_is_told_by_the_long_way(data):
    atoms = np.full((4, 500), 1e300)
    atoms *= np.arange(1, 5)[:, np.newaxis]
    index = bm.BanditMIPS(minimise="multiplies").fit(atoms)
    with pytest.raises(ValueError, match="atom"):
        index.search(np.full(500, 1e8), k=2, epsilon=1.0)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "neg_sqeuclidean"])
@pytest.mark.parametrize("dtype", ["f4", "i1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("m", [1, 2, 16])
def test_a_budget_is_kept_where_all_products_would_take_less_time_than_rows(objective, dtype, order, m, monkeypatch):
    """Who may not have all products reads the survivors' rows, however long that takes."""
    for module in ("code_search", "query", "direct", "batch", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: Costs(row=50.0, short_row=50.0))
    rng = np.random.default_rng(0)
    atoms = np.asarray((20.0 * rng.normal(size=(265, 323))).astype(dtype), order=order)
    queries = rng.normal(size=(m, 323)).astype(np.float32)
    scores = queries.astype(float) @ atoms.T.astype(float)
    for budget in (5_000, 15_252, 60_000):
        result = (
            bm.BanditMIPS(objective=objective, budget=budget).fit(atoms).search(queries[0] if m == 1 else queries, 3)
        )
        assert (np.atleast_1d(result.n_multiplies) <= budget).all()
        if objective == "inner_product":
            own = np.take_along_axis(scores, np.atleast_2d(result.indices), axis=1)
            assert (np.atleast_2d(result.lower) <= own + 1e-9).all()
            assert (own <= np.atleast_2d(result.upper) + 1e-9).all()


@pytest.mark.parametrize("objective", ["inner_product", "cosine"])
def test_threads_divide_long_rounds_and_change_nothing(monkeypatch, objective):
    """Rounds that take long by the costs are read in pieces; sums of whole numbers are the same in any."""
    slow = Costs(stream=1e5, near_stream=1e5, sweep=1e5, near_sweep=1e5, cell=50.0, near_cell=50.0, row=1e5)
    monkeypatch.setattr(code_search_module, "costs", lambda: slow)
    pieces = []

    def in_pieces(work, n, least):
        pieces.append((n, least))
        return _threads.in_pieces(work, n, least)

    monkeypatch.setattr(code_source, "in_pieces", in_pieces)
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(700, 3_000)).astype(np.float32), rng.normal(size=(4, 3_000)).astype(np.float32)
    found = []
    for n_jobs in (1, 2, 3):
        index = bm.BanditMIPS(objective=objective, n_jobs=n_jobs).fit(atoms)
        found.append([index.search(query, k=3) for query in queries])
        assert (len(pieces) > 0) == (n_jobs > 1)
        assert all(least < n for n, least in pieces)
        pieces.clear()
    for alone, *others in zip(*found, strict=True):
        for other in others:
            for name in ("indices", "scores", "n_multiplies", "n_rounds", "n_survivors", "delta_spent"):
                np.testing.assert_array_equal(getattr(alone, name), getattr(other, name))
            assert alone.n_rounds > 0
