"""The loop: budgets, exact scores of leaders and survivors; being watched or planned by the clock changes nothing."""

from dataclasses import asdict

import numpy as np
import pytest

import banditmips as bm
from banditmips import datasets
from banditmips.core.answer import Known, Times, answer
from banditmips.core.certain import ScoreMap
from banditmips.core.code_source import CodeSource, make_dither
from banditmips.core.codes import Codes
from banditmips.core.exact import RowsExact
from banditmips.core.loop import Limits, lead, race
from banditmips.core.records import StopReason
from banditmips.core.rotation import Rotation
from banditmips.core.rows import Rows
from banditmips.core.rule import CodeRule, drop_certain
from banditmips.core.survivors import Survivors
from banditmips.race.costs import Costs

N, D = 120, 3_000
PLANNED = {
    "few multiplies": Times(),
    "cells are cheap": Times(cell=1e-3, row=1e6, full=1e9, prepare=1.0),
    "cells are dear": Times(cell=1e3, row=1e6, full=1e9, prepare=1.0),
    "rows are cheap": Times(cell=1.0, row=1e3, full=1e9, prepare=1e3),
}


class Counted(RowsExact):
    """Exact scores that remember which rows were asked for."""

    asked = None

    def scores(self, rows):
        self.asked = [*(self.asked or []), *rows.tolist()]
        return super().scores(rows)


def prepared(seed=0, n_bits=2, spread=0.25):
    """Atoms, a query close to one of them, and what an index knows."""
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(N, D)) + spread * rng.normal(size=(N, 1))
    query = atoms[7] + rng.normal(size=D)
    rotation = Rotation(D, seed)
    codes = Codes(rotation, atoms.mean(axis=0), N, rotation.width, n_bits)
    codes.encode(0, atoms)
    return atoms, query, Known(None, codes, make_dither(codes))


def answered(atoms, query, known, times, k=1, absolute=False, **limits):
    exact = Counted(Rows([atoms]), query, 0, ScoreMap(), None, None)
    limits = Limits(limits.pop("delta", 0.01), **limits)
    return answer(known, Survivors(None, N, k, absolute), query, ScoreMap(), exact, limits, times), exact


def best_of(outcome, k, absolute=False):
    scores = np.abs(outcome.scores) if absolute else outcome.scores
    return outcome.survivors[np.lexsort((outcome.survivors, -scores))[:k]]


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 4])
@pytest.mark.parametrize("plan", PLANNED)
def test_every_plan_finds_the_same(plan, k, absolute):
    for seed in range(5):
        atoms, query, known = prepared(seed)
        outcome, exact = answered(atoms, query, known, PLANNED[plan], k, absolute)
        truth = atoms @ query
        ranked = np.abs(truth) if absolute else truth
        if outcome.handed_over:
            assert plan != "few multiplies"
            continue
        assert set(best_of(outcome, k, absolute)) == set(np.argsort(-ranked)[:k])
        # Nobody is computed twice, and all that was multiplied is counted.
        asked = exact.asked or []
        assert len(set(asked)) == len(asked)
        assert outcome.n_multiplies >= D * len(asked)
        np.testing.assert_allclose(outcome.scores[outcome.exact], truth[outcome.survivors[outcome.exact]], rtol=1e-12)


@pytest.mark.parametrize("plan", PLANNED)
@pytest.mark.parametrize("k", [1, 4])
def test_a_trace_changes_nothing(plan, k):
    for seed in range(3):
        atoms, query, known = prepared(seed, spread=0.05)
        plain, watched = (answered(atoms, query, known, PLANNED[plan], k, traced=traced)[0] for traced in (False, True))
        for name in ("survivors", "scores", "radius", "exact"):
            np.testing.assert_array_equal(getattr(plain, name), getattr(watched, name))
        for name in ("n_multiplies", "n_rounds", "n_survivors", "stop_reason", "delta_spent", "handed_over"):
            assert getattr(plain, name) == getattr(watched, name)
        assert not plain.rounds
        assert len(watched.rounds) == watched.n_rounds


@pytest.mark.parametrize("plan", PLANNED)
@pytest.mark.parametrize("k", [1, 4])
def test_a_budget_is_never_exceeded(plan, k):
    reasons = set()
    for seed in range(3):
        atoms, query, known = prepared(seed, spread=0.0)
        for budget in (0, N, 64 * N, 64 * N + k * D, 500 * N, 3_000 * N, 2 * N * D):
            outcome, _ = answered(atoms, query, known, PLANNED[plan], k, budget=budget)
            assert outcome.n_multiplies <= budget or outcome.handed_over
            reasons.add(outcome.stop_reason)
            if outcome.stop_reason is StopReason.BUDGET:
                truth = (atoms @ query)[outcome.survivors]
                assert (np.abs(outcome.scores - truth) <= outcome.radius + 1e-9).all()
    assert StopReason.BUDGET in reasons


def test_the_finish_reads_no_further_than_a_row_can_win():
    """Rows are taken in the order of their estimates; those that end below k exact scores are left out."""
    atoms, _, known = prepared(3, n_bits=1, spread=0.0)
    query, codes = np.random.default_rng(4).normal(size=D), known.codes
    for k in (1, 3):
        alive = Survivors(None, N, k, False)
        source = CodeSource(alive, codes, query, known.dither, ScoreMap(), Times())
        exact = Counted(Rows([atoms]), query, 0, ScoreMap(), None, None)
        outcome = race(source, CodeRule(0.01, N), exact, Limits(0.01))
        assert outcome.stop_reason is StopReason.FINISHED_EXACTLY
        truth = atoms @ query
        assert set(best_of(outcome, k)) == set(np.argsort(-truth)[:k])
        left_out = outcome.survivors[~outcome.exact]
        np.testing.assert_array_equal(np.sort(exact.asked), outcome.survivors[outcome.exact])
        bar = np.sort(truth)[-k]
        upper = (outcome.scores + alive.reach * outcome.radius)[~outcome.exact]
        assert left_out.size > 0
        assert (upper < bar).all()
        assert (truth[left_out] < bar).all()


def test_exact_scores_of_leaders_raise_the_bar():
    atoms, query, _ = prepared(1)
    truth = atoms @ query
    exact = Counted(Rows([atoms]), query, 0, ScoreMap(), None, None)
    alive = Survivors(None, N, 3, False)
    estimates = truth + np.random.default_rng(0).normal(size=N)
    alive.estimate_array[:] = estimates
    alive.radius_array[:] = 6.0
    leaders = alive.leaders(3)
    assert lead(alive, exact) == 3 * D
    assert alive.bar == pytest.approx(np.sort(truth[leaders])[0], rel=1e-12)
    assert lead(alive, exact) == 0  # they are known already
    drop_certain(alive)
    assert np.isin(np.argsort(-truth)[:3], alive.row_array).all()
    np.testing.assert_array_equal(alive.row_array, np.flatnonzero(estimates + 6.0 >= alive.bar))


def test_leaders_whose_intervals_miss_are_not_lost():
    """K atoms with exact scores are kept, even where their own intervals end below them."""
    atoms, query, _ = prepared(2)
    truth = atoms @ query
    order = np.argsort(-truth)
    alive = Survivors(None, N, 2, False)
    alive.estimate_array[:] = truth
    alive.radius_array[:] = 1.0
    lead(alive, RowsExact(Rows([atoms]), query, 0, ScoreMap(), None, None))
    alive.estimate_array[order[1]] = truth[order[1]] - 1_000.0  # an interval that missed
    drop_certain(alive)
    assert alive.n >= 2
    assert np.isin(order[:2], alive.row_array).all()


# --- whole searches -----------------------------------------------------------------------------------------------


@pytest.fixture
def dear_products(monkeypatch):
    """Let products cost so much that every query is raced, whatever its size."""
    dear = Costs(stream=1e6, near_stream=1e6, convert=1e6, row=1e3)
    for module in ("code_search", "query", "direct", "few_rows"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: dear)
    monkeypatch.setattr("banditmips._direct._bare", {})  # what was planned for bare arrays before


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("layout", ["codes", "coordinates", "none", None])
@pytest.mark.parametrize("name", ["normal_custom", "heavy_tailed", "ratings", "symmetric_normal"])
def test_for_time_or_multiplies_and_traced_or_not_the_answer_is_the_same(name, layout, absolute, k, dear_products):
    data = datasets.load(name, n=100, d=2_500, seed=1)
    query = data.queries[0]
    truth = data.atoms.astype(np.float64) @ query
    best = np.argsort(-np.abs(truth) if absolute else -truth)[:k]
    for minimise in ("time", "multiplies"):
        options = {"minimise": minimise, "absolute": absolute, "delta": 1e-4}
        if layout is None:
            plain, traced = (bm.search(data.atoms, query, k, trace=trace, **options) for trace in (False, True))
        else:
            index = bm.BanditMIPS(layout=layout, **options).fit(data.atoms)
            plain, traced = (index.search(query, k, trace=trace) for trace in (False, True))
        np.testing.assert_array_equal(plain.indices, best)
        np.testing.assert_array_equal(traced.indices, best)
        np.testing.assert_array_equal(plain.scores, traced.scores)
        np.testing.assert_allclose(plain.scores, truth[best], rtol=1e-9)
        for field in ("n_multiplies", "n_rounds", "n_survivors", "stop_reason", "delta_spent"):
            assert getattr(plain, field) == getattr(traced, field), field
        assert len(traced.trace.rounds) == traced.n_rounds


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layout", ["codes", "full"])
def test_a_heavy_tailed_query_costs_few_bits_of_each_atom_and_a_few_products(seed, layout):
    n, d = 500, 20_000
    data = datasets.load("heavy_tailed", n=n, d=d, seed=seed)
    query = data.queries[0]
    result = bm.BanditMIPS(layout=layout, minimise="multiplies").fit(data.atoms).search(query)
    assert result.indices[0] == np.argmax(data.atoms.astype(np.float64) @ query)
    assert result.n_multiplies <= 0.1 * n * d


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", ["normal_custom", "heavy_tailed", "ratings", "symmetric_normal"])
def test_a_query_in_double_precision_finds_the_same_atoms(name, k):
    data = datasets.load(name, n=300, d=4_096, seed=1)
    index = bm.BanditMIPS(minimise="multiplies").fit(data.atoms)
    query = data.queries[0]
    single, double = index.search(query, k=k), index.search(query.astype(np.float64), k=k)
    exact = data.atoms.astype(np.float64) @ query
    assert (single.indices == np.argsort(-exact)[:k]).all()
    assert (double.indices == single.indices).all()
    assert np.allclose(single.scores, exact[single.indices], rtol=1e-12)
    assert double.n_multiplies == single.n_multiplies


@pytest.mark.parametrize("name", ["normal_custom", "heavy_tailed", "ratings", "symmetric_normal"])
def test_all_atoms_named_as_candidates_are_all_atoms(name):
    """A mask that excludes one hopeless atom changes the way, not the answer."""
    data = datasets.load(name, n=300, d=4_096, seed=2)
    index = bm.BanditMIPS(minimise="multiplies").fit(data.atoms)
    query = data.queries[0]
    exact = data.atoms.astype(np.float64) @ query
    mask = np.zeros(300, dtype=bool)
    mask[np.argmin(exact)] = True
    everyone, all_but_one = index.search(query, k=2), index.search(query, k=2, mask=mask)
    assert (everyone.indices == all_but_one.indices).all()
    assert np.allclose(everyone.scores, all_but_one.scores, rtol=1e-12)


def test_a_search_leaves_nothing_behind_for_the_next():
    """A hard query between two equal ones does not change the second answer."""
    data = datasets.load("heavy_tailed", n=400, d=5_000, seed=3)
    index = bm.BanditMIPS(minimise="multiplies").fit(data.atoms)
    query = data.queries[0]
    first = asdict(index.search(query))
    index.search(np.random.default_rng(0).normal(size=5_000).astype(np.float32))
    np.testing.assert_equal(asdict(index.search(query)), first)


def many_prepared(stands_out):
    """More atoms than a probe of each sixteenth needs to speak for, of which forty stand out or none does."""
    rng = np.random.default_rng(3)
    n, d = 3_200, 512
    query = rng.normal(size=d)
    atoms = rng.normal(size=(n, d))
    if stands_out:
        atoms[::77] += query
    rotation = Rotation(d, 0)
    codes = Codes(rotation, np.zeros(d), n, rotation.width, 1)
    codes.encode(0, atoms)
    return atoms, query, Known(None, codes, make_dither(codes))


@pytest.mark.parametrize(("stands_out", "k"), [(True, 1), (True, 20), (False, 200)])
def test_a_first_round_that_is_dear_is_probed_before(stands_out, k):
    atoms, query, known = many_prepared(stands_out)
    n, d = atoms.shape
    # All products take five times as long as the first round: in vain, that would be a fifth more.
    times = Times(cell=1.0, row=10.0 * d, full=5.0 * n * d, prepare=100.0)
    outcomes = []
    for risk in (np.inf, 0.1 * times.full):
        times.risk = risk
        exact = RowsExact(Rows([atoms]), query, 0, ScoreMap(), None, None)
        alive = Survivors(None, n, k, False)
        outcomes.append(answer(known, alive, query, ScoreMap(), exact, Limits(0.01), times))
    begun, probed = outcomes
    n_probed = n // 16 * d
    if stands_out:
        assert not probed.handed_over
        assert probed.n_multiplies == begun.n_multiplies + n_probed
        assert set(best_of(probed, k)) == set(np.argsort(-(atoms @ query))[:k])
    else:
        assert begun.handed_over
        assert begun.n_multiplies >= n * d
        assert probed.handed_over
        assert probed.n_multiplies == n_probed
    # What it took is told, so that a batch can write it down.
    assert probed.time_spent >= 100.0 + n_probed


def test_a_probe_that_is_dear_itself_is_not_made():
    atoms, query, known = many_prepared(stands_out=True)
    n, d = atoms.shape
    times = Times(cell=1.0, row=5.0 * d, full=5.0 * n * d, prepare=0.2 * 5.0 * n * d, risk=0.1 * 5.0 * n * d)
    exact = RowsExact(Rows([atoms]), query, 0, ScoreMap(), None, None)
    outcome = answer(known, Survivors(None, n, 1, False), query, ScoreMap(), exact, Limits(0.01), times)
    assert outcome.handed_over
    assert outcome.n_multiplies == 0
