"""Zarr, HDF5, Parquet and Arrow: chunks are read once and counted; missing and damaged ones are named, never zeros."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr
from fsspec.implementations.local import LocalFileSystem

import banditmips as bm
from banditmips.atoms import JoinedStore, chunks
from banditmips.atoms.chunks import ChunkReadError
from banditmips.atoms.grid import GridStore
from banditmips.atoms.raw import RawStore

N, D = 24, 3000
CHUNKS = (12, 40)
LIMIT = 100_000


def planted():
    rng = np.random.default_rng(0)
    atoms = (rng.permutation(np.linspace(-4.0, 4.0, N))[:, np.newaxis] + rng.normal(size=(N, D))).astype(np.float32)
    return atoms, 1.0 + 0.5 * rng.normal(size=D)


ATOMS, QUERY = planted()
TRUTH = np.argsort(-(ATOMS @ QUERY))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(chunks, "_FIRST_PAUSE", 1e-4)


@pytest.fixture
def array(tmp_path):
    return zarr.create_array(tmp_path / "atoms.zarr", data=ATOMS, chunks=CHUNKS, compressors=None)


@pytest.fixture
def folder(array, tmp_path):
    return tmp_path / "atoms.zarr"


# --- Zarr -------------------------------------------------------------------------------------------------------------


def test_a_fit_keeps_no_chunks_and_a_search_does(tmp_path):
    zarr.create_array(tmp_path / "low.zarr", data=np.repeat(ATOMS, 3, axis=0), chunks=(3, 40), compressors=None)
    store = bm.open_atoms(tmp_path / "low.zarr", memory_limit=LIMIT)
    readers = [pieces.reader for pieces in (store._chunks, store._beside, store._below)]
    index = bm.BanditMIPS().fit(store)  # which has first looked at rows from all over
    assert sum(reader.cached_bytes for reader in readers) == 0
    assert index.search(QUERY).indices[0] // 3 == TRUTH[0]
    assert sum(reader.cached_bytes for reader in readers) > 0
    store.forget()
    assert sum(reader.cached_bytes for reader in readers) == 0
    assert index.search(QUERY).indices[0] // 3 == TRUTH[0]


def test_a_race_reads_lines_of_chunks(folder):
    store = bm.open_atoms(folder, memory_limit=LIMIT)
    result = bm.search(store, QUERY, delta=0.1, rescore=False, trace=True)
    assert "75 lines of 40 coordinates" in result.trace.plan
    assert result.indices[0] == TRUTH[0]
    assert result.bytes_read == result.trace.rounds[-1].n_coordinates * 4 * N < 0.6 * ATOMS.nbytes


def test_stored_bytes_are_counted_and_kept_chunks_cost_nothing(tmp_path):
    zarr.create_array(tmp_path / "a.zarr", data=np.round(ATOMS), chunks=CHUNKS)
    files = [file for file in (tmp_path / "a.zarr" / "c").rglob("*") if file.is_file()]
    stored = sum(file.stat().st_size for file in files)
    assert stored < 0.8 * ATOMS.nbytes
    store = bm.open_atoms(tmp_path / "a.zarr", memory_limit=LIMIT)
    assert bm.search(store, QUERY, delta=0.0).bytes_read == stored
    store = bm.open_atoms(tmp_path / "a.zarr", memory_limit=int(1.9 * ATOMS.nbytes))
    # Few multiplies, so that lines are read: in little time all of so small an array would be.
    lines = {"delta": 0.1, "rescore": False, "minimise": "multiplies"}
    first, second = (bm.search(store, QUERY, **lines).bytes_read for _ in range(2))
    assert first > 0
    assert second == 0


def test_queries_side_by_side_count_their_own(folder):
    queries = np.stack([QUERY, -QUERY, np.roll(QUERY, 5), QUERY + 1.0])
    in_turn, side_by_side = (
        bm.search(bm.open_atoms(folder, memory_limit=5000), queries, rescore=False, n_jobs=n_jobs) for n_jobs in (1, 4)
    )
    np.testing.assert_array_equal(side_by_side.indices, in_turn.indices)
    # A chunk that two queries wait for together is read once.
    assert in_turn.bytes_read.sum() / 4 <= side_by_side.bytes_read.sum() <= in_turn.bytes_read.sum()


def test_an_index_reads_the_chunks_of_survivors(folder):
    index = bm.BanditMIPS().fit(bm.open_atoms(folder, memory_limit=10_000))
    result = index.search(QUERY)
    assert result.indices[0] == TRUTH[0]
    assert result.bytes_read <= result.n_survivors * ATOMS.nbytes / 2


def test_a_path_an_open_array_and_a_group(tmp_path, array):
    group = zarr.open_group(tmp_path / "group.zarr", mode="w")
    group.create_array("inside/atoms", data=ATOMS, chunks=CHUNKS)
    group.create_array("labels", data=np.arange(N), chunks=(N,))
    for atoms in (array, tmp_path / "atoms.zarr", str(tmp_path / "atoms.zarr"), group["inside/atoms"]):
        assert bm.search(atoms, QUERY).indices[0] == TRUTH[0]
    path = tmp_path / "group.zarr"
    assert bm.search(bm.open_atoms(path, dataset="inside/atoms"), QUERY).indices[0] == TRUTH[0]
    with pytest.raises(ValueError, match=r"group.zarr: name one of its arrays; it holds inside/atoms, labels"):
        bm.open_atoms(path)
    with pytest.raises(ValueError, match=r"group.zarr: has no array 'atoms'"):
        bm.open_atoms(path, dataset="atoms")
    with pytest.raises(ValueError, match=r"labels.*got shape \(24,\)|got shape \(24,\)"):
        bm.open_atoms(path, dataset="labels")
    with pytest.raises(ValueError, match="is a single array, so there is no 'x'"):
        bm.open_atoms(tmp_path / "atoms.zarr", dataset="x")
    with pytest.raises(bm.CorruptFileError, match=r"nothing.zarr: metadata: there is no Zarr array or group here"):
        bm.open_atoms(tmp_path / "nothing.zarr")


def _search_all(store, query):
    return bm.search(store, query, delta=0.0)


def _fit(store, query):
    return bm.BanditMIPS().fit(store).search(query)


@pytest.mark.parametrize("search", [_search_all, _fit])
def test_a_missing_chunk_is_named_and_no_zeros(folder, search):
    (folder / "c" / "1" / "7").unlink()
    message = r"atoms.zarr: chunk c/1/7: the chunk is missing \(.*missing_chunks='fill_value'"
    with pytest.raises(bm.CorruptFileError, match=message):
        search(bm.open_atoms(folder, memory_limit=LIMIT), QUERY)
    with pytest.raises(bm.CorruptFileError, match=message):
        bm.open_atoms(folder)  # small enough to be read at once
    with pytest.raises(bm.CorruptFileError, match=message):
        search(folder, QUERY)
    filled = ATOMS.copy()
    filled[12:, 280:320] = 0.0
    store = bm.open_atoms(folder, missing_chunks="fill_value")
    np.testing.assert_array_equal(store.array, filled)


def test_a_missing_shard_is_an_error_but_a_chunk_left_out_of_one_is_not(tmp_path):
    atoms = ATOMS.copy()
    atoms[:12, :40] = 0.0
    path = tmp_path / "shards.zarr"
    zarr.create_array(path, data=atoms, chunks=CHUNKS, shards=(24, 120))
    assert bm.search(path, QUERY).indices[0] == (atoms @ QUERY).argmax()
    (path / "c" / "0" / "3").unlink()
    with pytest.raises(bm.CorruptFileError, match=r"shards.zarr: chunk \(0, 9\) of the shards: the chunk is missing"):
        bm.search(path, QUERY)


def _shortened(content):
    return content[:-3]


def _with_a_bit_turned(content):
    return content[:700] + bytes([content[700] ^ 1]) + content[701:]


@pytest.mark.parametrize(
    ("compressors", "damaged"),
    [(None, _shortened), ("auto", _shortened), ([zarr.codecs.Crc32cCodec()], _with_a_bit_turned)],
    ids=["plain", "zstd", "checksum"],
)
def test_a_damaged_chunk_is_named(tmp_path, compressors, damaged):
    path = tmp_path / "atoms.zarr"
    zarr.create_array(path, data=ATOMS, chunks=CHUNKS, compressors=compressors)
    chunk = path / "c" / "1" / "5"
    chunk.write_bytes(damaged(chunk.read_bytes()))
    with pytest.raises(bm.CorruptFileError, match=r"atoms.zarr: chunk c/1/5: the chunk is damaged"):
        bm.BanditMIPS().fit(bm.open_atoms(path, memory_limit=LIMIT))


class FlakyFileSystem(LocalFileSystem):
    """The local files, each of which can only be read at the third try (or never)."""

    protocol = "flaky"
    cachable = False
    n_failures = 2
    tried: ClassVar[dict[str, int]] = {}

    def cat_file(self, path, start=None, end=None, **options):
        path = self._strip_protocol(path)
        if "/c/" in path:
            self.tried[path] = self.tried.get(path, 0) + 1
            if self.tried[path] <= self.n_failures:
                raise ConnectionResetError("connection reset by peer")
        return super().cat_file(path, start=start, end=end, **options)

    @classmethod
    def _strip_protocol(cls, path):
        return LocalFileSystem._strip_protocol(path.removeprefix("flaky://"))


@pytest.fixture
def flaky(monkeypatch):
    fsspec.register_implementation("flaky", FlakyFileSystem, clobber=True)
    monkeypatch.setattr(FlakyFileSystem, "tried", {})
    return FlakyFileSystem


def test_a_remote_read_that_fails_twice_and_then_succeeds(folder, flaky):
    store = bm.open_atoms(f"flaky://{folder}", memory_limit=LIMIT)
    result = bm.search(store, QUERY, rescore=False)
    assert result.indices[0] == TRUTH[0]
    assert set(flaky.tried.values()) == {3}
    assert result.bytes_read == len(flaky.tried) * CHUNKS[0] * CHUNKS[1] * 4


def test_a_remote_read_that_never_succeeds(folder, flaky, monkeypatch):
    monkeypatch.setattr(flaky, "n_failures", 10**9)
    store = bm.open_atoms(f"flaky://{folder}", memory_limit=LIMIT)
    with pytest.raises(ChunkReadError, match=r"flaky://.*: chunk c/\d/\d+: could not be read in 3 tries: connection"):
        bm.search(store, QUERY)


def test_a_nan_in_a_chunk_is_named_by_its_place(folder):
    zarr.open_array(folder)[17, 1234] = np.nan
    store = bm.open_atoms(folder, memory_limit=LIMIT)
    with pytest.raises(ValueError, match=r"atoms has nan at row 17, column 1234 \(argument 'atoms'\)"):
        bm.BanditMIPS().fit(store)
    with pytest.raises(ValueError, match=r"atoms has nan at row 17, column 1234 \(argument 'atoms'\)"):
        bm.search(store, QUERY, delta=0.0)


def test_chunks_larger_than_the_memory_are_refused(folder):
    with pytest.raises(
        ValueError, match=r"memory_limit must hold the largest chunk of .*atoms.zarr, 1,920 bytes, got 1,900"
    ):
        bm.open_atoms(folder, memory_limit=1900)


# --- HDF5 -------------------------------------------------------------------------------------------------------------


def save_hdf5(path, **options):
    with h5py.File(path, "w", userblock_size=options.pop("userblock_size", 0)) as file:
        file.create_dataset("group/atoms", data=ATOMS, **options)
        file["labels"] = np.arange(N)
    return path


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({}, RawStore),
        ({"userblock_size": 512}, GridStore),
        ({"chunks": CHUNKS}, GridStore),
        ({"chunks": CHUNKS, "compression": "gzip", "shuffle": True}, GridStore),
    ],
)
def test_hdf5(tmp_path, options, kind):
    path = save_hdf5(tmp_path / "atoms.h5", **options)
    store = bm.open_atoms(path, memory_limit=LIMIT)
    assert isinstance(store, kind)
    for search in (bm.search, _fit):
        assert search(store, QUERY).indices[0] == TRUTH[0]
    assert bm.search(path, QUERY).indices[0] == TRUTH[0]
    with h5py.File(path) as file:
        assert bm.search(file["group/atoms"], QUERY).indices[0] == TRUTH[0]


def test_hdf5_counts_stored_bytes(tmp_path):
    path = tmp_path / "atoms.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("atoms", data=np.round(ATOMS), chunks=CHUNKS, compression="gzip")
        stored = dataset.id.get_storage_size()
    assert bm.search(bm.open_atoms(path, memory_limit=LIMIT), QUERY, delta=0.0).bytes_read == stored < ATOMS.nbytes / 2


def test_virtual_and_external_datasets(tmp_path):
    save_hdf5(tmp_path / "source.h5", chunks=CHUNKS)
    layout = h5py.VirtualLayout((N, D), dtype="f4")
    layout[:] = h5py.VirtualSource(tmp_path / "source.h5", "group/atoms", (N, D))
    with h5py.File(tmp_path / "virtual.h5", "w") as file:
        file.create_virtual_dataset("atoms", layout)
    external = [(str(tmp_path / "raw.bin"), 0, h5py.h5f.UNLIMITED)]
    with h5py.File(tmp_path / "external.h5", "w") as file:
        file.create_dataset("atoms", data=ATOMS, external=external)
    for name in ("virtual.h5", "external.h5"):
        store = bm.open_atoms(tmp_path / name, memory_limit=LIMIT)
        assert isinstance(store, GridStore)
        result = bm.search(store, QUERY)
        assert result.indices[0] == TRUTH[0]
        assert result.bytes_read == ATOMS.nbytes


def test_an_hdf5_chunk_that_was_never_written_is_missing(tmp_path):
    path = tmp_path / "atoms.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("atoms", shape=(N, D), dtype="f4", chunks=CHUNKS)
        dataset[:, 40:] = ATOMS[:, 40:]
    with pytest.raises(bm.CorruptFileError, match=r"dataset '/atoms': chunk \(0, 0\): the chunk is missing"):
        bm.search(bm.open_atoms(path, memory_limit=LIMIT), QUERY, delta=0.0)
    filled = ATOMS.copy()
    filled[:, :40] = 0.0
    store = bm.open_atoms(path, memory_limit=LIMIT, missing_chunks="fill_value")
    assert bm.search(store, QUERY, delta=0.0).indices[0] == (filled @ QUERY).argmax()


def test_a_damaged_hdf5_chunk_is_named(tmp_path):
    path = save_hdf5(tmp_path / "atoms.h5", chunks=CHUNKS, fletcher32=True)
    with h5py.File(path) as file:
        offset = file["group/atoms"].id.get_chunk_info_by_coord((12, 120)).byte_offset
    with open(path, "r+b") as file:
        file.seek(offset + 10)
        file.write(b"\xff\xff")
    with pytest.raises(bm.CorruptFileError, match=r"dataset '/group/atoms': chunk \(1, 3\): the chunk is damaged"):
        bm.search(bm.open_atoms(path, memory_limit=LIMIT), QUERY, delta=0.0)


def test_datasets_are_chosen_by_name(tmp_path):
    path = save_hdf5(tmp_path / "atoms.h5")
    assert bm.open_atoms(path, dataset="group/atoms").shape == (N, D)
    with pytest.raises(ValueError, match=r"atoms.h5: has no dataset 'x'; it holds group/atoms, labels"):
        bm.open_atoms(path, dataset="x")
    with pytest.raises(ValueError, match=r"dataset '/labels': expected a matrix .* got shape \(24,\)"):
        bm.open_atoms(path, dataset="labels")
    with h5py.File(path, "a") as file:
        file["more"] = ATOMS[:3]
    with pytest.raises(ValueError, match=r"atoms.h5: name one of its datasets; it holds group/atoms, more"):
        bm.open_atoms(path)
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(bm.CorruptFileError, match=r"text.h5: file: cannot be read as HDF5"):
        bm.open_atoms(tmp_path / "text.h5")


# --- Arrow ------------------------------------------------------------------------------------------------------------

COLUMN = pa.FixedSizeListArray.from_arrays(pa.array(ATOMS.ravel()), D)


def test_parquet_row_groups_are_read_one_by_one(tmp_path):
    path = tmp_path / "atoms.parquet"
    pq.write_table(pa.table({"id": np.arange(N), "v": COLUMN}), path, row_group_size=4, compression="none")
    stored = [pq.ParquetFile(path).metadata.row_group(i).column(1).total_compressed_size for i in range(6)]
    store = bm.open_atoms(path, dataset="v", memory_limit=LIMIT)
    result = bm.search(store, QUERY)
    assert result.indices[0] == TRUTH[0]
    assert result.bytes_read == sum(stored)
    index = bm.BanditMIPS().fit(store)
    result = index.search(QUERY)
    assert result.indices[0] == TRUTH[0]
    assert result.bytes_read <= result.n_survivors * max(stored)


def test_what_is_wrong_in_a_row_group_is_named_by_its_row(tmp_path):
    lists = ATOMS.tolist()
    lists[13][7] = None
    pq.write_table(pa.table({"v": lists}), tmp_path / "null.parquet", row_group_size=4)
    with pytest.raises(ValueError, match=r"null.parquet: column 'v' has no value in row 13, entry 7"):
        bm.search(bm.open_atoms(tmp_path / "null.parquet", memory_limit=LIMIT), QUERY)
    lists[13] = [1.0]
    pq.write_table(pa.table({"v": lists}), tmp_path / "uneven.parquet", row_group_size=4)
    with pytest.raises(ValueError, match=r"one length, got 3000 entries in row 0 and 1 in row 13"):
        bm.search(bm.open_atoms(tmp_path / "uneven.parquet", memory_limit=LIMIT), QUERY)


def test_a_damaged_parquet_page_is_named(tmp_path):
    path = tmp_path / "atoms.parquet"
    pq.write_table(pa.table({"v": COLUMN}), path, row_group_size=4, compression="zstd", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(3).column(0)
    with open(path, "r+b") as file:
        file.seek(column.data_page_offset + 40)
        file.write(b"\xff" * 2000)
    with pytest.raises((bm.CorruptFileError, ChunkReadError), match=r"atoms.parquet: row group 3"):
        bm.search(bm.open_atoms(path, memory_limit=LIMIT), QUERY)


def test_arrow_in_memory_is_not_copied():
    for atoms in (COLUMN, pa.table({"v": COLUMN}), pa.chunked_array([COLUMN]), pa.record_batch({"v": COLUMN})):
        assert bm.search(atoms, QUERY).indices[0] == TRUTH[0]
        store = bm._validate.as_store(atoms)
        assert np.shares_memory(store.array, COLUMN.flatten().to_numpy())
    pieces = pa.chunked_array([COLUMN[:7], COLUMN[7:]])
    store = bm._validate.as_store(pieces)
    assert isinstance(store, JoinedStore)
    assert np.shares_memory(store.stores[1].array, COLUMN.flatten().to_numpy())
    assert bm.search(pieces, QUERY).indices[0] == TRUTH[0]


def test_arrow_that_is_no_matrix():
    with pytest.raises(ValueError, match="column 'x' holds string"):
        bm.search(pa.table({"x": ["a"]}), QUERY)
    with pytest.raises(ValueError, match="must hold lists of numbers"):
        bm.search(pa.array([["a"], ["b"]]), QUERY)
    with pytest.raises(ValueError, match="has no value in row 1"):
        bm.search(pa.array([[1.0], None]), QUERY)
    with pytest.raises(ValueError, match="atoms is empty"):
        bm.search(COLUMN[:0], QUERY)


def test_an_arrow_file_is_not_kept_mapped(tmp_path):
    path = tmp_path / "atoms.arrow"
    table = pa.table({"v": COLUMN})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)
    store = bm.open_atoms(path, memory_limit=LIMIT)
    result = bm.search(store, QUERY)
    assert result.indices[0] == TRUTH[0]
    assert result.bytes_read == ATOMS.nbytes
    if Path("/proc/self/maps").exists():
        assert "atoms.arrow" not in Path("/proc/self/maps").read_text()
