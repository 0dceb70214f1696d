"""What packing writes: every entry in both layouts, the facts of a fit, within the memory, again after a stop."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import collect_facts
from banditmips.core.numbers import permuted_coordinates
from banditmips.packing.layout import ATTRIBUTE, PackLayout, plan_layout

zarr = pytest.importorskip("zarr")

SMALL = 2_500_000
"""Bytes of memory with which the atoms below take several blocks."""
N, D = 48, 6_007


def make_atoms(n, d, dtype="float32", seed=0):
    return np.random.default_rng(seed).normal(scale=30, size=(n, d)).astype(dtype)


@pytest.fixture(scope="module")
def atoms():
    return make_atoms(N, D)


@pytest.fixture
def source(tmp_path, atoms):
    np.save(tmp_path / "atoms.npy", atoms)
    return tmp_path / "atoms.npy"


@pytest.fixture
def dest(tmp_path):
    return tmp_path / "packed.zarr"


def journal(dest):
    return dict(zarr.open_group(dest, mode="r").attrs)[ATTRIBUTE]


def check_contents(dest, atoms, seed=0):
    """Compare all that was written with what NumPy makes of the atoms, by Zarr alone."""
    group = zarr.open_group(dest, mode="r")
    n_coordinates = group["coordinates"].shape[0]
    order = permuted_coordinates(seed, atoms.shape[1], 0, n_coordinates)
    assert group["rows"].dtype == group["coordinates"].dtype == atoms.dtype
    np.testing.assert_array_equal(group["rows"][:], atoms)
    np.testing.assert_array_equal(group["coordinates"][:], atoms[:, order].T)
    np.testing.assert_array_equal(group["order"][:], order)
    facts = collect_facts(DenseStore(atoms))
    for name in ("squared_norms", "means", "scatter", "column_squares"):
        np.testing.assert_array_equal(group[name][:], getattr(facts, name))
    assert (journal(dest)["low"], journal(dest)["high"]) == (facts.low, facts.high)
    assert journal(dest)["complete"] is True
    assert "running_squares" not in group


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint8", "int64", "bool"])
def test_every_dtype_is_kept(dest, dtype):
    atoms = make_atoms(37, 1_201, dtype)
    report = bm.pack(atoms, dest, memory_limit=SMALL)
    assert (report.dtype, report.shape) == (dtype, atoms.shape)
    check_contents(dest, atoms)


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (7, 15), (257, 3), (3, 300_001)])
def test_ragged_sizes(dest, shape):
    atoms = make_atoms(*shape)
    bm.pack(atoms, dest, memory_limit=14_000_000)
    check_contents(dest, atoms)


@pytest.mark.parametrize("order", ["Fortran", "big-endian", "zeros"])
def test_unusual_atoms(dest, atoms, order):
    given = {"Fortran": np.asfortranarray(atoms), "big-endian": atoms.astype(">f4"), "zeros": np.zeros_like(atoms)}[
        order
    ]
    bm.pack(given, dest, seed=3, memory_limit=SMALL)
    check_contents(dest, given.astype("f4"), seed=3)


def test_fewer_coordinates(source, dest, atoms):
    report = bm.pack(source, dest, n_coordinates=100, memory_limit=SMALL)
    assert report.n_coordinates == zarr.open_group(dest, mode="r")["coordinates"].shape[0] == 100
    assert report.n_bytes == 4 * N * (D + 100)
    check_contents(dest, atoms)


def test_chunks_of_zeros_are_written_like_any_other(dest):
    bm.pack(np.zeros((40, 5_000), dtype=np.float32), dest)
    group = zarr.open_group(dest, mode="r")
    for _, array in group.arrays():
        assert array.nchunks_initialized == array.nchunks


def test_every_chunk_has_a_checksum(source, dest):
    bm.pack(source, dest, memory_limit=SMALL)
    for _, array in zarr.open_group(dest, mode="r").arrays():
        codecs = array.metadata.to_dict()["codecs"]
        inner = codecs[0]["configuration"]["codecs"] if codecs[0]["name"] == "sharding_indexed" else codecs
        assert inner[-1]["name"] == "crc32c"


@pytest.mark.parametrize(
    ("n", "d", "dtype"),
    [
        (4_000, 1_000_000, "f4"),
        (1_000_000, 10_000, "f4"),
        (10_000_000, 1_000, "f2"),
        (100, 50_000_000, "f8"),
        (5, 3, "i1"),
    ],
)
def test_planned_layouts_hold_what_they_promise(n, d, dtype):
    layout = plan_layout(n, d, np.dtype(dtype), 0, None, 1 << 32)
    assert PackLayout.from_attributes(layout.to_attributes()) == layout
    assert layout.n_blocks == 1 or layout.atoms_per_block % layout.rows_shard[0] == 0
    assert layout.coordinates_chunk[0] * layout.coordinates_chunk[1] * layout.itemsize <= 4 << 20
    assert layout.rows_chunk[0] * layout.rows_chunk[1] * layout.itemsize <= 1 << 20
    # Padding of the last chunks takes little.
    for length, part in ((d, layout.rows_chunk[1]), (n, layout.atoms_per_block)):
        assert -(-length // part) * part <= 1.1 * length


def test_packing_stays_within_its_memory(tmp_path, dest):
    atoms = make_atoms(60, 30_000)
    np.save(tmp_path / "atoms.npy", atoms)
    del atoms
    limit = 5_000_000
    bm.pack(make_atoms(3, 5), tmp_path / "warm.zarr")  # imports are no part of it
    tracemalloc.start()
    try:
        report = bm.pack(tmp_path / "atoms.npy", dest, memory_limit=limit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < limit < report.n_bytes / 2


def test_too_little_memory_is_refused_with_what_is_needed(source, dest):
    with pytest.raises(ValueError, match=r"memory_limit must be at least [\d,]+ bytes .* got 1,000"):
        bm.pack(source, dest, memory_limit=1_000)
    assert not dest.exists()


# --- stopped and gone on with ---------------------------------------------------------------------------------------

KILLED = """
import sys, time
import banditmips as bm
from banditmips.packing import writing

write, calls = writing.PackWriter._write_rows, []

def slow_write(self, first, values):
    write(self, first, values)
    if self.n_finished == 2:  # in the middle of the third block
        print("ready", flush=True)
        time.sleep(600)  # it is killed meanwhile

writing.PackWriter._write_rows = slow_write
bm.pack(sys.argv[1], sys.argv[2], memory_limit=int(sys.argv[3]))
"""


def test_a_killed_run_is_gone_on_with(source, dest, atoms):
    command = [sys.executable, "-c", KILLED, str(source), str(dest), str(SMALL)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGKILL)
    assert journal(dest)["finished_blocks"] == 2
    with pytest.raises(
        ValueError, match=r"packing was not finished \(2 of 4 blocks\): run 'banditmips pack .*atoms.npy"
    ):
        bm.BanditMIPS().fit(dest)
    # What was being written when the power went may be damaged.
    layout = PackLayout.from_attributes(journal(dest))
    left = dest / "rows" / "c" / str(2 * layout.atoms_per_block // layout.rows_shard[0]) / "0"
    left.write_bytes(left.read_bytes()[:100])
    (left.parent / "0.0123abcd.partial").write_bytes(b"half a chunk")
    finished = {path: path.stat().st_mtime_ns for path in (dest / "rows" / "c" / "0").iterdir()}
    report = bm.pack(source, dest, memory_limit=2 * SMALL)
    assert (report.n_resumed, report.n_blocks) == (2, 4)
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert not list(dest.rglob("*.partial"))
    check_contents(dest, atoms)


class StoppedError(Exception):
    """Ends a packing in the middle."""


@pytest.fixture
def stop_after(monkeypatch):
    """Return a function that makes Zarr's writes fail after so many, with the error given."""

    def arrange(n_writes, error):
        real = zarr.storage.LocalStore.set
        counter = iter(range(n_writes))

        async def failing(self, key, value):
            if next(counter, None) is None:
                raise error
            await real(self, key, value)

        monkeypatch.setattr(zarr.storage.LocalStore, "set", failing)
        return lambda: monkeypatch.setattr(zarr.storage.LocalStore, "set", real)

    return arrange


@pytest.mark.parametrize("n_writes", [0, 1, 5, 22, 23, 65, 66])
def test_stopped_anywhere_the_result_is_the_same(source, dest, atoms, stop_after, n_writes):
    release = stop_after(n_writes, StoppedError())
    with pytest.raises(StoppedError):
        bm.pack(source, dest, memory_limit=SMALL)
    release()
    bm.pack(source, dest, memory_limit=SMALL)
    check_contents(dest, atoms)


def test_a_full_disk_leaves_what_can_be_gone_on_with(source, dest, atoms, stop_after):
    release = stop_after(30, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match=r"the disk is full; 1 of 4 blocks are packed and kept: pack again") as caught:
        bm.pack(source, dest, memory_limit=SMALL)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(dest))
    assert journal(dest)["finished_blocks"] == 1
    release()
    assert bm.pack(source, dest, memory_limit=SMALL).n_resumed == 1
    check_contents(dest, atoms)


@pytest.fixture
def unfinished(source, dest, stop_after):
    release = stop_after(30, StoppedError())
    with pytest.raises(StoppedError):
        bm.pack(source, dest, memory_limit=SMALL)
    release()
    return dest


def test_what_a_resumed_run_needs_must_be_there(source, unfinished):
    for file in (unfinished / "running_squares" / "c").rglob("*"):
        if file.is_file():
            file.unlink()
    with pytest.raises(bm.CorruptFileError, match=r"'running_squares': the chunk is missing"):
        bm.pack(source, unfinished, memory_limit=SMALL)


def test_a_source_that_changed_is_not_gone_on_with(source, unfinished, atoms):
    changed = atoms + 1
    np.save(source, changed)
    with pytest.raises(ValueError, match=r"was begun from .*atoms\.npy, which has changed since"):
        bm.pack(source, unfinished, memory_limit=SMALL)
    bm.pack(source, unfinished, memory_limit=SMALL, overwrite=True)
    check_contents(unfinished, changed)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 1}, r"was begun with seed=0, not 1"),
        ({"n_coordinates": 5}, r"was begun with n_coordinates=6007, not 5"),
    ],
)
def test_other_options_do_not_go_on(source, unfinished, options, message):
    with pytest.raises(ValueError, match=message):
        bm.pack(source, unfinished, memory_limit=SMALL, **options)


def test_other_shapes_do_not_go_on(source, unfinished, atoms):
    np.save(source, atoms[:-1])
    with pytest.raises(ValueError, match=r"was begun with 48 atoms, but the source has 47"):
        bm.pack(source, unfinished, memory_limit=SMALL)


def test_atoms_in_memory_cannot_be_gone_on_with(unfinished, atoms):
    with pytest.raises(ValueError, match=r"one that is not of a file cannot be gone on with"):
        bm.pack(atoms, unfinished, memory_limit=SMALL)


def test_a_source_that_changes_meanwhile(source, dest, monkeypatch):
    from banditmips.packing.writing import PackWriter

    finish = PackWriter._finish_block

    def touched(self, *block):
        os.utime(source, ns=(1, 1))
        finish(self, *block)

    monkeypatch.setattr(PackWriter, "_finish_block", touched)
    with pytest.raises(ValueError, match=r"source .*atoms\.npy changed while it was packed"):
        bm.pack(source, dest)
    assert journal(dest)["complete"] is False


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_nan_is_named_and_nothing_is_complete(tmp_path, dest, dtype):
    atoms = make_atoms(N, 3_000, dtype)
    atoms[41, 2_007] = np.nan
    np.save(tmp_path / "atoms.npy", atoms)
    with pytest.raises(ValueError, match=r"source has nan at row 41, column 2007"):
        bm.pack(tmp_path / "atoms.npy", dest, memory_limit=SMALL)
    assert journal(dest)["complete"] is False


def test_what_is_there_is_not_overwritten(source, dest, atoms):
    bm.pack(source, dest)
    with pytest.raises(FileExistsError, match=r"is there already, and complete"):
        bm.pack(source, dest)
    bm.pack(atoms[:5], dest, overwrite=True)
    check_contents(dest, atoms[:5])


def test_other_things_are_not_overwritten(source, tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter1.tex").write_text("It was a dark and stormy night.")
    with pytest.raises(FileExistsError, match=r"no unfinished packing"):
        bm.pack(source, folder)
    with pytest.raises(FileExistsError, match=r"is no Zarr v3 group or array, so it is not overwritten"):
        bm.pack(source, folder, overwrite=True)
    for overwrite in (False, True):
        with pytest.raises(FileExistsError, match=r"is a file"):
            bm.pack(source, folder / "chapter1.tex", overwrite=overwrite)
    assert os.listdir(folder) == ["chapter1.tex"]
    with pytest.raises(ValueError, match=r"lie in each other"):
        bm.pack(source, tmp_path, overwrite=True)
    with pytest.raises(ValueError, match=r"dest must be a folder of this machine, got s3://"):
        bm.pack(source, "s3://bucket/packed.zarr")


def test_sparse_and_odd_atoms_are_refused(dest):
    with pytest.raises(ValueError, match=r"sparse"):
        bm.pack(scipy.sparse.csr_array(np.eye(3)), dest)
    with pytest.raises(ValueError, match=r"to 64 bits"):
        bm.pack(np.eye(3, dtype=np.longdouble), dest)
    for options in ({"seed": -1}, {"memory_limit": 0}, {"n_coordinates": 0}):
        with pytest.raises(ValueError, match=next(iter(options))):
            bm.pack(np.eye(3), dest, **options)
    assert not dest.exists()
