"""Two processes against one: the same answers, multiplies, messages, and a worker that is killed.

``python -m benchmarks.cluster`` searches 200 queries on matrices of 2,000 x 20,000 in a Dask LocalCluster, which takes
ten minutes, or more on a busy machine; ``--quick`` takes 500 x 5,000. All figures but the seconds are counts and do not
depend on the machine. ``--paper`` measures instead what docs/scale.md extrapolates from: shards of atoms with 100,000
coordinates, at the confidence of 10^9 atoms.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import banditmips as bm
from banditmips.distributed import DistributedMIPS, DistributedResult
from benchmarks.machine import describe_machine, load_warning

N_QUERIES, DELTA = 200, 1e-4
GOAL_RATIO = 1.5
"""Multiplies of two processes over those of one, at most."""
PAPER_QUERIES, PAPER_ATOMS = 20, 10**9


@dataclass(frozen=True)
class Row:
    """What was measured on one dataset, for one k and with or without exact scores."""

    name: str
    k: int
    rescore: bool
    n_same: int
    n_right: int
    multiplies_of_one: float
    multiplies_of_two: float
    result: DistributedResult

    @property
    def ratio(self) -> float:
        """Multiplies of two processes over those of one."""
        return self.multiplies_of_two / self.multiplies_of_one


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
            memory_limit="4GB",
            local_directory=folder,
        ) as cluster,
        dask.Client(cluster) as client,
    ):
        yield client


def ratings(n: int, d: int, m: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Imputed ratings: around 3.5, between 0 and 5, with what films and users have in common."""
    rng = np.random.default_rng(seed)
    films = rng.normal(size=(n + m, 15)).astype(np.float32)
    users = 0.3 * rng.normal(size=(d, 15)).astype(np.float32)
    table = films @ users.T + 0.3 * rng.normal(size=d).astype(np.float32)
    table += 3.4 + 0.4 * rng.normal(size=(n + m, 1)).astype(np.float32)
    np.clip(table, 0.0, 5.0, out=table)
    return table[:n], table[n:]


def normal_custom(n: int, d: int, m: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The paper's NORMAL_CUSTOM: a mean of its own for every atom and query."""
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n + m, 1)).astype(np.float32) + rng.normal(size=(n + m, d)).astype(np.float32)
    return table[:n], table[n:]


DATASETS = {"ratings": ratings, "normal_custom": normal_custom}


def compare(client: Any, name: str, n: int, d: int, ks: tuple[int, ...]) -> Iterator[Row]:
    """Search the same queries in this process and on the cluster."""
    atoms, queries = DATASETS[name](n, d, N_QUERIES, seed=0)
    scores = queries.astype(np.float64) @ atoms.T.astype(np.float64)
    one = bm.BanditMIPS(delta=DELTA, minimise="multiplies").fit(atoms)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "atoms.npy")
        np.save(path, atoms)
        two = DistributedMIPS(client, delta=DELTA, minimise="multiplies").fit(path)
        for k in ks:
            best = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :k])
            for rescore in (False, True):
                alone = one.search(queries, k, rescore=rescore)
                together = two.search(queries, k, rescore=rescore)
                found = np.sort(together.indices)
                yield Row(
                    name,
                    k,
                    rescore,
                    int((found == np.sort(alone.indices)).all(axis=1).sum()),
                    int((found == best).all(axis=1).sum()),
                    float(alone.n_multiplies.mean()),
                    float(together.n_multiplies.mean()),
                    together,
                )


def print_rows(rows: list[Row], n: int, d: int) -> None:
    """Print a table and the figures beside their goals."""
    print(f"\n{n:,} x {d:,} float32, {N_QUERIES} queries in one batch, delta {DELTA:g}; two processes, a shard each\n")
    print("| | k | rescore | same as one | right | multiplies of one | of two | ratio | exchanges | kB a query | s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in rows:
        workers = row.result.workers
        kilobytes = sum(worker.bytes_exchanged for worker in workers) / N_QUERIES / 1e3
        seconds = " + ".join(f"{worker.seconds:.1f}" for worker in workers)
        print(
            f"| {row.name} | {row.k} | {row.rescore} | {row.n_same} | {row.n_right} | {row.multiplies_of_one:,.0f} "
            f"| {row.multiplies_of_two:,.0f} | {row.ratio:.2f} | {row.result.n_exchanges} | {kilobytes:.1f} "
            f"| {seconds} |"
        )
    worst = max(row.ratio for row in rows)
    same = min(row.n_same for row in rows)
    print(f"\nlargest ratio {worst:.2f} (goal at most {GOAL_RATIO}); same answers in {same} of {N_QUERIES} at least")


def kill_in_the_middle(client: Any, n: int, d: int) -> str:
    """Kill a worker while it searches, and say what became of the search."""
    atoms, queries = ratings(n, d, N_QUERIES, seed=1)
    expected = np.argmax(queries.astype(np.float64) @ atoms.T.astype(np.float64), axis=1)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "atoms.npy")
        np.save(path, atoms)
        index = DistributedMIPS(client, delta=DELTA).fit(path)
        start = time.perf_counter()
        index.search(queries)
        undisturbed = time.perf_counter() - start
        victim = client.run(os.getpid).popitem()[1]
        timer = threading.Timer(undisturbed / 2, os.kill, (victim, signal.SIGKILL))
        timer.start()
        start = time.perf_counter()
        result = index.search(queries)
        disturbed = time.perf_counter() - start
        timer.join()
    right = int((result.indices[:, 0] == expected).sum())
    return (
        f"\nA worker killed half way through a search: {right} of {N_QUERIES} right, {disturbed:.1f} s instead of "
        f"{undisturbed:.1f} s"
    )


def print_paper(client: Any) -> None:
    """Measure what one shard of very many would do: few long atoms, and many short ones."""
    print(
        f"\nfloat32 on disk, {PAPER_QUERIES} queries, each pair with its share of 1e-3 over {PAPER_ATOMS:.0e} atoms\n"
    )
    print(
        "| | n x d | shards | right | multiplies an atom | exchanges | tasks a shard | kB a shard and query "
        "| rows read a query | cached bytes an atom |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, make in DATASETS.items():
        for n, d, n_shards in ((1_000, 100_000, 2), (1_000, 100_000, 8), (100_000, 1_000, 8)):
            print_paper_row(client, name, *make(n, d, PAPER_QUERIES, seed=0), n_shards)


def print_paper_row(client: Any, name: str, atoms: NDArray[Any], queries: NDArray[Any], n_shards: int) -> None:
    """Search shards that stay on disk, at the confidence of 10^9 atoms."""
    n, d = atoms.shape
    best = np.argmax(queries @ atoms.T, axis=1)
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, f"atoms{number}.npy") for number in range(n_shards)]
        for path, part in zip(paths, np.array_split(atoms, n_shards), strict=True):
            np.save(path, part)
        # Too large for the memory that is allowed, so that they stay on disk.
        shards = [bm.open_atoms(path, memory_limit=1 << 24) for path in paths]
        # The quantiles of the test are those of 10^9 atoms: a pair's share of delta is as small.
        index = DistributedMIPS(client, delta=1e-3 * n / PAPER_ATOMS).fit(shards)
        result = index.search(queries)
    right = int((result.indices[:, 0] == best).sum())
    kilobytes = sum(worker.bytes_exchanged for worker in result.workers) / n_shards / PAPER_QUERIES / 1e3
    # Each is two of Dask's: one that works, and one that sends what has to be known of it.
    n_tasks = 2 * sum(worker.n_tasks for worker in result.workers) / n_shards
    print(
        f"| {name} | {n:,} x {d:,} | {n_shards} | {right} of {PAPER_QUERIES} | {result.n_multiplies.mean() / n:,.1f} "
        f"| {result.n_exchanges} | {n_tasks:.1f} | {kilobytes:.1f} | {result.bytes_read.mean() / (4 * d):,.1f} "
        f"| {index.extra_bytes / n:,.0f} |"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="500 x 5,000, k = 1 only")
    parser.add_argument("--paper", action="store_true", help="measure what docs/scale.md extrapolates from")
    arguments = parser.parse_args()
    facts = describe_machine(threads=1)
    print(", ".join(f"{key} {facts[key]}" for key in ("date", "commit", "cpu", "cores", "threads")))
    warning = load_warning(facts)
    if warning is not None:
        print(warning)
    n, d, ks = (500, 5_000, (1,)) if arguments.quick else (2_000, 20_000, (1, 10))
    with cluster_of(2) as client:
        if arguments.paper:
            print_paper(client)
            return
        print_rows([row for name in DATASETS for row in compare(client, name, n, d, ks)], n, d)
        print(kill_in_the_middle(client, n, d))


if __name__ == "__main__":
    main()
