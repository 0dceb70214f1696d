"""`open_atoms`, and everything else that `search` and `fit` take for atoms."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips._opening import cut_rows, kind_of, open_rows
from banditmips.atoms import AtomStore, DenseStore, SparseStore

ATOMS = np.random.default_rng(0).integers(-3, 4, (6, 40)).astype(np.float32)
QUERY = np.arange(1.0, 41.0)
BEST = int((ATOMS @ QUERY).argmax())


@pytest.mark.parametrize("form", [str, lambda path: path], ids=["text", "path"])
def test_a_path_is_as_good_as_an_array(tmp_path, form):
    np.save(tmp_path / "atoms.npy", ATOMS)
    path = form(tmp_path / "atoms.npy")
    assert bm.search(path, QUERY).indices[0] == BEST
    assert bm.BanditMIPS().fit(path).search(QUERY).indices[0] == BEST


def test_files_that_are_always_read_whole(tmp_path):
    np.savez(tmp_path / "two.npz", atoms=ATOMS, others=ATOMS[:2])
    scipy.sparse.save_npz(tmp_path / "sparse.npz", scipy.sparse.csr_array(ATOMS))
    np.savetxt(tmp_path / "atoms.csv", ATOMS, delimiter=",")
    assert isinstance(bm.open_atoms(tmp_path / "two.npz", dataset="atoms"), DenseStore)
    assert isinstance(bm.open_atoms(tmp_path / "sparse.npz"), SparseStore)
    assert bm.open_atoms(tmp_path / "atoms.csv", header=False).shape == (6, 40)
    assert bm.search(tmp_path / "sparse.npz", QUERY).indices[0] == BEST


def test_kinds():
    assert kind_of("s3://bucket/atoms") == "zarr"
    assert kind_of("ATOMS.HDF5") == "hdf5"
    with pytest.raises(ValueError, match=r"atoms.xls: cannot read a file with suffix '.xls'; known are .npy, .npz"):
        bm.search("atoms.xls", QUERY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_limit": 0}, "memory_limit must be a positive number of bytes, got 0"),
        ({"memory_limit": "1 GB"}, "memory_limit must be a positive number of bytes, got '1 GB'"),
        ({"missing_chunks": "zero"}, "missing_chunks must be 'error' or 'fill_value', got 'zero'"),
        ({"missing_chunks": "fill_value"}, "missing_chunks is for Zarr and HDF5 only"),
        ({"dataset": "x"}, "atoms.npy: a .npy file holds one table only, so there is no 'x' to choose"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, message):
    np.save(tmp_path / "atoms.npy", ATOMS)
    with pytest.raises(ValueError, match=message):
        bm.open_atoms(tmp_path / "atoms.npy", **options)


@pytest.mark.parametrize("name", ["atoms.npy", "atoms.h5", "atoms.parquet", "atoms.arrow"])
def test_what_is_not_there_is_the_systems_error(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        bm.open_atoms(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "module", "extra"),
    [
        ("atoms.h5", "h5py", "hdf5"),
        ("atoms.zarr", "zarr", "zarr"),
        ("atoms.parquet", "pyarrow.parquet", "tables"),
        ("atoms.feather", "pyarrow.parquet", "tables"),
    ],
)
def test_a_missing_package_names_the_extra(tmp_path, monkeypatch, name, module, extra):
    (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, module, None)
    package = module.split(".")[0]
    with pytest.raises(ImportError, match=rf"reading {name} needs {package}, .*pip install 'banditmips\[{extra}\]'"):
        bm.open_atoms(tmp_path / name)


def test_opening_a_plain_file_needs_no_other_library(tmp_path):
    np.save(tmp_path / "atoms.npy", ATOMS)
    program = f"""
import sys
import banditmips as bm
bm.open_atoms({str(tmp_path / "atoms.npy")!r}, memory_limit=100)
print(*(name for name in ("h5py", "zarr", "pyarrow", "fsspec") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_opening_a_saved_index_does_not_wait_for_scipy(tmp_path):
    np.save(tmp_path / "atoms.npy", np.ones((40, 300)))
    bm.BanditMIPS().fit(bm.open_atoms(tmp_path / "atoms.npy", memory_limit=10_000)).save(tmp_path / "atoms.bm")
    program = f"""
import sys
import banditmips as bm
bm.load({str(tmp_path / "atoms.bm")!r})
print(*(name for name in sys.modules if name.startswith("scipy")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr


def test_the_command_searches_files_where_they_lie(tmp_path):
    zarr = pytest.importorskip("zarr")
    from typer.testing import CliRunner

    from banditmips.cli import app

    zarr.create_array(tmp_path / "atoms.zarr", data=ATOMS, chunks=(2, 10))
    np.save(tmp_path / "queries.npy", np.stack([QUERY, -QUERY, QUERY]))
    arguments = [str(tmp_path / "atoms.zarr"), str(tmp_path / "queries.npy"), "-k", "1", "--memory-limit", "200"]
    done = CliRunner().invoke(app, ["search", *arguments])
    assert done.exit_code == 0, done.stderr
    lines = [line.split(",") for line in done.stdout.splitlines()]
    assert [line[2] for line in lines[1:]] == [str(BEST), str((ATOMS @ -QUERY).argmax()), str(BEST)]
    read = [int(line[lines[0].index("bytes_read")]) for line in lines[1:]]
    assert min(read) > 0
    assert "an index fitted in" in done.stderr  # it reads as much as two searches
    assert f"{sum(read):,} bytes read" in done.stderr
    explained = CliRunner().invoke(app, ["explain", *arguments, "--no-fit"])
    assert explained.exit_code == 0, explained.stderr
    assert "because atoms come in 4 lines of 10 coordinates" in explained.stdout


def test_every_store_follows_the_protocol():
    names = [name for name in vars(AtomStore) if not name.startswith("_")]
    assert sorted(names) == ["blocks", "dtype", "gather", "scores", "shape"]


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def test_tensors_are_used_as_they_are():
    torch = pytest.importorskip("torch")
    from banditmips._validate import as_store

    tensor = torch.tensor(ATOMS)
    for atoms in (tensor, tensor.clone().requires_grad_(), tensor.T.contiguous().T):
        assert bm.search(atoms, QUERY).indices[0] == BEST
        assert bm.BanditMIPS().fit(atoms).search(torch.tensor(QUERY)).indices[0] == BEST
    assert np.shares_memory(as_store(tensor).array, tensor.numpy())
    needs_gradient = tensor.clone().requires_grad_()
    assert np.shares_memory(as_store(needs_gradient).array, needs_gradient.detach().numpy())


def test_tensors_that_cannot_be_used():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(ATOMS)
    with pytest.raises(TypeError, match=r"atoms is a tensor on meta: move it to the CPU first \(tensor.cpu\(\)\)"):
        bm.search(tensor.to("meta"), QUERY)
    with pytest.raises(TypeError, match=r"atoms is a tensor of bfloat16.*convert it \(tensor.float\(\)\)"):
        bm.search(tensor.bfloat16(), QUERY)
    with pytest.raises(TypeError, match=r"atoms is a tensor of layout torch.sparse_coo"):
        bm.search(tensor.to_sparse(), QUERY)


# --- ranges of rows -------------------------------------------------------------------------------------------------


def test_ranges_of_rows_begin_where_chunks_do_if_that_leaves_them_about_even(tmp_path):
    zarr = pytest.importorskip("zarr")
    atoms = np.ones((100, 6))
    np.save(tmp_path / "a.npy", atoms)
    assert cut_rows(tmp_path / "a.npy", 3) == ([0, 33, 66, 100], 6)
    zarr.create_array(tmp_path / "low.zarr", data=atoms, chunks=(8, 4))
    assert cut_rows(tmp_path / "low.zarr", 3) == ([0, 32, 64, 100], 6)
    zarr.create_array(tmp_path / "high.zarr", data=atoms, chunks=(70, 4))
    assert cut_rows(tmp_path / "high.zarr", 3) == ([0, 33, 70, 100], 6)  # nothing begins near 33
    assert cut_rows(tmp_path / "high.zarr", 200)[0][-3:] == [99, 99, 100]  # more ranges than rows


def test_ranges_of_packed_rows(tmp_path):
    pytest.importorskip("zarr")
    atoms = np.random.default_rng(0).normal(size=(400, 9_000)).astype(np.float32)
    path = tmp_path / "packed.zarr"
    bm.pack(atoms, path, n_coordinates=2_000, memory_limit=9 << 20)
    whole = bm.open_atoms(path)
    block = whole.layout.atoms_per_block
    assert block < 400
    cuts, d = cut_rows(path, 3)
    assert d == 9_000
    assert cuts == [0, block, 2 * block, 400]
    start, stop = cuts[1] - 3, cuts[1] + 20
    part = open_rows(path, (start, stop))
    assert part.shape == (stop - start, 9_000)
    rows, columns = np.array([0, 7, 22]), np.append(whole.order[:40], [0, 1, 8_999])
    for chosen in (columns, columns[:40], columns[-3:]):
        found = np.empty((rows.size, chosen.size), dtype=np.float32)
        part.gather(rows, chosen, found)
        assert np.array_equal(found, atoms[start:stop][np.ix_(rows, chosen)])
    facts = part.facts
    assert np.allclose(facts.squared_norms, (atoms[start:stop].astype(float) ** 2).sum(axis=1))
    assert facts.low <= atoms[start:stop].min() <= atoms[start:stop].max() <= facts.high
