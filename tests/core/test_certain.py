"""What `fit` knows: every score lies where the certain bounds say, and nothing that could win is dropped by them."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import DenseStore
from banditmips.atoms.axes import MOST_AXES, Axes, AxesKeeper, directions_of
from banditmips.atoms.collecting import collect_facts
from banditmips.core.answer import Direct
from banditmips.core.certain import MeasuredQuery, ScoreMap
from banditmips.core.rows import Rows
from banditmips.core.rule import drop_certain
from banditmips.core.survivors import Survivors
from banditmips.race.known import certain_bounds

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


def axes_of(atoms, n_axes):
    """Axes of these atoms, whether they are worth keeping or not."""
    if n_axes == 0:
        return None
    rest = atoms.astype(np.float64) - atoms.mean(axis=1, keepdims=True)
    directions = np.linalg.qr(rest[:n_axes].T + 1e-9 * np.random.default_rng(0).normal(size=(D, n_axes)))[0]
    directions -= directions.mean(axis=0)
    directions = np.linalg.qr(directions)[0].T
    axes = Axes.along_these(np.ascontiguousarray(directions, dtype=atoms.dtype), len(atoms))
    AxesKeeper(axes).add(0, atoms, 0)
    return axes


def bounded(atoms, query, absolute=False, k=1, scores=None, n_axes=0):
    """Where every score lies, with what `fit` records."""
    facts = collect_facts(DenseStore(atoms))
    bounds = certain_bounds(facts, axes_of(atoms, n_axes), atoms.shape[1])
    alive = Survivors(None, len(atoms), k, absolute)
    assert bounds.bound(alive, MeasuredQuery(query), scores or ScoreMap())
    return alive


@pytest.mark.parametrize("n_axes", [0, 1, MOST_AXES])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", KINDS)
def test_scores_lie_within_their_bounds(make, dtype, n_axes):
    for seed in range(5):
        atoms, query = (part.astype(dtype) for part in make(np.random.default_rng(seed)))
        scores = atoms.astype(np.float64) @ query.astype(np.float64)
        alive = bounded(atoms, query, n_axes=n_axes)
        assert (np.abs(scores - alive.estimate_array) <= alive.radius_array).all()


@pytest.mark.parametrize("n_axes", [0, 3])
@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("make", [*KINDS, too_huge])
def test_the_best_are_never_dropped(make, k, absolute, n_axes):
    for seed in range(10):
        atoms, query = make(np.random.default_rng(seed))
        scores = atoms @ query
        best = np.argsort(-np.abs(scores) if absolute else -scores)[:k]
        alive = bounded(atoms, query, absolute, k, n_axes=n_axes)
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
    bounds = certain_bounds(facts, None, D)
    alive = Survivors(None, N, 1, False)
    assert not bounds.bound(alive, MeasuredQuery(scale * query), ScoreMap())
    np.testing.assert_array_equal(alive.radius_array, np.inf)


def test_level_data_are_told_apart_by_their_means():
    """The reach is worth something: of ratings-like atoms it leaves a few."""
    alive = bounded(*level(np.random.default_rng(0)))
    drop_certain(alive)
    assert alive.n < N / 4


def test_axes_are_kept_where_atoms_have_directions_in_common():
    rng = np.random.default_rng(0)
    common, noise = rng.normal(size=(2, D)), rng.normal(size=(64, D)).astype(np.float32)
    shared = (rng.normal(size=(64, 2)) @ common).astype(np.float32)
    assert directions_of(noise, 10_000) is None
    assert directions_of(shared + 0.1 * noise, 100) is None  # too few atoms for the memory of one more
    axes = directions_of(shared + 0.1 * noise, 10_000)
    assert axes is not None
    assert axes.shape == (2, D)
    np.testing.assert_allclose(axes @ axes.T, np.eye(2), atol=1e-6)
    np.testing.assert_allclose(axes.sum(axis=1), 0.0, atol=1e-5)
    assert directions_of(np.full((64, D), np.inf, dtype=np.float32), 10_000) is None
    assert directions_of(np.ones((64, D), dtype=np.float32), 10_000) is None


def test_axes_shorten_the_intervals_of_atoms_that_lie_along_them():
    rng = np.random.default_rng(0)
    query = rng.normal(size=D)
    atoms = rng.normal(size=(N, 1)) * query + 0.3 * rng.normal(size=(N, D))
    plain, better = bounded(atoms, query), bounded(atoms, query, n_axes=3)
    drop_certain(plain)
    drop_certain(better)
    assert plain.n > 3 * better.n


def test_an_index_keeps_axes_through_adding_saving_and_pickling(tmp_path):
    rng = np.random.default_rng(0)
    query = rng.normal(size=40_000)
    atoms = (rng.normal(size=(300, 1)) * query + 0.3 * rng.normal(size=(300, 40_000))).astype(np.float32)
    index = bm.BanditMIPS().fit(atoms[:200])
    assert "1 axis" in index.explain(query)
    index.add(atoms[200:])
    index.save(tmp_path / "index.bm")
    for other in (index, bm.load(tmp_path / "index.bm"), pickle.loads(pickle.dumps(index))):
        assert "1 axis" in other.explain(query)
        result = other.search(query)
        assert result.indices[0] == np.argmax(atoms @ query)
        assert result.n_multiplies <= 8 * 40_000  # certain bounds leave a few


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_of_a_query(dtype):
    for size in (1, 7, 1_000, 5_003):
        query = (1.0 + np.random.default_rng(size).normal(size=size)).astype(dtype)
        exact, moments = query.astype(np.float64), MeasuredQuery(query)
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


def reaching(alive, k, absolute):
    """Those whose upper ends reach the k-th largest lower end, by the definition."""
    ranked, radius = alive.ranking(), alive.radius_array
    return alive.row_array[ranked + radius >= np.sort(ranked - radius)[-k]]


@pytest.mark.parametrize("level", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("n_axes", [0, 4])
@pytest.mark.parametrize("k", [1, 10])
@pytest.mark.parametrize("absolute", [False, True])
def test_a_plain_query_leaves_who_can_win(level, n_axes, k, absolute):
    """More atoms than are looked at at once; by means, which leave most of them, some or few, and then by axes."""
    rng = np.random.default_rng(7)
    directions = rng.normal(size=(4, D))
    atoms = rng.normal(size=(1_500, 4)) @ directions + 0.1 * rng.normal(size=(1_500, D))
    atoms += level * rng.normal(size=(1_500, 1))
    query = rng.normal(size=4) @ directions + 0.5
    axes = axes_of(atoms, n_axes)
    by_means, bounds = (certain_bounds(collect_facts(DenseStore(atoms)), some, D) for some in (None, axes))
    known, times = SimpleNamespace(bounds=bounds, codes=SimpleNamespace(n_first=64)), SimpleNamespace(row=1.0, cell=1.0)
    alive = Direct(Rows([atoms]), known, (k, absolute, 1e-3), times).survivors(MeasuredQuery(query))
    expected = {}
    for name, some in (("means", by_means), ("axes", bounds)):
        everybody = Survivors(None, 1_500, k, absolute)
        some.bound(everybody, MeasuredQuery(query), ScoreMap())
        expected[name] = reaching(everybody, k, absolute)
    enough = n_axes == 0 or expected["means"].size <= k + n_axes
    np.testing.assert_array_equal(alive.row_array, expected["means" if enough else "axes"])
    scores = atoms @ query
    best = np.argsort(-np.abs(scores) if absolute else -scores)[:k]
    assert set(best) <= set(alive.row_array)
    assert (np.abs(scores[alive.row_array] - alive.estimate_array) <= alive.radius_array).all()
