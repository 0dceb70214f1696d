"""What somebody hands over who is in a hurry: the message says what came, and what to do about it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips import _padding
from banditmips._methods import plan_methods
from banditmips._search_options import check_choice
from banditmips.cli import app
from banditmips.estimators import MatchingPursuit, MIPSNeighbors

N, D = 6, 40
rng = np.random.default_rng(0)
ATOMS, QUERIES = rng.normal(size=(N, D)), rng.normal(size=(3, D))


class OnAnotherDevice:
    """As a tensor on a graphics card looks to whoever knows DLPack only."""

    shape = ATOMS.shape

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **options):
        raise BufferError("cannot export it")


NO_ARRAYS = {
    "nothing": (None, "must be an array, or what NumPy makes one of, got None"),
    "a path": ("queries.npy", r"got the string 'queries\.npy': read the file first, as with numpy\.load"),
    "bytes": (b"queries.npy", "got the bytes b'queries.npy': paths are strings here"),
    "a set": ({1.0, 2.0}, "got a set: make a list of it"),
    "a generator": ((row for row in QUERIES), "got a generator: make a list of it"),
    "a dict": ({"a": QUERIES}, "got a dict$"),
    "rows of different lengths": ([[1.0, 2.0], [3.0]], "cannot be read as an array: its rows differ in length"),
    "a tensor elsewhere": (OnAnotherDevice(), "cannot export it; move it to the CPU first"),
}


@pytest.mark.parametrize(("value", "message"), NO_ARRAYS.values(), ids=NO_ARRAYS.keys())
def test_what_is_no_array_is_shown(value, message):
    with pytest.raises(TypeError, match=f"queries .*{message}"):
        bm.search(ATOMS, value)
    if not isinstance(value, str):  # which is the path of a file there
        with pytest.raises(TypeError, match=f"atoms .*{message}"):
            bm.BanditMIPS().fit(value)


def test_queries_that_lie_in_columns():
    with pytest.raises(ValueError, match=r"queries has 3 columns, but the atoms have 40; transposed they would fit"):
        bm.search(ATOMS, QUERIES.T)
    with pytest.raises(ValueError, match=r"queries has 3 columns, but the atoms have 40 \(argument"):
        bm.search(ATOMS, QUERIES[:, :3])


@pytest.mark.parametrize("value", [None, 3, ["cosine"]])
def test_nothing_is_suggested_for_what_is_no_word(value):
    with pytest.raises(ValueError, match=r"objective must be one of .*got (None|3|\['cosine'\])$"):
        check_choice("objective", value, ("inner_product", "cosine"))


def test_words_are_known_in_capitals():
    with pytest.raises(ValueError, match="did you mean 'cosine'"):
        bm.search(ATOMS, QUERIES, objective="COSINE")


@pytest.mark.parametrize("path", [None, 7, b"atoms.bm"])
def test_what_is_no_path_is_refused_by_name(path):
    message = rf"path must be a string or a pathlib\.Path, got {path!r}"
    with pytest.raises(TypeError, match=message):
        bm.BanditMIPS().fit(ATOMS).save(path)
    with pytest.raises(TypeError, match=message):
        bm.load(path)


def test_places_where_nothing_can_be_written_or_read(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"there is no folder {tmp_path}/nowhere.*atoms\.bm"):
        bm.BanditMIPS().fit(ATOMS).save(tmp_path / "nowhere" / "atoms.bm")
    (tmp_path / "empty.bm").touch()
    with pytest.raises(bm.CorruptFileError, match=r"empty\.bm: prefix: not a banditmips file: it is empty"):
        bm.load(tmp_path / "empty.bm")
    with pytest.raises(ValueError, match="the path of a file must not be empty"):
        bm.search("", QUERIES)


def test_urls_that_nobody_can_read():
    pytest.importorskip("fsspec")
    with pytest.raises(bm.CorruptFileError, match=r"nowhere://a\.zarr: metadata: cannot be read .*known: nowhere"):
        bm.open_atoms("nowhere://a.zarr")


def test_a_protocol_that_is_not_installed_is_no_damage(monkeypatch):
    import zarr

    def not_installed(*arguments, **options):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(zarr, "open", not_installed)
    with pytest.raises(ImportError, match=r"s3://bucket/atoms\.zarr: Install s3fs to access S3"):
        bm.open_atoms("s3://bucket/atoms.zarr")


def test_groups_and_closed_files_of_other_libraries(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File(tmp_path / "atoms.h5", "w") as file:
        file["good"], file["other"] = ATOMS, ATOMS
        dataset = file["good"]
        with pytest.raises(TypeError, match=r"atoms is a group, .*as group\[name\]; it holds 'good', 'other'"):
            bm.search(file, QUERIES)
    with pytest.raises(ValueError, match="atoms is an HDF5 dataset whose file is closed"):
        bm.BanditMIPS().fit(dataset)
    with pytest.raises(TypeError, match=r"atoms is a group, .*it holds None"):
        bm.search(zarr.create_group(tmp_path / "group.zarr"), QUERIES)


def test_a_saved_index_is_no_file_of_atoms(tmp_path):
    bm.BanditMIPS().fit(ATOMS).save(tmp_path / "atoms.bm")
    with pytest.raises(
        ValueError, match=r"atoms\.bm: is no file of atoms; a saved index is opened by banditmips\.load"
    ):
        bm.search(tmp_path / "atoms.bm", QUERIES)


def test_the_name_of_one_method_is_not_many_letters():
    assert [method.key for method in plan_methods("naive")] == ["naive"]
    with pytest.raises(ValueError, match="there is no method 'nave'; did you mean 'naive'"):
        plan_methods("nave")


def test_a_batch_is_indexed_by_a_number():
    result = bm.search(ATOMS, QUERIES)
    assert result[np.int64(1)].indices == result.indices[1]
    with pytest.raises(TypeError, match=r"indexed by the number of one query, got slice\(0, 2, None\)"):
        result[0:2]


def test_estimators_name_their_own_parameters():
    with pytest.raises(ValueError, match="n_nonzero_coefs must be at most 6, the number of atoms, got 7"):
        MatchingPursuit(n_nonzero_coefs=7).fit(ATOMS)
    with pytest.raises(ValueError, match="n_nonzero_coefs must be at least 1, got 0"):
        MatchingPursuit(n_nonzero_coefs=0).fit(ATOMS)
    with pytest.raises(ValueError, match="random_state must be at least 0, got -1"):
        MIPSNeighbors(random_state=-1).fit(ATOMS)
    with pytest.raises(ValueError, match=r"a coefficient for each of the 6 atoms in a row, got shape \(3, 40\)"):
        MatchingPursuit(n_nonzero_coefs=2).fit(ATOMS).inverse_transform(QUERIES)


@pytest.mark.parametrize("ends", ["largest", "both"])
def test_a_command_does_not_begin_a_table_that_memory_cannot_hold(tmp_path, monkeypatch, ends):
    np.save(tmp_path / "atoms.npy", ATOMS)
    np.save(tmp_path / "queries.npy", QUERIES)
    monkeypatch.setattr(_padding, "memory_bytes", lambda: 10_000_000)
    arguments = ["search", str(tmp_path / "atoms.npy"), str(tmp_path / "queries.npy"), "-k", "20000", "--ends", ends]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.stdout) == (1, "")
    n_queries = 3 if ends == "largest" else 6
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"error: results of k=20000 for {n_queries} queries take at least ")


def test_the_module_is_the_command():
    done = subprocess.run([sys.executable, "-m", "banditmips", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"banditmips {bm.__version__}\n"
