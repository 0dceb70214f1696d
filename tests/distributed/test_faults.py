"""Workers that are processes, and their ends: a right answer, or an error that says what happened."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time

import dask
import dask.array
import numpy as np
import pytest

import banditmips as bm
from banditmips.distributed import DistributedMIPS
from banditmips.distributed._cluster import Cluster, WorkerLostError
from distributed import Client, LocalCluster

ATOMS = np.random.default_rng(0).integers(-9, 10, size=(90, 4_000)).astype(np.float32)
QUERIES = ATOMS[[3, 44, 88]] + np.float32(0.5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Two workers that are processes of their own, each with a nanny that starts it again."""
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        memory_limit="1GB",
        local_directory=str(tmp_path_factory.mktemp("processes")),
    ) as started:
        yield started


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as connected:
        yield connected


@pytest.fixture
def both_workers(client):
    """Wait until whoever was killed is back; a nanny that died with its worker is replaced."""
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=60)
    return client


def best(k):
    return np.argsort(-(QUERIES.astype(float) @ ATOMS.T.astype(float)), axis=1, kind="stable")[:, :k]


def pid_of(client, worker):
    return client.run(os.getpid, workers=[worker])[worker]


async def kill_later(asked, dask_worker):
    """Die while whoever called waits."""
    await asyncio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


def no_calls(self, value, home):
    raise WorkerLostError("to be served by tasks")


def test_two_processes_find_what_one_finds(both_workers):
    rng = np.random.default_rng(1)
    frequency = rng.beta(0.5, 1.5, size=3_000)
    atoms = rng.binomial(2, frequency, size=(600, 3_000)).astype(np.float32)
    queries = atoms[rng.integers(600, size=40)] - 2 * frequency
    one = bm.BanditMIPS().fit(atoms)
    two = DistributedMIPS(both_workers).fit([atoms[:270], atoms[270:]])
    for options in ({"minimise": "multiplies"}, {"minimise": "multiplies", "rescore": False}, {}):
        alone, together = (index.search(queries, 2, **options) for index in (one, two))
        assert (np.sort(together.indices) == np.sort(alone.indices)).all()
        # One after another: in a batch of one process, races in vain end for all queries that follow.
        multiplies = sum(one.search(query, 2, **options).n_multiplies for query in queries)
        assert together.n_multiplies.sum() <= 1.05 * multiplies
        assert len(together.workers) == 2
    assert together.n_exchanges <= 4  # for all queries together, where time is to be saved


def test_a_worker_killed_between_calls_and_in_one(both_workers, monkeypatch):
    """What was called is lost with the worker, and the batch begins anew as tasks."""
    client = both_workers
    index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
    options = {"minimise": "multiplies", "rescore": False}
    call = Cluster.call
    for kills_at_once in (True, False):
        undisturbed = index.search(QUERIES, 3, **options)
        pid = pid_of(client, index._homes[0])
        n_calls = []

        def disturbed(self, function, arguments, pid=pid, at_once=kills_at_once, n_calls=n_calls):
            n_calls.append(len(arguments))
            if len(n_calls) == 2:
                if at_once:
                    os.kill(pid, signal.SIGKILL)
                else:
                    function = kill_later
            return call(self, function, arguments)

        monkeypatch.setattr(Cluster, "call", disturbed)
        result = index.search(QUERIES, 3, **options)
        assert len(n_calls) == 2  # no call after the one that was lost
        assert (result.n_multiplies == undisturbed.n_multiplies).all()
        assert (np.sort(result.indices) == np.sort(best(3))).all()
        monkeypatch.undo()
        client.wait_for_workers(2, timeout=60)


def test_workers_killed_between_exchanges_and_in_one(both_workers, tmp_path, monkeypatch):
    client = both_workers
    np.save(tmp_path / "atoms.npy", ATOMS)
    index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
    others = [
        DistributedMIPS(client).fit(tmp_path / "atoms.npy"),
        DistributedMIPS(client).fit(dask.array.from_array(ATOMS, chunks=(45, -1))),
    ]
    monkeypatch.setattr(Cluster, "send", no_calls)
    options = {"minimise": "multiplies", "rescore": False}
    undisturbed = index.search(QUERIES, 3, **options)
    assert undisturbed.n_exchanges >= 4
    pids = [pid_of(client, home) for home in index._homes]
    killed = []
    gather = Cluster.gather

    def disturbed(self, futures, **limits):
        # Two exchanges are done and remembered on the workers; tasks of the next one are on their way.
        number = len(killed)
        killed.append(number)
        if number in (2, 3):
            os.kill(pids[number - 2], signal.SIGKILL)
            if number == 3:
                client.wait_for_workers(1, timeout=60)
        found = gather(self, futures, **limits)
        if number == 2:
            client.wait_for_workers(2, timeout=60)
        return found

    monkeypatch.setattr(Cluster, "gather", disturbed)
    result = index.search(QUERIES, 3, **options)
    assert len(killed) == undisturbed.n_exchanges
    assert (np.sort(result.indices) == np.sort(best(3))).all()
    assert (result.n_multiplies == undisturbed.n_multiplies).all()
    monkeypatch.undo()
    # What the workers held of these is read again, from the file and from the Dask array.
    for other in others:
        assert (other.search(QUERIES, 3).indices == best(3)).all()


def test_all_workers_killed_at_once(both_workers):
    """They come back under other addresses, which no task was made for."""
    client = both_workers
    index = DistributedMIPS(client).fit([dask.delayed(load)((0, 50)), ATOMS[50:]])
    for pid in client.run(os.getpid).values():
        os.kill(pid, signal.SIGKILL)
    assert (index.search(QUERIES, 2).indices == best(2)).all()


class Once:
    """Do something bad the first time that it is asked."""

    def __init__(self, path, what):
        self.path, self.what = str(path), what

    def __call__(self):
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL))
            if self.what == "raise":
                raise OSError("the disk is away for a moment")
            os.kill(os.getpid(), signal.SIGKILL)


def load(rows, once=None):
    if once is not None:
        once()
    return ATOMS[slice(*rows)]


@pytest.mark.parametrize("what", ["raise", "die"])
def test_a_loader_that_fails_once(both_workers, tmp_path, what):
    """A chunk that raises, or a worker that dies in `fit`: the next try is as good."""
    loaders = [dask.delayed(load)((0, 50)), dask.delayed(load)((50, 90), Once(tmp_path / what, what))]
    index = DistributedMIPS(both_workers).fit(loaders)
    assert (index.search(QUERIES, 2).indices == best(2)).all()
    assert (tmp_path / what).exists()


def test_loaders_that_cannot_be_right(both_workers):
    index = DistributedMIPS(both_workers).fit([ATOMS])
    missing = dask.delayed(np.load)("/nowhere/atoms.npy")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        index.fit([ATOMS, missing])
    with pytest.raises(ValueError, match="3999 columns in shard 1, but 4000 in shard 0"):
        index.fit([ATOMS, dask.delayed(np.delete)(ATOMS, 0, axis=1)])
    with pytest.raises(TypeError, match="complex"):
        index.fit([ATOMS, dask.delayed(np.asarray)(ATOMS * 1j)])
    # Shards of different types are as good as others, and a failed fit leaves the index as it was.
    assert (index.search(QUERIES).indices == best(1)).all()
    index.fit([ATOMS[:20].astype(np.int8), ATOMS[20:60], ATOMS[60:].astype(np.float64)])
    assert (index.search(QUERIES, 2).indices == best(2)).all()


def test_a_worker_that_hangs(both_workers):
    client = both_workers
    index = DistributedMIPS(client, timeout=1.5).fit([ATOMS[:40], ATOMS[40:]])
    index.search(QUERIES)
    pid = pid_of(client, index._homes[1])
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError, match=f"no report from . of . shards after 1.5 s .*{index._homes[1]}"):
            index.search(QUERIES)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert (index.search(QUERIES, 2).indices == best(2)).all()


def test_workers_that_come_and_go(cluster, both_workers):
    client = both_workers
    index = DistributedMIPS(client).fit(np.array_split(ATOMS, 3))
    cluster.scale(3)
    client.wait_for_workers(3, timeout=60)
    assert (index.search(QUERIES, 2).indices == best(2)).all()
    assert sorted(index._homes) == sorted(client.nthreads())
    cluster.scale(2)
    while len(client.nthreads()) > 2:
        time.sleep(0.05)
    result = index.search(QUERIES, 2)
    assert (result.indices == best(2)).all()
    assert set(index._homes) == set(client.nthreads()) == {worker.worker for worker in result.workers}


def started(arguments, tmp_path):
    return subprocess.Popen(
        [sys.executable, "-m", *arguments, "--scheduler-file", str(tmp_path / "scheduler.json")],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_a_scheduler_that_is_killed_and_one_that_takes_its_place(tmp_path):
    """Scheduler and worker as one starts them by hand on a machine each; the index is saved in between."""
    scheduler = ["distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard", "--host", "127.0.0.1"]
    worker = ["distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    running = [started(scheduler, tmp_path), started(worker, tmp_path)]
    try:
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "3s"}),
            Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout=60) as client,
        ):
            index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
            assert (index.search(QUERIES, 2).indices == best(2)).all()
            index.save(tmp_path / "saved")
            running[0].kill()
            with pytest.raises(ConnectionError, match="connect again, and fit or load"):
                index.search(QUERIES)
        running[0].wait()
        (tmp_path / "scheduler.json").unlink()
        running += [started(scheduler, tmp_path), started(worker, tmp_path)]
        with Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout=60) as client:
            loaded = DistributedMIPS.load(client, tmp_path / "saved")
            assert (loaded.search(QUERIES, 2).indices == best(2)).all()
    finally:
        for process in running:
            process.kill()
            process.wait()
