"""The contract of searches holds for atoms in files, read where they lie, as it does for atoms in memory."""

from __future__ import annotations

from dataclasses import asdict

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import banditmips as bm
from banditmips import StopReason
from banditmips.atoms import PartStore
from banditmips.atoms.packed import PackedStore

N, D = 20, 262


def integers():
    """Return integer-valued atoms, some of them twice, and queries without zeros: every sum is exact."""
    rng = np.random.default_rng(0)
    atoms = rng.integers(-3, 4, (N, D)).astype(float)
    atoms[[7, 12, 19]] = atoms[[2, 2, 5]]
    return atoms, rng.choice([-2.0, -1.0, 1.0, 2.0, 3.0], (3, D))


ATOMS, QUERIES = integers()


def save_hdf5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("atoms", data=ATOMS, chunks=(5, 4))


def save_parquet(path):
    column = pa.FixedSizeListArray.from_arrays(pa.array(ATOMS.ravel()), D)
    pq.write_table(pa.table({"atoms": column}), path, row_group_size=6)


FILES = {
    "c.npy": lambda path: np.save(path, ATOMS),
    "f.npy": lambda path: np.save(path, np.asfortranarray(ATOMS)),
    "lines.zarr": lambda path: zarr.create_array(path, data=ATOMS, chunks=(N, 4)),
    "lines.h5": save_hdf5,
    "groups.parquet": save_parquet,
    "packed.zarr": lambda path: bm.pack(ATOMS, path, n_coordinates=100),
    "packed_whole.zarr": lambda path: bm.pack(ATOMS, path),
}
OPTION_SETS = {
    "default": {},
    "weighted": {"sampling": "weighted", "beta": 1.0},
    "replacement": {"sampling": "weighted", "replacement": True},
    "bernstein": {"bound": "bernstein", "value_range": (-3, 3)},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    for name, save in FILES.items():
        save(folder / name)
    return folder


@pytest.fixture(params=FILES)
def stored(request, folder):
    """The atoms in a file, with too little memory to read all of it."""
    store = bm.open_atoms(folder / request.param, memory_limit=int(1.9 * ATOMS.nbytes))
    assert isinstance(store, (PartStore, PackedStore))
    return store


def assert_same(a, b):
    """Compare all fields but one: chunks that were kept from the first search cost the second one nothing."""
    a, b = asdict(a), asdict(b)
    del a["bytes_read"], b["bytes_read"]
    np.testing.assert_equal(a, b)


@pytest.mark.parametrize("options", OPTION_SETS.values(), ids=OPTION_SETS.keys())
def test_the_answers_are_those_of_the_array(find, stored, options):
    on_disk, in_memory = (find(atoms, QUERIES, 5, delta=1e-9, **options) for atoms in (stored, ATOMS))
    np.testing.assert_array_equal(on_disk.indices, in_memory.indices)
    np.testing.assert_allclose(on_disk.scores, in_memory.scores, rtol=1e-12)
    assert on_disk.exact.all()
    assert on_disk.bytes_read.dtype == np.int64
    assert (in_memory.bytes_read == 0).all()


def test_a_query_alone_gives_what_it_gives_in_a_batch(find_flat, stored):
    for rescore in (True, False):
        batch = find_flat(stored, QUERIES, 3, rescore=rescore, trace=True, n_jobs=2)
        assert_same(find_flat(stored, QUERIES[1], 3, rescore=rescore, trace=True), batch[1])


def test_the_same_seed_gives_the_same_answer(find_flat, stored):
    seed = getattr(stored, "seed", 5)  # packed atoms have theirs
    assert_same(*(find_flat(stored, QUERIES, rescore=False, seed=seed, delta=0.3) for _ in range(2)))


def test_masks_padding_and_exact_answers(find, stored, best):
    truth = QUERIES[0] @ ATOMS.T
    mask = np.isin(np.arange(N), best(truth, 2))
    np.testing.assert_array_equal(find(stored, QUERIES[0], 2, mask=mask).indices, best(truth, 4)[2:])
    exact = find(stored, QUERIES[0], N + 3, delta=0.0)
    np.testing.assert_array_equal(exact.indices, [*best(truth, N), -1, -1, -1])
    assert exact.stop_reason is StopReason.FINISHED_EXACTLY
    nothing = find(stored, QUERIES[0], 2, mask=np.ones(N, dtype=bool))
    np.testing.assert_array_equal(nothing.indices, [-1, -1])
    zero = find(stored, np.zeros(D), 2)
    np.testing.assert_array_equal(zero.scores, [0.0, 0.0])


def test_budgets_are_kept_and_intervals_hold(find, stored):
    truth = QUERIES[1] @ ATOMS.T
    for budget in (5 * N, 100 * N):
        result = find(stored, QUERIES[1], 3, budget=budget)
        assert result.n_multiplies <= budget
        assert (result.lower <= truth[result.indices] + 1e-9).all()
        assert (truth[result.indices] <= result.upper + 1e-9).all()


@pytest.mark.parametrize("objective", ["cosine", "neg_sqeuclidean", "neg_l1"])
def test_every_objective(find_flat, stored, score, best, objective):
    truth = score(ATOMS, QUERIES[2], objective)
    result = find_flat(stored, QUERIES[2], 3, objective=objective, delta=1e-9)
    np.testing.assert_array_equal(result.indices, best(np.round(truth, 9), 3))


def test_added_and_removed_atoms(stored, best):
    extra = ATOMS[:4] * 3.0
    index = bm.BanditMIPS().fit(stored).add(extra)
    truth = QUERIES[0] @ np.concatenate([ATOMS, extra]).T
    np.testing.assert_array_equal(index.search(QUERIES[0], 4, delta=1e-9).indices, best(truth, 4))
    index.remove([best(truth)[0]])
    assert index.search(QUERIES[0], delta=1e-9).indices[0] == best(truth, 2)[1]
