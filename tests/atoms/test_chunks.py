"""A chunk reader reads each chunk once, within its memory, and gives every failure the chunk's name."""

from __future__ import annotations

import pickle
import threading
import time

import numpy as np
import pytest

from banditmips import CorruptFileError
from banditmips.atoms import chunks
from banditmips.atoms.chunks import ChunkReader, ChunkReadError
from banditmips.atoms.metering import count_bytes, metered

CHUNK_BYTES = 800


class Source:
    """Chunks that remember who asked for them, and that fail as told."""

    def __init__(self, failures=None, pause=0.0, at_least_at_once=0):
        self.fetched = []
        self.failures = failures or {}
        self.pause = pause
        self.at_once = self.most_at_once = 0
        self.at_least_at_once, self.enough = at_least_at_once, threading.Event()
        self._lock = threading.Lock()

    def fetch(self, chunk):
        with self._lock:
            self.fetched.append(chunk)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            if self.at_once >= self.at_least_at_once:
                self.enough.set()
            comes_alone = len(self.fetched) == 1
        if not comes_alone:
            self.enough.wait(60)
        time.sleep(self.pause)
        with self._lock:
            self.at_once -= 1
            errors = self.failures.get(chunk, [])
            if errors:
                raise errors.pop(0)
        return np.full(100, float(chunk))


def make_reader(source, memory_limit=100 * CHUNK_BYTES, **options):
    return ChunkReader(
        source.fetch, 50, describe=lambda chunk: f"chunk c/{chunk}", memory_limit=memory_limit, source="x", **options
    )


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(chunks, "_FIRST_PAUSE", 1e-4)


def test_many_chunks_come_in_the_order_asked_for():
    wanted = [7, 3, 3, 49, 0, *range(20, 40)]
    reader = make_reader(Source(pause=1e-3))
    got = list(reader.read_many(wanted))
    reader.close()
    assert [chunk for chunk, _ in got] == wanted
    assert all((array == chunk).all() for chunk, array in got)


def test_chunks_are_fetched_ahead_by_several_threads_but_not_by_more():
    source = Source(pause=1e-3, at_least_at_once=3)
    reader = make_reader(source, n_threads=3)
    list(reader.read_many(range(20)))
    reader.close()
    assert source.most_at_once == 3


def test_a_chunk_is_read_once_however_many_threads_ask():
    source = Source(pause=0.02)
    reader = make_reader(source)
    threads = [threading.Thread(target=reader.read, args=(5,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert source.fetched == [5]


@pytest.mark.parametrize("limit_in_chunks", [0, 1, 3, 10])
def test_memory_stays_within_the_limit(limit_in_chunks):
    source = Source()
    limit = limit_in_chunks * CHUNK_BYTES
    reader = make_reader(source, memory_limit=limit)
    for taken, _ in enumerate(reader.read_many(range(50)), start=1):
        ahead = len(source.fetched) - taken
        # The chunk in hand is the caller's; without any memory there is still that one.
        assert reader.cached_bytes + ahead * CHUNK_BYTES <= limit
    reader.close()


def test_the_chunk_used_longest_ago_goes_first():
    source = Source()
    reader = make_reader(source, memory_limit=4 * CHUNK_BYTES)  # half of it is the cache
    for chunk in (0, 1, 0, 2, 0, 1):
        reader.read(chunk)
    assert source.fetched == [0, 1, 2, 1]


def test_bytes_are_counted_for_the_query_that_read_them():
    reader = make_reader(Source())
    with metered() as first:
        list(reader.read_many(range(10)))
        with metered() as inner:
            reader.read(20)
    with metered() as second:
        list(reader.read_many(range(12)))
    reader.close()
    assert first.bytes_read == 10 * CHUNK_BYTES
    assert inner.bytes_read == CHUNK_BYTES
    assert second.bytes_read == 2 * CHUNK_BYTES


def test_a_fetch_that_knows_the_stored_size_counts_it():
    def fetch(chunk):
        count_bytes(7)
        return np.zeros(100)

    reader = ChunkReader(fetch, 50, describe=str, memory_limit=10**6, fetch_counts=True)
    with metered() as meter:
        list(reader.read_many(range(5)))
    reader.close()
    assert meter.bytes_read == 35


class BotoError(Exception):
    """An error as a remote file system has it."""


BotoError.__module__ = "botocore.exceptions"


@pytest.mark.parametrize("error", [OSError("reset"), TimeoutError("slow"), BotoError("503")])
def test_a_read_that_fails_twice_is_tried_a_third_time(error):
    source = Source(failures={3: [error, error]})
    reader = make_reader(source)
    with metered() as meter:
        assert (reader.read(3) == 3).all()
    assert source.fetched == [3, 3, 3]
    assert meter.bytes_read == CHUNK_BYTES


def test_a_read_that_keeps_failing_is_an_error_that_names_the_chunk():
    source = Source(failures={3: [OSError("reset")] * 9})
    reader = make_reader(source)
    with pytest.raises(ChunkReadError, match=r"x: chunk c/3: could not be read in 3 tries: reset"):
        list(reader.read_many(range(5)))
    assert source.fetched.count(3) == 3
    reader.close()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError("gone"), "x: chunk c/3: the chunk is missing"),
        (KeyError("gone"), "x: chunk c/3: the chunk is missing"),
        (ValueError("checksum"), r"x: chunk c/3: the chunk is damaged \(ValueError: checksum\)"),
        (RuntimeError("blosc"), r"x: chunk c/3: the chunk is damaged \(RuntimeError: blosc\)"),
        (CorruptFileError("y", "row group 3", "torn"), "y: row group 3: torn"),
    ],
)
def test_missing_and_damaged_chunks_are_named_and_not_tried_again(error, message):
    source = Source(failures={3: [error]})
    reader = make_reader(source)
    with pytest.raises(CorruptFileError, match=message):
        reader.read(3)
    assert source.fetched == [3]


def test_a_refused_chunk_is_not_tried_again():
    source = Source(failures={3: [PermissionError("no")]})
    with pytest.raises(ChunkReadError, match="c/3: could not be read in 1 try: no"):
        make_reader(source).read(3)


def test_an_error_is_forgotten_when_the_chunk_can_be_read_again():
    source = Source(failures={3: [ValueError("torn")]})
    reader = make_reader(source)
    with pytest.raises(CorruptFileError):
        reader.read(3)
    assert (reader.read(3) == 3).all()


def test_chunks_are_shared_and_cannot_be_changed():
    reader = make_reader(Source())
    with pytest.raises(ValueError, match="read-only"):
        reader.read(0)[0] = 1.0


def test_there_are_no_other_chunks():
    with pytest.raises(IndexError, match="no chunk 50 among 50"):
        make_reader(Source()).read(50)


def _fetch_for_pickle(chunk):
    return np.full(4, chunk)


def test_a_reader_goes_to_another_process_without_its_cache():
    reader = ChunkReader(_fetch_for_pickle, 3, describe=str, memory_limit=1000)
    list(reader.read_many(range(3)))
    copy = pickle.loads(pickle.dumps(reader))
    reader.close()
    assert copy.cached_bytes == 0
    assert (copy.read(2) == 2).all()


@pytest.mark.parametrize("problem", [CorruptFileError("atoms", "chunk 3", "damaged"), KeyError("c/3"), MemoryError()])
def test_no_error_is_its_own_cause(problem):
    """Whoever follows causes, as Dask's workers do, would never come to an end."""

    def fetch(chunk):
        raise problem

    reader = ChunkReader(fetch, 5, describe=lambda chunk: f"chunk {chunk}", memory_limit=1 << 20, source="atoms")
    with pytest.raises((CorruptFileError, MemoryError)) as caught:
        reader.read(3)
    causes = [caught.value]
    while causes[-1].__cause__ is not None and len(causes) < 9:
        causes.append(causes[-1].__cause__)
    assert len(set(map(id, causes))) == len(causes) <= 2
