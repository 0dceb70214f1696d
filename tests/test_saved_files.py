"""Saved indexes of atoms in files: what was prepared is written, the atoms are found again, or it is said why not."""

from __future__ import annotations

import copy
import os
import shutil

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import banditmips as bm
from banditmips._saved import read_file
from banditmips._saved_format import write_file
from banditmips.atoms import PartStore
from banditmips.atoms.packed import PackedStore

N, D = 60, 3000
rng = np.random.default_rng(0)
ATOMS = (rng.permutation(np.linspace(-4.0, 4.0, N))[:, np.newaxis] + rng.normal(size=(N, D))).astype(np.float32)
QUERY = 1.0 + 0.5 * rng.normal(size=D)
BEST = np.argsort(-(ATOMS @ QUERY))[:3]
LIMIT = 400_000


def save_npy(path, atoms):
    np.save(path, atoms)


def save_fortran(path, atoms):
    np.save(path, np.asfortranarray(atoms))


def save_hdf5(path, atoms, chunks=(10, 300)):
    new = path.with_suffix(".new")  # HDF5 writes over no file that this process has open
    with h5py.File(new, "w") as file:
        file.create_dataset("atoms", data=atoms, chunks=chunks)
        file.create_dataset("others", data=atoms[:2])
    new.replace(path)


def save_zarr(path, atoms):
    zarr.create_array(path, data=atoms, chunks=(10, 300), compressors=None)


def save_parquet(path, atoms):
    pq.write_table(pa.table({"atoms": list(atoms)}), path, row_group_size=10)


def save_arrow(path, atoms):
    table = pa.table({"atoms": list(atoms)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=10)


def save_packed(path, atoms):
    bm.pack(atoms, path)


WRITERS = {
    "c.npy": save_npy,
    "f.npy": save_fortran,
    "chunks.h5": save_hdf5,
    "plain.h5": lambda path, atoms: save_hdf5(path, atoms, None),
    "a.zarr": save_zarr,
    "a.parquet": save_parquet,
    "a.arrow": save_arrow,
    "packed.zarr": save_packed,
}
SINGLE = ("c.npy", "f.npy", "chunks.h5", "plain.h5", "a.parquet", "a.arrow")


def dataset_of(name):
    return "atoms" if name.endswith("h5") else None


def fit_and_save(folder, name, **options):
    """Write atoms and an index of them; return where both are."""
    path, saved = folder / name, folder / "index.bm"
    WRITERS[name](path, ATOMS)
    store = bm.open_atoms(path, memory_limit=LIMIT, dataset=dataset_of(name))
    assert isinstance(store, (PartStore, PackedStore))
    bm.BanditMIPS(**options).fit(store, ids=np.arange(N) + 100).save(saved)
    return path, saved


def make_younger(path):
    for file in [path, *path.rglob("*")]:
        os.utime(file, ns=(0, file.stat().st_mtime_ns + 10**9))


@pytest.mark.parametrize("name", WRITERS)
def test_an_index_of_a_file_is_saved_without_its_atoms_and_answers_as_before(name, tmp_path):
    path, saved = fit_and_save(tmp_path, name, delta=0.01, layout="codes")
    assert saved.stat().st_size < 0.4 * ATOMS.nbytes
    index = bm.load(saved, verify="now")
    found = index.search(QUERY, 3)
    np.testing.assert_array_equal(found.indices, BEST)
    np.testing.assert_array_equal(found.ids, BEST + 100)
    assert found.bytes_read > 0
    assert index.get_params()["delta"] == 0.01
    assert index._fitted.store.origin.path == str(path)
    index.verify()
    again = tmp_path / "again.bm"
    index.save(again)
    assert bm.load(again).search(QUERY).indices[0] == BEST[0]


@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_with_both_may_be_moved(name, tmp_path):
    (tmp_path / "here").mkdir()
    fit_and_save(tmp_path / "here", name, layout="codes")
    shutil.move(tmp_path / "here", tmp_path / "there")
    index = bm.load(tmp_path / "there" / "index.bm")
    assert index.search(QUERY).indices[0] == BEST[0]
    assert index._fitted.store.origin.path == str(tmp_path / "there" / name)


@pytest.mark.parametrize("name", WRITERS)
def test_atoms_that_were_moved_are_named(name, tmp_path):
    path, saved = fit_and_save(tmp_path, name)
    elsewhere = tmp_path / "else" / name
    elsewhere.parent.mkdir()
    shutil.move(path, elsewhere)
    make_younger(elsewhere)  # as a copy is
    with pytest.raises(FileNotFoundError, match=r"its atoms are gone from .*say where they are, as in load"):
        bm.load(saved)
    assert bm.load(saved, atoms=elsewhere).search(QUERY).indices[0] == BEST[0]
    with pytest.raises(FileNotFoundError, match="there are no atoms here"):
        bm.load(saved, atoms=tmp_path / f"nowhere{path.suffix}")


@pytest.mark.parametrize("name", SINGLE)
def test_a_file_that_changed_shrank_or_grew_is_an_error_that_says_so(name, tmp_path):
    path, saved = fit_and_save(tmp_path, name)
    WRITERS[name](path, -ATOMS)
    make_younger(path)
    with pytest.raises(bm.CorruptFileError, match=rf"{name}.*changed since an index was fitted to it .*fit anew"):
        bm.load(saved)
    with pytest.raises(bm.CorruptFileError, match=rf"{name}: (sample of its entries: |file: it has changed)"):
        bm.load(saved, atoms=path)
    WRITERS[name](path, ATOMS[:50])
    with pytest.raises(bm.CorruptFileError, match=r"\(50, 3000\) entries of <f4, but .* fitted to \(60, 3000\)"):
        bm.load(saved)
    WRITERS[name](path, ATOMS.astype(np.float64))
    with pytest.raises(bm.CorruptFileError, match=r"entries of <f8, but the index was fitted to .* of <f4"):
        bm.load(saved)


def test_a_file_that_was_cut_short_is_an_error(tmp_path):
    path, saved = fit_and_save(tmp_path, "c.npy")
    os.truncate(path, path.stat().st_size - 1)
    with pytest.raises(bm.CorruptFileError, match=r"c\.npy: file: 60 x 3000 entries of float32 go to byte 720,128"):
        bm.load(saved)
    with open(path, "ab") as file:
        file.write(bytes(9))
    with pytest.raises(bm.CorruptFileError, match=r"it had 720,128 bytes, now 720,136"):
        bm.load(saved)
    with pytest.raises(bm.CorruptFileError, match=r"it had 720,128 bytes, now 720,136"):
        bm.load(saved, atoms=path)


def test_a_mere_copy_in_the_old_place_is_taken_if_it_is_named(tmp_path):
    path, saved = fit_and_save(tmp_path, "c.npy")
    make_younger(path)
    with pytest.raises(bm.CorruptFileError, match=r"as its time of change shows\): fit anew, or name it if it is"):
        bm.load(saved)
    assert bm.load(saved, atoms=path).search(QUERY).indices[0] == BEST[0]


@pytest.mark.parametrize("name", ["a.zarr", "packed.zarr"])
def test_a_chunk_that_changed_is_an_error_when_it_is_read(name, tmp_path):
    path, saved = fit_and_save(tmp_path, name)
    assert bm.load(saved).search(QUERY).indices[0] == BEST[0]
    WRITERS[name](path / "new", -ATOMS)
    for file in [file for file in (path / "new").rglob("*") if file.is_file() and file.name != "zarr.json"]:
        file.replace(path / file.relative_to(path / "new"))
    shutil.rmtree(path / "new")
    make_younger(path)
    index = bm.load(saved)
    with pytest.raises(bm.CorruptFileError, match=r"chunk .*it has changed since an index was fitted to it"):
        index.search(QUERY, k=N)
    with pytest.raises(bm.CorruptFileError, match="sample of its entries"):
        bm.load(saved, atoms=path)


def test_a_chunk_that_is_gone_or_damaged_is_an_error_that_names_it(tmp_path):
    path, saved = fit_and_save(tmp_path, "packed.zarr")
    index = bm.load(saved)
    chunks = [file for file in (path / "rows").rglob("*") if file.is_file() and file.name != "zarr.json"]
    whole = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in chunks}
    for file, (content, time) in whole.items():
        file.write_bytes(content[:1000] + bytes([content[1000] ^ 255]) + content[1001:])
        os.utime(file, ns=(time, time))
    with pytest.raises(bm.CorruptFileError, match=r"packed\.zarr: chunk \(\d+, \d+\) of 'rows' .*damaged"):
        index.search(QUERY, k=N)
    for file in chunks:
        file.unlink()
    with pytest.raises(bm.CorruptFileError, match=r"packed\.zarr: chunk \(\d+, \d+\) of 'rows' .*it is gone"):
        bm.load(saved).search(QUERY, k=N)


def test_atoms_behind_a_url_are_found_again_by_a_sample(tmp_path):
    pytest.importorskip("fsspec")
    url = "memory://saved-files/a.zarr"
    zarr.create_array(url, data=ATOMS, chunks=(10, 300), overwrite=True)
    saved = tmp_path / "index.bm"
    bm.BanditMIPS().fit(bm.open_atoms(url, memory_limit=LIMIT)).save(saved)
    index = bm.load(saved)
    assert index.search(QUERY).indices[0] == BEST[0]
    assert index._fitted.store.origin.path == url
    zarr.create_array(url, data=-ATOMS, chunks=(10, 300), overwrite=True)
    with pytest.raises(bm.CorruptFileError, match="sample of its entries"):
        bm.load(saved)


def test_an_open_dataset_or_array_is_found_again(tmp_path):
    save_hdf5(tmp_path / "a.h5", ATOMS)
    save_zarr(tmp_path / "a.zarr", ATOMS)
    from banditmips._opening import store_of_foreign

    with h5py.File(tmp_path / "a.h5") as file:
        for number, opened in enumerate((file["atoms"], zarr.open_array(tmp_path / "a.zarr", mode="r"))):
            index = bm.BanditMIPS().fit(store_of_foreign(opened, LIMIT))
            index.save(tmp_path / f"{number}.bm")
    for number in range(2):
        assert bm.load(tmp_path / f"{number}.bm").search(QUERY).indices[0] == BEST[0]


def test_atoms_that_were_added_are_kept_beside_those_of_the_file(tmp_path):
    save_npy(tmp_path / "a.npy", ATOMS[:40])
    save_npy(tmp_path / "b.npy", ATOMS[50:])
    stores = [bm.open_atoms(tmp_path / name, memory_limit=50_000) for name in ("a.npy", "b.npy")]
    bm.BanditMIPS().fit(stores[0]).add(ATOMS[40:50]).add(stores[1]).remove([int(BEST[0])]).save(tmp_path / "i.bm")
    assert read_file(tmp_path / "i.bm").metadata["stores"] == ["file", "dense", "file"]
    np.testing.assert_array_equal(bm.load(tmp_path / "i.bm").search(QUERY, 2).indices, BEST[1:])
    other = tmp_path / "other.npy"
    shutil.move(tmp_path / "b.npy", other)
    index = bm.load(tmp_path / "i.bm", atoms=[tmp_path / "a.npy", other])
    np.testing.assert_array_equal(index.search(QUERY, 2).indices, BEST[1:])
    with pytest.raises(ValueError, match="atoms must be the path of each of the 2 files"):
        bm.load(tmp_path / "i.bm", atoms=other)


def test_damaged_codes_are_found_when_they_are_first_used(tmp_path):
    _, saved = fit_and_save(tmp_path, "c.npy")
    content = bytearray(saved.read_bytes())
    first = read_file(saved).arrays["codes_first"].tobytes()
    content[content.index(first)] ^= 255
    saved.write_bytes(content)
    index = bm.load(saved)
    with pytest.raises(bm.CorruptFileError, match="block 'codes_first': the contents do not match their checksum"):
        index.search(QUERY)


EDITS = {
    "no files": lambda about, arrays: about.pop("files"),
    "files that are none": lambda about, arrays: about.update(files=[7]),
    "another number of files": lambda about, arrays: about.update(files=about["files"] * 2),
    "no sample": lambda about, arrays: about["files"][0].pop("sample"),
    "a path that is none": lambda about, arrays: about["files"][0].update(path=5),
    "no memory": lambda about, arrays: about["files"][0].update(memory_limit=0),
    "a truth for memory": lambda about, arrays: about["files"][0].update(memory_limit=True),
    "another way to read": lambda about, arrays: about["files"][0].update(missing_chunks="zeros"),
    "another shape": lambda about, arrays: about["files"][0].update(shape=[N, D - 1]),
    "another number of atoms": lambda about, arrays: about.update(shape=[N + 1, D]),
    "rows that are none": lambda about, arrays: about["files"][0].update(rows=[3, 3]),
    "rows of another type": lambda about, arrays: about["files"][0].update(rows=[0, True]),
    "rows that are not those": lambda about, arrays: about["files"][0].update(rows=[1, N]),
    "no states": lambda about, arrays: arrays.pop("atoms0_states"),
    "states of nothing": lambda about, arrays: arrays.update(atoms0_states=np.empty((0, 2), dtype=np.int64)),
    "states of another shape": lambda about, arrays: arrays.update(atoms0_states=np.zeros((1, 3), dtype=np.int64)),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_contents_that_cannot_be_are_an_error_whatever_the_checksums_say(edit, tmp_path):
    _, saved = fit_and_save(tmp_path, "c.npy")
    file = read_file(saved)
    about, arrays = copy.deepcopy(file.metadata), dict(file.arrays)
    edit(about, arrays)
    write_file(tmp_path / "edited.bm", about, arrays)
    with pytest.raises(bm.CorruptFileError, match=r"edited\.bm: (header: it is not a saved index|.*c\.npy: file: it )"):
        bm.load(tmp_path / "edited.bm")


@pytest.mark.parametrize("place", ["a folder", "an unknown suffix", "no protocol", "a file that is read whole"])
def test_atoms_in_an_odd_place_are_an_error_that_names_the_index_and_says_what_to_do(place, tmp_path):
    path, saved = fit_and_save(tmp_path, "c.npy")
    (tmp_path / "folder").mkdir()
    (tmp_path / "atoms.xyz").touch()
    (tmp_path / "atoms.csv").touch()
    elsewhere, problem = {
        "a folder": (str(tmp_path / "folder"), "folder: is a folder, and holds neither a Zarr array nor a group"),
        "an unknown suffix": (str(tmp_path / "atoms.xyz"), r"cannot read a file with suffix '\.xyz'"),
        "no protocol": ("nowhere://atoms.zarr", "nowhere://atoms.zarr"),
        "a file that is read whole": (str(tmp_path / "atoms.csv"), "a csv file can only be read whole"),
    }[place]
    file = read_file(saved)
    about = copy.deepcopy(file.metadata)
    about["files"][0].update(path=elsewhere)
    write_file(tmp_path / "edited.bm", about, dict(file.arrays))
    match = rf"edited\.bm: its atoms: .*{problem}.*: say where they are, as in load\(.*\), or fit anew"
    with pytest.raises(bm.CorruptFileError, match=match) as error:
        bm.load(tmp_path / "edited.bm")
    assert error.value.path == str(tmp_path / "edited.bm")
    assert bm.load(tmp_path / "edited.bm", atoms=path).search(QUERY).indices[0] == BEST[0]


def test_what_the_system_says_of_the_atoms_comes_with_the_index(tmp_path):
    path, saved = fit_and_save(tmp_path, "c.npy")
    path.unlink()
    path.mkdir()
    match = r"its atoms cannot be read: .*c\.npy: Is a directory: say where they are.*index\.bm"
    with pytest.raises(IsADirectoryError, match=match) as error:
        bm.load(saved)
    assert error.value.filename == str(saved)


def test_what_cannot_be_saved_or_named_is_an_error(tmp_path):
    from banditmips.atoms.rows import RowRange

    save_npy(tmp_path / "a.npy", ATOMS)
    part = RowRange(bm.open_atoms(tmp_path / "a.npy", memory_limit=LIMIT), 0, 30)
    with pytest.raises(TypeError, match="atoms in a RowRange that was not opened by its path cannot be saved"):
        bm.BanditMIPS().fit(part).save(tmp_path / "i.bm")
    bm.BanditMIPS().fit(ATOMS).save(tmp_path / "i.bm")
    with pytest.raises(ValueError, match="atoms must be left out: this index holds its atoms itself"):
        bm.load(tmp_path / "i.bm", atoms=tmp_path / "a.npy")
    _, saved = fit_and_save(tmp_path, "c.npy")
    (tmp_path / "a.xyz").touch()
    with pytest.raises(ValueError, match=r"a\.xyz: cannot read a file with suffix '\.xyz'"):
        bm.load(saved, atoms=tmp_path / "a.xyz")
