"""A budget below all products where sampling would take longer than these: a look at every atom, then whole rows."""

import numpy as np
import pytest

import banditmips as bm
from banditmips import StopReason
from banditmips.race import guess
from banditmips.race.costs import Costs

N, D = 400, 3_000


@pytest.fixture(params=[1.0, 1.0 / 3.0, 3.0], autouse=True)
def costs_as_they_may_be(request, monkeypatch):
    """What is read depends on what things cost; what is promised does not."""
    ours = Costs()
    monkeypatch.setattr(guess, "costs", lambda: Costs(gather=request.param * ours.gather, row=ours.row / request.param))


@pytest.fixture
def forbid_sampling(monkeypatch):
    def fail(*_args, **_options):
        raise AssertionError("coordinates were sampled")

    monkeypatch.setattr("banditmips.race.query.race", fail)


def decaying(dtype, order, seed=0):
    """Atoms and a query most of whose scores follow from a few coordinates."""
    rng = np.random.default_rng(seed)
    scale = np.arange(1, D + 1) ** -0.8
    atoms = rng.standard_normal((N, D)) * scale
    if np.dtype(dtype).kind == "i":
        atoms *= 127.0 / np.abs(atoms).max()
    return np.asarray(atoms.astype(dtype), order=order), rng.standard_normal(D) * scale


def truth_of(atoms, query, objective):
    atoms, query = atoms.astype(np.float64), query.astype(np.float64)
    if objective == "correlation":
        atoms, query = atoms - atoms.mean(axis=1, keepdims=True), query - query.mean()
    if objective in ("cosine", "correlation"):
        return atoms @ query / np.linalg.norm(atoms, axis=1) / np.linalg.norm(query)
    return atoms @ query if objective == "inner_product" else -np.square(atoms - query).sum(axis=1)


@pytest.mark.usefixtures("forbid_sampling")
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("part", [0.05, 0.3, 0.9])
def test_a_guess_keeps_to_its_budget_and_its_scores_are_exact(dtype, order, part):
    atoms, query = decaying(dtype, order)
    budget = int(part * N * D)
    for k in (1, 5):
        result = bm.search(atoms, query, k, budget=budget)
        truth = truth_of(atoms, query, "inner_product")
        assert result.stop_reason is StopReason.BUDGET
        assert k * D <= result.n_multiplies <= budget
        assert result.exact.all()
        assert np.unique(result.indices).size == k
        np.testing.assert_allclose(result.scores, truth[result.indices], rtol=1e-12)
        assert (np.diff(result.scores) <= 0.0).all()
        assert (result.lower == result.upper).all()
        assert result.delta_spent == 0.0


@pytest.mark.usefixtures("forbid_sampling")
@pytest.mark.parametrize("objective", ["inner_product", "cosine", "correlation", "neg_sqeuclidean"])
@pytest.mark.parametrize("options", [{}, {"absolute": True}, {"mask": np.arange(N) % 3 == 0}])
def test_whoever_stands_out_is_guessed(objective, options):
    if options.get("absolute") and objective == "neg_sqeuclidean":
        pytest.skip("differences have one sign")
    n_right = 0
    for seed in range(20):
        atoms, noise = decaying("f4", "C", seed)
        query = atoms[3 * seed + 1] + 0.5 * noise
        ranks = truth_of(atoms, query, objective)
        ranks = np.abs(ranks) if options.get("absolute") else ranks
        ranks = np.where(options.get("mask", np.zeros(N, dtype=bool)), -np.inf, ranks)
        result = bm.search(atoms, query, budget=N * D // 3, objective=objective, **options)
        assert result.stop_reason is StopReason.BUDGET
        assert ranks[result.indices[0]] > -np.inf
        n_right += result.indices[0] == ranks.argmax()
    assert n_right >= 18


@pytest.mark.usefixtures("forbid_sampling")
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_query_guesses_alone_what_it_guesses_in_a_batch(order):
    atoms, _ = decaying("f4", order)
    queries = decaying("f4", "C", seed=1)[0][:5]
    budget = N * D // 10
    together = bm.search(atoms, queries, 3, budget=budget)
    for query, indices, scores in zip(queries, *together, strict=True):
        alone = bm.search(atoms, query, 3, budget=budget)
        np.testing.assert_array_equal(alone.indices, indices)
        np.testing.assert_array_equal(alone.scores, scores)


@pytest.mark.usefixtures("forbid_sampling")
def test_where_the_query_is_zero_nothing_is_looked_at():
    atoms, query = decaying("f4", "C")
    query[: D // 2] = 0.0
    result = bm.search(atoms, query, budget=N * D // 4)
    np.testing.assert_allclose(result.scores, (atoms.astype(np.float64) @ query)[result.indices], rtol=1e-12)
    assert (result.n_multiplies - result.n_multiplies // D * D) % 4 == 0  # rows count D / 2 multiplies, looks n times


@pytest.mark.parametrize("options", [{"minimise": "multiplies"}, {"delta": 0.0}])
def test_whoever_asks_for_few_multiplies_or_certainty_gets_no_guess(options, monkeypatch):
    def fail(*_args):
        raise AssertionError("it was guessed")

    monkeypatch.setattr("banditmips.race.query.guess_within", fail)
    atoms, query = decaying("f4", "C")
    assert bm.search(atoms, query, budget=N * 100, **options).n_multiplies <= N * 100


def test_a_budget_that_does_not_pay_for_the_rows_is_sampled():
    atoms, query = decaying("f4", "C")
    result = bm.search(atoms, query, k=5, budget=4 * D, rescore=False)
    assert result.n_multiplies <= 4 * D
    assert not result.exact.any()
    truth = truth_of(atoms, query, "inner_product")[result.indices]
    assert (result.lower <= truth).all()
    assert (truth <= result.upper).all()


def test_explain_says_that_it_is_a_guess():
    atoms, query = decaying("f4", "C")
    index = bm.BanditMIPS(layout="none", budget=N * D // 10).fit(atoms)
    assert "way: a guess within the budget" in index.explain(query)
