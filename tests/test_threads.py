"""Threads change nothing but the time: one query, a batch, many callers at once, and processes that were forked off."""

import multiprocessing
import os
import select
import signal
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial

import numpy as np
import pytest

import banditmips as bm
from banditmips import _threads
from banditmips._threads import LazyPool, helped_by, in_pieces, map_in_order, pieces_of
from banditmips.core import exact
from banditmips.race import batch, full, passes, readers
from banditmips.race.costs import Costs


@pytest.fixture(scope="module")
def work():
    """Atoms, twenty of which are too close to the best for a sample to tell, and queries."""
    rng = np.random.default_rng(0)
    means = rng.permutation(np.concatenate([np.full(20, 5.0), np.zeros(280)]))
    atoms = means[:, np.newaxis] + rng.normal(size=(300, 20_000))
    queries = 1.0 + rng.normal(size=(6, 20_000))
    return atoms.astype(np.float32), queries.astype(np.float32)


# --- the tools --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_jobs", "n", "least"), [(1, 10, 1), (3, 10, 1), (3, 10, 4), (8, 5, 1), (4, 0, 1), (2, 7, 0)]
)
def test_pieces_cover_everything_once(n_jobs, n, least):
    with helped_by(n_jobs):
        pieces = pieces_of(n, least)
    assert [i for start, stop in pieces for i in range(start, stop)] == list(range(n))
    assert len(pieces) <= n_jobs
    assert len(pieces) == 1 or all(stop - start >= least for start, stop in pieces)


def test_pieces_are_done_by_several_threads_at_once():
    together = threading.Barrier(2)

    def work(start, stop):
        together.wait(timeout=300)
        return start, stop

    with helped_by(2):
        assert in_pieces(work, 5, 1) == [(0, 2), (2, 5)]


def test_pieces_are_done_here_if_all_threads_are_busy(monkeypatch):
    busy, enough = LazyPool(1, "busy"), threading.Event()
    monkeypatch.setattr(_threads, "_helpers", busy)
    busy.submit(enough.wait, 300)
    try:
        with helped_by(3):
            done = in_pieces(lambda start, stop: (start, stop, threading.get_ident()), 3, 1)
        assert done == [(i, i + 1, threading.get_ident()) for i in range(3)]
    finally:
        enough.set()
        busy.close()


def test_no_memory_for_another_thread_is_an_error_by_its_name_or_none_at_all(monkeypatch, tmp_path):
    def no_room(thread):
        raise RuntimeError("can't start new thread")

    pool = LazyPool(2, "none")
    monkeypatch.setattr(_threads, "_helpers", pool)
    monkeypatch.setattr(threading.Thread, "start", no_room)
    with helped_by(2), pytest.raises(MemoryError, match="no memory for another thread"):
        in_pieces(lambda start, stop: None, 5, 1)
    assert list(map_in_order(str, range(5), 2)) == list("01234")
    path = tmp_path / "atoms.npy"
    np.save(path, np.random.default_rng(0).normal(size=(40, 3_000)))
    with pytest.raises(MemoryError, match="no memory for another thread"):
        bm.BanditMIPS(n_jobs=2).fit(bm.open_atoms(path, memory_limit=100_000))
    monkeypatch.undo()
    monkeypatch.setattr(_threads, "_helpers", pool)
    with helped_by(2):
        assert in_pieces(lambda start, stop: (start, stop), 4, 1) == [(0, 2), (2, 4)]
    pool.close()


@pytest.mark.parametrize("bad", [0, 2])
def test_an_error_in_a_piece_is_raised(bad):
    def work(start, stop):
        if start <= bad < stop:
            raise KeyError(bad)

    with helped_by(3), pytest.raises(KeyError):
        in_pieces(work, 3, 1)


def test_threads_do_not_multiply():
    """The queries of a batch are answered in threads, which have no helpers of their own."""
    with helped_by(2):
        assert list(map_in_order(lambda n: len(pieces_of(n, 1)), [9, 9, 9], n_jobs=2)) == [1, 1, 1]
        assert list(map_in_order(lambda n: len(pieces_of(n, 1)), [9], n_jobs=2)) == [2]


# --- one query --------------------------------------------------------------------------------------------------------

RACES = {"plain": {}, "several": {"k": 5}, "by size": {"absolute": True}, "sparse query": {}}
GENERAL = {
    "another bound": {"bound": "bernstein", "value_range": (-9.0, 9.0)},
    "another objective": {"objective": "neg_l1"},
    "cosine": {"objective": "cosine"},
    "with a trace": {"trace": True},
    "everything": {"delta": 0.0},
    "no exact scores": {"rescore": False, "bound": "hoeffding", "value_range": (-9.0, 9.0)},
}


@pytest.fixture
def divided(monkeypatch):
    """Let everything be worth a thread, and list into how many pieces it was divided."""
    for module, name in (
        (exact, "_LEAST_SUMMED"),
        (full, "_LEAST_PRODUCTS"),
        (passes, "_LEAST_SUMMED"),
        (readers, "_LEAST_GATHERED"),
        (readers, "_LEAST_SUMMED"),
    ):
        monkeypatch.setattr(module, name, 1)
    counts = []

    def counted(work, n, least):
        counts.append(len(pieces_of(n, least)))
        return in_pieces(work, n, least)

    for module in (exact, full, passes, readers):
        monkeypatch.setattr(module, "in_pieces", counted)
    return counts


def check(find, query, divided):
    """Compare what a search finds with several threads with what it finds with one."""
    alone = asdict(find(query, n_jobs=1))
    assert set(divided) <= {1}
    for n_jobs in (2, 3, -1):
        np.testing.assert_equal(asdict(find(query, n_jobs=n_jobs)), alone)
    assert max(divided) > 1, "nothing was divided"


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize("way", RACES)
def test_one_race_is_the_same_at_any_number_of_threads(work, way, fitted, divided):
    atoms, queries = work
    query = np.where(np.arange(20_000) % 50 == 3, queries[0], 0) if way == "sparse query" else queries[0]
    find = bm.BanditMIPS().fit(atoms).search if fitted else partial(bm.search, atoms)
    check(partial(find, **RACES[way]), query, divided)


@pytest.mark.parametrize("way", GENERAL)
def test_the_general_way_is_the_same_at_any_number_of_threads(work, way, divided):
    atoms, queries = work
    index = bm.BanditMIPS(**GENERAL[way]).fit(np.asfortranarray(atoms[:40, :500]))
    check(index.search, queries[0, :500], divided)


def test_a_batch_is_divided_by_queries_alone(work, divided, monkeypatch):
    monkeypatch.setattr(batch, "_WORTH_THREADS", 0.0)  # shorter races come one after another
    # Races are worth it, and two may always come to nothing.
    dear = Costs(**dict.fromkeys(["product", "own_product", "tile", "stream", "near_stream", "call_overhead"], 1.0))
    dear = replace(dear, sweep=1.0, near_sweep=1.0, shared=10.0)
    for module in ("batch", "code_search", "direct", "query", "rounded"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: dear)
    atoms, queries = work
    index = bm.BanditMIPS().fit(atoms)
    np.testing.assert_equal(asdict(index.search(queries, n_jobs=2)), asdict(index.search(queries)))
    assert set(divided) <= {1}


def test_many_callers_share_an_index(work, divided):
    """Each has its own workspace, whatever threads help it."""
    atoms, queries = work
    index = bm.BanditMIPS().fit(atoms)
    asked = [(query, k) for query in queries for k in (1, 3)] * 4
    expected = [asdict(index.search(query, k)) for query, k in asked]
    fresh = bm.BanditMIPS().fit(atoms)  # nothing of it is prepared yet
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: asdict(fresh.search(*one, n_jobs=2)), asked))
    np.testing.assert_equal(found, expected)


# --- processes that were forked off -------------------------------------------------------------------------------

TIMEOUT = 60.0

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
# Newer Pythons warn whoever forks with threads around: that this goes well is what is tested.
may_warn = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


def answers_of(index, queries):
    """Search in threads over a batch and over one query, and have helpers in any case."""
    with helped_by(2):
        assert in_pieces(lambda start, stop: stop - start, 2, 1) == [1, 1]
    results = [index.search(queries, 3, n_jobs=2), index.search(queries[0], 3, n_jobs=2)]
    return [np.concatenate([result.indices.ravel(), np.atleast_1d(result.n_multiplies)]) for result in results]


def put_answers(index, queries, pipe):
    pipe.send(answers_of(index, queries))
    pipe.close()


def ask_forked(index, queries):
    """Search in a child made by plain `os.fork`, which has no time to clean up."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, b"".join(part.astype(np.int64).tobytes() for part in answers_of(index, queries)))
        finally:
            os._exit(0)
    os.close(write_end)
    try:
        ready, _, _ = select.select([read_end], [], [], TIMEOUT)
        assert ready, "the child hangs"
        return np.frombuffer(os.read(read_end, 1 << 16), dtype=np.int64)
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.fixture(params=["in memory", "in a file", "in chunks"])
def index(request, work, tmp_path):
    """An index that has searched in threads, which a forked process does not have."""
    atoms, _ = work
    if request.param == "in a file":
        np.save(tmp_path / "atoms.npy", atoms)
        atoms = bm.open_atoms(tmp_path / "atoms.npy")
    if request.param == "in chunks":
        zarr = pytest.importorskip("zarr")
        array = zarr.create_array(tmp_path / "atoms.zarr", shape=atoms.shape, chunks=(300, 500), dtype=atoms.dtype)
        array[:] = atoms
        atoms = bm.open_atoms(tmp_path / "atoms.zarr", memory_limit=4_000_000)
    return bm.BanditMIPS().fit(atoms)


@needs_fork
@may_warn
def test_an_index_answers_in_a_forked_process(index, work, divided):
    queries = work[1]
    expected = answers_of(index, queries)
    np.testing.assert_array_equal(ask_forked(index, queries), np.concatenate(expected))
    np.testing.assert_equal(answers_of(index, queries), expected)


@needs_fork
@may_warn
def test_an_index_answers_in_a_worker_of_multiprocessing(index, work, divided):
    queries = work[1]
    expected = answers_of(index, queries)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=put_answers, args=(index, queries, there), daemon=True)
    child.start()
    try:
        assert here.poll(TIMEOUT), "the child hangs"
        np.testing.assert_equal(here.recv(), expected)
        child.join(TIMEOUT)
        assert child.exitcode == 0
    finally:
        child.kill()


@needs_fork
@may_warn
def test_a_fork_while_a_pool_is_asked_leaves_no_locked_door():
    pool = LazyPool(1, "asked")
    pool.submit(int).result(TIMEOUT)
    with pool._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(int(TIMEOUT))  # ends a child that hangs
            os._exit(pool.submit(int, "7").result())
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    pool.close()


def ends_in_a_fork(work):
    """Do it in a forked process, which is ended if it hangs; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        signal.alarm(int(TIMEOUT))
        code = 1
        try:
            work()
            code = 7
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 7


@needs_fork
@may_warn
def test_a_fork_while_others_add_compare_or_fetch_leaves_no_locked_door(tmp_path):
    """Nobody waits for locks that threads hold, or for chunks that they fetch, where there are no threads."""
    zarr = pytest.importorskip("zarr")
    atoms = np.random.default_rng(0).normal(size=(40, 300))
    index = bm.BanditMIPS().fit(atoms)
    with index._changing:
        assert ends_in_a_fork(lambda: index.add(atoms[:1]))
    index.save(tmp_path / "atoms.bm")
    loaded = bm.load(tmp_path / "atoms.bm")
    with loaded._file._lock:
        assert ends_in_a_fork(lambda: loaded.search(atoms[0]))
    zarr.create_array(tmp_path / "atoms.zarr", data=atoms, chunks=(5, 100))
    store = bm.open_atoms(tmp_path / "atoms.zarr", memory_limit=9_000)
    readers = {piece.reader for piece in (store._chunks, store._beside, store._below)}
    for reader in readers:
        for chunk in range(reader.n_chunks):
            reader._underway[chunk] = Future()  # that another thread has begun, and does not end there
    assert ends_in_a_fork(lambda: bm.search(store, atoms[0]))
    for reader in readers:
        with reader._lock:
            assert ends_in_a_fork(lambda: bm.search(store, atoms[0]))
