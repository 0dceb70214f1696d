"""What can be packed, and the command that does it."""

from __future__ import annotations

import errno
import sys

import numpy as np
import pytest
import scipy.sparse
from typer.testing import CliRunner

import banditmips as bm
from banditmips.atoms import DenseStore, JoinedStore
from banditmips.cli import app
from banditmips.cli.pack import parse_bytes

zarr = pytest.importorskip("zarr")

MEMORY = 2_000_000
"""Bytes of memory with which the atoms below are not read whole."""
ATOMS = np.random.default_rng(0).normal(size=(48, 3_001)).astype(np.float32)


def write_npy(path):
    np.save(path, ATOMS)


def write_fortran(path):
    np.save(path, np.asfortranarray(ATOMS))


def write_hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("atoms", data=ATOMS, chunks=(10, 700))
        file["other"] = np.arange(3)


def write_zarr(path):
    group = zarr.create_group(path)
    group.create_array("atoms", data=ATOMS, chunks=(7, 1_000))


def write_parquet(path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    lists = arrow.FixedSizeListArray.from_arrays(ATOMS.ravel(), ATOMS.shape[1])
    parquet.write_table(arrow.table({"atoms": lists}), path, row_group_size=11)


def write_npz(path):
    np.savez(path, atoms=ATOMS[:10], queries=ATOMS[:2])


SOURCES = {
    "atoms.npy": write_npy,
    "fortran.npy": write_fortran,
    "atoms.h5": write_hdf5,
    "atoms.zarr": write_zarr,
    "atoms.parquet": write_parquet,
    "atoms.npz": write_npz,
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_kind_of_file(tmp_path, name):
    SOURCES[name](tmp_path / name)
    dataset = None if name.endswith(".npy") else "atoms"
    bm.pack(tmp_path / name, tmp_path / "packed.zarr", dataset=dataset, memory_limit=MEMORY)
    expected = ATOMS[:10] if name == "atoms.npz" else ATOMS
    np.testing.assert_array_equal(zarr.open_group(tmp_path / "packed.zarr", mode="r")["rows"][:], expected)


def test_a_changed_chunk_of_a_source_is_noticed(tmp_path):
    from banditmips.packing.source import open_source

    write_zarr(tmp_path / "atoms.zarr")
    source = open_source(tmp_path / "atoms.zarr", "atoms", MEMORY)
    before = source.fingerprint()
    assert before == source.fingerprint()
    zarr.open_group(tmp_path / "atoms.zarr", mode="r+")["atoms"][40, 2_900] = 7.0
    assert source.fingerprint() != before


def test_stores_and_packed_atoms_can_be_packed(tmp_path):
    halves = JoinedStore([DenseStore(ATOMS[:20]), DenseStore(ATOMS[20:])])
    bm.pack(halves, tmp_path / "joined.zarr", memory_limit=MEMORY)
    bm.pack(tmp_path / "joined.zarr", tmp_path / "again.zarr", seed=5, n_coordinates=10)
    again = zarr.open_group(tmp_path / "again.zarr", mode="r")
    np.testing.assert_array_equal(again["rows"][:], ATOMS)
    assert again["coordinates"].shape == (10, 48)


def test_files_that_are_read_whole_must_fit(tmp_path):
    np.savez_compressed(tmp_path / "large.npz", np.zeros((100, 3_000)))
    with pytest.raises(ValueError, match=r"large\.npz can only be read whole, and its 2,400,128 bytes are more than"):
        bm.pack(tmp_path / "large.npz", tmp_path / "packed.zarr", memory_limit=MEMORY)


def test_without_zarr_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(ImportError, match=r"packing atoms needs zarr, .* pip install 'banditmips\[zarr\]'"):
        bm.pack(ATOMS, tmp_path / "packed.zarr")


def test_sparse_files_are_refused(tmp_path):
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.eye_array(30, format="csr"))
    with pytest.raises(ValueError, match=r"sparse\.npz is sparse, and packing would write its zeros"):
        bm.pack(tmp_path / "sparse.npz", tmp_path / "packed.zarr")


def test_a_dataset_is_of_a_file(tmp_path):
    with pytest.raises(ValueError, match=r"dataset chooses from a file"):
        bm.pack(ATOMS, tmp_path / "packed.zarr", dataset="atoms")


def test_packed_atoms_are_not_read_whole(tmp_path):
    from banditmips._tables import read_matrix

    bm.pack(ATOMS, tmp_path / "packed.zarr")
    with pytest.raises(ValueError, match=r"packed\.zarr: holds packed atoms"):
        read_matrix(tmp_path / "packed.zarr")


# --- the command ----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_npy(tmp_path / "atoms.npy")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(app, ["pack", *(str(argument) for argument in arguments)])


def test_the_command_packs_and_says_so(folder):
    done = run("atoms.npy", "packed.zarr", "--coordinates", 100, "--memory", "2MB", "--seed", 3)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "48 x 3,001 atoms of float32 packed into packed.zarr" in done.stderr
    assert "100 coordinates by coordinate, seed 3" in done.stderr
    query = 1.0 + np.random.default_rng(1).normal(size=3_001)
    assert bm.BanditMIPS(seed=3).fit("packed.zarr").search(query).indices[0] == (ATOMS @ query).argmax()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.npy", "packed.zarr"), "missing.npy: No such file or directory"),
        (("atoms.npy", "there.zarr"), "there.zarr: is there already, and complete; overwrite=True (--overwrite)"),
        (("atoms.npy", "atoms.npy"), "lie in each other"),
        (("atoms.npy", "packed.zarr", "--memory", "much"), "--memory must be a number of bytes as in 512MB or 2GB"),
        (("atoms.npy", "packed.zarr", "--memory", "1kB"), "--memory must be at least"),
        (("nan.npy", "packed.zarr"), "nan.npy has nan at row 1, column 2"),
        (("atoms.npy", "packed.zarr", "--coordinates", "0"), "--coordinates"),
    ],
)
def test_mistakes_are_one_line(folder, arguments, message):
    bm.pack(ATOMS, "there.zarr")
    np.save("nan.npy", np.where(np.arange(12).reshape(2, 6) == 8, np.nan, 1.0))
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_one_line_and_goes_on(folder, monkeypatch):
    real = zarr.storage.LocalStore.set
    counter = iter(range(30))

    async def failing(self, key, value):
        if next(counter, None) is None:
            raise OSError(errno.ENOSPC, "No space left on device")
        await real(self, key, value)

    monkeypatch.setattr(zarr.storage.LocalStore, "set", failing)
    done = run("atoms.npy", "packed.zarr", "--memory", "2MB")
    assert done.exit_code == 1
    expected = (
        r"error: packed.zarr: the disk is full; 1 of 3 blocks are packed and kept: pack again to go on from there"
    )
    assert done.stderr == expected + "\n"
    monkeypatch.setattr(zarr.storage.LocalStore, "set", real)
    done = run("atoms.npy", "packed.zarr", "--memory", "2MB")
    assert done.exit_code == 0
    assert "(1 of 3 blocks were there)" in done.stderr


def test_progress_is_shown_where_it_is_asked_for(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    shown = run("atoms.npy", "a.zarr", "--progress").stderr
    assert shown.startswith("packing")
    assert "576.2/576.2 kB" in shown
    assert "kB" not in run("atoms.npy", "b.zarr").stderr


@pytest.mark.parametrize("text", ["", "-1", "1.2.3MB", "5XB", "MB"])
def test_odd_sizes_are_refused(text):
    with pytest.raises(ValueError, match="memory_limit must be a number of bytes"):
        parse_bytes(text)
