"""Queries in memory that workers on the same machine share."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from banditmips._validate import Options
from banditmips.distributed._messages import Batch
from banditmips.distributed._sharing import Place, SharedArray, SharedBatch, can_share

pytestmark = pytest.mark.skipif(not can_share(), reason="there are no such files here")

MAP = """
import pickle, sys
found = pickle.loads(bytes.fromhex(sys.argv[1])).map()
print(None if found is None else (found.dtype, found.shape, float(found.sum())))
"""


def mapped_elsewhere(place: Place) -> str:
    """What another process finds there."""
    run = [sys.executable, "-c", MAP, pickle.dumps(place).hex()]
    return subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2"])
def test_another_process_reads_what_is_shared(dtype):
    queries = np.arange(6_000).reshape(3, 2_000).astype(dtype)[:, ::2]  # not contiguous
    shared = SharedArray(queries)
    assert np.array_equal(shared.place.map(), queries)
    assert mapped_elsewhere(shared.place) == str((queries.dtype, queries.shape, float(queries.sum())))


def test_what_is_mapped_stays_though_its_owner_lets_go_and_nobody_finds_it_any_more():
    shared = SharedArray(np.ones((2, 3)))
    place, mapped = shared.place, shared.place.map()
    del shared
    gc.collect()
    assert mapped.sum() == 6.0
    assert place.map() is None
    assert mapped_elsewhere(place) == "None"


def test_another_file_of_the_same_number_is_not_taken_for_it():
    shared = SharedArray(np.ones(4))
    assert replace(shared.place, name="banditmips-another").map() is None
    with open(os.devnull) as other:
        assert replace(shared.place, descriptor=other.fileno()).map() is None
    assert replace(shared.place, process=2**22 + 1).map() is None  # there is no such process


def test_nothing_is_left_of_an_owner_that_was_killed():
    script = """
import pickle, time, numpy as np
from banditmips.distributed._sharing import SharedArray
shared = SharedArray(np.ones(1000))
print(pickle.dumps(shared.place).hex(), flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as owner:
        place = pickle.loads(bytes.fromhex(owner.stdout.readline()))
        mapped = place.map()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert mapped.sum() == 1000.0
    assert place.map() is None


def test_a_batch_travels_without_its_queries_and_is_opened_once():
    queries = np.random.default_rng(0).normal(size=(5, 4_000))
    shared = SharedArray(queries)
    sent = pickle.dumps(SharedBatch.of(Batch(queries, np.full(5, 10), 3, Options()), shared))
    assert len(sent) < 2_000
    found = pickle.loads(sent)
    assert found.opened is found.opened
    assert np.array_equal(found.opened.queries, queries)
    assert (found.opened.k, found.opened.n_candidates.tolist()) == (3, [10] * 5)
    del shared
    gc.collect()
    assert pickle.loads(sent).opened is None
