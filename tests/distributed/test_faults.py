"""Workers that are processes, and their ends: a right answer, or an error that says what happened."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

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
PATIENCE = 300.0
"""Seconds that a worker may take to start, on a machine that does much else: tests go on as soon as it is there."""


class Workers:
    """Workers that are processes of their own, started by whoever needs them: nothing starts them again by itself."""

    def __init__(self, client, folder):
        self.client, self.folder = client, folder
        self.running = {}
        self.n_started = 0

    def start(self):
        """Start one, without waiting for it."""
        name = f"worker-{self.n_started}"
        self.n_started += 1
        address = self.client.scheduler.address
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--name", name, "--no-nanny"]
        command += ["--nthreads", "1", "--no-dashboard", "--memory-limit", "1GB", "--local-directory", str(self.folder)]
        # From where what this module defines can be imported.
        root = Path(__file__).parents[2]
        with open(self.folder / f"{name}.log", "wb") as log:
            self.running[name] = subprocess.Popen(command, cwd=root, stdout=log, stderr=log)

    def are(self, n):
        """Start as many as are missing, and wait until the scheduler knows these and nobody else."""
        self.bury()
        for _ in range(n - len(self.running)):
            self.start()
        deadline = time.monotonic() + PATIENCE
        while set(self.client.run_on_scheduler(names_of)) != set(self.running):
            for name, process in self.running.items():
                assert process.poll() is None, (self.folder / f"{name}.log").read_text()
            assert time.monotonic() < deadline, f"the scheduler knows {self.client.run_on_scheduler(names_of)}"
            time.sleep(0.02)
        assert len(self.running) == n

    def bury(self):
        """Forget those that have been killed."""
        for name, process in list(self.running.items()):
            if process.poll() is not None:
                del self.running[name]

    def kill(self, *pids):
        """Kill workers at once, and return when they are dead."""
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for process in self.running.values():
            if process.pid in pids:
                process.wait()
        self.bury()

    def pids(self):
        return [process.pid for process in self.running.values()]

    def end(self):
        for process in self.running.values():
            process.kill()
            process.wait()


def names_of(dask_scheduler):
    return [worker.name for worker in dask_scheduler.workers.values()]


@pytest.fixture(scope="module")
def started_workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    with (
        LocalCluster(n_workers=0, processes=True, dashboard_address=":0", local_directory=str(folder)) as cluster,
        Client(cluster) as client,
    ):
        workers = Workers(client, folder)
        try:
            yield workers
        finally:
            workers.end()


@pytest.fixture
def workers(started_workers):
    """Two of them, whatever the test before has killed."""
    started_workers.are(2)
    return started_workers


@pytest.fixture
def client(workers):
    return workers.client


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


def test_two_processes_find_what_one_finds(client):
    rng = np.random.default_rng(1)
    frequency = rng.beta(0.5, 1.5, size=3_000)
    atoms = rng.binomial(2, frequency, size=(600, 3_000)).astype(np.float32)
    queries = atoms[rng.integers(600, size=40)] - 2 * frequency
    one = bm.BanditMIPS().fit(atoms)
    two = DistributedMIPS(client).fit([atoms[:270], atoms[270:]])
    for options in ({"minimise": "multiplies"}, {"minimise": "multiplies", "rescore": False}, {}):
        alone, together = (index.search(queries, 2, **options) for index in (one, two))
        assert (np.sort(together.indices) == np.sort(alone.indices)).all()
        # One after another: in a batch of one process, races in vain end for all queries that follow.
        multiplies = sum(one.search(query, 2, **options).n_multiplies for query in queries)
        assert together.n_multiplies.sum() <= 1.05 * multiplies
        assert len(together.workers) == 2
    assert together.n_exchanges <= 4  # for all queries together, where time is to be saved


@pytest.mark.parametrize("when", ["shared", "sent", "at once", "later"])
def test_a_worker_killed_between_calls_and_in_one(workers, client, monkeypatch, when):
    """What was called is lost with the worker, and the batch begins anew as tasks."""
    index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
    options = {"minimise": "multiplies", "rescore": False}
    undisturbed = index.search(QUERIES, 3, **options)
    pid = pid_of(client, min(index._homes))  # whom the queries are sent to
    call, send, settle = Cluster.call, Cluster.send, Cluster.settle
    n_calls = []

    def disturbed(self, function, arguments):
        n_calls.append(len(arguments))
        if len(n_calls) == 2:
            if when == "at once":
                workers.kill(pid)
            else:
                function = kill_later  # both of them
                workers.start()
        return call(self, function, arguments)

    def disturbed_before(self, futures):
        workers.kill(pid)
        return settle(self, futures)

    def disturbed_send(self, values, homes):
        workers.kill(pid)
        return send(self, values, homes)

    if when == "shared":
        monkeypatch.setattr(Cluster, "send", disturbed_send)
    if when == "sent":
        monkeypatch.setattr(Cluster, "near", lambda self, homes: [])  # as if they were on other machines
        monkeypatch.setattr(Cluster, "settle", disturbed_before)
    monkeypatch.setattr(Cluster, "call", disturbed)
    result = index.search(QUERIES, 3, **options)
    assert len(n_calls) == (2 if when in ("at once", "later") else 0)  # no call after the one that was lost
    assert (result.n_multiplies == undisturbed.n_multiplies).all()
    assert (np.sort(result.indices) == np.sort(best(3))).all()


def test_workers_killed_between_exchanges_and_in_one(workers, client, tmp_path, monkeypatch):
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
    n_gathered = []
    gather = Cluster.gather

    def disturbed(self, futures, **limits):
        # Two exchanges are done and remembered on the workers; tasks of the next one are on their way.
        number = len(n_gathered)
        n_gathered.append(number)
        if number in (2, 3):
            workers.kill(pids[number - 2])
        found = gather(self, futures, **limits)
        if number == 2:
            workers.are(2)
        return found

    monkeypatch.setattr(Cluster, "gather", disturbed)
    result = index.search(QUERIES, 3, **options)
    assert len(n_gathered) == undisturbed.n_exchanges
    assert (np.sort(result.indices) == np.sort(best(3))).all()
    assert (result.n_multiplies == undisturbed.n_multiplies).all()
    monkeypatch.undo()
    # What the workers held of these is read again, from the file and from the Dask array.
    for other in others:
        assert (other.search(QUERIES, 3).indices == best(3)).all()


def test_all_workers_killed_at_once(workers, client):
    """Others come under other addresses, which no task was made for."""
    index = DistributedMIPS(client).fit([dask.delayed(load)((0, 50)), ATOMS[50:]])
    workers.kill(*workers.pids())
    workers.start()
    workers.start()
    assert (index.search(QUERIES, 2).indices == best(2)).all()


def test_all_workers_killed_before_they_have_handed_over_what_they_found(workers, client, monkeypatch):
    index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
    monkeypatch.setattr(Cluster, "send", no_calls)
    before = workers.pids()
    settled = Cluster._settle

    def disturbed(self, futures, deadline):
        homes = settled(self, futures, deadline)
        if workers.pids() == before:
            workers.kill(*before)
            workers.start()
        return homes

    monkeypatch.setattr(Cluster, "_settle", disturbed)
    assert (index.search(QUERIES, 2).indices == best(2)).all()
    assert workers.pids() != before


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
def test_a_loader_that_fails_once(client, tmp_path, what):
    """A chunk that raises, or a worker that dies in `fit`: the next try is as good."""
    loaders = [dask.delayed(load)((0, 50)), dask.delayed(load)((50, 90), Once(tmp_path / what, what))]
    index = DistributedMIPS(client).fit(loaders)
    assert (index.search(QUERIES, 2).indices == best(2)).all()
    assert (tmp_path / what).exists()


def test_loaders_that_cannot_be_right(client):
    index = DistributedMIPS(client).fit([ATOMS])
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


@pytest.mark.parametrize("what", ["changed", "gone"])
def test_a_store_whose_file_has_changed_ends_no_worker(workers, client, tmp_path, what):
    """Dask would take an error of unpickling for a broken connection, and end one worker after another."""
    path = tmp_path / "atoms.npy"
    np.save(path, ATOMS[:40])
    store = bm.open_atoms(path, memory_limit=100_000)
    index = DistributedMIPS(client).fit([store, ATOMS[40:]])
    assert (index.search(QUERIES, 2).indices == best(2)).all()
    if what == "changed":
        os.utime(path, (1, 1))
    else:
        path.unlink()
    before = workers.pids()
    with pytest.raises((bm.CorruptFileError, FileNotFoundError), match=r"atoms\.npy"):
        DistributedMIPS(client).fit([store, ATOMS[40:]])
    assert sorted(client.run(os.getpid).values()) == sorted(before)


@pytest.mark.parametrize("way", ["send", "call", "gather"])
def test_a_worker_that_hangs(client, monkeypatch, way):
    """It is named, whoever waits for it; and is as good as before when it is back."""
    index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
    index.search(QUERIES)
    hanging = min(index._homes)  # whom the queries are sent to
    pid = pid_of(client, hanging)
    wait_for = getattr(Cluster, way)

    def hangs(self, *arguments):
        os.kill(pid, signal.SIGSTOP)
        monkeypatch.setattr(self, "_timeout", 1.0)  # from here on: everything before may take what it needs
        return wait_for(self, *arguments)

    if way == "gather":
        monkeypatch.setattr(Cluster, "send", no_calls)
    monkeypatch.setattr(Cluster, way, hangs)
    try:
        with pytest.raises(TimeoutError, match=f"no report from . of . shards after 1 s .*{hanging}"):
            index.search(QUERIES)
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.undo()
    assert (index.search(QUERIES, 2).indices == best(2)).all()


def test_workers_that_come_and_go(workers, client):
    index = DistributedMIPS(client).fit(np.array_split(ATOMS, 3))
    before = set(client.nthreads())
    workers.are(3)
    assert (index.search(QUERIES, 2).indices == best(2)).all()
    assert sorted(index._homes) == sorted(client.nthreads())
    client.retire_workers(list(set(client.nthreads()) - before))
    assert set(client.nthreads()) == before
    result = index.search(QUERIES, 2)
    assert (result.indices == best(2)).all()
    assert set(index._homes) == before == {worker.worker for worker in result.workers}


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
        with Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout=PATIENCE) as client:
            index = DistributedMIPS(client).fit([ATOMS[:40], ATOMS[40:]])
            assert (index.search(QUERIES, 2).indices == best(2)).all()
            index.save(tmp_path / "saved")
            client._timeout = client.rpc.timeout = 1.0  # nobody will be there to be waited for
            running[0].kill()
            running[0].wait()
            with pytest.raises(ConnectionError, match="connect again, and fit or load"):
                index.search(QUERIES)
        (tmp_path / "scheduler.json").unlink()
        running += [started(scheduler, tmp_path), started(worker, tmp_path)]
        with Client(scheduler_file=str(tmp_path / "scheduler.json"), timeout=PATIENCE) as client:
            loaded = DistributedMIPS.load(client, tmp_path / "saved")
            assert (loaded.search(QUERIES, 2).indices == best(2)).all()
    finally:
        for process in running:
            process.kill()
            process.wait()
