"""Atoms in files go through `fit` in one pass: every byte is read once, in little memory, and gives the same codes."""

from __future__ import annotations

import tempfile
import tracemalloc

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import banditmips as bm
from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import collect_facts
from banditmips.atoms.metering import metered
from banditmips.atoms.panels import Panels
from banditmips.core.codes import Codes

N, D = 160, 12_000
rng = np.random.default_rng(0)
ATOMS = (rng.normal(size=(N, 1)) + rng.normal(size=(N, D))).astype(np.float32)
LIMIT = ATOMS.nbytes // 4


def save_hdf5(path, chunks):
    with h5py.File(path, "w") as file:
        file.create_dataset("atoms", data=ATOMS, chunks=chunks)


def save_parquet(path):
    column = pa.FixedSizeListArray.from_arrays(pa.array(ATOMS.ravel()), D)
    pq.write_table(pa.table({"atoms": column}), path, row_group_size=7, compression="none", use_dictionary=False)


def save_arrow(path):
    table = pa.table({"atoms": pa.FixedSizeListArray.from_arrays(pa.array(ATOMS.ravel()), D)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


FILES = {
    "c.npy": lambda path: np.save(path, ATOMS),
    "f.npy": lambda path: np.save(path, np.asfortranarray(ATOMS)),
    "whole.h5": lambda path: save_hdf5(path, None),
    "chunks.h5": lambda path: save_hdf5(path, (8, 1000)),
    "tall.h5": lambda path: save_hdf5(path, (N, 100)),
    "few.zarr": lambda path: zarr.create_array(path, data=ATOMS, chunks=(3, 2000), compressors=None),
    "tall.zarr": lambda path: zarr.create_array(path, data=ATOMS, chunks=(N // 2, 100), compressors=None),
    "groups.parquet": save_parquet,
    "batches.arrow": save_arrow,
    "packed.zarr": lambda path: bm.pack(ATOMS, path, n_coordinates=64),
}
TURNED_ROUND = ("f.npy", "tall.h5", "tall.zarr")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("panels")
    for name, save in FILES.items():
        save(folder / name)
    return folder


def open_file(folder, name):
    return bm.open_atoms(folder / name, memory_limit=LIMIT)


@pytest.mark.parametrize("name", FILES)
def test_every_file_is_fitted_with_codes_in_one_pass(folder, name):
    store = open_file(folder, name)
    with metered() as meter:
        index = bm.BanditMIPS(layout="codes", n_jobs=2).fit(store)
    # A sixteenth more is read for the centre; and pages of a small file that two pieces share are counted twice.
    assert ATOMS.nbytes <= meter.bytes_read <= 1.15 * ATOMS.nbytes
    codes, facts = index._fitted.codes, index._fitted.facts
    same = Codes(codes.rotation, codes.centre, N, codes.n_cells, codes.n_bits)
    same.encode(0, ATOMS)
    for kind, array in same.arrays().items():
        np.testing.assert_array_equal(codes.arrays()[kind], array, err_msg=kind)
    in_memory = collect_facts(DenseStore(ATOMS))
    np.testing.assert_allclose(facts.squared_norms, in_memory.squared_norms, rtol=1e-12)
    np.testing.assert_allclose(facts.column_squares, in_memory.column_squares, rtol=1e-6)
    assert (facts.low, facts.high) == (in_memory.low, in_memory.high)
    query = 1.0 + rng.normal(size=D)
    found = index.search(query, 3)
    np.testing.assert_array_equal(found.indices, np.argsort(-(ATOMS @ query))[:3])


@pytest.mark.parametrize("name", FILES)
def test_a_pass_may_begin_at_any_row(folder, name):
    store = open_file(folder, name)
    for first_row in (1, 95):
        at = first_row
        for first, values in Panels(store).from_row(first_row):
            assert first == at
            np.testing.assert_array_equal(values, ATOMS[first : first + len(values)])
            at += len(values)
        assert at == N


def test_a_look_at_the_first_rows_reads_nothing_twice(folder):
    store = open_file(folder, "f.npy")
    panels = Panels(store)
    assert panels.spread_rows(256) is None
    with metered() as meter:
        first = panels.first()
        np.testing.assert_array_equal(first, ATOMS[: len(first)])
        np.testing.assert_array_equal(np.concatenate([rows for _, rows in panels.from_row(0)]), ATOMS)
    assert meter.bytes_read <= 1.15 * ATOMS.nbytes


def test_a_centre_is_that_of_rows_from_everywhere_where_these_cost_little(folder):
    for name in ("c.npy", "few.zarr"):
        rows = Panels(open_file(folder, name)).spread_rows(256)
        assert rows[0] < N / 4
        assert rows[-1] > 3 * N / 4
    np.testing.assert_array_equal(Panels(DenseStore(ATOMS)).spread_rows(256), np.arange(N))


@pytest.mark.parametrize("name", ["c.npy", "f.npy", "groups.parquet"])
def test_the_facts_and_codes_are_the_same_at_any_number_of_threads(folder, name):
    one, three = (
        bm.BanditMIPS(layout="codes", n_jobs=n_jobs).fit(open_file(folder, name))._fitted for n_jobs in (1, 3)
    )
    for field in ("means", "scatter", "column_squares"):
        np.testing.assert_array_equal(getattr(one.facts, field), getattr(three.facts, field))
    np.testing.assert_array_equal(one.codes.first, three.codes.first)


def test_memory_beyond_the_codes_stays_near_the_limit(tmp_path):
    n, d = 300, 20_000
    for order in "CF":
        path = tmp_path / f"{order}.npy"
        np.save(path, np.asarray(rng.normal(size=(n, d)).astype(np.float32), order=order))
        limit = 4 * n * d // 8
        store = bm.open_atoms(path, memory_limit=limit)
        bm.BanditMIPS().fit(ATOMS)  # loads what is loaded at first use
        tracemalloc.start()
        index = bm.BanditMIPS(n_jobs=2).fit(store)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        # Beside panels: squares by column of each stripe, in double precision.
        assert peak - index.extra_bytes < limit + 16 * 8 * d, order


def test_a_full_disk_while_turning_round_says_what_it_was_for(folder, monkeypatch):
    class Full:
        def __init__(self, *args, **kwargs):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *args):
            pass

        def seek(self, place):
            pass

        def write(self, data):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", Full)
    for name in TURNED_ROUND:
        with pytest.raises(OSError, match=r"No space left on device .*scratch file; TMPDIR names another place"):
            bm.BanditMIPS(layout="codes").fit(open_file(folder, name))
    bm.BanditMIPS(layout="codes").fit(open_file(folder, "c.npy"))  # needs none


def test_a_nan_in_a_file_is_named_by_row_and_column(tmp_path):
    bad = ATOMS.copy()
    bad[150, 7] = np.nan
    for order in "CF":
        np.save(tmp_path / f"{order}.npy", np.asarray(bad, order=order))
        with pytest.raises(ValueError, match="atoms has nan at row 150, column 7"):
            bm.BanditMIPS(n_jobs=2).fit(bm.open_atoms(tmp_path / f"{order}.npy", memory_limit=LIMIT))
