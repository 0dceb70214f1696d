"""Saved files: what goes in comes out, and damage never goes unnoticed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from banditmips import _saved_format
from banditmips._files import CorruptFileError
from banditmips._saved import read_file
from banditmips._saved_format import write_file

GOLDEN = Path(__file__).parent / "data" / "golden_v1.bm"
MAGIC = b"\x89BMIPS\r\n"
SCALARS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def some_content() -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return metadata and arrays of every kind and shape; the golden file holds exactly these."""
    metadata = {
        "delta": 0.001,
        "seed": 2**80,
        "name": 'Ä "1"',
        "nested": {"list": [1, -2.5, True, None, "x"]},
    }
    arrays: dict[str, NDArray[Any]] = {
        "atoms": np.arange(6, dtype=np.float32).reshape(2, 3) / 4,
        "fortran": np.asfortranarray(np.arange(-3, 3, dtype=np.int16).reshape(3, 2)),
        "empty": np.empty((0, 5), dtype=np.float64),
        "mask": np.array([True, False, True]),
        "one number": np.array(2**64 - 1, dtype=np.uint64),
        "halves": np.array([np.inf, -0.0, 6e-8, 65504], dtype=np.float16),
    }
    return metadata, arrays


def same_array(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Tell whether two arrays agree in shape, dtype and every bit."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def craft(path: Path, header: Any, data: bytes = b"", version: int = 1, stated_size: int | None = None) -> Path:
    """Write a file with true checksums and any header at all, by the description of the format alone."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if stated_size is None else stated_size
    prefix = struct.pack("<8sII32s", MAGIC, version, size, hashlib.sha256(text).digest())
    head = prefix + hashlib.sha256(prefix).digest() + text
    path.write_bytes(head + bytes(-len(head) % 64) + data)
    return path


def block(data: bytes = bytes(8), **changes: Any) -> dict[str, Any]:
    """Return a header's description of a block, with some of it changed."""
    whole = {"name": "atoms", "dtype": "<f4", "order": "C", "shape": [2], "offset": 0, "size": 8}
    return {**whole, "checksum": hashlib.sha256(data).hexdigest(), **changes}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "saved.bm"
    write_file(path, *some_content())
    return path


# ------------------------------------------------------------------------------------------ what comes out


LAYOUTS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every other": lambda a: np.repeat(a, 2, axis=-1)[..., ::2] if a.ndim else a,
    "Fortran, every other": lambda a: np.repeat(a, 2, axis=0).copy("F")[::2] if a.ndim else a,
    "backwards": lambda a: a[::-1].copy()[::-1] if a.ndim else a,
    "axes turned": lambda a: np.moveaxis(np.moveaxis(a, 0, -1).copy(), -1, 0) if a.ndim else a,
    "broadcast": lambda a: np.broadcast_to(a, (3, *a.shape)),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    scalar=st.sampled_from(SCALARS),
    byte_order=st.sampled_from("<>"),
    shape=hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=7),
    layout=st.sampled_from(sorted(LAYOUTS)),
    piece_size=st.sampled_from([8, 64, 1 << 20]),
    seed=st.integers(0, 2**32 - 1),
)
def test_arrays_of_any_dtype_shape_and_layout_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    scalar: str,
    byte_order: str,
    shape: tuple[int, ...],
    layout: str,
    piece_size: int,
    seed: int,
) -> None:
    dtype = np.dtype(byte_order + scalar)
    rng = np.random.default_rng(seed)
    noise = rng.integers(0, 2 if scalar == "?" else 256, (*shape, dtype.itemsize), dtype=np.uint8)
    array = LAYOUTS[layout](noise.reshape(-1).view(dtype).reshape(shape))
    path = tmp_path_factory.mktemp("any") / "any.bm"
    with mock.patch.object(_saved_format, "_PIECE_SIZE", piece_size):
        write_file(path, {}, {"before": np.arange(3), "any": array, "after": np.arange(5)})
        file = read_file(path)
        file.verify()
    back = file.arrays["any"]
    assert same_array(back, array.astype(dtype.newbyteorder("<")))
    assert same_array(file.arrays["before"], np.arange(3))
    assert same_array(file.arrays["after"], np.arange(5))
    if array.flags.c_contiguous:
        assert back.flags.c_contiguous
    if array.flags.f_contiguous:
        assert back.flags.f_contiguous
    assert not back.flags.writeable


def test_slices_of_fortran_ordered_arrays_stay_fortran_ordered(tmp_path: Path) -> None:
    atoms = np.asfortranarray(np.arange(40.0).reshape(8, 5))
    same_row = np.broadcast_to(atoms[0], (3, 5))
    slices = {"rows": atoms[::2], "columns": atoms.T[::2], "row": atoms[1], "same row": same_row}
    write_file(tmp_path / "a.bm", {}, slices)
    arrays = read_file(tmp_path / "a.bm").arrays
    assert arrays["rows"].flags.f_contiguous
    assert arrays["columns"].flags.c_contiguous
    assert arrays["same row"].flags.c_contiguous
    for name, array in slices.items():
        assert same_array(arrays[name], array), name


def test_metadata_and_names_come_back_in_their_order(saved: Path) -> None:
    metadata, arrays = some_content()
    file = read_file(str(saved))
    assert file.path == saved
    assert file.format_version == 1
    assert file.metadata == metadata
    assert list(file.metadata) == list(metadata)
    assert list(file.arrays) == list(arrays)
    assert "[" not in repr(file).replace(repr(metadata), ""), "a repr must not read the arrays"


def test_nothing_at_all_can_be_saved(tmp_path: Path) -> None:
    write_file(tmp_path / "nothing.bm", {}, {})
    file = read_file(tmp_path / "nothing.bm")
    file.verify()
    assert (file.metadata, file.arrays) == ({}, {})


def test_arrays_are_aligned_read_only_maps(saved: Path) -> None:
    for name, array in read_file(saved).arrays.items():
        assert not array.flags.writeable
        if array.size:
            assert isinstance(array, np.memmap), name
            assert array.ctypes.data % 64 == 0


@pytest.mark.parametrize("turn", [lambda a: a, lambda a: a.T, lambda a: a[:, ::2], lambda a: a.astype(">f8")])
def test_memory_stays_bounded(tmp_path: Path, turn: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    array = turn(np.ones((2048, 2048)))
    assert array.nbytes >= 16 << 20
    tracemalloc.start()
    write_file(tmp_path / "large.bm", {}, {"large": array})
    file = read_file(tmp_path / "large.bm")
    file.verify()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 << 20
    assert np.array_equal(file.arrays["large"], array)


def test_golden_file_of_version_1(tmp_path: Path) -> None:
    metadata, arrays = some_content()
    golden = read_file(GOLDEN)
    golden.verify()
    assert golden.format_version == 1
    assert golden.metadata == metadata
    assert list(golden.arrays) == list(arrays)
    for name, array in arrays.items():
        assert same_array(golden.arrays[name], array), name
        assert golden.arrays[name].flags.f_contiguous == array.flags.f_contiguous, name
    write_file(tmp_path / "again.bm", metadata, arrays)
    assert (tmp_path / "again.bm").read_bytes() == GOLDEN.read_bytes()


# -------------------------------------------------------------------------------------------------- damage


def parts_of(path: Path) -> list[tuple[str, int, int]]:
    """Return (part, first byte, end) for every part of a file, by the description of the format alone."""
    content = path.read_bytes()
    header_end = 80 + struct.unpack_from("<I", content, 12)[0]
    start = header_end + -header_end % 64
    parts = [("prefix", 0, 80), ("header", 80, header_end), ("padding after the header", header_end, start)]
    for entry in json.loads(content[80:header_end])["blocks"]:
        first = start + entry["offset"]
        end = first + entry["size"]
        parts.append((f"block {entry['name']!r}", first, end))
        parts.append((f"padding after block {entry['name']!r}", end, end + -end % 64))
    assert parts[-1][2] == len(content)
    return parts


def test_every_flipped_bit_is_found_and_its_place_named(saved: Path) -> None:
    content = saved.read_bytes()
    damaged = saved.with_name("damaged.bm")
    for part, first, end in parts_of(saved):
        for position in range(first, end):
            for bit in range(8):
                flipped = bytearray(content)
                flipped[position] ^= 1 << bit
                damaged.write_bytes(flipped)
                with pytest.raises(CorruptFileError) as caught:
                    read_file(damaged).verify()
                assert caught.value.where == part, (position, bit)
                assert str(caught.value).startswith(f"{damaged}: {part}: ")


def test_truncation_at_every_byte_is_found_on_opening(saved: Path) -> None:
    content = saved.read_bytes()
    damaged = saved.with_name("damaged.bm")
    for part, first, end in parts_of(saved):
        for length in range(first, end):
            damaged.write_bytes(content[:length])
            with pytest.raises(CorruptFileError) as caught:
                read_file(damaged)
            assert str(damaged) in str(caught.value)
            # Where the padding is cut, the block that should follow may be named instead.
            if not part.startswith("padding"):
                assert caught.value.where == part, length


@pytest.mark.parametrize("tail", [b"\0", bytes(64), b"more"])
def test_a_longer_file_is_refused(saved: Path, tail: bytes) -> None:
    saved.write_bytes(saved.read_bytes() + tail)
    with pytest.raises(CorruptFileError, match=rf"end of the file: {len(tail)} bytes too many"):
        read_file(saved)


PADDED = bytes(64)
HUGE = 2**62
ONE_BLOCK: dict[str, tuple[dict[str, Any], str]] = {
    "huge size": (block(shape=[HUGE // 4], size=HUGE), "goes to byte"),
    "size past 64 bits": (block(shape=[2**70], size=2**72), "is no size"),
    "product wraps to 8": (block(shape=[2**32 + 1, 2**32 + 1], size=8), "do not make 8 bytes"),
    "product wraps to 0": (block(shape=[2**62], size=0), "do not make 0 bytes"),
    "empty but too large": (block(shape=[0, 2**62, 4], size=0), "no array can have the shape"),
    "wrong product": (block(shape=[3]), "do not make 8 bytes"),
    "negative size": (block(size=-8), "-8 is no size"),
    "negative shape": (block(shape=[-1, -2]), "-1 is no size"),
    "negative offset": (block(offset=-64), "-64 is no size"),
    "fraction": (block(shape=[2.0]), "2.0 is no size"),
    "boolean": (block(shape=[2, True]), "True is no size"),
    "text as size": (block(size="8"), "'8' is no size"),
    "text as shape": (block(shape="2"), "the shape must be a list"),
    "no shape": (block(shape=None), "the shape must be a list"),
    "too many dimensions": (block(shape=[2] + [1] * 32), "the shape must be a list"),
    "gap before": (block(offset=64), "must have the offset 0"),
    "misaligned": (block(offset=4), "must have the offset 0"),
    "offset behind the end": (block(offset=2**62), "must have the offset 0"),
    "objects": (block(dtype="|O"), "unknown dtype"),
    "complex": (block(dtype="<c8", shape=[1]), "unknown dtype"),
    "big-endian": (block(dtype=">f4"), "unknown dtype"),
    "structured": (block(dtype=[["a", "<f4"]]), "unknown dtype"),
    "order": (block(order="A"), "unknown dtype '<f4' or order 'A'"),
    "other contents": (block(checksum="0" * 64), "do not match their checksum"),
    "no checksum": (block(checksum=None), "do not match their checksum"),
}


@pytest.mark.parametrize("case", ONE_BLOCK)
def test_hostile_blocks(tmp_path: Path, case: str) -> None:
    entry, message = ONE_BLOCK[case]
    path = craft(tmp_path / "hostile.bm", {"metadata": {}, "blocks": [entry]}, PADDED)
    tracemalloc.start()
    with pytest.raises(CorruptFileError, match=message) as caught:
        read_file(path).verify()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20
    assert caught.value.where == "block 'atoms'"
    assert str(path) in str(caught.value)


def test_the_block_that_the_hostile_ones_are_made_from_is_sound(tmp_path: Path) -> None:
    file = read_file(craft(tmp_path / "sound.bm", {"metadata": {}, "blocks": [block()]}, PADDED))
    file.verify()
    assert same_array(file.arrays["atoms"], np.zeros(2, dtype=np.float32))


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (block(name="b", offset=0), "block 'b': must have the offset 64, got 0"),
        (block(name="b", offset=128), "block 'b': must have the offset 64, got 128"),
        (block(offset=64), "block 'atoms': the header has two blocks of this name"),
    ],
)
def test_two_blocks_must_not_overlap_nor_leave_gaps_nor_share_a_name(
    tmp_path: Path, second: dict[str, Any], message: str
) -> None:
    path = craft(tmp_path / "two.bm", {"metadata": {}, "blocks": [block(), second]}, bytes(192))
    with pytest.raises(CorruptFileError, match=message):
        read_file(path)


HEADERS: dict[str, tuple[Any, str]] = {
    "not JSON": (b"{", "not the JSON"),
    "not ASCII": ('{"metadata": {"ä": 1}, "blocks": []}'.encode(), "not the JSON"),
    "empty": (b"", "not the JSON"),
    "NaN": (b'{"metadata": {"delta": NaN}, "blocks": []}', "NaN is not a finite number"),
    "Infinity": (b'{"metadata": {"delta": -Infinity}, "blocks": []}', "-Infinity is not a finite"),
    "overflow": (b'{"metadata": {"delta": 1e999}, "blocks": []}', "1e999 is not a finite number"),
    "key twice": (b'{"metadata": {"a": 1, "a": 2}, "blocks": []}', "same key twice"),
    "deep lists": (b'{"metadata": {"a": ' + b"[" * 400_000 + b"]" * 400_000 + b'}, "blocks": []}', "JSON"),
    "deep objects": (b'{"a":' * 200_000, "not the JSON"),
    "endless number": (b'{"metadata": {"a": ' + b"9" * 100_000 + b'}, "blocks": []}', "not the JSON"),
    "a list": ([], "must hold 'metadata' and 'blocks'"),
    "no blocks": ({"metadata": {}}, "must hold 'metadata' and 'blocks'"),
    "something more": ({"metadata": {}, "blocks": [], "x": 1}, "must hold 'metadata' and 'blocks'"),
    "metadata a list": ({"metadata": [], "blocks": []}, "'metadata' must be an object"),
    "blocks an object": ({"metadata": {}, "blocks": {}}, "'blocks' a list"),
    "block a number": ({"metadata": {}, "blocks": [1]}, "entry 0 of 'blocks' must have exactly"),
    "block without size": ({"metadata": {}, "blocks": [{"name": "a"}]}, "entry 0 of 'blocks' must have"),
    "block with more": ({"metadata": {}, "blocks": [block(), block(x=1)]}, "entry 1 of 'blocks' must have"),
    "block without a name": ({"metadata": {}, "blocks": [block(name=None)]}, "entry 0 of 'blocks' must have"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_hostile_headers(tmp_path: Path, case: str) -> None:
    header, message = HEADERS[case]
    path = craft(tmp_path / "hostile.bm", header, PADDED)
    with pytest.raises(CorruptFileError, match=message) as caught:
        read_file(path)
    assert caught.value.where == "header"
    assert str(path) in str(caught.value)


def test_a_header_over_the_limit_or_past_the_end_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError, match=r"prefix: states a header of 4,294,967,295 bytes"):
        read_file(craft(tmp_path / "a.bm", b"{}", stated_size=2**32 - 1))
    with pytest.raises(CorruptFileError, match=r"prefix: states a header of 1,048,577 bytes"):
        read_file(craft(tmp_path / "b.bm", b" " * (2**20 + 1)))
    with pytest.raises(CorruptFileError, match=r"header: the file ends in it, at byte 128"):
        read_file(craft(tmp_path / "c.bm", b"{}", stated_size=1000))


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_format_version_is_no_damage(tmp_path: Path, version: int) -> None:
    path = craft(tmp_path / "later.bm", b"\xff", version=version)
    with pytest.raises(ValueError, match=rf"later.bm: .*version {version}, but .* reads version 1") as caught:
        read_file(path)
    assert not isinstance(caught.value, CorruptFileError)


@pytest.mark.parametrize("content", [b"", b"\x89", b"PK\x03\x04" * 50, b"user,item,rating\n" * 20])
def test_other_files_are_recognised(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(CorruptFileError, match="other: prefix: not a banditmips file"):
        read_file(path)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"none\.bm"):
        read_file(tmp_path / "none.bm")


def test_the_error_survives_pickling() -> None:
    error = CorruptFileError(Path("a.bm"), "block 'x'", "gone")
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), back.where) == (CorruptFileError, "a.bm: block 'x': gone", "block 'x'")


# ------------------------------------------------------------------------------------------ failing to save


def assert_untouched(saved: Path) -> None:
    """Check that the file of `some_content` is still there, and nothing else."""
    assert os.listdir(saved.parent) == [saved.name]
    assert saved.read_bytes() == GOLDEN.read_bytes()
    read_file(saved).verify()


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_a_failure_at_any_write_leaves_the_old_file(saved: Path, failure: BaseException) -> None:
    real_write = _saved_format._write_all
    writes_left = 0

    def write(file: Any, data: Any) -> None:
        nonlocal writes_left
        writes_left -= 1
        if writes_left < 0:
            real_write(file, bytes(memoryview(data)[: len(data) // 2]))
            raise failure
        real_write(file, data)

    new: dict[str, NDArray[Any]] = {
        "first": np.ones(1000),
        "second": np.zeros((3, 300_000), dtype=np.float32),
    }
    parts = []
    with mock.patch.object(_saved_format, "_write_all", write):
        for allowed in range(8):
            writes_left = allowed
            with pytest.raises(type(failure)) as caught:
                write_file(saved, {}, new)
            assert_untouched(saved)
            if isinstance(caught.value, OSError):
                assert caught.value.errno == errno.ENOSPC
                assert caught.value.filename == str(saved)
                parts.append(str(caught.value).partition("while writing the ")[2].partition(")")[0])
        writes_left = 8
        write_file(saved, {}, new)
    if isinstance(failure, OSError):
        # One piece and its padding; four pieces and their padding; the header.
        assert parts == ["block 'first'"] * 2 + ["block 'second'"] * 5 + ["header"]
    read_file(saved).verify()
    assert os.listdir(saved.parent) == [saved.name]


def test_partial_writes_are_completed(tmp_path: Path) -> None:
    class SmallSteps(io.FileIO):
        def write(self, data: Any, /) -> int:
            return super().write(data[:7])

    with SmallSteps(tmp_path / "steps", "w") as file:
        _saved_format._write_all(file, bytes(range(100)))
    assert (tmp_path / "steps").read_bytes() == bytes(range(100))


@pytest.mark.parametrize(
    ("function", "part"),
    [("os.fsync", "last changes"), ("os.replace", "new file in place"), ("shutil.copymode", "permissions")],
)
def test_a_failure_at_the_last_steps_leaves_the_old_file(saved: Path, function: str, part: str) -> None:
    failure = OSError(errno.EIO, "the disk is gone")
    with (
        mock.patch(f"banditmips._saved_format.{function}", side_effect=failure),
        pytest.raises(OSError, match=rf"the disk is gone \(while writing the {part}.*saved\.bm") as caught,
    ):
        write_file(saved, {}, {})
    assert caught.value.errno == errno.EIO
    assert_untouched(saved)


def test_a_file_without_room_for_real(saved: Path) -> None:
    pytest.importorskip("resource", reason="the limit on file sizes is Unix's")
    script = """
import resource, sys
import numpy as np
from banditmips._saved_format import write_file
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_001, hard))
try:
    write_file(sys.argv[1], {}, {"small": np.ones(10), "atoms": np.ones(1_000_000), "last": np.ones(10)})
except OSError as error:
    print(error.errno, error)
"""
    package_parent = Path(_saved_format.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", script, str(saved)],
        env={**os.environ, "PYTHONPATH": str(package_parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{errno.EFBIG} ")
    assert "block 'atoms'" in done.stdout
    assert str(saved) in done.stdout
    assert_untouched(saved)


def test_a_directory_that_cannot_be_synced(saved: Path) -> None:
    real_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(code, os.strerror(code))
        real_fsync(descriptor)

    with mock.patch("banditmips._saved_format.os.fsync", fsync):
        code = errno.EINVAL
        write_file(saved, {"round": 1}, {})
        assert read_file(saved).metadata == {"round": 1}
        code = errno.EIO
        with pytest.raises(OSError, match=r"directory \(sync\)"):
            write_file(saved, {"round": 2}, {})
        assert read_file(saved).metadata == {"round": 2}


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere: .*nowhere.a\.bm"):
        write_file(tmp_path / "nowhere" / "a.bm", {}, {})


@pytest.mark.skipif(os.name == "nt", reason="Windows does not replace a mapped file")
def test_a_mapped_file_can_be_saved_over(saved: Path) -> None:
    before = read_file(saved)
    turned = {name: array.T for name, array in before.arrays.items()}
    write_file(saved, before.metadata, turned)
    after = read_file(saved)
    after.verify()
    before.verify()
    for name, array in some_content()[1].items():
        assert same_array(before.arrays[name], array)
        assert same_array(after.arrays[name], array.T)


@pytest.mark.skipif(os.name == "nt", reason="permissions and symbolic links are Unix's here")
def test_permissions_and_symbolic_links_stay(saved: Path) -> None:
    saved.chmod(0o640)
    link = saved.with_name("link.bm")
    link.symlink_to(saved.name)
    write_file(link, {"round": 2}, {})
    assert link.is_symlink()
    assert stat.S_IMODE(saved.stat().st_mode) == 0o640
    assert read_file(saved).metadata == {"round": 2}


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.array([None]), "got object"),
        (np.array([1j]), "got complex128"),
        (np.zeros(2, dtype=[("a", "f4")]), r"got \[\('a', '<f4'\)\]"),
        (np.array(["a"]), "got <U1"),
        (np.array([1], dtype="M8[s]"), "got datetime64"),
        (np.ma.masked_array([1.0], mask=[True]), "plain NumPy array, got MaskedArray"),
        ([1.0, 2.0], "plain NumPy array, got list"),
        (np.float64(1.0), "plain NumPy array, got float64"),
    ],
)
def test_arrays_that_cannot_be_saved(saved: Path, array: Any, message: str) -> None:
    with pytest.raises(TypeError, match=rf"arrays\['atoms'\] must .*{message}"):
        write_file(saved, {}, {"fine": np.ones(2), "atoms": array})
    assert_untouched(saved)


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="the longdouble is a float64 here")
def test_a_longdouble_is_refused(saved: Path) -> None:
    with pytest.raises(TypeError, match=r"arrays\['atoms'\] must hold .* to 64 bits, got"):
        write_file(saved, {}, {"atoms": np.ones(2, dtype=np.longdouble)})


@pytest.mark.parametrize(
    ("metadata", "kind", "message"),
    [
        ({"a": [0, float("nan")]}, ValueError, r"metadata\['a'\]\[1\] must be finite, got nan"),
        ({"a": {"b": float("-inf")}}, ValueError, r"metadata\['a'\]\['b'\] must be finite, got -inf"),
        ({"a": (1, 2)}, TypeError, r"metadata\['a'\] must be .*, got tuple"),
        ({"a": np.int64(1)}, TypeError, r"metadata\['a'\] must be .*, got int64"),
        ({"a": {1: 2}}, TypeError, r"metadata\['a'\] must have strings as keys, got 1"),
        ([1], TypeError, "metadata must be a dict, got list"),
        ({"a": "x" * 2**20}, ValueError, "metadata and .* at most 1,048,576 bytes of JSON, got 1,048,"),
        (json.loads('{"a":' * 65 + "1" + "}" * 65), ValueError, "metadata must be nested at most 64 deep"),
    ],
)
def test_metadata_that_cannot_be_saved(saved: Path, metadata: Any, kind: type, message: str) -> None:
    with pytest.raises(kind, match=message):
        write_file(saved, metadata, {})
    assert_untouched(saved)
