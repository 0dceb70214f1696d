"""What `fit` knows: every score lies where the certain bounds say, and nothing that could win is dropped by them."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import DenseStore
from banditmips.atoms.facts import collect_facts
from banditmips.core.certain import CertainBounds, QueryMoments, ScoreMap
from banditmips.core.rule import drop_certain
from banditmips.core.survivors import Survivors
from banditmips.race.query import _CERTAIN_ROUNDING

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


def along_the_query(rng):
    """Cauchy and Schwarz hold with equality."""
    query = rng.normal(size=D)
    return rng.normal(size=(N, 1)) * query + rng.normal(size=(N, 1)), query


def huge(rng):
    """Squares overflow in single precision."""
    return 1e25 * rng.normal(size=(N, D)), rng.normal(size=D)


def too_huge(rng):
    """Squares of some atoms overflow in double precision."""
    return 10.0 ** rng.choice([0, 200], size=(N, 1)) * rng.normal(size=(N, D)), rng.normal(size=D)


KINDS = [level, centred, heavy, far_from_zero, constant_atoms, one_spike, along_the_query, huge]


def bounded(atoms, query, absolute=False, k=1, scores=None):
    """Where every score lies, with what `fit` records."""
    facts = collect_facts(DenseStore(atoms))
    bounds = CertainBounds(facts.means, np.sqrt(facts.scatter), atoms.shape[1], _CERTAIN_ROUNDING)
    alive = Survivors(None, len(atoms), k, absolute)
    assert bounds.bound(alive, QueryMoments(query), scores or ScoreMap())
    return alive


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", KINDS)
def test_scores_lie_within_their_bounds(make, dtype):
    for seed in range(5):
        atoms, query = (part.astype(dtype) for part in make(np.random.default_rng(seed)))
        scores = atoms.astype(np.float64) @ query.astype(np.float64)
        alive = bounded(atoms, query)
        assert (np.abs(scores - alive.estimate_array) <= alive.radius_array).all()


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("make", [*KINDS, too_huge])
def test_the_best_are_never_dropped(make, k, absolute):
    for seed in range(10):
        atoms, query = make(np.random.default_rng(seed))
        scores = atoms @ query
        best = np.argsort(-np.abs(scores) if absolute else -scores)[:k]
        alive = bounded(atoms, query, absolute, k)
        drop_certain(alive)
        assert np.isin(best, alive.row_array).all()


def test_factors_and_offsets_move_the_bounds():
    atoms, query = level(np.random.default_rng(0))
    rng = np.random.default_rng(1)
    factors, offsets = rng.normal(size=N), 1e3 * rng.normal(size=N)
    alive = bounded(atoms, query, scores=ScoreMap(factors, offsets))
    assert (np.abs(factors * (atoms @ query) + offsets - alive.estimate_array) <= alive.radius_array).all()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_a_query_whose_squares_are_nothing_or_too_large_bounds_nothing(scale):
    atoms, query = centred(np.random.default_rng(0))
    facts = collect_facts(DenseStore(atoms))
    bounds = CertainBounds(facts.means, np.sqrt(facts.scatter), D, _CERTAIN_ROUNDING)
    alive = Survivors(None, N, 1, False)
    assert not bounds.bound(alive, QueryMoments(scale * query), ScoreMap())
    np.testing.assert_array_equal(alive.radius_array, np.inf)


def test_level_data_are_told_apart_by_their_means():
    """The reach is worth something: of ratings-like atoms it leaves a few."""
    alive = bounded(*level(np.random.default_rng(0)))
    drop_certain(alive)
    assert alive.n < N / 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_a_query(dtype):
    for size in (1, 7, 1_000, 5_003):
        query = (1.0 + np.random.default_rng(size).normal(size=size)).astype(dtype)
        exact, moments = query.astype(np.float64), QueryMoments(query)
        allowed = 4.0 * float(np.finfo(dtype).eps)
        assert abs(moments.total - exact.sum()) <= allowed * np.abs(exact).sum()
        assert moments.size == pytest.approx(np.abs(exact).sum(), rel=allowed)
        assert moments.squares == pytest.approx(exact @ exact, rel=allowed)
        assert moments.largest == np.abs(exact).max()


# --- searches -----------------------------------------------------------------------------------------------------


def separable(n, seed):
    rng = np.random.default_rng(seed)
    atoms = (3.5 + rng.normal(size=(n, 1)) + 0.3 * rng.normal(size=(n, 8_192))).astype(np.float32)
    return atoms, (3.4 + 0.6 * rng.normal(size=8_192)).astype(np.float32)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("layout", ["codes", "coordinates"])
def test_bounds_that_decide_cost_no_round_and_no_delta(k, absolute, layout):
    """Nothing is sampled where the means alone leave k atoms, so nothing can fail."""
    atoms, query = separable(300, 1)
    atoms[:k] += np.float32(4.0) * (1 + np.arange(k, dtype=np.float32)[:, np.newaxis])
    scores = atoms.astype(np.float64) @ query
    index = bm.BanditMIPS(absolute=absolute, layout=layout, minimise="multiplies").fit(atoms)
    result = index.search(query, k=k)
    assert (result.indices == np.argsort(-np.abs(scores) if absolute else -scores)[:k]).all()
    assert np.allclose(result.scores, scores[result.indices], rtol=1e-12)
    assert (result.n_rounds, result.delta_spent, result.n_survivors) == (0, 0.0, k)
    assert result.n_multiplies == k * 8_192


def test_removed_and_masked_atoms_do_not_lead():
    atoms, query = separable(300, 2)
    order = np.argsort(-(atoms.astype(np.float64) @ query))
    index = bm.BanditMIPS(minimise="multiplies").fit(atoms)
    mask = np.zeros(300, dtype=bool)
    mask[order[:3]] = True
    assert index.search(query, mask=mask).indices[0] == order[3]
    assert index.remove(order[:5]).search(query).indices[0] == order[5]


def test_scores_too_large_for_a_float_are_an_error():
    atoms = np.full((50, 4_096), 1e200)
    atoms[3] *= 2
    with pytest.raises(ValueError, match=r"overflow|too large|finite"):
        bm.BanditMIPS().fit(atoms).search(np.full(4_096, 1e200))
