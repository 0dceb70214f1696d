"""Dictionaries as functions: the same answers as a matrix of their values, and no matrix."""

import tracemalloc

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import FunctionStore, chirps, gabor_atoms, sinusoids
from banditmips.core.statistics import NEG_ABSOLUTE_DIFFERENCE, NEG_SQUARED_DIFFERENCE, PRODUCT


def matrix(store):
    return store.entries(np.arange(store.shape[0]), np.arange(store.shape[1]))


def steps(n=12, d=3_000):
    """Return atoms that are a constant between two places of their own, and 0 elsewhere."""
    rng = np.random.default_rng(0)
    starts = rng.integers(0, d - 10, n)
    supports = np.stack([starts, starts + rng.integers(1, d - starts + 1)], axis=1)
    return FunctionStore(lambda i, j: 1.0 + i + 0.0 * j, n, d, supports=supports)


STORES = {
    "function": lambda: FunctionStore(lambda i, j: np.cos(0.01 * (i + 1) * j) + 0.1 * i, 12, 3_000),
    "steps": steps,
    "sines": lambda: sinusoids(np.linspace(10, 400, 12), 3_000, sample_rate=1_000),
    "sines and cosines": lambda: sinusoids(np.linspace(10, 400, 6), 3_000, sample_rate=1_000, pairs=True),
    "gabor": lambda: gabor_atoms([20, 50, 90], [0.5, 1.5, 2.9], [0.1, 0.2, 0.1], 3_000, sample_rate=1_000),
    "chirps": lambda: chirps([10, 20, 30], [400, 30, 31], 3_000, sample_rate=1_000, pairs=True),
}


@pytest.fixture(params=STORES)
def store(request):
    """Return one store of each kind."""
    return STORES[request.param]()


def test_any_part_is_the_same_part_of_the_matrix(store):
    whole = matrix(store)
    rng = np.random.default_rng(1)
    rows, columns = rng.permutation(store.shape[0])[:3], rng.integers(0, store.shape[1], 700)
    np.testing.assert_array_equal(store.entries(rows, columns), whole[np.ix_(rows, columns)])
    blocks = list(store.blocks(2 * store.shape[1]))
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), whole)
    assert [start for start, _ in blocks] == list(range(0, store.shape[0], 2))
    assert store.dtype == whole.dtype == np.float64


@pytest.mark.parametrize("objective", [PRODUCT, NEG_SQUARED_DIFFERENCE, NEG_ABSOLUTE_DIFFERENCE])
@pytest.mark.parametrize("some", [True, False])
def test_scores_are_those_of_the_matrix(store, objective, some):
    rng = np.random.default_rng(2)
    columns = rng.permutation(store.shape[1])[:500] if some else None
    query = rng.normal(size=500 if some else store.shape[1])
    rows = np.array([2, 0])
    values = matrix(store)[rows] if columns is None else matrix(store)[np.ix_(rows, columns)]
    expected = {
        PRODUCT: values @ query,
        NEG_SQUARED_DIFFERENCE: -((query - values) ** 2).sum(axis=1),
        NEG_ABSOLUTE_DIFFERENCE: -np.abs(query - values).sum(axis=1),
    }
    np.testing.assert_allclose(store.scores(rows, columns, query, objective), expected[objective], rtol=1e-12)


@pytest.mark.parametrize(
    "options", [{}, {"k": 3}, {"absolute": True}, {"objective": "neg_l1"}, {"sampling": "uniform"}]
)
def test_a_search_finds_what_it_finds_in_the_matrix(store, options):
    query = np.random.default_rng(3).normal(size=store.shape[1]) + 2.0 * matrix(store)[1]
    computed, dense = (bm.search(atoms, query, **options) for atoms in (store, matrix(store)))
    np.testing.assert_array_equal(computed.indices, dense.indices)
    np.testing.assert_allclose(computed.scores, dense.scores, rtol=1e-10)


def test_an_index_can_be_fitted(store):
    query = np.random.default_rng(4).normal(size=store.shape[1]) + 2.0 * matrix(store)[2]
    computed, dense = (bm.BanditMIPS().fit(atoms).search(query) for atoms in (store, matrix(store)))
    np.testing.assert_array_equal(computed.indices, dense.indices)
    np.testing.assert_allclose(computed.scores, dense.scores, rtol=1e-10)


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("d", [1, 2, 999, 4_410])
def test_norms_of_sinusoids_are_the_formula(pairs, d):
    frequencies = [0.001, 1.0, 123.456, 440.0, 22_049.9]
    store = sinusoids(frequencies, d, sample_rate=44_100, pairs=pairs)
    np.testing.assert_allclose(store.squared_norms, (matrix(store) ** 2).sum(axis=1), rtol=1e-6, atol=1e-9)


def test_pairs_are_sine_and_cosine():
    store = sinusoids([5.0, 7.0], 1_000, sample_rate=1_000, pairs=True)
    time = np.arange(1_000) / 1_000
    expected = [f(2 * np.pi * frequency * time) for frequency in (5, 7) for f in (np.sin, np.cos)]
    np.testing.assert_allclose(matrix(store), expected, atol=1e-12)
    assert store.group_size == 2


def test_gabor_atoms_are_sines_under_a_gaussian():
    store = gabor_atoms(50.0, 1.0, 0.1, 3_000, sample_rate=1_000, pairs=False)
    time = np.arange(3_000) / 1_000 - 1.0
    expected = np.exp(-0.5 * (time / 0.1) ** 2) * np.sin(2 * np.pi * 50.0 * time)
    np.testing.assert_allclose(matrix(store)[0], expected, atol=4e-4)
    assert store.supports.tolist() == [[600, 1401]]
    assert not matrix(store)[0, :600].any()


def test_chirps_move_evenly_from_one_frequency_to_the_other():
    wave = matrix(chirps(50.0, 200.0, 80_000, sample_rate=80_000))[0]
    crossings = np.flatnonzero((wave[:-1] < 0) & (wave[1:] >= 0)) / 80_000
    middles = (crossings[:-1] + crossings[1:]) / 2
    np.testing.assert_allclose(1.0 / np.diff(crossings), 50.0 + 150.0 * middles, rtol=0.01)
    assert middles[0] < 0.05 < 0.95 < middles[-1]


def test_the_function_is_never_asked_outside_a_support():
    def function(atoms, coordinates):
        assert ((coordinates >= 10 * atoms) & (coordinates < 10 * atoms + 5)).all()
        return np.ones(np.broadcast_shapes(atoms.shape, coordinates.shape))

    supports = [[10 * i, 10 * i + 5] for i in range(4)]
    store = FunctionStore(function, 4, 100, supports=supports)
    assert matrix(store).sum(axis=1).tolist() == [5.0] * 4
    assert store.entries([3], [0, 1]).tolist() == [[0.0, 0.0]]


def test_a_billion_coordinates_take_no_memory():
    tracemalloc.start()
    store = sinusoids(np.linspace(1, 1_000, 500), 1_000_000_000, sample_rate=44_100)
    values = store.entries(np.arange(500), np.array([0, 999_999_999]))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert values.shape == (500, 2)
    assert peak < 1_000_000


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: FunctionStore(3, 2, 2), TypeError, "function must be callable"),
        (lambda: FunctionStore(lambda i, j: i + j, 0, 2), ValueError, "n_atoms must be at least 1"),
        (lambda: FunctionStore(lambda i, j: i + j, 2, 2.5), TypeError, "n_coordinates must be an integer"),
        (lambda: FunctionStore(lambda i, j: i, 2, 9), ValueError, r"shape .*\(2, 3\).*got \(2, 1\)"),
        (lambda: FunctionStore(lambda i, j: (i + j) * 1j, 2, 9), TypeError, "real numbers, got dtype complex"),
        (lambda: FunctionStore(lambda i, j: i + j, 3, 9, group_size=2), ValueError, "group_size"),
        (lambda: FunctionStore(lambda i, j: i + j, 1, 9, supports=[[3, 10]]), ValueError, "supports must have"),
        (lambda: FunctionStore(lambda i, j: i + j, 1, 9, supports=[3, 4]), ValueError, "supports must be integers"),
        (lambda: FunctionStore(lambda i, j: i + j, 1, 9, squared_norms=[-1.0]), ValueError, "squared_norms"),
        (lambda: sinusoids([0.0], 10), ValueError, "frequencies must be above 0"),
        (lambda: sinusoids([30_000.0], 10, sample_rate=44_100), ValueError, r"half the sample rate \(22050\)"),
        (lambda: sinusoids([], 10), ValueError, "frequencies"),
        (lambda: sinusoids([np.nan], 10), ValueError, "frequencies must be finite"),
        (lambda: sinusoids([0.1], 10, sample_rate=0.0), ValueError, "sample_rate must be positive"),
        (lambda: gabor_atoms(0.1, 5.0, 0.0, 10), ValueError, "widths must be positive"),
        (lambda: gabor_atoms(0.1, 500.0, 1.0, 10), ValueError, "centres must lie inside"),
        (lambda: chirps([0.1], [0.6], 10), ValueError, "ends must be above 0 and below"),
    ],
)
def test_bad_input_is_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_function_that_is_not_finite_is_found_out_by_a_search():
    store = FunctionStore(lambda i, j: np.where(j > 5, np.nan, 1.0 + i + 0.0 * j), 3, 100)
    with pytest.raises(ValueError, match="atoms has nan at row"):
        bm.search(store, np.ones(100))
