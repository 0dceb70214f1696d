"""What `fit` knows: every score lies where the screen says, and nothing that could win is dropped by it."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.race import finish, heads, screen

N, D = 60, 700


def level(rng):
    return 3.5 + 0.4 * rng.normal(size=(N, 1)) + 0.5 * rng.normal(size=(N, D)), 3.4 + 0.6 * rng.normal(size=D)


def centred(rng):
    return rng.normal(size=(N, D)), rng.normal(size=D)


def heavy(rng):
    return rng.standard_t(2, size=(N, D)), rng.standard_t(1.5, size=D)


def far_from_zero(rng):
    """Differences in the seventh digit: the rounding of single precision is what there is to see."""
    return 1e4 + rng.normal(size=(N, D)), 1e3 + rng.normal(size=D)


def constant_atoms(rng):
    return np.repeat(rng.normal(size=(N, 1)), D, axis=1), rng.normal(size=D)


def one_spike(rng):
    atoms, query = rng.normal(size=(N, D)), 1e-3 * rng.normal(size=D)
    query[17] = 1e5
    return atoms, query


KINDS = [level, centred, heavy, far_from_zero, constant_atoms, one_spike]


def ends(atoms, query, absolute, at=()):
    """Centre and upper end of every score, by the kernels, with the scatter as `fit` records it."""
    facts = bm.BanditMIPS().fit(atoms)._fitted.facts
    scatter = facts.scatter
    moments = screen.query_moments(query, screen.make_parts(query.size))
    rounding = 32.0 * float(np.finfo(atoms.dtype).eps)
    centre, upper = np.empty(len(atoms)), np.empty(len(atoms))
    screen.know(facts.means, np.sqrt(scatter), D, moments, rounding, absolute, centre, upper)
    if len(at):
        rows, spare = np.arange(len(atoms)), np.empty((2, len(atoms)))
        heads.read_heads(
            atoms, False, query, np.asarray(at), rows, len(rows), D, moments, rounding, facts.means, scatter, 0.25,
            spare[0], spare[1], absolute, centre, upper,
        )  # fmt: skip
    return centre, upper


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("n_heads", [0, 1, 5, 32])
@pytest.mark.parametrize("make", KINDS)
def test_scores_lie_between_their_ends(make, n_heads, absolute, dtype):
    for seed in range(5):
        atoms, query = (part.astype(dtype) for part in make(np.random.default_rng(seed)))
        scores = atoms.astype(np.float64) @ query.astype(np.float64)
        sizes = np.abs(scores) if absolute else scores
        centre, upper = ends(atoms, query, absolute, np.argsort(-np.abs(query))[:n_heads])
        assert (sizes <= upper).all()
        assert (sizes >= 2 * centre - upper).all()


def test_level_data_are_told_apart_by_their_means():
    """The reach is worth something: of ratings-like atoms it leaves a few."""
    atoms, query = level(np.random.default_rng(0))
    centre, upper = ends(atoms, query, False)
    assert (upper >= centre.max()).sum() < N / 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("most", [1, 4, 16])
def test_heads_are_the_largest_entries(most, dtype):
    query = np.random.default_rng(3).standard_t(1.1, size=5_000).astype(dtype)
    query[[5, 900]] = query.max() * np.array([3, -4])
    squares = query.astype(np.float64) ** 2
    found = np.empty(most, dtype=np.int64)
    count = heads.find_heads(query, screen.query_moments(query, screen.make_parts(query.size)), most, found)
    order = np.argsort(-squares, kind="stable")
    n_large = (squares >= 0.05 * squares.sum()).sum()
    assert n_large > 1
    assert list(found[:count]) == list(order[: min(max(n_large, 2), most)])


def test_an_even_query_has_no_heads():
    query = np.ones(100)
    assert (
        heads.find_heads(
            query, screen.query_moments(query, screen.make_parts(query.size)), 4, np.empty(4, dtype=np.int64)
        )
        == 0
    )


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_the_best_rows_are_taken_in_order_with_ties_by_index(k, absolute):
    rng = np.random.default_rng(4)
    for _ in range(50):
        rows, scores = rng.permutation(12), rng.integers(-3, 4, size=12).astype(float)
        indices, values = np.empty(k, dtype=np.int64), np.empty(k)
        assert finish.take_best(rows, scores, 12, absolute, indices, values)
        expected = np.lexsort((rows, -np.abs(scores) if absolute else -scores))[:k]
        assert list(indices) == list(rows[expected])
        assert list(values) == list(scores[expected])
    scores[7] = np.inf
    assert not finish.take_best(rows, scores, 12, absolute, indices, values)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_screened_search_is_exact_and_costs_no_delta(k, absolute):
    """One round of the screen is enough here: nothing is sampled, so nothing can fail."""
    rng = np.random.default_rng(1)
    atoms = (3.5 + rng.normal(size=(2_000, 1)) + 0.3 * rng.normal(size=(2_000, 8_192))).astype(np.float32)
    query = (3.4 + 0.6 * rng.normal(size=8_192)).astype(np.float32)
    scores = atoms.astype(np.float64) @ query
    result = bm.BanditMIPS(absolute=absolute).fit(atoms).search(query, k=k)
    ranked = np.abs(scores) if absolute else scores
    assert (result.indices == np.argsort(-ranked)[:k]).all()
    assert np.allclose(result.scores, scores[result.indices], rtol=1e-12)
    assert result.n_rounds == 0
    assert result.delta_spent == 0.0
    assert result.n_multiplies <= 8_192 * (result.n_survivors + 1)
    assert result.n_survivors < 20


def test_removed_and_masked_atoms_do_not_lead_the_screen():
    rng = np.random.default_rng(2)
    atoms = (3.5 + rng.normal(size=(1_500, 1)) + 0.3 * rng.normal(size=(1_500, 8_192))).astype(np.float32)
    query = (3.4 + 0.6 * rng.normal(size=8_192)).astype(np.float32)
    order = np.argsort(-(atoms.astype(np.float64) @ query))
    index = bm.BanditMIPS().fit(atoms)
    mask = np.zeros(1_500, dtype=bool)
    mask[order[:3]] = True
    assert index.search(query, mask=mask).indices[0] == order[3]
    assert index.remove(order[:5]).search(query).indices[0] == order[5]


def test_scores_too_large_for_a_float_are_left_to_the_general_way():
    atoms = np.full((500, 4_096), 1e200)
    atoms[3] *= 2
    with pytest.raises(ValueError, match=r"overflow|too large|finite"):
        bm.BanditMIPS().fit(atoms).search(np.full(4_096, 1e200))
