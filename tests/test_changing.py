"""Several threads that change one index at once lose nothing, and searches meanwhile see one state of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

import banditmips as bm

N_THREADS, N_CALLS, N_NEW, D = 4, 10, 20, 192


def batch(thread, call):
    """Atoms that no other call adds, and their ids."""
    rng = np.random.default_rng([thread, call])
    atoms = rng.normal(size=(N_NEW, D)).astype(np.float32)
    first = 1_000_000 * (thread + 1) + 1_000 * call
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True), first + np.arange(N_NEW)


BATCHES = {(thread, call): batch(thread, call) for thread in range(N_THREADS) for call in range(N_CALLS)}
OLD = np.random.default_rng(99).normal(size=(30, D)).astype(np.float32) / 100


def together(work):
    """Call `work` with the number of each thread, all at once."""
    ready = threading.Barrier(N_THREADS)

    def wait_and_work(thread):
        ready.wait()
        work(thread)

    with ThreadPoolExecutor(N_THREADS) as pool:
        list(pool.map(wait_and_work, range(N_THREADS)))


def test_atoms_added_by_several_threads_are_all_found():
    index = bm.BanditMIPS().fit(OLD, ids=np.arange(30))

    def add(thread):
        for call in range(N_CALLS):
            atoms, ids = BATCHES[thread, call]
            index.add(atoms, ids=ids)

    together(add)
    assert index.n_atoms == 30 + N_THREADS * N_CALLS * N_NEW
    assert np.unique(index.ids).size == index.n_atoms
    for atoms, ids in BATCHES.values():
        np.testing.assert_array_equal(index.search(atoms).ids[:, 0], ids)


def test_atoms_removed_by_several_threads_are_all_gone():
    index = bm.BanditMIPS().fit(OLD, ids=np.arange(30))
    for atoms, ids in BATCHES.values():
        index.add(atoms, ids=ids)

    def remove(thread):
        for call in range(N_CALLS):
            index.remove(BATCHES[thread, call][1][1:])

    together(remove)
    assert index.n_removed == N_THREADS * N_CALLS * (N_NEW - 1)
    left = {int(ids[0]) for _, ids in BATCHES.values()} | set(range(30))
    found = index.search(OLD[0], index.n_atoms).ids
    assert set(found[found >= 0].tolist()) == left


def test_a_search_sees_one_state_while_others_add_and_remove():
    """What was added together is found together, with the right ids, or not at all."""
    index = bm.BanditMIPS().fit(OLD, ids=np.arange(30))
    done = threading.Event()
    seen = []

    def search():
        while not done.is_set():
            atoms, ids = BATCHES[0, N_CALLS // 2]
            result = index.search(atoms)
            found = result.ids[:, 0]
            is_there = np.isin(found, ids)
            seen.append(is_there.all() or not is_there.any())
            if is_there.all():
                seen.append(bool((found == ids).all()))

    def change(thread):
        for call in range(N_CALLS):
            atoms, ids = BATCHES[thread, call]
            index.add(atoms, ids=ids)
            if thread:
                index.remove(ids)

    with ThreadPoolExecutor(1) as pool:
        searching = pool.submit(search)
        together(change)
        done.set()
        searching.result()
    assert seen
    assert all(seen)
    assert index.n_atoms - index.n_removed == 30 + N_CALLS * N_NEW


def test_an_atom_that_was_found_before_is_gone_when_it_is_removed():
    """What the first search prepared knows nothing of what is removed later."""
    atoms = BATCHES[0, 0][0]
    index = bm.BanditMIPS().fit(atoms)
    assert index.search(atoms[3]).indices[0] == 3
    index.remove([3])
    assert index.search(atoms[3]).indices[0] != 3
    assert index.search(atoms[3], k=N_NEW).indices[-1] == -1
