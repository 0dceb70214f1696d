"""Many short reads in one call: what they bring, and where they stop."""

import os
import sys

import numpy as np
import pytest

from banditmips.core.reads import read_runs

CONTENT = np.random.default_rng(0).integers(0, 256, size=1 << 20, dtype=np.uint8)
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="this system reads one by one")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(CONTENT.tobytes())
    descriptor = os.open(path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def _forget(descriptor):
    """Take the file out of the system's memory, where that can be done."""
    if hasattr(os, "posix_fadvise"):
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.parametrize("from_disk", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 511, 512, 513, 2000])
def test_runs_come_one_behind_the_other(file, n, from_disk):
    rng = np.random.default_rng(n)
    begins, sizes = rng.integers(0, CONTENT.size - 9000, size=n), rng.integers(0, 9000, size=n)
    room = np.zeros(int(sizes.sum()) + 5, dtype=np.uint8)
    if from_disk:
        _forget(file)
    assert read_runs(file, begins, sizes, room) == n
    expected = [CONTENT[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
    np.testing.assert_array_equal(room, np.concatenate([*expected, np.zeros(5, dtype=np.uint8)]))


def test_a_run_beyond_the_end_stops_them(file):
    begins = np.array([5, CONTENT.size - 10, CONTENT.size - 9, 0])
    room = np.zeros(40, dtype=np.uint8)
    assert read_runs(file, begins, np.full(4, 10), room) == 2
    np.testing.assert_array_equal(room[:20], np.append(CONTENT[5:15], CONTENT[-10:]))


def test_what_cannot_be_read_stops_them(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)  # a folder
    try:
        assert read_runs(descriptor, np.array([0, 8]), np.array([8, 8]), np.zeros(16, dtype=np.uint8)) == 0
    finally:
        os.close(descriptor)


def test_the_room_is_never_left(file):
    room = np.zeros(15, dtype=np.uint8)
    with pytest.raises(ValueError, match="the room must hold 16 bytes, got 15"):
        read_runs(file, np.array([0, 8]), np.array([8, 8]), room)
    with pytest.raises(ValueError, match="must not be negative, got -8"):
        read_runs(file, np.array([0, 8]), np.array([16, -8]), room)
    with pytest.raises(ValueError, match="begins and sizes must be as many, got 2 and 1"):
        read_runs(file, np.array([0, 8]), np.array([8]), room)
