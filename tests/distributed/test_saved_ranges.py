"""Saved shards of a file that is larger than memory: their atoms stay where they are, and are found again."""

from __future__ import annotations

import os
import shutil
from itertools import pairwise

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import banditmips as bm
from banditmips.distributed import DistributedMIPS

N, D = 90, 6_000
rng = np.random.default_rng(0)
ATOMS = (rng.permutation(np.linspace(-4.0, 4.0, N))[:, np.newaxis] + rng.normal(size=(N, D))).astype(np.float32)
QUERIES = 1.0 + 0.5 * rng.normal(size=(3, D))
BEST = np.argsort(-(QUERIES @ ATOMS.T), axis=1)[:, :2]


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    monkeypatch.setattr("banditmips._opening.DEFAULT_MEMORY_LIMIT", 400_000)


def save_hdf5(path, atoms):
    new = path.with_suffix(".new")  # HDF5 writes over no file that this process has open
    with h5py.File(new, "w") as file:
        file.create_dataset("atoms", data=atoms, chunks=(16, 500))
    new.replace(path)


WRITERS = {
    "a.npy": np.save,
    "a.h5": save_hdf5,
    "a.zarr": lambda path, atoms: zarr.create_array(path, data=atoms, chunks=(16, 500), overwrite=True),
    "a.parquet": lambda path, atoms: pq.write_table(pa.table({"atoms": list(atoms)}), path, row_group_size=16),
    "packed.zarr": lambda path, atoms: bm.pack(atoms, path, n_coordinates=2_000),
}
every_file = pytest.mark.parametrize("name", WRITERS)


def fit_and_save(client, folder, name, **options):
    """Write atoms, and an index of three ranges of them; return where both are, and the index."""
    folder.mkdir(exist_ok=True)
    WRITERS[name](folder / name, ATOMS)
    index = DistributedMIPS(client, **options).fit(folder / name, n_shards=3)
    index.save(folder / "saved")
    return folder / name, folder / "saved", index


def stores_of(index):
    return [shard.index._fitted.store for shard in index._cluster.gather(index._shards)]


@every_file
def test_ranges_of_a_file_are_saved_without_their_atoms_and_answer_as_before(client, tmp_path, name):
    path, saved, index = fit_and_save(client, tmp_path, name, delta=0.01, layout="codes")
    written = sum(file.stat().st_size for file in saved.iterdir())
    assert written < 0.4 * ATOMS.nbytes
    loaded = DistributedMIPS.load(client, saved, verify="now")
    assert (loaded.n_shards, loaded.n_atoms, loaded.n_coordinates) == (3, N, D)
    expected, found = (which.search(QUERIES, 2, minimise="multiplies") for which in (index, loaded))
    np.testing.assert_array_equal(found.indices, BEST)
    np.testing.assert_array_equal(found.n_multiplies, expected.n_multiplies)
    assert found.bytes_read.sum() > 0
    stores = stores_of(loaded)
    assert [store.origin.path for store in stores] == [str(path)] * 3
    edges = [store.origin.rows for store in stores]
    assert (edges[0][0], edges[-1][1]) == (0, N)
    assert all(before[1] == after[0] for before, after in pairwise(edges))
    # Saved again from the files that it was loaded from, in the same place.
    loaded.save(saved)
    again = DistributedMIPS.load(client, saved)
    np.testing.assert_array_equal(again.search(QUERIES, 2).indices, BEST)


@every_file
def test_one_shard_is_an_index_of_its_rows(client, tmp_path, name):
    _, saved, index = fit_and_save(client, tmp_path, name)
    paths = sorted(file for file in saved.iterdir() if file.name != "atoms.bm")
    for path, (first, stop) in zip(paths, pairwise(index._first_rows), strict=True):
        found = bm.load(path).search(QUERIES[0], 2)
        np.testing.assert_array_equal(found.indices, np.argsort(-(ATOMS[first:stop] @ QUERIES[0]))[:2])


@every_file
def test_a_folder_with_both_may_be_moved(client, tmp_path, name):
    fit_and_save(client, tmp_path / "here", name)
    shutil.move(tmp_path / "here", tmp_path / "there")
    loaded = DistributedMIPS.load(client, tmp_path / "there" / "saved")
    np.testing.assert_array_equal(loaded.search(QUERIES, 2).indices, BEST)


@every_file
def test_a_file_that_was_moved_is_named_once_for_all_shards(client, tmp_path, name):
    path, saved, _ = fit_and_save(client, tmp_path, name)
    elsewhere = tmp_path / "else" / name
    elsewhere.parent.mkdir()
    shutil.move(path, elsewhere)
    match = r"its atoms are gone from .*: say where they are, as in load\(\.\.\., atoms=\.\.\.\)"
    with pytest.raises(FileNotFoundError, match=match):
        DistributedMIPS.load(client, saved)
    loaded = DistributedMIPS.load(client, saved, atoms=elsewhere)
    np.testing.assert_array_equal(loaded.search(QUERIES, 2).indices, BEST)
    with pytest.raises(ValueError, match="atoms must be a path, or one for each of the 3 shards"):
        DistributedMIPS.load(client, saved, atoms=[elsewhere])


@every_file
def test_a_file_that_changed_is_an_error(client, tmp_path, name):
    path, saved, _ = fit_and_save(client, tmp_path, name)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    WRITERS[name](path, -ATOMS)
    for file in [path, *path.rglob("*")]:
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))
    with pytest.raises(bm.CorruptFileError, match=r"(changed since an index was fitted|sample of its entries)"):
        DistributedMIPS.load(client, saved).search(QUERIES, N)  # chunks of their own are looked at when they are read
    with pytest.raises(bm.CorruptFileError, match=r"sample of its entries"):
        DistributedMIPS.load(client, saved, atoms=path)


@every_file
def test_a_file_with_fewer_rows_is_an_error_that_names_the_shard(client, tmp_path, name):
    path, saved, _ = fit_and_save(client, tmp_path, name)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    WRITERS[name](path, ATOMS[:40])
    with pytest.raises(bm.CorruptFileError, match=r"saved/.*\.bm: its atoms: .*(rows must be|changed|fit anew)"):
        DistributedMIPS.load(client, saved)


def test_shards_in_files_of_their_own_are_named_one_by_one(client, tmp_path):
    paths = [tmp_path / "first.npy", tmp_path / "second.npy"]
    for path, part in zip(paths, (ATOMS[:40], ATOMS[50:]), strict=True):
        np.save(path, part)
    stores = [bm.open_atoms(path, memory_limit=400_000) for path in paths]
    DistributedMIPS(client).fit([stores[0], ATOMS[40:50], stores[1]]).save(tmp_path / "saved")
    moved = [path.rename(path.with_name(f"moved-{path.name}")) for path in paths]
    loaded = DistributedMIPS.load(client, tmp_path / "saved", atoms=[moved[0], None, moved[1]])
    np.testing.assert_array_equal(loaded.search(QUERIES, 2).indices, BEST)
