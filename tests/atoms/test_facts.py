"""The pass of `fit`: how accurate its sums are, and that threads, parts and layouts change nothing."""

from itertools import pairwise

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import DenseStore, SparseStore, collecting
from banditmips.atoms.cache import CacheFiller
from banditmips.atoms.coding import CodesKeeper
from banditmips.atoms.collecting import FactsCollector, collect_facts
from banditmips.atoms.errors import BadAtomError
from banditmips.core.codes import Codes
from banditmips.core.numbers import permuted_coordinates
from banditmips.core.rotation import Rotation

N = 7
"""Rows: a tile less one."""


def plain(rng, d):
    return rng.normal(size=(N, d))


def far_from_zero(rng, d):
    """The entries agree in eight digits: as a difference of squares, nothing would be left of the scatter."""
    return 1e8 + rng.normal(size=(N, d))


def far_first(rng, d):
    """The first entry, which is the first pivot, is nothing like the others."""
    atoms = 5.0 + rng.normal(size=(N, d))
    atoms[:, 0] = 1e9
    return atoms


def steps(rng, d):
    """Long stretches of another level each: the mean of one is a bad pivot for the next."""
    return np.repeat(10.0 ** rng.integers(0, 9, size=(N, d // 700 + 1)), 700, axis=1)[:, :d] + rng.normal(size=(N, d))


def heavy(rng, d):
    return rng.standard_t(1.1, size=(N, d))


KINDS = [plain, far_from_zero, far_first, steps, heavy]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("d", [1, 2, 1025, 9_000])
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_right_to_the_last_digits(kind, d, dtype):
    """Certain bounds allow for a relative error of 32 times the single precision; these stay within 8 of the double."""
    atoms = kind(np.random.default_rng(d), d).astype(dtype)
    found = collect_facts(DenseStore(atoms))
    exact = atoms.astype(np.longdouble)
    means = exact.mean(axis=1)
    scatter = ((exact - means[:, np.newaxis]) ** 2).sum(axis=1)
    norms = (exact**2).sum(axis=1)
    allowed = 8.0 * np.finfo(np.float64).eps
    assert np.finfo(np.longdouble).eps < allowed / 100
    assert (abs(found.means - means) <= allowed * np.sqrt(norms / d)).all()
    assert (abs(found.scatter - scatter) <= allowed * scatter).all()
    assert (abs(found.squared_norms - norms) <= allowed * norms).all()
    assert (found.low, found.high) == (atoms.min(), atoms.max())
    np.testing.assert_array_equal(found.column_squares, (exact**2).sum(axis=0).astype(np.float32))


def test_an_atom_of_one_value_has_no_scatter():
    atoms = np.repeat(np.array([[0.1], [1 / 3], [-7e11], [0.0]]), 5_003, axis=1)
    found = collect_facts(DenseStore(atoms))
    np.testing.assert_array_equal(found.scatter, 0.0)
    np.testing.assert_array_equal(found.means, atoms[:, 0])


@pytest.mark.parametrize("value", [1e200, 1.7e308, -1.7e308])
def test_entries_too_large_to_be_squared(value):
    atoms = np.ones((3, 2_000))
    atoms[1, ::2] = value
    found = collect_facts(DenseStore(atoms))
    np.testing.assert_array_equal(found.scatter, [0.0, np.inf, 0.0])
    np.testing.assert_array_equal(found.squared_norms, [2_000.0, np.inf, 2_000.0])
    np.testing.assert_allclose(found.means, [1.0, value / 2, 1.0])
    assert found.column_squares.max() == np.float32(1e38)


@pytest.mark.parametrize("cuts", [(), (1,), (5, 1_030), (8_192,), (3, 4, 2_000)])
def test_rows_may_come_in_pieces_of_columns(cuts):
    atoms = steps(np.random.default_rng(0), 9_000)
    collector = FactsCollector(*atoms.shape)
    edges = [0, *cuts, atoms.shape[1]]
    for first, stop in list(pairwise(edges))[::-1]:
        collector.add(0, atoms[:4, first:stop], first)
        collector.add(4, atoms[4:, first:stop], first)
    found, whole = collector.facts(), collect_facts(DenseStore(atoms))
    np.testing.assert_allclose(found.scatter, whole.scatter, rtol=1e-14)
    np.testing.assert_allclose(found.means, whole.means, rtol=1e-14)
    np.testing.assert_array_equal(found.column_squares, whole.column_squares)
    assert (found.low, found.high) == (whole.low, whole.high)


def test_sparse_facts_are_those_of_the_dense_matrix():
    import scipy.sparse

    atoms = far_from_zero(np.random.default_rng(0), 500)
    atoms[:3, 5:] = 0.0
    found = bm.BanditMIPS().fit(scipy.sparse.csr_array(atoms))._fitted.facts
    whole = collect_facts(DenseStore(atoms))
    for name in ("means", "scatter", "squared_norms"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-13, err_msg=name)


@pytest.mark.parametrize("value", [1e200, 1.7e308, -1.7e308])
@pytest.mark.parametrize("filled", [1, 2])
def test_sparse_entries_too_large_to_be_squared_or_added(value, filled):
    import scipy.sparse

    atoms = np.ones((3, 2_000))
    atoms[1] = 0.0
    atoms[1, ::filled] = value
    found = collect_facts(SparseStore(scipy.sparse.csr_array(atoms)))
    np.testing.assert_array_equal(found.scatter[[0, 2]], 0.0)
    assert found.scatter[1] == np.inf or (filled == 1 and found.scatter[1] == 0.0)
    np.testing.assert_array_equal(found.squared_norms, [2_000.0, np.inf, 2_000.0])
    np.testing.assert_allclose(found.means, [1.0, value / filled, 1.0])


# --- with the cache, in blocks and threads ------------------------------------------------------------------------


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(collecting, "_ENTRIES_IN_MEMORY", 1)
    monkeypatch.setattr(collecting, "_BLOCK_ENTRIES", 50_000)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_threads_change_no_bit_of_an_index(n_jobs, small_blocks):
    atoms = np.random.default_rng(3).normal(size=(203, 2_100)).astype(np.float32)
    one, many = bm.BanditMIPS().fit(atoms)._fitted, bm.BanditMIPS(n_jobs=n_jobs).fit(atoms)._fitted
    for name in ("squared_norms", "means", "scatter", "column_squares", "low", "high"):
        np.testing.assert_array_equal(getattr(one.facts, name), getattr(many.facts, name), err_msg=name)
    for name, array in one.codes.arrays().items():
        np.testing.assert_array_equal(many.codes.arrays()[name], array, err_msg=name)
    one, many = (bm.BanditMIPS(layout="coordinates", n_jobs=jobs).fit(atoms)._fitted for jobs in (1, n_jobs))
    for name in ("order", "values"):
        np.testing.assert_array_equal(getattr(one.cache, name), getattr(many.cache, name), err_msg=name)


def layouts(atoms):
    read_only = atoms.copy()
    read_only.flags.writeable = False
    return {
        "C": atoms,
        "Fortran": np.asfortranarray(atoms),
        "every other": np.repeat(atoms, 2, axis=0)[::2],
        "backwards": atoms[::-1, ::-1].copy()[::-1, ::-1],
        "read-only": read_only,
        "other byte order": atoms.astype(atoms.dtype.newbyteorder()),
    }


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "?", "g", "i8"])
def test_the_cache_is_filled_on_the_way(dtype, small_blocks):
    given = (10 * np.random.default_rng(4).normal(size=(53, 8_300))).astype(dtype)
    order = permuted_coordinates(0, given.shape[1], 0, 70)
    for name, atoms in layouts(given).items():
        filler = CacheFiller(DenseStore(atoms), 0, 70)
        collect_facts(DenseStore(atoms), [filler], n_jobs=2)
        cache = filler.cache()
        assert cache.values.dtype == np.dtype(dtype), name
        np.testing.assert_array_equal(cache.order, order)
        np.testing.assert_array_equal(cache.values, given[:, order], err_msg=name)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "?", "g", "i8"])
def test_codes_are_made_on_the_way(dtype, small_blocks):
    given = (10 * np.random.default_rng(4).normal(size=(53, 1_300))).astype(dtype)
    floats = given.astype(np.float32 if np.can_cast(given.dtype, np.float32) else np.float64)
    rotation, centre = Rotation(1_300, 2), floats[:9].mean(axis=0).astype(np.float32)
    expected = Codes(rotation, centre, 53, rotation.width, 2)
    expected.encode(0, floats)
    for name, atoms in layouts(given).items():
        codes = expected.like(53)
        collect_facts(DenseStore(atoms), [CodesKeeper(codes)], n_jobs=2)
        for kept, array in expected.arrays().items():
            np.testing.assert_array_equal(codes.arrays()[kept], array, err_msg=f"{name}, {kept}")


def test_several_may_keep_something_of_one_pass(small_blocks):
    atoms = np.random.default_rng(4).normal(size=(53, 1_300))
    rotation = Rotation(1_300, 2)
    codes, filler = Codes(rotation, np.zeros(1_300), 53, rotation.width), CacheFiller(DenseStore(atoms), 0, 70)
    both = collect_facts(DenseStore(atoms), [filler, CodesKeeper(codes)])
    np.testing.assert_array_equal(both.means, collect_facts(DenseStore(atoms)).means)
    np.testing.assert_array_equal(filler.cache().values, atoms[:, filler.order])
    expected = codes.like(53)
    expected.encode(0, atoms)
    np.testing.assert_array_equal(codes.scales, expected.scales)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_first_entry_that_is_not_finite_is_named(n_jobs, small_blocks):
    atoms = np.random.default_rng(5).normal(size=(200, 1_000))
    atoms[150, 7] = np.nan
    atoms[70, 900] = -np.inf
    with pytest.raises(ValueError, match=r"atoms has -inf at row 70, column 900"):
        bm.BanditMIPS(n_jobs=n_jobs).fit(atoms)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (1, 3_000), (300, 1), (40, 1_024), (261, 1_500), (600, 2_049)])
def test_facts_by_column_are_those_by_row(dtype, shape):
    """To the bit, whichever way the atoms lie: norms of cosines are among them."""
    rng = np.random.default_rng(0)
    atoms = (
        10.0 ** rng.uniform(-3, 3, (shape[0], 1)) * (rng.normal(size=shape) + rng.normal(size=(shape[0], 1)))
    ).astype(dtype)
    by_row, by_column = (collect_facts(DenseStore(np.asarray(atoms, order=order))) for order in "CF")
    for name in ("means", "scatter", "squared_norms"):
        np.testing.assert_array_equal(getattr(by_column, name), getattr(by_row, name))
    np.testing.assert_allclose(by_column.column_squares, by_row.column_squares, rtol=1e-6)
    assert (by_column.low, by_column.high) == (by_row.low, by_row.high)


def test_what_is_not_finite_by_column_is_named():
    atoms = np.ones((30, 2_000), order="F")
    atoms[17, 1_800] = np.nan
    with pytest.raises(BadAtomError, match=r"row 17, column 1800|17.*1800"):
        collect_facts(DenseStore(atoms))
