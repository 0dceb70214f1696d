"""A fit of a file that was killed goes on where it was, and shows how far it is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap

import h5py
import numpy as np
import pytest

import banditmips as bm
from banditmips import _fitting
from banditmips._saved import read_file
from banditmips.atoms.metering import metered

N, D = 160, 6000
rng = np.random.default_rng(0)
ATOMS = (rng.normal(size=(N, 1)) + rng.normal(size=(N, D))).astype(np.float32)
LIMIT = ATOMS.nbytes // 2


class KilledError(Exception):
    """Stands for the end of the process."""


@pytest.fixture
def often(monkeypatch):
    monkeypatch.setattr(_fitting, "_SECONDS", 0.0)
    monkeypatch.setattr(_fitting, "_SHARE", 0.0)


def save_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("atoms", data=ATOMS, chunks=(8, 1000))


FILES = {
    "c.npy": lambda path: np.save(path, ATOMS),
    "f.npy": lambda path: np.save(path, np.asfortranarray(ATOMS)),
    "a.h5": save_hdf5,
}


def kill_after(monkeypatch, n_rows):
    """Let every fit be ended by whoever writes the first checkpoint of so many rows."""
    real = _fitting.Checkpoint.write

    def write(self, collector, n_known):
        real(self, collector, n_known)
        if n_known >= n_rows:
            raise KilledError

    monkeypatch.setattr(_fitting.Checkpoint, "write", write)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("name", FILES)
def test_a_fit_that_was_killed_goes_on_and_comes_to_the_same(name, n_jobs, tmp_path, often):
    FILES[name](tmp_path / name)
    begun = tmp_path / "begun"
    with pytest.MonkeyPatch.context() as patch:
        kill_after(patch, 100)
        with pytest.raises(KilledError):
            bm.BanditMIPS(n_jobs=n_jobs).fit(bm.open_atoms(tmp_path / name, memory_limit=LIMIT), checkpoint=begun)
    n_known = read_file(begun).metadata["n_rows"]
    assert 100 <= n_known < N
    store = bm.open_atoms(tmp_path / name, memory_limit=LIMIT)
    with metered() as meter:
        resumed = bm.BanditMIPS(n_jobs=n_jobs).fit(store, checkpoint=begun)._fitted
    assert not begun.exists()
    if name != "f.npy":  # which has to be turned round again
        assert meter.bytes_read < 0.6 * ATOMS.nbytes
    whole = bm.BanditMIPS().fit(bm.open_atoms(tmp_path / name, memory_limit=LIMIT))._fitted
    for field in ("squared_norms", "means", "scatter", "column_squares", "low", "high"):
        np.testing.assert_array_equal(getattr(resumed.facts, field), getattr(whole.facts, field), err_msg=field)
    for kind, array in whole.codes.arrays().items():
        np.testing.assert_array_equal(resumed.codes.arrays()[kind], array, err_msg=kind)


def test_a_killed_process_leaves_a_checkpoint_that_another_goes_on_from(tmp_path):
    np.save(tmp_path / "a.npy", ATOMS)
    program = f"""
        import os, signal, banditmips as bm
        from banditmips import _fitting
        _fitting._SECONDS = _fitting._SHARE = 0.0
        real = _fitting.Checkpoint.write
        def write(self, collector, n_rows):
            real(self, collector, n_rows)
            if n_rows >= 80:
                os.kill(os.getpid(), signal.SIGKILL)
        _fitting.Checkpoint.write = write
        store = bm.open_atoms({str(tmp_path / "a.npy")!r}, memory_limit={LIMIT})
        bm.BanditMIPS().fit(store, checkpoint={str(tmp_path / "begun")!r})
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=False)
    assert done.returncode == -signal.SIGKILL
    with metered() as meter:
        store = bm.open_atoms(tmp_path / "a.npy", memory_limit=LIMIT)
        index = bm.BanditMIPS().fit(store, checkpoint=tmp_path / "begun")
    assert meter.bytes_read < 0.7 * ATOMS.nbytes
    query = 1.0 + rng.normal(size=D)
    assert index.search(query).indices[0] == (ATOMS @ query).argmax()
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.fixture
def begun(tmp_path, often):
    """A file of atoms, and the checkpoint of a fit that was broken off."""
    np.save(tmp_path / "a.npy", ATOMS)
    with pytest.MonkeyPatch.context() as patch:
        kill_after(patch, 80)
        with pytest.raises(KilledError):
            fit(tmp_path)
    return tmp_path / "begun"


def fit(folder, **options):
    store = bm.open_atoms(folder / "a.npy", memory_limit=LIMIT)
    return bm.BanditMIPS(**options).fit(store, checkpoint=folder / "begun")


def test_a_checkpoint_of_another_fit_is_refused_and_stays(begun):
    folder, content = begun.parent, begun.read_bytes()
    with pytest.raises(ValueError, match=r"begun: it is the checkpoint of another fit \(seed was 0, is 1\): remove it"):
        fit(folder, seed=1)
    with pytest.raises(ValueError, match="max_extra_memory was None, is 700000"):
        fit(folder, max_extra_memory=700_000)
    os.utime(folder / "a.npy", ns=(0, 0))
    with pytest.raises(ValueError, match="the atoms have changed, as size or time of their files show"):
        fit(folder)
    np.save(folder / "a.npy", -ATOMS)
    with pytest.raises(ValueError, match=r"sample of the atoms was '.*', is '.*'"):
        fit(folder)
    np.save(folder / "a.npy", ATOMS[:100])
    with pytest.raises(ValueError, match=r"shape was \[160, 6000\], is \[100, 6000\]"):
        fit(folder)
    assert begun.read_bytes() == content


def test_a_damaged_checkpoint_and_other_files_are_refused(begun):
    content = bytearray(begun.read_bytes())
    content[len(content) // 2] ^= 255
    begun.write_bytes(content)
    with pytest.raises(bm.CorruptFileError, match=r"begun: block .* do not match their checksum"):
        fit(begun.parent)
    begun.write_bytes(b"my thesis")
    with pytest.raises(bm.CorruptFileError, match="not a banditmips file"):
        fit(begun.parent)
    begun.unlink()
    bm.BanditMIPS().fit(ATOMS[:5]).save(begun)
    with pytest.raises(ValueError, match="is no checkpoint of fit, and stays as it is"):
        fit(begun.parent)


def test_checkpoints_are_for_codes_of_atoms_in_files(tmp_path):
    with pytest.raises(ValueError, match=r"checkpoint is for atoms in a file .* these are in memory"):
        bm.BanditMIPS().fit(ATOMS, checkpoint=tmp_path / "begun")
    np.save(tmp_path / "a.npy", ATOMS)
    with pytest.raises(ValueError, match="checkpoint is for an index that keeps codes, not 'coordinates'"):
        fit(tmp_path, layout="coordinates")


def test_checkpoints_are_not_written_all_the_time(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", ATOMS)
    monkeypatch.setattr(_fitting, "write_file", None)  # nobody calls it: the fit is done in less than half a minute
    fit(tmp_path)


def test_progress_shows_bytes_rate_and_time_left(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    np.save(tmp_path / "a.npy", ATOMS)
    store = bm.open_atoms(tmp_path / "a.npy", memory_limit=LIMIT)
    bm.BanditMIPS(progress=True).fit(store)
    shown = capsys.readouterr().err
    assert "fitting" in shown
    assert "3.8/3.8 MB" in shown
    assert "MB/s" in shown or "GB/s" in shown
    assert "0:00:0" in shown
    bm.BanditMIPS().fit(store)
    assert capsys.readouterr().err == ""
