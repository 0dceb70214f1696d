"""Searches of packed atoms: the same answers as in memory, few bytes, and damage that is named."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import DenseStore
from banditmips.atoms.metering import metered
from banditmips.core import statistics

zarr = pytest.importorskip("zarr")

N, D = 200, 100_000
N_CACHED = 4096


def make_atoms(n, d):
    """Return atoms of which a few are clearly better than the others for queries of positive mean."""
    rng = np.random.default_rng(0)
    means = np.concatenate([np.arange(3.0, 9.0), np.zeros(n - 6)])
    return (rng.permutation(means)[:, np.newaxis] + rng.normal(size=(n, d))).astype(np.float32)


class InMemory:
    """The same atoms in memory, searched the way that packed ones are: round by round in Python."""

    def __init__(self, atoms):
        self.shape, self.dtype = atoms.shape, atoms.dtype
        self._store = DenseStore(atoms)
        self.gather, self.scores, self.blocks = self._store.gather, self._store.scores, self._store.blocks


@pytest.fixture(scope="module")
def atoms():
    return make_atoms(N, D)


@pytest.fixture(scope="module")
def queries():
    return 1.0 + np.random.default_rng(1).normal(size=(2, D))


@pytest.fixture(scope="module")
def packed(tmp_path_factory, atoms):
    path = tmp_path_factory.mktemp("packed") / "atoms.zarr"
    bm.pack(atoms, path, memory_limit=64_000_000)
    return path


@pytest.fixture(scope="module")
def small_atoms():
    return make_atoms(30, 3_000)


@pytest.fixture
def small(tmp_path, small_atoms):
    bm.pack(small_atoms, tmp_path / "small.zarr", n_coordinates=1_000)
    return tmp_path / "small.zarr"


# --- what a store does ----------------------------------------------------------------------------------------------


def test_it_reads_what_numpy_reads(small, small_atoms):
    store = bm.open_atoms(small)
    assert (store.shape, store.dtype) == (small_atoms.shape, small_atoms.dtype)
    rng = np.random.default_rng(0)
    everything = np.arange(3_000)
    for rows, columns in [
        (np.arange(30), store.order[:40]),
        (np.array([7, 3, 29]), rng.permutation(store.order)[:100]),
        (np.array([4]), everything),
        (np.arange(30), rng.permutation(3_000)[:50]),
        (np.arange(30), np.setdiff1d(everything, store.order)),
    ]:
        out = np.empty((rows.size, columns.size))
        store.gather(rows, columns, out)
        np.testing.assert_array_equal(out, small_atoms[np.ix_(rows, columns)])
    query = rng.normal(size=3_000)
    for objective in (statistics.PRODUCT, statistics.NEG_SQUARED_DIFFERENCE, statistics.NEG_ABSOLUTE_DIFFERENCE):
        for columns in (None, np.array([5, 2_999, 17])):
            given = (np.array([28, 2]), columns, query if columns is None else query[columns], objective)
            np.testing.assert_allclose(store.scores(*given), DenseStore(small_atoms).scores(*given), rtol=1e-12)
    np.testing.assert_array_equal(np.concatenate([block for _, block in store.blocks(7_000)]), small_atoms)


def test_it_goes_to_another_process(small, small_atoms):
    store = pickle.loads(pickle.dumps(bm.open_atoms(small)))
    assert bm.BanditMIPS().fit(store).search(small_atoms[3]).indices[0] == 3


# --- searches -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"rescore": False}, {"k": 5}, {"absolute": True}, {"epsilon": 1e3}])
def test_the_same_answers_as_in_memory(packed, atoms, queries, options):
    found = bm.BanditMIPS().fit(packed).search(queries, **options)
    expected = bm.BanditMIPS(layout="coordinates").fit(InMemory(atoms)).search(queries, **options)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.n_multiplies, expected.n_multiplies)
    np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-9)
    assert found.stop_reason == expected.stop_reason


def test_without_an_index(packed, atoms, queries):
    found = bm.search(packed, queries, k=3, rescore=False)
    expected = bm.search(InMemory(atoms), queries, k=3, rescore=False, sampling="uniform")
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.n_multiplies, expected.n_multiplies)
    assert (found.bytes_read < atoms.nbytes / 20).all()


def test_the_last_rows_are_read_where_that_is_less_than_another_round(packed, atoms, queries):
    # The cosines of the best atoms are close together.
    result = bm.BanditMIPS(objective="cosine").fit(packed).search(queries[0])
    assert result.stop_reason == "finished_exactly"
    assert 1 < result.n_survivors < 10
    assert result.indices[0] == (atoms @ queries[0] / np.linalg.norm(atoms, axis=1)).argmax()
    assert result.bytes_read < 0.1 * atoms.nbytes


def test_a_fit_reads_no_more_than_it_keeps(packed, atoms):
    with metered() as meter:
        index = bm.BanditMIPS().fit(packed)
    # The cached coordinates, the facts, and a little for the indices of shards.
    assert meter.bytes_read < 1.05 * (4 * N * N_CACHED + 4 * D + 16 * N)
    assert index.extra_bytes < 0.1 * atoms.nbytes
    with metered() as meter:
        bm.BanditMIPS(max_extra_memory=2_000_000).fit(packed)
    assert meter.bytes_read < 3_000_000


def test_round_one_reads_at_most_half_a_percent(packed, atoms, queries):
    one_round = {"budget": 16 * N, "rescore": False}
    result = bm.search(packed, queries[0], **one_round)
    assert result.n_rounds == 1
    assert 0 < result.bytes_read <= 0.005 * atoms.nbytes
    assert bm.BanditMIPS().fit(packed).search(queries[0], **one_round).bytes_read == 0


def test_a_found_row_is_all_that_the_finish_reads(packed, atoms, queries):
    result = bm.BanditMIPS().fit(packed).search(queries[0])
    assert result.exact.all()
    assert result.n_survivors == 1
    assert 4 * D < result.bytes_read <= 1.01 * 4 * D


def test_uneven_queries_are_answered_exactly(small, small_atoms):
    query = np.random.default_rng(5).standard_cauchy(size=3_000)
    index = bm.BanditMIPS().fit(small)
    assert "too uneven for the uniform sample that is packed, 1,000 of 3,000" in index.explain(query)
    result = index.search(query)
    assert (result.stop_reason, result.delta_spent) == ("finished_exactly", 0.0)
    assert result.indices[0] == (small_atoms @ query).argmax()


def test_sparse_queries_are_sampled_where_they_are_not_zero(packed, atoms, queries):
    query = np.where(np.random.default_rng(2).random(D) < 0.1, queries[0], 0.0)
    result = bm.BanditMIPS().fit(packed).search(query)
    assert result.indices[0] == (atoms @ query).argmax()
    assert 0 < result.n_multiplies < 0.5 * N * np.count_nonzero(query)
    assert result.bytes_read < atoms.nbytes / 4


@pytest.mark.parametrize("sampling", ["weighted", "uniform", "optimal", "sorted"])
def test_every_way_of_sampling(tmp_path, small, small_atoms, sampling):
    query = np.random.default_rng(3).standard_exponential(size=3_000)
    bm.pack(small_atoms, tmp_path / "whole.zarr")
    for path in (small, tmp_path / "whole.zarr"):
        result = bm.BanditMIPS(sampling=sampling).fit(path).search(query, k=2)
        assert set(result.indices) == set(np.argsort(-(small_atoms @ query))[:2])


@pytest.mark.parametrize(
    "options", [{"bound": "hoeffding"}, {"bucket_size": 10}, {"layout": "none"}, {"validate": False}]
)
def test_other_options(small, small_atoms, options):
    query = 1.0 + np.random.default_rng(3).normal(size=3_000)
    best, second = np.argsort(-(small_atoms @ query))[:2]
    index = bm.BanditMIPS(**options).fit(small)
    assert index.search(query).indices[0] == best
    assert index.remove([best]).search(query).indices[0] == second


def test_atoms_can_be_added(small, small_atoms):
    query = 1.0 + np.random.default_rng(3).normal(size=3_000)
    index = bm.BanditMIPS().fit(small).add(small_atoms.max(axis=0, keepdims=True))
    assert index.search(query).indices[0] == 30


def test_a_hopeless_query_reads_little_more_than_everything(tmp_path):
    atoms = np.random.default_rng(0).normal(size=(300, 2_000)).astype(np.float32)
    bm.pack(atoms, tmp_path / "noise.zarr")
    query = np.random.default_rng(1).normal(size=2_000)
    result = bm.BanditMIPS(layout="none").fit(tmp_path / "noise.zarr").search(query)
    assert result.indices[0] == (atoms @ query).argmax()
    assert result.bytes_read < 1.4 * atoms.nbytes


def test_another_seed_is_refused(tmp_path, small_atoms):
    path = tmp_path / "seven.zarr"
    bm.pack(small_atoms, path, seed=7)
    with pytest.raises(ValueError, match=r"seed must be 7, with which these atoms were packed, got 0"):
        bm.BanditMIPS().fit(path)
    with pytest.raises(ValueError, match=r"seed must be 7"):
        bm.search(path, small_atoms[3])
    assert bm.BanditMIPS(seed=7).fit(path).search(small_atoms[3]).indices[0] == 3


def test_packed_atoms_behind_a_url(small, small_atoms):
    pytest.importorskip("fsspec")
    index = bm.BanditMIPS().fit(f"file://{small}")
    assert index.search(small_atoms[3]).indices[0] == 3
    next(file for file in chunk_files(small, "rows")).unlink()
    with pytest.raises(bm.CorruptFileError, match=r"the chunk is missing"):
        bm.BanditMIPS().fit(f"file://{small}").search(small_atoms, delta=0.0)


# --- damage ---------------------------------------------------------------------------------------------------------


def chunk_files(path, array):
    return sorted(file for file in (path / array / "c").rglob("*") if file.is_file())


def search_everything(path, atoms):
    """Read every chunk, by coordinate and by row."""
    index = bm.BanditMIPS().fit(path)
    store = bm.open_atoms(path)
    store.gather(np.arange(len(atoms)), store.order, np.empty((len(atoms), store.order.size)))
    index.search(atoms, delta=0.0)


@pytest.mark.parametrize("array", ["coordinates", "rows", "squared_norms", "means", "scatter", "column_squares"])
def test_a_damaged_chunk_is_named(small, small_atoms, array):
    search_everything(small, small_atoms)
    file = chunk_files(small, array)[0]
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 4
    file.write_bytes(content)
    with pytest.raises(bm.CorruptFileError, match=r"damaged .*checksum") as caught:
        search_everything(small, small_atoms)
    assert caught.value.path == str(small)
    assert array in caught.value.where
    if array in ("coordinates", "rows"):
        assert f"(file {file.relative_to(small)})" in caught.value.where


@pytest.mark.parametrize("array", ["coordinates", "rows", "squared_norms", "means", "scatter", "column_squares"])
def test_a_missing_chunk_is_an_error_and_never_zeros(small, small_atoms, array):
    file = chunk_files(small, array)[-1]
    file.unlink()
    with pytest.raises(bm.CorruptFileError, match=r"the chunk is missing") as caught:
        search_everything(small, small_atoms)
    assert array in caught.value.where


@pytest.mark.parametrize("length", [0, 10, -1])
def test_a_file_that_was_cut_short(small, small_atoms, length):
    file = chunk_files(small, "rows")[0]
    file.write_bytes(file.read_bytes()[:length])
    with pytest.raises(bm.CorruptFileError, match=r"chunk .* of 'rows' .*damaged"):
        search_everything(small, small_atoms)


def test_missing_arrays_and_odd_attributes(small, small_atoms):
    shutil.rmtree(small / "means")
    with pytest.raises(bm.CorruptFileError, match=r"array 'means'"):
        bm.BanditMIPS().fit(small)
    group = zarr.open_group(small, mode="r+")
    about = dict(group.attrs["banditmips"])
    for change, message in (
        ({"version": 2}, r"packed in format version 2, but this library reads version 1"),
        ({"rows_chunk": None}, r"attributes"),
        ({"seed": 3}, r"the coordinates are not in the order of seed 3"),
        ({"n": 31}, r"shape"),
        ({"dtype": "float64"}, r"it holds float32, but the attributes say float64"),
    ):
        group.update_attributes({"banditmips": {**about, **change}})
        with pytest.raises(ValueError, match=message):
            bm.open_atoms(small)
    del about["rows_chunk"]
    group.update_attributes({"banditmips": about})
    with pytest.raises(bm.CorruptFileError, match=r"not as packing writes them"):
        bm.open_atoms(small)


@pytest.mark.parametrize(
    "change",
    [
        {"n_coordinates": 2001},
        {"n_coordinates": 10**15},
        {"n_coordinates": 0},
        {"d": 0},
        {"d": 2**70},
        {"n": 2**62},
        {"n": -1},
        {"n": True},
        {"seed": 2**70},
        {"seed": -1},
        {"dtype": "object"},
        {"dtype": ["float32"]},
        {"atoms_per_block": 0},
        {"rows_chunk": [0, 10]},
        {"rows_chunk": [1]},
        {"rows_chunk": [1, 2, 3]},
        {"coordinates_chunk": 7},
        {"finished_blocks": -1},
        {"finished_blocks": "all"},
        {"finished_blocks": 10**9},
        {"complete": "yes"},
        {"low": None},
        {"high": "9"},
        {"order_sha256": "0" * 64},
    ],
    ids=str,
)
def test_attributes_that_cannot_be_are_refused_before_anything_is_done_by_them(small, change):
    group = zarr.open_group(small, mode="r+")
    group.update_attributes({"banditmips": {**group.attrs["banditmips"], **change}})
    with pytest.raises(bm.CorruptFileError, match=r"small\.zarr: (attributes|array 'order')"):
        bm.open_atoms(small)
