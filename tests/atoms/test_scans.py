"""What a search of a file without an index reads, in the worst case: hardly more than the file, and that once."""

from __future__ import annotations

import os

import h5py
import numpy as np
import pytest
import zarr

import banditmips as bm
from banditmips.atoms import raw, short_reads
from banditmips.atoms.facts import length_of
from banditmips.atoms.metering import metered
from banditmips.atoms.prefetching import Prefetcher
from banditmips.atoms.rows import RowRange
from banditmips.atoms.zarr_arrays import ZarrGrid
from banditmips.race.full import streamed_products

N, D, LIMIT = 64, 16_384, 1_000_000
RNG = np.random.default_rng(0)
HOPELESS = RNG.standard_normal((N, D), dtype=np.float32)
"""Atoms none of which stands out."""
PROMISING = HOPELESS + np.linspace(-3.0, 3.0, N, dtype=np.float32)[:, np.newaxis]
QUERIES = 1.0 + RNG.standard_normal((3, D), dtype=np.float32)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The same atoms in files of every kind."""
    folder = tmp_path_factory.mktemp("scans")
    for name, atoms in (("hopeless", HOPELESS), ("promising", PROMISING)):
        np.save(folder / f"{name}-c.npy", atoms)
        np.save(folder / f"{name}-f.npy", np.asfortranarray(atoms))
        for shape in ((1, 4096), (32, 32)):
            zarr.create_array(folder / f"{name}-{shape[0]}.zarr", data=atoms, chunks=shape, compressors=None)
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file.create_dataset("atoms", data=atoms, chunks=(32, 32))
    return folder


KINDS = ["{}-c.npy", "{}-f.npy", "{}-1.zarr", "{}-32.zarr", "{}.h5"]


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_can_be_dropped_a_file_is_read_once(written, kind):
    store = bm.open_atoms(written / kind.format("hopeless"), memory_limit=LIMIT)
    for query in QUERIES:
        result = bm.search(store, query)
        assert result.indices[0] == (HOPELESS @ query).argmax()
        assert 0.9 * HOPELESS.nbytes < result.bytes_read <= 1.1 * HOPELESS.nbytes


@pytest.mark.parametrize("kind", ["{}-c.npy", "{}-1.zarr"])
def test_queries_for_which_all_is_read_read_it_together(written, kind):
    store = bm.open_atoms(written / kind.format("hopeless"), memory_limit=LIMIT)
    result = bm.search(store, QUERIES, delta=0.0)
    assert (result.indices[:, 0] == (QUERIES @ HOPELESS.T).argmax(axis=1)).all()
    np.testing.assert_allclose(result.scores[:, 0], (QUERIES.astype(float) @ HOPELESS.T.astype(float)).max(axis=1))
    # Beside that, each reads its best row twice: to know how well rounded products tell it from others, and exactly.
    again = 2 * (HOPELESS[0].nbytes + 4096)
    assert (result.bytes_read <= [HOPELESS.nbytes + N * 4096 + again, again, again]).all()


@pytest.mark.parametrize("kind", ["{}-32.zarr", "{}.h5"])
def test_where_most_can_be_dropped_chunks_are_left_out(written, kind):
    store = bm.open_atoms(written / kind.format("promising"), memory_limit=LIMIT)
    result = bm.search(store, QUERIES[0])
    assert result.indices[0] == (PROMISING @ QUERIES[0]).argmax()
    assert result.bytes_read <= 0.75 * PROMISING.nbytes


def test_queries_of_a_batch_know_that_they_would_share_a_scan(tmp_path):
    """Alone each would read a third of the rows; together they read all of them once, and each its best again."""
    rng = np.random.default_rng(1)
    atoms = rng.standard_normal((600, 8_192), dtype=np.float32)
    np.save(tmp_path / "atoms.npy", atoms)
    index = bm.BanditMIPS(layout="codes").fit(bm.open_atoms(tmp_path / "atoms.npy", memory_limit=LIMIT))
    queries = rng.standard_normal((24, 8_192), dtype=np.float32)
    alone = [index.search(query, 5) for query in queries]
    together = index.search(queries, 5)
    assert (together.indices == [one.indices for one in alone]).all()
    assert (together.scores == [one.scores for one in alone]).all()
    assert sum(int(one.bytes_read) for one in alone) > 4 * atoms.nbytes
    assert together.bytes_read.sum() < 2 * atoms.nbytes
    # One that has nobody to share it with reads what it reads alone.
    most = atoms[:24].copy()
    most[3] = queries[3] + 0.04 * atoms[3]
    mixed, one_by_one = index.search(most), [index.search(query) for query in most]
    assert (mixed.indices[:, 0] == [one.indices[0] for one in one_by_one]).all()
    assert one_by_one[3].n_survivors > 10
    assert mixed.bytes_read.sum() == sum(int(one.bytes_read) for one in one_by_one) < 0.2 * atoms.nbytes


@pytest.mark.parametrize("kind", ["{}-c.npy", "{}-32.zarr", "{}.h5"])
def test_shared_products_are_those_of_an_array(written, kind):
    """Rows are multiplied in groups that are worth it, as many as the memory allows."""
    store = bm.open_atoms(written / kind.format("promising"), memory_limit=LIMIT)
    products = streamed_products(store, QUERIES)
    np.testing.assert_allclose(products, QUERIES @ PROMISING.T, rtol=1e-4, atol=1e-2)
    assert products.dtype == np.float32


def test_short_reads_have_to_promise_much(written):
    plans, n_rounds = {}, {}
    for name, atoms in (("hopeless", HOPELESS), ("promising", PROMISING)):
        store = bm.open_atoms(written / f"{name}-c.npy", memory_limit=LIMIT)
        # As if the rows were so long that a race on pages may be thought of.
        store.line_width, store.line_cost, store._line_bytes = 16, 1.0, 4096
        result = bm.search(store, QUERIES[0], trace=True)
        assert result.indices[0] == (atoms @ QUERIES[0]).argmax()
        plans[name], n_rounds[name] = result.trace.plan, result.n_rounds
        if name == "hopeless":  # with the pages that the probe has read
            assert result.bytes_read <= 1.3 * atoms.nbytes
    assert "a probe of a few atoms expects about 1024 of 1024 lines" in plans["hopeless"]
    assert n_rounds["hopeless"] == 0
    assert "1024 lines of 16 coordinates" in plans["promising"]
    assert n_rounds["promising"] >= 1


def test_columns_take_no_longer_one_by_one(written):
    assert bm.open_atoms(written / "hopeless-f.npy", memory_limit=LIMIT).line_time == 1.0
    assert bm.open_atoms(written / "hopeless-c.npy", memory_limit=LIMIT).line_time > 1.0


def test_lines_of_long_rows_are_parts_of_pages(tmp_path, monkeypatch):
    """A whole page of another row begins anywhere in a page, and takes two of them; a quarter mostly takes one."""
    np.save(tmp_path / "atoms.npy", PROMISING)
    path = tmp_path / "atoms.npy"
    whole = bm.open_atoms(path, memory_limit=LIMIT)
    assert (whole.line_width, whole.line_cost) == (1024, 2.0)
    monkeypatch.setattr(raw, "_LONG_ROW", 4 * D)
    quarter = bm.open_atoms(path, memory_limit=LIMIT)
    assert (quarter.line_width, quarter.line_cost) == (256, 5.0)
    # One that lies in two pages is read by one call; and so many bytes of pages count.
    assert quarter.line_time == short_reads._USUAL / 1.25
    with metered() as meter:
        (part,) = quarter.read_parts(np.array([3]), [quarter.line(5)])
    assert (part.values == PROMISING[3, 1280:1536]).all()
    assert meter.bytes_read == 4096


@pytest.fixture
def measured(written, monkeypatch):
    """A file that is taken for a large one, so that what reading it takes is measured; its lines lie in two pages."""
    monkeypatch.setattr(short_reads, "_WORTH_MEASURING", 1)
    store = bm.open_atoms(written / "promising-c.npy", memory_limit=LIMIT)
    assert store.line_cost == 2.0
    return store


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="this system does not tell what it has in memory")
def test_the_system_tells_what_it_has_in_memory(measured, monkeypatch):
    monkeypatch.setattr(raw.RawStore, "_seconds_of", lambda self, *reads: pytest.fail("there was no need to read"))
    for _ in measured.read_parts(np.arange(N), [(0, D)]):
        pass
    # A line that lies in two pages is copied by one call.
    assert measured.line_time == short_reads._USUAL / 2.0


def test_reads_from_a_disk_are_timed_now_and_then(measured, monkeypatch):
    timed = []
    seconds_of = raw.RawStore._seconds_of
    monkeypatch.setattr(raw.RawStore, "_is_cached", lambda self, n_reads: False)
    monkeypatch.setattr(
        raw.RawStore, "_seconds_of", lambda self, *reads: timed.append(reads) or seconds_of(self, *reads)
    )
    with metered() as meter:
        assert 1.0 <= measured.line_time < np.inf
    assert meter.bytes_read == sum(n_reads * size for n_reads, size in timed) == 1 << 22
    n_timed = len(timed)
    assert measured.line_time >= 1.0
    assert len(timed) == n_timed  # for a hundred times as long as that took
    measured._short_reads._measure_again = 0.0
    assert RowRange(measured, 2, 9).line_time >= 1.0
    assert len(timed) == 2 * n_timed


@pytest.mark.parametrize(("short_read", "n_rounds"), [(1.5, 1), (100.0, 0)])
def test_what_short_reads_take_decides_whether_any_are_made(measured, monkeypatch, short_read, n_rounds):
    monkeypatch.setattr(raw.RawStore, "_is_cached", lambda self, n_reads: False)
    monkeypatch.setattr(
        raw.RawStore, "_seconds_of", lambda self, n_reads, size: n_reads * size * (1.0 if n_reads == 1 else short_read)
    )
    # As if the rows were long.
    measured.line_width, measured.line_cost, measured._line_bytes = 16, 1.0, 4096
    result = bm.search(measured, QUERIES[0])
    assert result.indices[0] == (PROMISING @ QUERIES[0]).argmax()
    assert min(int(result.n_rounds), 1) == n_rounds


def test_a_scan_of_zarr_asks_for_many_chunks_at_once(written, monkeypatch):
    fetched = []
    fetch = ZarrGrid.fetch
    monkeypatch.setattr(ZarrGrid, "fetch", lambda self, *a: fetched.append(a) or fetch(self, *a))
    store = bm.open_atoms(written / "hopeless-32.zarr", memory_limit=LIMIT)
    bm.search(store, QUERIES[0], delta=0.0)
    # Rows of chunks whose neighbours go together, within the memory limit.
    assert len(fetched) <= (N // 32) * (D // 32) / 4
    fetched.clear()
    list(store.read_parts(np.arange(N), [(0, 32), (320, 352)]))
    assert len(fetched) == 2  # lines, with all rows at once


@pytest.mark.parametrize("kind", ["{}-c.npy", "{}-f.npy"])
def test_a_plain_file_is_scanned_in_the_same_few_places_of_memory(written, kind, monkeypatch):
    """New memory takes longer than what is read into it, and threads longer than the system, which reads ahead."""
    store = bm.open_atoms(written / kind.format("promising"), memory_limit=LIMIT)
    asked = []
    monkeypatch.setattr(Prefetcher, "_submit", lambda self, work, item: asked.append(item))
    found, places = np.zeros((N, D), dtype=np.float32), set()
    for part in store.read_parts(np.arange(N), [(0, D)]):
        found[part.rows, part.first_column : part.stop_column] = part.values
        places.add(part.values.__array_interface__["data"][0])
    assert (found == PROMISING).all()
    assert not asked
    assert len(places) <= 2  # what is left at the end may be smaller


def test_the_length_of_a_vector_is_right_wherever_its_squares_are():
    vector = 1.0 + RNG.standard_normal(100_000)
    length = float(np.linalg.norm(vector))
    for scale in (1.0, 1e-160, 1e-300, 1e160, 1e300):
        assert length_of(scale * vector) == pytest.approx(scale * length, rel=1e-13)
    assert length_of(vector.astype(np.float32)) == pytest.approx(length, rel=1e-7)
    assert length_of(np.zeros(3)) == 0.0
    assert np.isnan(length_of(np.array([1.0, np.nan])))
