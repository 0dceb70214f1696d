"""Damaged files: small sound ones of every format, and all that can happen to their bytes.

A case holds the damaged bytes themselves, so that it stays what it was when a format or a library changes.
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse
import zarr

import banditmips as bm
from banditmips._saved import read_file
from banditmips._saved_format import write_file

N, D = 12, 40
FOLDERS = ("zarr", "packed")
CHECKED = ("index", "named_index", "sparse_index", "joined_index", "file_index", "packed")
"""Formats with checksums: a damaged file of these never gives a wrong answer."""

SPECIAL: list[Any] = [0, -1, 1, 2, N, D, D + 1, 127, 2**31 - 1, 2**31, 2**53, 2**63 - 1, 2**63, 2**70, 10**15, 1.5]
ODD: list[Any] = [*SPECIAL, None, True, False, "", "x", [], [1], {}, {"a": 1}, 1e308]


def atoms() -> np.ndarray[Any, Any]:
    """The atoms of all files; whole numbers, so that the answer is the same to the bit in every format."""
    return np.random.default_rng(0).integers(-9, 10, size=(N, D)).astype(np.float32)


def query() -> np.ndarray[Any, Any]:
    """The query; its best atoms have distinct scores."""
    return np.random.default_rng(1).integers(-9, 10, size=D).astype(np.float64)


def _thin() -> np.ndarray[Any, Any]:
    return np.where(np.abs(atoms()) > 4, atoms(), 0)


def _write_arrow(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)


def _write_hdf5(path: Path, **options: Any) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("atoms", data=atoms(), **options)


def _write_zarr(path: Path) -> None:
    zarr.create_array(path, data=atoms(), chunks=(5, 16))


def write_atoms_beside(path: Path) -> Any:
    """Write the file that an index without atoms is looked for beside, and open it where it lies."""
    np.save(path.with_suffix(".npy"), atoms())
    return bm.open_atoms(path.with_suffix(".npy"), memory_limit=500)


MAKERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "index": (".bm", lambda path: bm.BanditMIPS().fit(atoms()).remove([3]).save(path)),
    "named_index": (
        ".bm",
        lambda path: bm.BanditMIPS(layout="coordinates").fit(atoms(), ids=[f"atom {i}" for i in range(N)]).save(path),
    ),
    "sparse_index": (".bm", lambda path: bm.BanditMIPS().fit(scipy.sparse.csr_array(_thin())).save(path)),
    "joined_index": (
        ".bm",
        lambda path: bm.BanditMIPS().fit(atoms()[:5]).add(scipy.sparse.csc_array(atoms()[5:])).save(path),
    ),
    "file_index": (".bm", lambda path: bm.BanditMIPS().fit(write_atoms_beside(path)).save(path)),
    "npy": (".npy", lambda path: np.save(path, atoms())),
    "fortran_npy": (".npy", lambda path: np.save(path, np.asfortranarray(atoms()))),
    "npz": (".npz", lambda path: np.savez_compressed(path, atoms=atoms())),
    "csr_npz": (".npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csr_array(_thin()), compressed=False)),
    "csc_npz": (".npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.csc_array(_thin()))),
    "coo_npz": (".npz", lambda path: scipy.sparse.save_npz(path, scipy.sparse.coo_array(_thin()))),
    "csv": (".csv", lambda path: np.savetxt(path, atoms(), delimiter=",", fmt="%d")),
    "parquet": (".parquet", lambda path: pq.write_table(pa.table({"a": list(atoms())}), path, row_group_size=5)),
    "arrow": (".arrow", lambda path: _write_arrow(path, pa.table({"a": list(atoms())}))),
    "hdf5": (".h5", lambda path: _write_hdf5(path, chunks=(5, 16), compression="gzip", fletcher32=True)),
    "plain_hdf5": (".h5", _write_hdf5),
    "zarr": (".zarr", _write_zarr),
    "packed": (".zarr", lambda path: bm.pack(atoms(), path, n_coordinates=24)),
}
FORMATS = tuple(MAKERS)


@cache
def sound(kind: str) -> dict[str, bytes]:
    """Return the contents of a sound file ({"": bytes}), or of all files of a folder by name."""
    suffix, make = MAKERS[kind]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"atoms{suffix}")
        make(path)
        if kind not in FOLDERS:
            return {"": path.read_bytes()}
        return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def right_answer(kind: str) -> list[int]:
    """The three best atoms."""
    matrix = _thin() if kind in ("sparse_index", "csr_npz", "csc_npz", "coo_npz") else atoms()
    scores = matrix @ query()
    if kind == "index":
        scores[3] = -np.inf
    return [int(row) for row in np.argsort(-scores, kind="stable")[:3]]


def file_case(kind: str, name: str, content: bytes | None, is_edited: bool = False) -> dict[str, Any]:
    """Describe a case: the file `name` of a format holds these bytes (None: it is missing)."""
    encoded = None if content is None else base64.b64encode(content).decode()
    is_checked = kind in CHECKED and not is_edited
    return {"what": "file", "format": kind, "name": name, "content": encoded, "checked": is_checked}


def random_damage(kind: str, random: Random) -> dict[str, Any]:
    """Damage one file of a format somehow."""
    files = sound(kind)
    name = random.choice(list(files))
    content = files[name]
    if random.random() < 0.4:
        edited = _edit(kind, name, content, random)
        if edited is not None:
            return file_case(kind, name, edited, is_edited=True)
    if kind in FOLDERS and random.random() < 0.05:
        return file_case(kind, name, None, is_edited=not name.startswith(("rows", "coordinates")))
    for _ in range(random.choice([1, 1, 1, 2, 5])):
        content = random.choice([_flip, _truncate, _overwrite, _delete, _insert, _copy, _put_number])(content, random)
    return file_case(kind, name, content, is_edited=name.endswith("zarr.json"))


def n_damages(kind: str) -> int:
    """Number of all truncations and all flipped bits of a format."""
    return sum(9 * len(content) for content in sound(kind).values())


def damage(kind: str, number: int) -> dict[str, Any]:
    """Return one of all truncations and flipped bits, by its number."""
    for name, content in sound(kind).items():
        if number >= 9 * len(content):
            number -= 9 * len(content)
            continue
        is_edited = name.endswith("zarr.json")  # what Zarr's own metadata says has no checksum
        if number < len(content):
            return file_case(kind, name, content[:number], is_edited)
        flipped = bytearray(content)
        bit = number - len(content)
        flipped[bit // 8] ^= 1 << bit % 8
        return file_case(kind, name, bytes(flipped), is_edited)
    raise IndexError(number)


# --- what happens to bytes --------------------------------------------------------------------------------------------


def _place(content: bytes, random: Random) -> int:
    """A place in the file; heads and tails say more than the middle."""
    if not content:
        return 0
    region = random.choice(["head", "tail", "anywhere"])
    at = random.randrange(min(len(content), 256)) if region != "anywhere" else random.randrange(len(content))
    return len(content) - 1 - at if region == "tail" else at


def _flip(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    if changed:
        changed[_place(content, random)] ^= 1 << random.randrange(8)
    return bytes(changed)


def _truncate(content: bytes, random: Random) -> bytes:
    return content[: _place(content, random)]


def _overwrite(content: bytes, random: Random) -> bytes:
    at, length = _place(content, random), random.choice([1, 2, 4, 8, 64])
    new = random.choice([bytes(length), b"\xff" * length, random.randbytes(length)])
    return content[:at] + new + content[at + length :]


def _delete(content: bytes, random: Random) -> bytes:
    at = _place(content, random)
    return content[:at] + content[at + random.choice([1, 4, 8, 100]) :]


def _insert(content: bytes, random: Random) -> bytes:
    at = _place(content, random)
    return content[:at] + random.choice([b"\0", b"\n", b"(", b"9", random.randbytes(8), bytes(64)]) + content[at:]


def _copy(content: bytes, random: Random) -> bytes:
    """Splice: a piece of this file, or of one of another format, goes to another place."""
    other = random.choice([content, content, *(next(iter(sound(kind).values())) for kind in ("npy", "index", "npz"))])
    start, at, length = _place(other, random), _place(content, random), random.choice([8, 64, 512])
    return content[:at] + other[start : start + length] + content[at + random.choice([0, length]) :]


def _put_number(content: bytes, random: Random) -> bytes:
    size = random.choice([2, 4, 8])
    number = random.choice([value for value in SPECIAL if isinstance(value, int)])
    at = _place(content, random)
    return content[:at] + (number % 256**size).to_bytes(size, "little") + content[at + size :]


# --- what happens to meaning: checksums and structure stay right ------------------------------------------------------


def _edit(kind: str, name: str, content: bytes, random: Random) -> bytes | None:
    if kind.endswith("index"):
        return _edit_index(content, random)
    if kind.endswith("npz"):
        return _edit_npz(content, random)
    if kind.endswith("npy"):
        return _edit_npy(content, random)
    if name.endswith("zarr.json"):
        document = json.loads(content)
        _edit_json(document, random)
        return json.dumps(document).encode()
    return None


def _edit_json(document: Any, random: Random) -> None:
    """Change one place somewhere in a document."""
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = random.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and random.random() < 0.9:
            place = place[key]
            continue
        if random.random() < 0.15:
            del place[key]
        else:
            place[key] = deepcopy(random.choice(ODD))  # else a list may come to hold itself
        return


def _edit_array(array: np.ndarray[Any, Any], random: Random) -> np.ndarray[Any, Any]:
    """Change one entry, the type or the shape."""
    change = random.choice(["entry", "entry", "entry", "type", "shorter", "flat", "turned", "empty"])
    if change == "entry" and array.size and array.dtype.kind in "fiub":
        flat = array.ravel()
        number = random.choice(SPECIAL)
        with np.errstate(all="ignore"):
            at = random.randrange(flat.size)
            flat[at] = np.array(number % 2**63 if isinstance(number, int) else number).astype(array.dtype)
            if number == -1:
                flat[at] = np.array(-1).astype(array.dtype)
        return flat.reshape(array.shape)
    if change == "type" and array.dtype.kind in "fiub":
        with np.errstate(over="ignore", invalid="ignore"):
            return array.astype(random.choice(["f4", "f8", "i8", "i4", "u1", "b1", "f2"]))
    if change == "shorter" and array.ndim:
        return array[: random.randrange(len(array) + 1)]
    return {"flat": array.ravel(), "turned": array.T, "empty": array[:0] if array.ndim else array}.get(change, array)


def _edit_index(content: bytes, random: Random) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "atoms.bm")
        path.write_bytes(content)
        saved = read_file(path)
        metadata, arrays = saved.metadata, {name: np.array(array) for name, array in saved.arrays.items()}
        for _ in range(random.choice([1, 1, 2])):
            if random.random() < 0.5:
                _edit_json(metadata, random)
            else:
                name = random.choice(list(arrays))
                arrays[name] = _edit_array(arrays[name], random)
                if random.random() < 0.1:
                    del arrays[name]
        try:
            write_file(path, metadata, arrays)
        except (TypeError, ValueError):
            return content
        return path.read_bytes()


def _edit_npz(content: bytes, random: Random) -> bytes:
    with np.load(io.BytesIO(content)) as archive:
        arrays = dict(archive)
    name = random.choice(list(arrays))
    if random.random() < 0.1:
        del arrays[name]
    else:
        arrays[name] = _edit_array(arrays[name], random)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _edit_npy(content: bytes, random: Random) -> bytes:
    length = int.from_bytes(content[8:10], "little")
    header = content[10 : 10 + length].decode("latin1")
    words = ["(12, 40)", "12", "40", "'<f4'", "False", "True", "shape", "descr", "{", "}", ","]
    old = random.choice(words)
    new = random.choice([repr(value) for value in ODD] + ["'<f8'", "'O'", "'|S3'", "()", "((", "[[", "lambda: 0"])
    header = header.replace(old, new, 1).rstrip() + "\n"
    return content[:8] + len(header).to_bytes(2, "little") + header.encode("latin1") + content[10 + length :]
