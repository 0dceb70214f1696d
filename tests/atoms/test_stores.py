"""Every store reads what NumPy reads from the same atoms."""

from __future__ import annotations

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
import zarr

import banditmips as bm
from banditmips.atoms import DenseStore, JoinedStore, SparseStore
from banditmips.atoms.collecting import collect_facts
from banditmips.core import statistics
from banditmips.core.certain import ScoreMap
from banditmips.race.readers import SparseReader, StoreReader
from banditmips.race.sampled import Problem
from banditmips.race.sampling import BottomKSampler

N, D = 15, 41
ATOMS = np.where(np.random.default_rng(0).random((N, D)) < 0.4, np.random.default_rng(1).integers(-5, 6, (N, D)), 0)
ATOMS = ATOMS.astype(float)
QUERY = np.random.default_rng(2).normal(size=D)

STORES = {
    "C order": lambda: DenseStore(ATOMS),
    "Fortran order": lambda: DenseStore(np.asfortranarray(ATOMS)),
    "backwards": lambda: DenseStore(ATOMS[::-1, ::-1].copy()[::-1, ::-1]),
    "slices": lambda: DenseStore(np.repeat(np.repeat(ATOMS, 2, axis=0), 3, axis=1)[::2, ::3]),
    "Fortran slices": lambda: DenseStore(np.asfortranarray(np.repeat(ATOMS, 2, axis=0))[::2]),
    "float16": lambda: DenseStore(ATOMS.astype(np.float16)),
    "float32": lambda: DenseStore(ATOMS.astype(np.float32)),
    "longdouble": lambda: DenseStore(ATOMS.astype(np.longdouble)),
    "int8": lambda: DenseStore(ATOMS.astype(np.int8)),
    "big-endian": lambda: DenseStore(ATOMS.astype(">f8")),
    "csr": lambda: SparseStore(scipy.sparse.csr_array(ATOMS)),
    "csc": lambda: SparseStore(scipy.sparse.csc_array(ATOMS)),
    "coo": lambda: SparseStore(scipy.sparse.coo_array(ATOMS)),
    "sparse int8": lambda: SparseStore(scipy.sparse.csr_array(ATOMS.astype(np.int8))),
    "sparse, unsorted": lambda: SparseStore(unsorted(ATOMS)),
    "sparse, in parts": lambda: SparseStore(in_parts(ATOMS)),
    "sparse, both ways": lambda: both_ways(ATOMS),
    "joined": lambda: JoinedStore(
        [
            DenseStore(ATOMS[:4].astype(np.float32)),
            SparseStore(scipy.sparse.csr_array(ATOMS[4:5])),
            DenseStore(np.asfortranarray(ATOMS[5:])),
        ]
    ),
}


def both_ways(atoms):
    """Return a store that keeps rows and columns."""
    store = SparseStore(scipy.sparse.csr_array(atoms))
    store.keep_both()
    return store


def save_npy(path, **options):
    np.save(path, np.array(ATOMS, **options))


def save_hdf5(path, **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("atoms", data=ATOMS, **options)


def save_zarr(path, **options):
    zarr.create_array(path, data=ATOMS, **options)


def save_parquet(path, columns):
    pq.write_table(pa.table(columns), path, row_group_size=4)


def save_arrow(path, columns):
    table = pa.table(columns)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=4)


FIXED = {"v": pa.FixedSizeListArray.from_arrays(pa.array(ATOMS.ravel()), D)}
FILES = {
    "C order.npy": save_npy,
    "Fortran order.npy": lambda path: save_npy(path, order="F"),
    "big-endian int8.npy": lambda path: save_npy(path, dtype=">i2"),
    "float16 Fortran.npy": lambda path: save_npy(path, dtype="f2", order="F"),
    "contiguous.h5": save_hdf5,
    "chunked.h5": lambda path: save_hdf5(path, chunks=(4, 7), compression="gzip", fletcher32=True),
    "whole rows.h5": lambda path: save_hdf5(path, chunks=(1, D)),
    "chunks.zarr": lambda path: save_zarr(path, chunks=(4, 7)),
    "columns.zarr": lambda path: save_zarr(path, chunks=(N, 1)),
    "shards.zarr": lambda path: save_zarr(path, chunks=(2, 7), shards=(6, 14)),
    "version 2.zarr": lambda path: save_zarr(path, chunks=(4, 7), zarr_format=2),
    "fixed lists.parquet": lambda path: save_parquet(path, FIXED),
    "lists.parquet": lambda path: save_parquet(path, {"v": ATOMS.tolist()}),
    "numbers.parquet": lambda path: save_parquet(path, {f"x{j}": ATOMS[:, j] for j in range(D)}),
    "fixed lists.arrow": lambda path: save_arrow(path, FIXED),
    "numbers.feather": lambda path: save_arrow(path, {f"x{j}": ATOMS[:, j] for j in range(D)}),
}


def unsorted(atoms):
    """Return a sparse matrix with the entries of each row backwards."""
    matrix = scipy.sparse.csr_array(atoms)
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        matrix.data[start:stop] = matrix.data[start:stop][::-1].copy()
        matrix.indices[start:stop] = matrix.indices[start:stop][::-1].copy()
    matrix.has_sorted_indices = False
    return matrix


def in_parts(atoms):
    """Return a sparse matrix that stores every entry as two summands."""
    matrix = scipy.sparse.csr_array(atoms)
    parts = np.repeat(matrix.data, 2) * np.tile([0.25, 0.75], matrix.nnz)
    return scipy.sparse.csr_array((parts, np.repeat(matrix.indices, 2), 2 * matrix.indptr), shape=atoms.shape)


TERMS = {
    statistics.PRODUCT: lambda v, q: q * v,
    statistics.NEG_SQUARED_DIFFERENCE: lambda v, q: -((q - v) ** 2),
    statistics.NEG_ABSOLUTE_DIFFERENCE: lambda v, q: -np.abs(q - v),
}
ROWS = [np.arange(N), np.array([14]), np.array([9, 2, 4, 5, 3]), np.array([], dtype=np.int64)]
COLUMNS = [np.arange(D), np.array([40]), np.array([7, 39, 0, 12]), np.array([5, 5, 6])]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of every kind, with the same atoms in each."""
    folder = tmp_path_factory.mktemp("stores")
    for name, save in FILES.items():
        save(folder / name)
    return folder


@pytest.fixture(params=[*STORES, *FILES])
def store(request, folder):
    if request.param in STORES:
        return STORES[request.param]()
    # Too little memory to read it all at once.
    return bm.open_atoms(folder / request.param, memory_limit=ATOMS.nbytes // 3, missing_chunks=missing(request.param))


def missing(name):
    """Zarr leaves out chunks of nothing but zeros, and these atoms have such chunks."""
    return "fill_value" if name.endswith(".zarr") else "error"


def test_the_shape(store):
    assert store.shape == (N, D)
    assert np.result_type(store.dtype, np.longdouble) == np.longdouble


def test_gather(store):
    for rows in ROWS:
        for columns in COLUMNS:
            room = np.full((rows.size, columns.size + 3), np.nan)
            store.gather(rows, columns, room[:, 1:-2])
            np.testing.assert_array_equal(room[:, 1:-2], ATOMS[np.ix_(rows, columns)])
            assert np.isnan(room[:, [0, -2, -1]]).all()


@pytest.mark.parametrize("objective", TERMS)
def test_scores(store, objective):
    terms = TERMS[objective](ATOMS, QUERY)
    for rows in ROWS:
        np.testing.assert_allclose(store.scores(rows, None, QUERY, objective), terms[rows].sum(axis=1), atol=1e-12)
        for columns in COLUMNS[1:3]:
            scores = store.scores(rows, columns, QUERY[columns], objective)
            np.testing.assert_allclose(scores, terms[np.ix_(rows, columns)].sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("max_entries", [1, D, 4 * D + 1, 10**9])
def test_blocks(store, max_entries):
    row = 0
    for start, block in store.blocks(max_entries):
        assert start == row
        assert block.size <= max(max_entries, D)
        np.testing.assert_array_equal(np.asarray(block, dtype=float), ATOMS[start : start + len(block)])
        row += len(block)
    assert row == N


def test_facts(store):
    facts = collect_facts(store)
    np.testing.assert_allclose(facts.squared_norms, (ATOMS**2).sum(axis=1))
    np.testing.assert_allclose(facts.column_squares, (ATOMS**2).sum(axis=0))
    assert (facts.low, facts.high) == (ATOMS.min(), ATOMS.max())


def test_joined_facts():
    parts = [collect_facts(DenseStore(part)) for part in (ATOMS[:4], ATOMS[4:5], ATOMS[5:])]
    joined = parts[0].joined(parts[1]).joined(parts[2])
    whole = collect_facts(DenseStore(ATOMS))
    np.testing.assert_allclose(joined.squared_norms, whole.squared_norms)
    np.testing.assert_allclose(joined.column_squares, whole.column_squares)
    assert (joined.low, joined.high) == (whole.low, whole.high)


# --- readers ----------------------------------------------------------------------------------------------------------


def reader(store, query=QUERY, support=None, scores=None, check_finite=False):
    return StoreReader(store, Problem(query, statistics.PRODUCT, scores or ScoreMap()), support, check_finite)


def test_a_reader_counts_what_the_support_costs():
    support = np.flatnonzero(np.arange(D) % 4 == 1)
    query = np.where(np.arange(D) % 4 == 1, QUERY, 0.0)
    rows = np.array([3, 11])
    dense = reader(DenseStore(ATOMS), query=query, support=support)
    assert dense.exact_cost(rows) == 2 * support.size
    for form in (scipy.sparse.csr_array, scipy.sparse.csc_array):
        sparse = SparseReader(SparseStore(form(ATOMS)), Problem(query, statistics.PRODUCT), support)
        assert sparse.exact_cost(rows) == np.count_nonzero(ATOMS[rows] * query)
        whole = SparseReader(SparseStore(form(ATOMS)), Problem(QUERY, statistics.PRODUCT))
        assert whole.exact_cost(rows) == np.count_nonzero(ATOMS[rows])


def test_a_reader_visits_the_support_alone(store):
    support = np.flatnonzero(np.arange(D) % 4 == 1)
    query = np.where(np.arange(D) % 4 == 1, QUERY, 0.0)
    view = reader(store, query=query, support=support)
    np.testing.assert_allclose(view.exact(np.arange(N)), ATOMS @ query, atol=1e-12)


def test_a_reader_scales_and_moves_rows(store):
    scale, offsets = np.linspace(0.5, 2.0, N), np.linspace(-30.0, 7.0, N)
    rows = np.array([3, 11])
    scaled = scale * (ATOMS @ QUERY)
    np.testing.assert_allclose(reader(store, scores=ScoreMap(scale)).exact(rows), scaled[rows])
    np.testing.assert_allclose(reader(store, scores=ScoreMap(scale, offsets)).exact(rows), (scaled + offsets)[rows])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_reader_checks_what_it_reads_if_asked_to(value):
    atoms = ATOMS.copy()
    atoms[6, 17] = value
    sample = BottomKSampler(np.array([17]), np.ones(1), 0).prefix(1)
    out = np.empty((2, 1))
    with pytest.raises(ValueError, match="row 6, column 17"):
        reader(DenseStore(atoms), check_finite=True).read(np.array([3, 6]), sample, 0, out)
    reader(DenseStore(atoms), check_finite=True).read(np.array([3, 5]), sample, 0, out)
    reader(DenseStore(atoms)).read(np.array([3, 6]), sample, 0, out)
