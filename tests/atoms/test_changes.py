"""Atoms that change behind an index: noticed where anything shows it, whatever is kept in memory."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import banditmips as bm

N, D = 24, 3000
LIMIT = 400_000  # less than twice the atoms: they are searched where they lie, and many chunks are kept
rng = np.random.default_rng(0)
ATOMS = (rng.permutation(np.linspace(-4.0, 4.0, N))[:, np.newaxis] + rng.normal(size=(N, D))).astype(np.float32)
QUERY = 1.0 + 0.5 * rng.normal(size=D)


def write_zarr(path, atoms):
    array = zarr.open_array(path, mode="a", shape=atoms.shape, dtype=atoms.dtype, chunks=(12, 40))
    array[:] = atoms


def write_sharded(path, atoms):
    if not path.exists():
        zarr.create_array(path, shape=atoms.shape, dtype=atoms.dtype, chunks=(12, 40), shards=(12, 400))
    zarr.open_array(path, mode="a")[:] = atoms


def write_hdf5(path, atoms):
    new = path.with_suffix(".new")  # HDF5 writes over no file that this process has open
    with h5py.File(new, "w") as file:
        file.create_dataset("atoms", data=atoms, chunks=(12, 40))
    new.replace(path)


def write_parquet(path, atoms):
    pq.write_table(pa.table({"atoms": list(atoms)}), path, row_group_size=6)


def write_arrow(path, atoms):
    table = pa.table({"atoms": list(atoms)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=6)


def write_npy(path, atoms):
    np.save(path, atoms)


WRITERS = {
    "a.zarr": write_zarr,
    "sharded.zarr": write_sharded,
    "a.h5": write_hdf5,
    "a.parquet": write_parquet,
    "a.arrow": write_arrow,
    "a.npy": write_npy,
}


def make_younger(path):
    """Make sure that the new files are not of the same clock tick as the old ones."""
    for file in [path, *path.rglob("*")]:
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))


@pytest.mark.parametrize("name", WRITERS)
def test_atoms_written_anew_after_fit_are_an_error(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path, ATOMS)
    store = bm.open_atoms(path, memory_limit=LIMIT)
    index = bm.BanditMIPS().fit(store)
    for _ in range(2):  # the second time from what is kept in memory
        assert index.search(QUERY).indices[0] == (ATOMS @ QUERY).argmax()
    WRITERS[name](path, -ATOMS)
    make_younger(path)
    with pytest.raises(bm.CorruptFileError, match=rf"{name}.*it has changed since it was opened .*open it anew"):
        index.search(QUERY)
    with pytest.raises(bm.CorruptFileError, match="changed"):
        bm.search(store, QUERY)
    again = bm.BanditMIPS().fit(bm.open_atoms(path, memory_limit=LIMIT))
    assert again.search(QUERY).indices[0] == (-ATOMS @ QUERY).argmax()


@pytest.mark.parametrize("name", ["a.h5", "a.parquet", "a.arrow"])
def test_a_file_that_is_gone_is_an_error(name, tmp_path):
    path = tmp_path / name
    WRITERS[name](path, ATOMS)
    index = bm.BanditMIPS().fit(bm.open_atoms(path, memory_limit=LIMIT))
    path.unlink()
    with pytest.raises(bm.CorruptFileError, match=r"it has changed since it was opened \(it is gone\)"):
        index.search(QUERY)


def test_atoms_packed_anew_are_an_error(tmp_path):
    path = tmp_path / "packed.zarr"
    bm.pack(ATOMS, path)
    opened = bm.open_atoms(path)
    index = bm.BanditMIPS().fit(path)
    assert index.search(QUERY).indices[0] == (ATOMS @ QUERY).argmax()
    bm.pack(-2 * ATOMS, path, overwrite=True)
    make_younger(path)
    with pytest.raises(bm.CorruptFileError, match=r"packed\.zarr.*it has changed since it was opened"):
        index.search(QUERY)
    with pytest.raises(bm.CorruptFileError, match=r"packed\.zarr: attributes: it was packed anew"):
        bm.BanditMIPS().fit(opened)


def test_a_chunk_that_appears_is_a_change(tmp_path):
    path = tmp_path / "a.zarr"
    array = zarr.create_array(path, shape=ATOMS.shape, dtype=ATOMS.dtype, chunks=(12, 40), fill_value=0)
    array[:12] = ATOMS[:12]
    store = bm.open_atoms(path, memory_limit=LIMIT, missing_chunks="fill_value")
    index = bm.BanditMIPS().fit(store)
    index.search(QUERY, k=N)
    array[12:] = ATOMS[12:]
    with pytest.raises(bm.CorruptFileError, match="it has changed since it was opened"):
        index.search(QUERY, k=N)
