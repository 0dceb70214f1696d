"""A model of searches on a thousand machines, with constants that are measured here, and a picture of what it says.

``python -m benchmarks.simulate`` measures on two worker processes what a query, an atom, a task, a byte and a report
take, compares what the model makes of that with searches of other sizes, prints what it predicts for 10^6 to 10^10
atoms on 10 to 1,000 workers, and draws ``docs/scale-model.svg`` (with ``--picture PATH``). It takes about two minutes.

The model is a search for time (`banditmips.distributed`), batch by batch: the queries go to all workers, by a task for
each, and in every exchange each worker is called, works on its shard, and reports; whoever asked merges the reports. An
exchange waits for the slowest worker. Nothing here is fitted to a result: every part is measured on its own; work,
and the scheduler's part, in processor time, which other work on the machine does not change much.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._result import StopReason
from banditmips._validate import Options
from banditmips.distributed import DistributedMIPS
from banditmips.distributed._batch import BatchSearch
from banditmips.distributed._cluster import Cluster
from banditmips.distributed._exchange import QueryRace
from banditmips.distributed._messages import Report
from banditmips.distributed._mips import _BYTES_OF_A_CANDIDATE, _STATE_BYTES
from banditmips.distributed._serving import ByTasks
from banditmips.distributed._shard import fit_shard, summarise
from benchmarks.cluster import cluster_of, loaders_of, make_genotypes
from benchmarks.machine import describe_machine, load_warning

D, N_QUERIES, DELTA = 20_000, 64, 1e-3
FAN_OUT = 32
"""Reports that are merged by one worker, where leaders form a tree."""
FAR = 10**10
"""Atoms for which the work on an atom is measured too: intervals grow with the logarithm of their number."""
_N_DRAWS, _N_HOPS, _N_TASKS = 500, 50, 300


@dataclass(frozen=True)
class Constants:
    """What things take, in seconds and bytes.

    Attributes
    ----------
    query : float
        A worker's work on a query, however few atoms there are: the rotation, mostly.
    atom, atom_far : float
        Its work on an atom of its shard, at the confidence of a few thousand atoms, and of `FAR`.
    hop, task : float
        From a task to its end, if there is nothing else to do; client's and scheduler's time for one of many.
    call_hop, call : float
        The same of a call.
    byte : float
        Sending.
    report_bytes, merge : float
        Bytes of a query's order and report on one shard, and the time to take in one report.
    n_exchanges : float
        How often shards report.
    spread : float
        Standard deviation of the logarithm of what a task takes.
    """

    query: float
    atom: float
    atom_far: float
    hop: float
    task: float
    call_hop: float
    call: float
    byte: float
    report_bytes: float
    merge: float
    n_exchanges: float
    spread: float


@dataclass(frozen=True)
class Trouble:
    """What can be wrong with workers: how many times slower the slowest is, how often a task stalls, and how long."""

    slowest: float = 1.0
    stall_rate: float = 0.0
    stall: float = 0.0


@dataclass(frozen=True)
class Prediction:
    """Seconds of a query in a batch, by what they are spent on, and bytes that are exchanged for it."""

    sending: float
    scheduling: float
    working: float
    waiting: float
    merging: float
    exchanged: float

    @property
    def total(self) -> float:
        """Seconds of a query in a batch."""
        return self.sending + self.scheduling + self.working + self.waiting + self.merging


def predict(
    constants: Constants, n: float, n_workers: int, *, tree: bool = False, trouble: Trouble | None = None, seed: int = 0
) -> Prediction:
    """What a batch of queries takes on n atoms, divided by the number of queries."""
    trouble = trouble or Trouble()
    rng = np.random.default_rng(seed)
    shard = n / n_workers
    # As `DistributedMIPS.search` does: a batch is split if a shard would have to remember too much.
    m = max(1, min(N_QUERIES, int(_STATE_BYTES / (_BYTES_OF_A_CANDIDATE * shard))))
    per_atom = constants.atom + (constants.atom_far - constants.atom) * min(math.log(n, FAR), 1.0)
    working = m * (constants.query + shard * per_atom)
    # All exchanges together are waited for as one: the first has most of the work.
    speeds = np.exp(constants.spread * rng.normal(size=(_N_DRAWS, n_workers)) - constants.spread**2 / 2)
    speeds[:, 0] *= trouble.slowest
    stalls = trouble.stall * (rng.random((_N_DRAWS, n_workers)) < trouble.stall_rate * constants.n_exchanges)
    waiting = float((working * speeds + stalls).max(axis=1).mean()) - working
    sending = m * 4 * D * constants.byte * (1 + math.ceil(math.log2(max(n_workers, 1))))
    depth = math.ceil(math.log(max(n_workers, 2), FAN_OUT)) if tree else 1
    merged = min(n_workers, FAN_OUT) * depth if tree else n_workers
    n_calls = n_workers + (n_workers / (FAN_OUT - 1) if tree else 0)
    scheduling = n_workers * constants.task + constants.hop
    scheduling += constants.n_exchanges * (n_calls * constants.call + depth * constants.call_hop)
    reports = constants.n_exchanges * merged * m
    merging = reports * (constants.merge + constants.report_bytes * constants.byte)
    exchanged = constants.n_exchanges * constants.report_bytes * n_calls
    return Prediction(sending / m, scheduling / m, working / m, max(waiting, 0.0) / m, merging / m, exchanged)


# --- measuring ------------------------------------------------------------------------------------------------------


def data_of(n: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Genotype-like atoms, and queries that are children of two of them."""
    rng = np.random.default_rng(seed)
    frequency = rng.beta(0.5, 1.5, size=D).astype(np.float32)
    atoms = (rng.random((n, D), dtype=np.float32) < frequency).astype(np.float32)
    atoms += rng.random((n, D), dtype=np.float32) < frequency
    mother, father = rng.integers(n, size=(2, N_QUERIES))
    queries = np.where(rng.random((N_QUERIES, D)) < 0.5, atoms[mother], atoms[father]) - 2 * frequency
    return atoms, queries


def _nothing(*arguments: Any) -> None:
    """Do what a task does that has nothing to do."""


def _timed(work: Any, n_repeats: int, clock: Any = time.perf_counter) -> NDArray[np.float64]:
    times = []
    for _ in range(n_repeats):
        begin = clock()
        work()
        times.append(clock() - begin)
    return np.array(times)


async def _nothing_called(argument: Any, dask_worker: Any) -> bool:
    """Do what a call does that has nothing to do."""
    return True


def measure_messages(client: Any) -> dict[str, float]:
    """Seconds of a task alone and among many, of a call alone and among many, and of a byte."""
    cluster = Cluster(client, None)
    homes = cluster.workers()

    def run(count: int) -> None:
        cluster.settle([cluster.submit(_nothing, number, home=homes[0]) for number in range(count)])

    def call() -> None:
        cluster.call(_nothing_called, dict.fromkeys(homes, 0))

    few, many = np.zeros(1), np.random.default_rng(0).random(1 << 20)
    sending = [_timed(lambda values=values: cluster.send([values], homes[:1]), 9).min() for values in (few, many)]
    # Client and scheduler are both in this process.
    task = np.median(_timed(lambda: run(_N_TASKS), 5, time.process_time)) / _N_TASKS
    each = np.median(_timed(call, _N_HOPS, time.process_time)) / len(homes)
    return {
        "hop": float(_timed(lambda: run(1), _N_HOPS).min()),
        "task": float(task),
        "call_hop": float(_timed(call, _N_HOPS).min()),
        "call": float(each),
        "byte": max(float(sending[1] - sending[0]) / many.nbytes, 0.0),
    }


def measure_merging(n_shards: int = 200, k: int = 1) -> float:
    """Seconds that it takes to hear one shard's report on one query."""
    rows, none = np.arange(k), np.zeros(k, np.bool_)
    report = Report(
        rows, np.ones(k), np.full(k, 0.1), none, 1.0, 100, 1, False, True, False, True, False, False,
        StopReason.SEPARATED,
    )  # fmt: skip
    reports = {shard: replace(report, rows=rows + shard * 1000) for shard in range(n_shards)}

    def hear() -> None:
        race = QueryRace(k, Options(), np.arange(n_shards) * 1000, [1000] * n_shards, D, False)
        race.take(reports)

    return float(np.median(_timed(hear, 20, time.process_time))) / n_shards


class AtOnce:
    """Runs tasks as they are submitted, and adds up what each shard takes of the processor."""

    def __init__(self) -> None:
        self.seconds: dict[str | None, float] = {}

    def submit(self, function: Any, *arguments: Any, home: str | None = None) -> Any:
        """Run a task."""
        begin = time.thread_time()
        found = function(*arguments)
        self.seconds[home] = self.seconds.get(home, 0.0) + time.thread_time() - begin
        return found

    def gather(self, futures: Any) -> list[Any]:
        """Hand over what was computed."""
        return list(futures)


@dataclass(frozen=True)
class ShardWork:
    """Processor time of every shard for one query, run by run; exchanges; bytes of an order and its report."""

    seconds: NDArray[np.float64]
    n_exchanges: int
    report_bytes: float


def work_on_shards(n: int, delta: float, n_repeats: int) -> ShardWork:
    """Search two shards in one place; to be run on a worker."""
    atoms, queries = data_of(n)
    cuts = np.array([0, n // 2, n])
    settings = {"layout": "auto", "max_extra_memory": None, "validate": True, "seed": 0}
    shards = [fit_shard(atoms[a:b], None, int(a), settings) for a, b in pairwise(cuts)]
    n_first = min(summarise(shard).n_first for shard in shards)
    seconds = []
    for _ in range(n_repeats + 1):
        tasks = AtOnce()
        serving = partial(ByTasks, tasks, shards, ["0", "1"])
        search = BatchSearch(serving, cuts, queries, None, 1, Options(delta=delta), n_first)
        search.run()
        seconds.append([tasks.seconds["0"], tasks.seconds["1"]])
    sent = sum(work.bytes_exchanged for work in search.works) / N_QUERIES / len(search.works)
    return ShardWork(np.array(seconds[1:]) / N_QUERIES, search.n_exchanges, sent)


def measure(client: Any, sizes: tuple[int, int], n_repeats: int = 7) -> Constants:
    """Measure all constants."""
    messages = measure_messages(client)
    small, large = sizes
    wanted = ((small, DELTA), (large, DELTA), (large, DELTA * large / FAR))
    few, many, far = (client.submit(work_on_shards, n, delta, n_repeats).result() for n, delta in wanted)
    at_few, at_many, at_far = (float(np.median(work.seconds)) for work in (few, many, far))
    atom = max((at_many - at_few) / ((large - small) / 2), 0.0)
    query = max(at_few - atom * small / 2, 0.0)
    return Constants(
        query=query,
        atom=atom,
        atom_far=max((at_far - query) / (large / 2), atom),
        **messages,
        report_bytes=many.report_bytes,
        merge=measure_merging(),
        n_exchanges=float(many.n_exchanges),
        spread=float(np.log(many.seconds).std(axis=0).mean()),
    )


def searched(client: Any, folder: str, n: int, n_shards: int, n_repeats: int) -> float:
    """The shortest time of a batch."""
    data = make_genotypes(os.path.join(folder, "atoms.npy"), n, D)
    index = DistributedMIPS(client, delta=DELTA).fit(loaders_of(data, n_shards))
    index.search(data.queries)
    return float(_timed(lambda: index.search(data.queries), n_repeats).min())


# --- saying ---------------------------------------------------------------------------------------------------------


def print_check(client: Any, constants: Constants, sizes: tuple[int, ...], n_repeats: int = 9) -> None:
    """Compare the model with searches that were not measured for it."""
    with tempfile.TemporaryDirectory() as folder:
        _print_check(client, folder, constants, sizes, n_repeats)


def _print_check(client: Any, folder: str, constants: Constants, sizes: tuple[int, ...], n_repeats: int) -> None:
    print("\n| n | workers | predicted ms a query | measured | measured / predicted |\n| --- | --- | --- | --- | --- |")
    for n in sizes:
        for n_shards in (1, 2):
            seconds = searched(client, folder, n, n_shards, n_repeats) / N_QUERIES
            # One shard has nobody to hear of: it ends its race in one exchange.
            known = replace(constants, n_exchanges=1.0) if n_shards == 1 else constants
            expected = predict(known, n, n_shards).total
            print(f"| {n:,} | {n_shards} | {expected * 1e3:.2f} | {seconds * 1e3:.2f} | {seconds / expected:.2f} |")


def print_predictions(constants: Constants) -> None:
    """Print what is expected of larger clusters."""
    print(
        "\n| n | workers | s a query | sending | scheduling | working | waiting | merging | kB exchanged "
        "| with a tree, s | one worker 3 times slower, s | 1 in 1,000 tasks stalls for 1 s, s |"
    )
    print("|" + " --- |" * 12)
    for n in (1e6, 1e8, 1e10):
        for n_workers in (10, 100, 1_000):
            flat, tree = predict(constants, n, n_workers), predict(constants, n, n_workers, tree=True)
            slow = predict(constants, n, n_workers, trouble=Trouble(slowest=3.0))
            stalls = predict(constants, n, n_workers, trouble=Trouble(stall_rate=1e-3, stall=1.0))
            parts = (flat.sending, flat.scheduling, flat.working, flat.waiting, flat.merging)
            print(
                f"| {n:.0e} | {n_workers:,} | {flat.total:.3g} | {' | '.join(f'{part:.2g}' for part in parts)} "
                f"| {flat.exchanged / 1e3:.3g} | {tree.total:.3g} | {slow.total:.3g} | {stalls.total:.3g} |"
            )


def draw(constants: Constants, path: str) -> None:
    """Draw time against workers, what it is spent on, and what stragglers cost."""
    from matplotlib import colormaps, rcParams
    from matplotlib.figure import Figure

    rcParams["svg.hashsalt"] = "banditmips"
    workers = np.unique(np.geomspace(10, 1_000, 25).astype(int))
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    for exponent, colour in zip((6, 7, 8, 9, 10), colormaps["viridis"](np.linspace(0, 0.85, 5)), strict=True):
        n = 10.0**exponent
        for tree, style in ((False, "-"), (True, ":")):
            times = [predict(constants, n, w, tree=tree).total for w in workers.tolist()]
            left.loglog(workers, times, style, color=colour, label=None if tree else f"$10^{{{exponent}}}$ atoms")
    left.plot([], [], ":", color="grey", label="with a tree of leaders")
    left.set(title=f"a query, in a batch of {N_QUERIES}", xlabel="workers", ylabel="seconds")
    left.set_ylim(top=30 * left.get_ylim()[1])  # room for the legend
    left.legend(fontsize=8, ncols=2, loc="upper right")
    parts = ("working", "waiting", "scheduling", "merging", "sending")
    predictions = [predict(constants, 1e8, w) for w in workers.tolist()]
    shares = np.array([[getattr(p, part) / p.total for p in predictions] for part in parts])
    colours = ["#4c956c", "#f4a259", "#4f6d9a", "#b9b4d0", "#bc4b51"]
    middle.stackplot(workers, shares, labels=parts, colors=colours)
    middle.set(title="what it is spent on, $10^8$ atoms", xlabel="workers", ylabel="share", xscale="log")
    middle.set(xlim=(10, 1_000), ylim=(0, 1))
    middle.legend(fontsize=8, loc="lower left")
    troubles = {
        "as measured": Trouble(),
        "one worker 3 times slower": Trouble(slowest=3.0),
        "1 in 1,000 tasks stalls for 1 s": Trouble(stall_rate=1e-3, stall=1.0),
        "1 in 1,000 tasks stalls for 30 s": Trouble(stall_rate=1e-3, stall=30.0),
    }
    for (label, trouble), colour in zip(troubles.items(), ("black", "#bc4b51", "#f4a259", "#5b8e7d"), strict=True):
        times = [predict(constants, 1e8, w, trouble=trouble).total for w in workers.tolist()]
        right.loglog(workers, times, color=colour, label=label)
    right.set(title="what a straggler costs, $10^8$ atoms", xlabel="workers", ylabel="seconds a query")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path, format="svg", metadata={"Date": None})


def main() -> None:
    """Measure, compare, predict, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--picture", help="where to draw, for example docs/scale-model.svg")
    arguments = parser.parse_args()
    facts = describe_machine(threads=1)
    print(", ".join(f"{key} {facts[key]}" for key in ("date", "commit", "cpu", "cores", "threads")))
    warning = load_warning(facts)
    if warning is not None:
        print(warning)
    with cluster_of(2) as client:
        constants = measure(client, (1_000, 6_000))
        print("\n| constant | value |\n| --- | --- |")
        for name in constants.__dataclass_fields__:
            print(f"| {name} | {getattr(constants, name):.3g} |")
        print_check(client, constants, (500, 3_000, 8_000))
    print_predictions(constants)
    if arguments.picture:
        draw(constants, arguments.picture)


if __name__ == "__main__":
    main()
