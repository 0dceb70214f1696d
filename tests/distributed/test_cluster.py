"""DistributedMIPS on Dask: what it takes, what it says, what it refuses."""

import dataclasses
import pickle
import subprocess
import sys

import dask.array
import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.distributed import DistributedMIPS, _tasks
from banditmips.distributed._cluster import Cluster, WorkerLostError, choose_homes


def ratings(n=120, d=1_500, m=3, seed=0):
    rng = np.random.default_rng(seed)
    movies, users = rng.normal(size=(n + m, 8)), 0.3 * rng.normal(size=(d, 8))
    table = 3.4 + 0.4 * rng.normal(size=(n + m, 1)) + 0.3 * rng.normal(size=d) + movies @ users.T
    table = np.clip(table, 0.0, 5.0).astype(np.float32)
    return table[:n], table[n:]


def best(atoms, queries, k):
    scores = queries.astype(np.float64) @ np.asarray(atoms, dtype=np.float64).T
    return np.argsort(-scores, axis=1, kind="stable")[:, :k]


# --- where atoms come from ------------------------------------------------------------------------------------------


def test_a_dask_array(client):
    atoms, queries = ratings()
    given = dask.array.from_array(atoms, chunks=(50, 400))  # a row is spread over blocks
    index = DistributedMIPS(client).fit(given)
    assert (index.n_shards, index.n_atoms, index.n_coordinates) == (3, *atoms.shape)
    assert (index.search(queries, 2).indices == best(atoms, queries, 2)).all()
    assert DistributedMIPS(client).fit(given, n_shards=2).n_shards == 2


@pytest.mark.parametrize("kind", ["npy", "zarr", "h5", "csv"])
def test_the_path_of_a_file_that_every_worker_can_open(client, tmp_path, kind):
    atoms, queries = ratings(n=40, d=600) if kind == "csv" else ratings()
    path = tmp_path / f"atoms.{kind}"
    if kind == "npy":
        np.save(path, atoms)
    elif kind == "zarr":
        zarr = pytest.importorskip("zarr")
        zarr.save_array(str(path), atoms)
    elif kind == "h5":
        with pytest.importorskip("h5py").File(path, "w") as file:
            file.create_dataset("atoms", data=atoms, chunks=(32, 500))
    else:
        np.savetxt(path, atoms, delimiter=",")
    index = DistributedMIPS(client).fit(path)
    assert index.n_shards == 2  # one for each worker
    assert (index.search(queries, 2).indices == best(atoms, queries, 2)).all()


def test_of_files_too_large_for_memory_little_is_read(client, tmp_path, monkeypatch):
    atoms, queries = ratings(n=200, d=20_000)
    path = tmp_path / "atoms.npy"
    np.save(path, atoms)
    monkeypatch.setattr("banditmips._opening.DEFAULT_MEMORY_LIMIT", 1_000_000)
    index = DistributedMIPS(client).fit(str(path), n_shards=3)
    result = index.search(queries, 2)
    assert (result.indices == best(atoms, queries, 2)).all()
    # Of most atoms nothing is read: their codes are in memory.
    assert 0 < result.bytes_read.max() < atoms.nbytes / 10
    assert sum(worker.bytes_read for worker in result.workers) == result.bytes_read.sum()


def test_packed_shards(client, tmp_path):
    pytest.importorskip("zarr")
    atoms, queries = ratings()
    paths = [tmp_path / "first.zarr", tmp_path / "second.zarr"]
    for path, part in zip(paths, (atoms[:50], atoms[50:]), strict=True):
        bm.pack(part, path)
    result = DistributedMIPS(client).fit(paths).search(queries, 2)
    assert (result.indices == best(atoms, queries, 2)).all()


@pytest.mark.parametrize("options", [{}, {"layout": "codes"}, {"objective": "cosine"}])
def test_one_packed_group_is_cut_into_shards(client, tmp_path, options):
    pytest.importorskip("zarr")
    atoms, queries = ratings()
    path = tmp_path / "atoms.zarr"
    bm.pack(atoms, path, n_coordinates=800)
    index = DistributedMIPS(client, **options).fit(path, n_shards=3)
    assert (index.n_shards, index.n_atoms) == (3, len(atoms))
    if "objective" in options:
        atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    result = index.search(queries, 2)
    assert (result.indices == best(atoms, queries, 2)).all()
    # A shard can go elsewhere, and another seed is refused as for the whole group.
    assert pickle.loads(pickle.dumps(client.gather(index._shards[1]))).n_atoms == 40
    with pytest.raises(ValueError, match="seed"):
        DistributedMIPS(client, seed=1).fit(path)


def test_a_list_of_shards_of_every_kind(client, tmp_path):
    atoms, queries = ratings()
    np.save(tmp_path / "part.npy", atoms[60:80])
    np.save(tmp_path / "open.npy", atoms[117:119])
    np.save(tmp_path / "last.npy", atoms[119:])
    shards = [
        atoms[:10],
        atoms[10:10],  # nothing at all
        scipy.sparse.csr_array(atoms[10:60]),
        str(tmp_path / "part.npy"),
        client.scatter(atoms[80:110]),
        atoms[110:117].tolist(),
        bm.open_atoms(tmp_path / "open.npy"),
        dask.delayed(np.load)(tmp_path / "last.npy"),
    ]
    index = DistributedMIPS(client).fit(shards)
    assert (index.n_shards, index.n_atoms) == (7, 120)
    assert (index.search(queries, 4).indices == best(atoms, queries, 4)).all()


# --- what a result says ---------------------------------------------------------------------------------------------


def test_a_result_says_what_each_worker_did(client):
    atoms, queries = ratings()
    index = DistributedMIPS(client, delta=0.01).fit([atoms[:70], atoms[70:]])
    result = index.search(queries, 2, rescore=False)
    assert len(result.workers) == 2
    assert {worker.worker for worker in result.workers} == set(client.nthreads())
    assert sum(worker.n_multiplies for worker in result.workers) == result.n_multiplies.sum()
    assert all(worker.seconds > 0.0 and worker.n_tasks >= 1 for worker in result.workers)
    assert sum(worker.bytes_exchanged for worker in result.workers) > 0
    assert 1 <= result.n_exchanges <= 6
    assert result[1].indices.shape == (2,)
    indices, scores = index.search(queries[0])
    assert indices.shape == scores.shape == (1,)
    assert index.search(queries[:0], 2).indices.shape == (0, 2)
    assert index.extra_bytes > 0


def test_calls_say_what_tasks_say(client, monkeypatch):
    atoms, queries = ratings(n=300, d=4_000, m=6)
    index = DistributedMIPS(client).fit(np.array_split(atoms, 3))
    masks = np.random.default_rng(0).random((6, 300)) < 0.1
    asked = [
        {}, {"minimise": "multiplies", "rescore": False}, {"mask": masks}, {"mask": masks[0], "budget": 30_000},
        {"delta": 0.0}, {"objective": "neg_l1"},
    ]  # fmt: skip
    submitted = []
    submit = Cluster.submit
    monkeypatch.setattr(Cluster, "submit", lambda self, *a, **k: submitted.append(a[0]) or submit(self, *a, **k))
    called = [index.search(queries, 3, **options) for options in asked]
    assert _tasks.serve not in submitted
    monkeypatch.setattr(Cluster, "call", lost)
    for options, by_calls in zip(asked, called, strict=True):
        by_tasks = index.search(queries, 3, **options)
        for name in ("indices", "scores", "lower", "upper", "n_multiplies", "n_rounds", "n_survivors", "bytes_read"):
            assert (getattr(by_tasks, name) == getattr(by_calls, name)).all(), name
        assert by_tasks.stop_reason == by_calls.stop_reason
        assert by_tasks.n_exchanges == by_calls.n_exchanges
        for of_tasks, of_calls in zip(by_tasks.workers, by_calls.workers, strict=True):
            assert (of_tasks.worker, of_tasks.n_multiplies, of_tasks.n_tasks) == (
                of_calls.worker, of_calls.n_multiplies, of_calls.n_tasks
            )  # fmt: skip
    assert _tasks.serve in submitted


def lost(self, function, arguments):
    raise WorkerLostError("nobody is there")


def test_what_a_worker_does_not_keep_is_asked_for_by_tasks(client, monkeypatch):
    atoms, queries = ratings()
    index = DistributedMIPS(client).fit([atoms])
    index.search(queries)  # who shares memory is asked once
    call = Cluster.call

    def without(self, function, arguments):
        gone = {home: [dataclasses.replace(one, batch="gone") for one in its] for home, its in arguments.items()}
        return call(self, function, gone)

    monkeypatch.setattr(Cluster, "call", without)
    assert (index.search(queries, 2).indices == best(atoms, queries, 2)).all()


def test_workers_elsewhere_are_sent_the_queries(client, monkeypatch):
    atoms, queries = ratings(n=300)
    shards = np.array_split(atoms, 3)
    there = []
    settle = Cluster.settle
    monkeypatch.setattr(Cluster, "settle", lambda self, futures: there.append(len(futures)) or settle(self, futures))
    near = DistributedMIPS(client).fit(shards).search(queries, 2)
    assert there == []
    monkeypatch.setattr("banditmips.distributed._sharing.Place.is_here", lambda self: False)
    far = DistributedMIPS(client).fit(shards).search(queries, 2)
    assert there == [2]
    assert (far.indices == near.indices).all()
    assert (far.scores == near.scores).all()
    assert (far.n_multiplies == near.n_multiplies).all()


def test_queries_that_are_not_where_they_are_said_to_be_go_by_tasks(client, monkeypatch):
    atoms, queries = ratings()
    index = DistributedMIPS(client).fit(np.array_split(atoms, 2))
    index.search(queries)
    monkeypatch.setattr("banditmips.distributed._sharing.Place.map", lambda self: None)
    assert (index.search(queries, 2).indices == best(atoms, queries, 2)).all()


def test_an_error_on_a_worker_comes_through_a_call(client, tmp_path):
    atoms, queries = ratings()
    np.save(tmp_path / "atoms.npy", atoms)
    index = DistributedMIPS(client).fit([bm.open_atoms(tmp_path / "atoms.npy", memory_limit=200_000)])
    with open(tmp_path / "atoms.npy", "ab") as file:
        file.write(b"more")
    with pytest.raises(bm.CorruptFileError, match="it has changed"):
        index.search(queries, 2)


@pytest.mark.parametrize("damage", ["missing", "damaged"])
def test_a_chunk_that_is_missing_or_damaged_is_named(client, tmp_path, damage):
    zarr = pytest.importorskip("zarr")
    atoms, _ = ratings()
    zarr.create_array(tmp_path / "atoms.zarr", data=atoms, chunks=(20, 100))
    chunk = tmp_path / "atoms.zarr" / "c" / "1" / "0"
    if damage == "missing":
        chunk.unlink()
    else:
        chunk.write_bytes(b"no chunk")
    with pytest.raises(bm.CorruptFileError, match=f"chunk c/1/0: the chunk is {damage}"):
        DistributedMIPS(client).fit(tmp_path / "atoms.zarr")
    with pytest.raises(bm.CorruptFileError, match=f"chunk c/1/0: the chunk is {damage}"):
        DistributedMIPS(client).fit([tmp_path / "atoms.zarr"])


def test_large_batches_are_split(client, monkeypatch):
    atoms, queries = ratings(m=5)
    index = DistributedMIPS(client).fit([atoms[:70], atoms[70:]])
    whole = index.search(queries)
    monkeypatch.setattr("banditmips.distributed._mips._BATCH_BYTES", 2 * 8 * atoms.shape[1])
    split = index.search(queries)
    assert (split.indices == whole.indices).all()
    assert (split.n_multiplies == whole.n_multiplies).all()
    assert split.n_exchanges > whole.n_exchanges


def test_many_long_queries_go_without_a_warning(client):
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(7, 200_000))  # above the 10 MB at which Dask warns of large graphs
    assert (
        DistributedMIPS(client).fit([queries[:3], queries[3:6]]).search(queries[:6]).indices[:, 0] == range(6)
    ).all()


def test_a_progress_bar(client, capfd):
    atoms, queries = ratings()
    DistributedMIPS(client).fit([atoms]).search(queries, progress=True)
    shown = capfd.readouterr()
    assert "searching" in shown.err
    assert "100%" in shown.err
    assert shown.out == ""


@pytest.mark.parametrize("single", [True, False])
def test_the_smallest_and_both_ends(client, single):
    atoms, queries = ratings()
    asked = queries[0] if single else queries
    names = np.array([f"atom {i}" for i in range(len(atoms))])
    mask = np.arange(len(atoms)) % 3 == 0
    index = DistributedMIPS(client, ends="both").fit([atoms[:50], atoms[50:]], ids=names)
    both = index.search(asked, 4, mask=mask)
    smallest = index.search(asked, 4, ends="smallest", mask=mask)
    scores = np.where(mask, np.inf, np.atleast_2d(asked).astype(np.float64) @ atoms.T.astype(np.float64))
    truth = np.argsort(scores, axis=1, kind="stable")[:, :4]
    for found in (both.smallest, smallest):
        np.testing.assert_array_equal(np.atleast_2d(found.indices), truth)
        np.testing.assert_allclose(np.atleast_2d(found.scores), np.take_along_axis(scores, truth, axis=1))
        np.testing.assert_array_equal(found.ids, names[found.indices])
    largest = index.search(asked, 4, ends="largest", mask=mask)
    np.testing.assert_array_equal(both.indices, largest.indices)
    assert smallest.smallest is None
    assert largest.smallest is None
    n_multiplies = np.sum(both.n_multiplies) + np.sum(both.smallest.n_multiplies)
    assert sum(worker.n_multiplies for worker in both.workers) == n_multiplies


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_bad_entry_is_named_by_its_row_among_all_atoms(client, bad):
    atoms, queries = ratings()
    atoms[83, 7] = bad
    shards = [atoms[:30], atoms[30:80], atoms[80:]]
    with pytest.raises(ValueError, match=f"atoms has {bad} at row 83, column 7"):
        DistributedMIPS(client).fit(shards)
    index = DistributedMIPS(client, validate=False).fit(shards)
    queries[:] = np.abs(queries)
    with pytest.raises(ValueError, match=f"atoms has {bad} at row 83, column 7"):
        index.search(queries, delta=0.0)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"trace": True}, "trace"), ({"n_jobs": 2}, "n_jobs")],
)
def test_options_that_cannot_be_served_are_named(client, options, name):
    with pytest.raises(ValueError, match=f"^{name}=.*several workers"):
        DistributedMIPS(client, **options)
    atoms, queries = ratings(n=5, d=50)
    with pytest.raises(ValueError, match=f"^{name}=.*several workers"):
        DistributedMIPS(client).fit([atoms]).search(queries, **options)


def test_wrong_arguments_are_named(client):
    atoms, queries = ratings(n=8, d=50)
    index = DistributedMIPS(client)
    with pytest.raises(ValueError, match="call fit"):
        index.search(queries)
    with pytest.raises(TypeError, match="client must be"):
        DistributedMIPS("tcp://somewhere")
    with pytest.raises(TypeError, match="did you mean 'delta'"):
        DistributedMIPS(client, detla=0.1)
    with pytest.raises(ValueError, match="timeout must be above 0, or None, got 0"):
        DistributedMIPS(client, timeout=0)
    with pytest.raises(TypeError, match="from_array"):
        index.fit(atoms)
    with pytest.raises(ValueError, match="60 columns in shard 1, but 50 in shard 0"):
        index.fit([atoms, np.ones((3, 60))])
    with pytest.raises(ValueError, match="shard 1 has shape"):
        index.fit([atoms, atoms[0]])
    with pytest.raises(ValueError, match="atoms is empty"):
        index.fit([atoms[:0]])
    with pytest.raises(ValueError, match="n_shards"):
        index.fit([atoms], n_shards=3)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        index.fit(dask.array.from_array(atoms)[dask.array.from_array(atoms[:, 0] > 0)])
    with pytest.raises(ValueError, match="got 1 dimensions"):
        index.fit(dask.array.from_array(atoms[0]))
    index.fit([atoms])
    with pytest.raises(TypeError, match="'seed'"):
        index.search(queries, seed=1)
    with pytest.raises(TypeError, match="'validate'"):
        index.search(queries, validate=False)
    with pytest.raises(TypeError, match="did you mean 'epsilon'"):
        index.search(queries, epsilonn=1)
    with pytest.raises(ValueError, match="queries has 49 columns"):
        index.search(queries[:, :49])
    with pytest.raises(ValueError, match="queries has nan at row 1, column 3"):
        index.search(np.where(np.arange(50) == 3, np.array([[1.0], [np.nan]]), 1.0))
    with pytest.raises(ValueError, match="mask must have shape"):
        index.search(queries, mask=np.zeros(7, dtype=bool))
    with pytest.raises(ValueError, match="value_range is"):
        index.search(queries, bound="bernstein", value_range=(0.0, 0.5))
    with pytest.raises(ValueError, match="budget must allow at least one multiply for each of the 8 atoms"):
        index.search(queries, budget=7)
    with pytest.raises(ValueError, match="bound='codes' needs an index with codes"):
        DistributedMIPS(client, layout="none").fit([atoms]).search(queries, bound="codes")
    with pytest.raises(ValueError, match="ids must be unique, got 3 for the atoms 3 and 7"):
        index.fit([atoms[:4], atoms[4:]], ids=[0, 1, 2, 3, 4, 5, 6, 3])


def test_without_dask_the_error_names_the_extra():
    program = """
import sys
sys.modules["distributed"] = None
import banditmips as bm
try:
    bm.distributed.DistributedMIPS(None)
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert "pip install 'banditmips[dask]'" in done.stdout


# --- where shards live ----------------------------------------------------------------------------------------------


def test_shards_are_spread_evenly_and_stay_where_they_are(client):
    atoms, queries = ratings()
    parts = np.array_split(atoms, 6)
    loaders = [dask.delayed(np.copy)(part) for part in parts]
    for given in (parts, loaders, dask.array.from_array(atoms, chunks=(20, -1))):
        index = DistributedMIPS(client).fit(given)
        held = client.who_has(index._shards)
        assert sorted(len(where) for where in held.values()) == [1] * 6
        for _ in range(3):
            index.search(queries, 2)
        assert client.who_has(index._shards) == held
        counts = [sum(worker in where for where in held.values()) for worker in client.nthreads()]
        assert counts == [3, 3]


def bound_to(dask_scheduler, keys):
    """Where tasks have to run; None for those that Dask may take to another worker, which it does if theirs is slow."""
    tasks = [dask_scheduler.tasks[key] for key in keys]
    return [None if task.loose_restrictions else list(task.worker_restrictions or ()) for task in tasks]


def test_no_worker_steals_shards_of_a_slow_one(client):
    atoms, _ = ratings()
    index = DistributedMIPS(client).fit(np.array_split(atoms, 6))
    bound = client.run_on_scheduler(bound_to, keys=[shard.key for shard in index._shards])
    assert bound == [[home] for home in index._homes]


def test_homes_that_nobody_has_any_more(client):
    """As if both workers had been replaced since somebody last looked: right all the same."""
    atoms, queries = ratings()
    index = DistributedMIPS(client).fit([atoms[:50], atoms[50:]])
    index._homes = [f"{home}0000" for home in index._homes]
    assert (index.search(queries, 2).indices == best(atoms, queries, 2)).all()


def test_what_was_placed_by_hand_is_not_moved(client):
    atoms, queries = ratings()
    first, second = sorted(client.nthreads())
    given = [client.scatter(atoms[:50], workers=[second]), client.scatter(atoms[50:], workers=[first])]
    index = DistributedMIPS(client).fit(given)
    assert index._homes == [second, first]
    assert (index.search(queries, 2).indices == best(atoms, queries, 2)).all()


@pytest.mark.parametrize(
    ("homes", "workers", "expected"),
    [
        (["a", "b"], ["a", "b"], ["a", "b"]),
        (["a", "b"], ["b"], ["b", "b"]),  # one has gone
        (["a", "a", "a", "a"], ["a", "b"], ["a", "a", "b", "b"]),  # one has come
        (["a", "b"], [], [None, None]),
    ],
)
def test_homes_follow_workers_that_come_and_go(homes, workers, expected):
    assert choose_homes([10] * len(homes), workers, homes) == expected


# --- saving ---------------------------------------------------------------------------------------------------------


def test_a_saved_index_is_the_same_index(client, tmp_path):
    atoms, queries = ratings()
    names = [f"atom {row}" for row in range(120)]
    options = {"delta": 0.01, "absolute": True, "seed": 5}
    index = DistributedMIPS(client, **options).fit([atoms[:10], atoms[10:70], atoms[70:]], ids=names)
    index.save(tmp_path / "saved")
    loaded = DistributedMIPS.load(client, tmp_path / "saved", verify="now")
    assert (loaded.n_shards, loaded.n_atoms, loaded.n_coordinates) == (3, *atoms.shape)
    expected, found = (which.search(queries, 3, minimise="multiplies") for which in (index, loaded))
    for name in ("indices", "scores", "ids", "n_multiplies"):
        assert (getattr(found, name) == getattr(expected, name)).all()
    assert found.seed == 5
    # Saved again, elsewhere or in the same place, with nothing left of the old one.
    loaded.save(tmp_path / "saved")
    assert len(list((tmp_path / "saved").iterdir())) == 4
    assert (DistributedMIPS.load(client, tmp_path / "saved").search(queries, 3).ids == expected.ids).all()


def test_a_save_that_fails_leaves_the_old_index_and_nothing_else(client, tmp_path, monkeypatch):
    atoms, queries = ratings(n=20, d=100)
    index = DistributedMIPS(client).fit([atoms[:10], atoms[10:]])
    index.save(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())

    def no_room(shard, path):
        if shard.first_row:
            raise OSError(28, "No space left on device", path)
        shard.index.save(path)

    monkeypatch.setattr("banditmips.distributed._saving.save_shard", no_room)
    with pytest.raises(OSError, match="No space left"):
        index.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert (DistributedMIPS.load(client, tmp_path).search(queries).indices == best(atoms, queries, 1)).all()


def test_damaged_and_missing_parts_of_a_saved_index_are_named(client, tmp_path):
    atoms, _ = ratings(n=20, d=100)
    index = DistributedMIPS(client).fit([atoms[:10], atoms[10:]])
    index.save(tmp_path)
    with pytest.raises(FileNotFoundError):
        DistributedMIPS.load(client, tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="it holds 'shards', not an index"):
        bm.load(tmp_path / "atoms.bm")
    first, second = sorted(path for path in tmp_path.iterdir() if path.name != "atoms.bm")
    kept = second.read_bytes()
    second.write_bytes(first.read_bytes())
    bm.BanditMIPS().fit(atoms[:4]).save(second)
    with pytest.raises(bm.CorruptFileError, match=r"it says that .* holds \(10, 100\) atoms, but it holds \(4, 100\)"):
        DistributedMIPS.load(client, tmp_path)
    second.write_bytes(kept[:-100])
    with pytest.raises(bm.CorruptFileError, match=second.name):
        DistributedMIPS.load(client, tmp_path)
    second.unlink()
    with pytest.raises(FileNotFoundError, match=second.name):
        DistributedMIPS.load(client, tmp_path)
    bm.BanditMIPS().fit(atoms).save(tmp_path / "atoms.bm")
    with pytest.raises(bm.CorruptFileError, match="it holds 'index', not a list of shards"):
        DistributedMIPS.load(client, tmp_path)


# --- ids ------------------------------------------------------------------------------------------------------------


def test_ids_come_back_with_the_results(client):
    atoms, queries = ratings(n=20, d=50)
    names = [f"atom {row}" for row in range(20)]
    index = DistributedMIPS(client, seed=None).fit([atoms[:7], atoms[7:]], ids=names)
    result = index.search(queries, k=2)
    assert result.ids.tolist() == [[names[row] for row in rows] for rows in result.indices]
    assert result.seed == index.search(queries).seed
    assert "of n*d multiplies" in repr(result)
    with pytest.raises(ValueError, match="one id for each of the 20 atoms, got 3"):
        index.fit([atoms[:7], atoms[7:]], ids=names[:3])
    assert index.fit([atoms]).search(queries).ids is None
