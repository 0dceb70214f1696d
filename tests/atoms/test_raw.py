"""Files of plain entries: what is read of them, what that counts as, and what is wrong with them."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import banditmips as bm
from banditmips.atoms import chunks, raw
from banditmips.atoms.chunks import ChunkReadError
from banditmips.atoms.metering import metered
from banditmips.atoms.npy import open_npy
from banditmips.atoms.raw import RawStore
from banditmips.atoms.runs import PAGE

N, D = 40, 200_000
LIMIT = 1 << 20


def planted(seed=0, m=None):
    rng = np.random.default_rng(seed)
    means = rng.permutation(np.linspace(-4.0, 4.0, N))
    atoms = (means[:, np.newaxis] + rng.normal(size=(N, D))).astype(np.float32)
    return atoms, 1.0 + 0.5 * rng.normal(size=D if m is None else (m, D))


ATOMS, QUERIES = planted(m=3)
TRUTH = np.argsort(-(QUERIES @ ATOMS.T), axis=1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    np.save(folder / "c.npy", ATOMS)
    np.save(folder / "f.npy", np.asfortranarray(ATOMS))
    return folder


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.npy"
    np.save(path, ATOMS[:, :1000])
    return path


# --- what is read -----------------------------------------------------------------------------------------------------


def test_opening_reads_the_header_alone(files):
    with metered() as meter:
        store = bm.open_atoms(files / "c.npy", memory_limit=LIMIT)
    assert isinstance(store, RawStore)
    assert meter.bytes_read == 0


def test_what_fits_in_half_the_memory_isread_at_once(files):
    result = bm.search(files / "c.npy", QUERIES)
    np.testing.assert_array_equal(result.indices[:, 0], TRUTH[:, 0])
    assert result.bytes_read[0] >= ATOMS.nbytes
    np.testing.assert_array_equal(result.bytes_read[1:], 0)
    store = bm.open_atoms(files / "f.npy")
    assert store.array.flags.f_contiguous


def test_rows_are_read_alone(files):
    store = open_npy(files / "c.npy", LIMIT)
    with metered() as meter:
        scores = store.scores(np.array([7, 31]), None, QUERIES[0], 0)
    np.testing.assert_allclose(scores, ATOMS[[7, 31]].astype(float) @ QUERIES[0])
    n_row = 4 * D
    assert 2 * n_row <= meter.bytes_read <= 2 * (n_row + PAGE) + PAGE * (n_row // store._piece + 2)


def test_single_coordinates_count_as_pages(files):
    store = open_npy(files / "c.npy", LIMIT)
    out = np.empty((3, 2))
    with metered() as meter:
        store.gather(np.array([5, 3, 30]), np.array([150_000, 7]), out)
    np.testing.assert_array_equal(out, ATOMS[np.ix_([5, 3, 30], [150_000, 7])])
    assert meter.bytes_read == 6 * PAGE


def test_coordinates_of_a_page_are_read_together(files):
    store = open_npy(files / "c.npy", LIMIT)
    out = np.empty((1, 100))
    with metered() as meter:
        store.gather(np.array([5]), np.arange(1000, 1100), out)
    assert meter.bytes_read <= 2 * PAGE


def test_a_coordinate_of_a_file_in_fortran_order_is_one_run(files):
    store = open_npy(files / "f.npy", LIMIT)
    assert store.line_width == PAGE // (4 * N)
    out = np.empty((N, 1))
    with metered() as meter:
        store.gather(np.arange(N), np.array([123_456]), out)
    np.testing.assert_array_equal(out[:, 0], ATOMS[:, 123_456])
    assert meter.bytes_read <= 2 * PAGE


def test_few_rows_of_a_tall_file_in_fortran_order(tmp_path):
    atoms = np.random.default_rng(0).normal(size=(200_000, 6))
    np.save(tmp_path / "tall.npy", np.asfortranarray(atoms))
    store = open_npy(tmp_path / "tall.npy", LIMIT)
    rows = np.array([3, 100_000, 199_999])
    with metered() as meter:
        scores = store.scores(rows, None, np.arange(6.0), 0)
    np.testing.assert_allclose(scores, atoms[rows] @ np.arange(6.0))
    assert meter.bytes_read <= 6 * 3 * PAGE
    assert store.share_of_rows(3) < 0.01
    assert store.share_of_rows(50_000) == 1.0


@pytest.mark.parametrize("name", ["c.npy", "f.npy"])
def test_an_index_of_a_file_finds_what_one_of_the_array_finds(files, name):
    index = bm.BanditMIPS(seed=1).fit(bm.open_atoms(files / name, memory_limit=LIMIT))
    result = index.search(QUERIES, 3)
    np.testing.assert_array_equal(result.indices, TRUTH[:, :3])
    if name == "c.npy":
        # The rows of survivors, and of leaders whose exact scores were to drop others.
        one_row = 4 * D + 3 * PAGE + PAGE * 4 * D // index._fitted.store._piece
        assert (result.bytes_read <= (result.n_survivors + 3) * one_row).all()
        assert (result.bytes_read >= result.n_survivors * 4 * D).all()


def test_a_search_without_index_reads_a_part(files):
    store = bm.open_atoms(files / "c.npy", memory_limit=LIMIT)
    assert store.n_lines == 196
    few = {"rescore": False, "minimise": "multiplies"}
    result = bm.search(store, QUERIES, **few, n_jobs=2)
    np.testing.assert_array_equal(result.indices[:, 0], TRUTH[:, 0])
    assert (result.bytes_read < 0.45 * ATOMS.nbytes).all()
    alone = bm.search(store, QUERIES[1], **few)
    assert alone.bytes_read == result.bytes_read[1]
    # A third of all bytes in short reads would take longer than all of them in long ones.
    in_time = bm.search(store, QUERIES[1], trace=True)
    assert "way: all products, because atoms come in 196 lines" in in_time.trace.plan
    np.testing.assert_array_equal(in_time.indices, TRUTH[1, :1])


def test_a_full_scan_reads_everything_once(files):
    for name in ("c.npy", "f.npy"):
        result = bm.search(bm.open_atoms(files / name, memory_limit=LIMIT), QUERIES[0], delta=0.0)
        # A page that two reads share counts twice.
        assert ATOMS.nbytes <= result.bytes_read <= 1.05 * ATOMS.nbytes


def test_memory_stays_within_the_limit(files):
    store = bm.open_atoms(files / "c.npy", memory_limit=LIMIT)
    options = {"max_extra_memory": 2_000_000}
    bm.BanditMIPS(**options).fit(store).search(QUERIES[0])  # compiles
    tracemalloc.start()
    try:
        index = bm.BanditMIPS(**options).fit(store)
        index.search(QUERIES[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Beside the buffers there are sums for each column, the index, the query, and the rounds' values.
    assert peak < LIMIT + 8 * D + index.extra_bytes + 2 * (8 * D) + 2_000_000 < ATOMS.nbytes / 3


def test_a_file_is_not_mapped(files):
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("there is no /proc here")
    store = bm.open_atoms(files / "c.npy", memory_limit=LIMIT)
    bm.search(store, QUERIES[0])
    assert "c.npy" not in maps.read_text()


def test_a_store_goes_to_another_process(small):
    store = open_npy(small, 10_000)
    copy = pickle.loads(pickle.dumps(store))
    rows = np.array([1, 5])
    np.testing.assert_array_equal(copy.scores(rows, None, np.ones(1000), 0), store.scores(rows, None, np.ones(1000), 0))
    frozen = pickle.dumps(store)
    np.save(small, ATOMS[:, :999])
    with pytest.raises(bm.CorruptFileError, match="it has changed since it was opened"):
        pickle.loads(frozen)


def test_a_store_that_nobody_uses_closes_its_file(small):
    store = open_npy(small, 10_000)
    descriptor = store._descriptor
    del store
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# --- what is wrong with a file ----------------------------------------------------------------------------------------


def test_a_file_that_ends_too_soon(small):
    with open(small, "r+b") as file:
        file.truncate(small.stat().st_size - 4)
    with pytest.raises(bm.CorruptFileError, match=r"small.npy: file: 40 x 1000 entries of float32 go to byte 160,128"):
        bm.open_atoms(small)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"no array at all" * 20])
def test_what_is_no_npy_file(tmp_path, content):
    (tmp_path / "atoms.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"atoms.npy: cannot be read as .npy"):
        bm.open_atoms(tmp_path / "atoms.npy")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2, 2)), r"got shape \(2, 2, 2\)"),
        (np.zeros((0, 5)), r"atoms.npy is empty: shape \(0, 5\)"),
        (np.zeros(4), r"got shape \(4,\)"),
        (np.array([["a", "b"]]), "expected real numbers, got dtype <U1"),
    ],
)
def test_what_is_no_matrix(tmp_path, array, message):
    np.save(tmp_path / "atoms.npy", array)
    with pytest.raises(ValueError, match=message):
        bm.open_atoms(tmp_path / "atoms.npy")


def _cut(path):
    with open(path, "r+b") as file:
        file.truncate(1000)


def _lengthen(path):
    with open(path, "ab") as file:
        file.write(b"more")


def _touch(path):
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))


@pytest.mark.parametrize("change", [_cut, _lengthen, _touch])
@pytest.mark.parametrize("fitted", [False, True])
def test_a_file_that_changes_under_the_reader(small, change, fitted):
    store = open_npy(small, 10_000)
    query = np.ones(1000)
    index = bm.BanditMIPS().fit(store) if fitted else None
    change(small)
    with pytest.raises(bm.CorruptFileError, match=r"small.npy: file: it has changed since it was opened"):
        bm.search(store, query) if index is None else index.search(query)


def test_a_read_that_fails_is_tried_again(small, monkeypatch):
    monkeypatch.setattr(chunks, "_FIRST_PAUSE", 1e-4)
    read, failures = raw.read_at, []

    def failing(descriptor, room, offset):
        if len(failures) < n_failures:
            failures.append(offset)
            raise OSError(5, "Input/output error")
        return read(descriptor, room, offset)

    monkeypatch.setattr(raw, "read_at", failing)
    n_failures = 2
    store = open_npy(small, 10_000)
    scores = store.scores(np.array([3]), None, np.ones(1000), 0)
    np.testing.assert_allclose(scores, ATOMS[3, :1000].astype(float).sum())
    assert len(failures) == 2
    n_failures = 10**9
    with pytest.raises(ChunkReadError, match=r"small.npy: rows 3 to 3: could not be read in 3 tries: .*Input/output"):
        store.scores(np.array([3]), None, np.ones(1000), 0)


def test_reads_may_come_in_pieces(small, monkeypatch):
    read = raw.read_at
    monkeypatch.setattr(raw, "read_at", lambda descriptor, room, offset: read(descriptor, room[:700], offset))
    store = open_npy(small, 10_000)
    np.testing.assert_array_equal(next(store.blocks(10**6))[1], ATOMS[:, :1000])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_a_nan_is_named_by_its_place(tmp_path, value):
    atoms = ATOMS[:, :5000].copy()
    atoms[17, 4321] = value
    np.save(tmp_path / "atoms.npy", atoms)
    store = open_npy(tmp_path / "atoms.npy", 100_000)
    with pytest.raises(ValueError, match=rf"atoms has {value} at row 17, column 4321 \(argument 'atoms'\)"):
        bm.BanditMIPS().fit(store)
    with pytest.raises(ValueError, match=rf"atoms has {value} at row 17, column 4321 \(argument 'atoms'\)"):
        bm.search(store, np.ones(5000))
