"""An array, a file and clusters in one table, beside `dask.array`: time, multiplies, exchanges, a worker that dies.

``python -m benchmarks.cluster`` searches batches of 64 queries among genotype-like atoms of 100,000 coordinates, the
largest matrix of which takes 1.9 GB, with 1 and 2 workers (processes of a Dask LocalCluster, one thread each). It takes
a few minutes on a quiet machine; ``--quick`` takes d = 20,000 and smaller matrices. All figures but the times are
counts; those of searches for time follow the machine's costs a little. Every way takes turns with one process and an
array, so that what else the machine does in the meantime is the same for both.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

import banditmips as bm
from banditmips._options import Minimise
from banditmips.distributed import DistributedMIPS
from benchmarks.machine import describe_machine, load_warning

N_QUERIES, N_REPEATS = 64, 5
GOAL_SPEEDUP, GOAL_MULTIPLIES = 1.6, 1.05
"""Two workers against one process: at least so many times as fast, with at most so many times the multiplies."""
_BLOCK = 1 << 24
"""Entries that are made at a time."""


@dataclass(frozen=True)
class Row:
    """What one way of searching took for a batch, and what an array in one process took in turn with it."""

    n: int
    k: int
    minimise: str
    way: str
    seconds: float
    beside: float
    n_right: int
    multiplies: float
    n_exchanges: int = 0
    bytes_exchanged: float = 0.0


@dataclass(frozen=True)
class Data:
    """Atoms in a file, queries, and the best of all products."""

    path: str
    n: int
    queries: NDArray[np.float32]
    best: NDArray[np.int64]


def make_genotypes(path: str, n: int, d: int, seed: int = 0) -> Data:
    """Write counts of rare letters; queries are children of two atoms, less what all have in common."""
    rng = np.random.default_rng(seed)
    frequency = rng.beta(0.5, 1.5, size=d).astype(np.float32)
    atoms = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, d))
    step = max(1, _BLOCK // d)
    for start in range(0, n, step):
        size = (min(step, n - start), d)
        letters = (rng.random(size, dtype=np.float32) < frequency).astype(np.float32)
        letters += rng.random(size, dtype=np.float32) < frequency
        atoms[start : start + step] = letters
    mother, father = rng.integers(n, size=(2, N_QUERIES))
    queries = np.where(rng.random((N_QUERIES, d)) < 0.5, atoms[mother], atoms[father]) - 2 * frequency
    scores = np.concatenate([queries @ atoms[start : start + step].T for start in range(0, n, step)], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :10]
    atoms.flush()
    return Data(path, n, queries.astype(np.float32), best)


def load_rows(path: str, start: int, stop: int) -> NDArray[np.float32]:
    """Read rows of a file into memory, once: pages of a map would count as memory too."""
    with open(path, "rb") as file:
        np.lib.format.read_magic(file)
        (_, d), _, dtype = np.lib.format.read_array_header_1_0(file)
        rows = np.fromfile(file, dtype, (stop - start) * d, offset=start * d * dtype.itemsize)
    return rows.reshape(stop - start, d)


@contextmanager
def cluster_of(n_workers: int) -> Iterator[Any]:
    """Start worker processes, and end them."""
    import distributed

    dask: Any = distributed  # which has no types
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=":0",
            memory_limit=0,  # none
            local_directory=folder,
        ) as cluster,
        dask.Client(cluster, direct_to_workers=True) as client,  # queries pass by the scheduler
    ):
        yield client


def timed(search: Callable[[], Any], beside: Callable[[], Any] | None = None) -> tuple[float, float, Any]:
    """The best times of a few repeats, in turn with something else if there is anything; and the last result."""
    times = []
    for _ in range(N_REPEATS):
        begin = time.perf_counter()
        if beside is not None:
            beside()
        middle = time.perf_counter()
        found = search()
        end = time.perf_counter()
        times.append((end - middle, middle - begin if beside is not None else end - middle))
    own, others = np.min(times, axis=0).tolist()
    return own, others, found


SEARCHES: tuple[tuple[int, Minimise], ...] = ((1, "time"), (10, "time"), (1, "multiplies"))


def rows_of(way: str, index: Any, data: Data, array: bm.BanditMIPS | None = None) -> Iterator[Row]:
    """Search the same queries in every way, in turn with an array."""
    for k, minimise in SEARCHES:
        index.search(data.queries, k, minimise=minimise)  # whatever is made once is there
        beside = None if array is None else partial(array.search, data.queries, k, minimise=minimise)
        seconds, others, found = timed(partial(index.search, data.queries, k, minimise=minimise), beside)
        n_right = int((np.sort(found.indices) == np.sort(data.best[:, :k])).all(axis=1).sum())
        sent = sum(worker.bytes_exchanged for worker in getattr(found, "workers", ()))
        yield Row(
            data.n,
            k,
            minimise,
            way,
            seconds,
            others,
            n_right,
            float(found.n_multiplies.mean()),
            getattr(found, "n_exchanges", 0),
            sent / N_QUERIES,
        )


def loaders_of(data: Data, n_workers: int) -> list[Any]:
    """One loader for each worker."""
    from dask.delayed import delayed

    cuts = [data.n * part // n_workers for part in range(n_workers + 1)]
    return [delayed(load_rows)(data.path, start, stop) for start, stop in pairwise(cuts)]


def dask_rows(client: Any, way: str, data: Data, n_workers: int, array: bm.BanditMIPS) -> Iterator[Row]:
    """The full product by `dask.array`, of atoms that the workers hold in memory, in turn with an array."""
    import dask.array

    da: Any = dask.array  # which has no types
    d = data.queries.shape[1]
    parts = loaders_of(data, n_workers)
    cuts = [data.n * part // n_workers for part in range(n_workers + 1)]
    shapes = [(stop - start, d) for start, stop in pairwise(cuts)]
    blocks = [da.from_delayed(part, shape, np.float32) for part, shape in zip(parts, shapes, strict=True)]
    atoms = client.persist(da.concatenate(blocks))
    atoms.sum().compute()
    for k in sorted({k for k, _ in SEARCHES}):

        def search(k: int = k) -> NDArray[np.int64]:
            found: NDArray[np.int64] = da.argtopk(da.from_array(data.queries, chunks=-1) @ atoms.T, k, axis=1).compute()
            return found

        seconds, others, found = timed(search, partial(array.search, data.queries, k))
        n_right = int((np.sort(found) == np.sort(data.best[:, :k])).all(axis=1).sum())
        yield Row(data.n, k, "time", way, seconds, others, n_right, float(data.n * d))


def measure(data: Data, workers: tuple[int, ...]) -> Iterator[Row]:
    """One process with an array; in turn with it a file, and clusters one after another."""
    array = bm.BanditMIPS().fit(np.load(data.path))
    yield from rows_of("array", array, data)
    # As if the file were eight times as large as memory.
    limit = max(os.path.getsize(data.path) // 8, 1 << 20)
    yield from rows_of("file", bm.BanditMIPS().fit(bm.open_atoms(data.path, memory_limit=limit)), data, array)
    for n_workers in workers:
        with cluster_of(n_workers) as client:
            shards = DistributedMIPS(client).fit(loaders_of(data, n_workers))
            yield from rows_of(f"{n_workers} worker{'s' * (n_workers > 1)}", shards, data, array)
            del shards
            yield from dask_rows(client, f"dask.array, {n_workers}", data, n_workers, array)


def print_rows(rows: list[Row], d: int) -> None:
    """Print a table, and the figures beside their goals."""
    print(f"\nd = {d:,}, float32, {N_QUERIES} queries in one batch, delta 0.001; the best of {N_REPEATS} times\n")
    print(
        "| n | k | minimise | | ms a query | as fast as an array | right | multiplies a query | ratio | exchanges | B |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    alone = {(row.n, row.k, row.minimise): row for row in rows if row.way == "array"}
    for row in rows:
        one = alone[row.n, row.k, row.minimise]
        print(
            f"| {row.n:,} | {row.k} | {row.minimise} | {row.way} | {row.seconds / N_QUERIES * 1e3:.2f} "
            f"| {row.beside / row.seconds:.2f}x | {row.n_right} | {row.multiplies:,.0f} "
            f"| {row.multiplies / one.multiplies:.2f} | {row.n_exchanges or '-'} | {row.bytes_exchanged:,.0f} |"
        )
    largest = max(row.n for row in rows)
    two = [row for row in rows if row.way == "2 workers" and row.n == largest]
    ratio = max(row.multiplies / alone[row.n, row.k, row.minimise].multiplies for row in two)
    speedups = ", ".join(f"{row.beside / row.seconds:.2f} (k = {row.k})" for row in two if row.minimise == "time")
    print(
        f"\ntwo workers at n = {largest:,}: {speedups} times as fast as an array (goal {GOAL_SPEEDUP}), at most "
        f"{ratio:.2f} times the multiplies (goal {GOAL_MULTIPLIES})"
    )


def kill_in_the_middle(client: Any, data: Data) -> str:
    """Kill a worker while it searches, and say what became of the search."""
    index = DistributedMIPS(client).fit(loaders_of(data, 2))
    undisturbed, _, _ = timed(partial(index.search, data.queries))
    victim = client.run(os.getpid).popitem()[1]
    timer = threading.Timer(undisturbed / 2, os.kill, (victim, signal.SIGKILL))
    timer.start()
    begin = time.perf_counter()
    result = index.search(data.queries)
    disturbed = time.perf_counter() - begin
    timer.join()
    right = int((result.indices[:, 0] == data.best[:, 0]).sum())
    return (
        f"\nA worker killed half way through a search: {right} of {N_QUERIES} right, {disturbed:.2f} s instead of "
        f"{undisturbed:.2f} s, in which its shard was loaded and fitted again"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="d = 20,000, at most 200 MB")
    parser.add_argument("--directory", help="where the atoms are written (the system's folder for such files)")
    arguments = parser.parse_args()
    facts = describe_machine(threads=1)
    print(", ".join(f"{key} {facts[key]}" for key in ("date", "commit", "cpu", "cores", "threads")))
    warning = load_warning(facts)
    if warning is not None:
        print(warning)
    d, sizes = (20_000, (600, 2_400)) if arguments.quick else (100_000, (300, 1_200, 4_800))
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        for n in sizes:
            data = make_genotypes(os.path.join(folder, "atoms.npy"), n, d)
            rows += measure(data, (1, 2))
        print_rows(rows, d)
        with cluster_of(2) as client:
            print(kill_in_the_middle(client, data))


if __name__ == "__main__":
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):
        main()
