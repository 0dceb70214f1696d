"""Atoms that do not fit in memory: ``python -m benchmarks.scale [--quick] [--directory DIR]``.

Every way of answering runs in a process of its own, which says how many bytes it read, how much memory it held at most
and how long it took. Before every query the file's pages are taken out of the system's cache, so that the disk is read
(cold); then the same query is asked once more (warm). Counts are held against the goals; times are only shown.

The full run writes a file of 16 GB, a Zarr array as large, a packed one and what `fit` keeps of each: 55 GB of disk and
about 15 minutes. ``--gigabytes 2`` takes as many rows fewer, ``--quick`` 512 MB, and ``--npy`` writes nothing but the
first file and its index: 18 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import banditmips as bm
from banditmips._opening import DEFAULT_MEMORY_LIMIT
from benchmarks.machine import describe_machine, load_warning

__all__ = ["FULL", "QUICK", "Size", "main"]

_PIECE = 1 << 22
"""Bytes that are written, or scanned, at a time."""
_PACKED = ".packed.zarr"


@dataclass(frozen=True)
class Size:
    """How large everything is, and what it may take."""

    n: int
    d: int
    n_queries: int
    n_slow: int
    most_resident: int
    n_sparse: int
    d_sparse: int
    memory_limit: int

    @property
    def n_bytes(self) -> int:
        """Bytes of all atoms."""
        return 4 * self.n * self.d


FULL = Size(4_000, 1_000_000, 10, 4, 400_000_000, 100_000, 200_000, DEFAULT_MEMORY_LIMIT)
QUICK = Size(500, 262_144, 5, 2, 250_000_000, 20_000, 40_000, 1 << 26)
MOST_ROWS = 2
"""Rows of a plain file that a query of a fitted index may read."""
MOST_WITHOUT_INDEX = 1.1
"""Bytes that a search without an index may read, over those of the file."""
MOST_READ_IN_ROUND_ONE = 0.005
"""Part of all bytes that the first round of a search of packed atoms may read, without an index."""
ENTRIES_PER_ROW = 100
MOST_SPARSE_MEMORY = 1.2
"""Memory of a sparse search, over that of the matrix, which is part of it."""
N_JOBS = 2
"""Threads of a fit."""


# --- data -------------------------------------------------------------------------------------------------------------


def write_atoms(path: Path, n: int, d: int, seed: int = 0) -> None:
    """Write NORMAL_CUSTOM, atom by atom: a mean of its own for each, and normal entries about it."""
    if path.exists() and path.stat().st_size == 128 + 4 * n * d:
        return
    header = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
    del header  # an empty file of the right size, with its header
    means = np.random.default_rng(seed).normal(size=n)
    with open(path, "r+b", buffering=0) as file:
        file.seek(128)
        for row in range(n):
            rng = np.random.default_rng([seed, row])
            file.write((means[row] + rng.standard_normal(d, dtype=np.float32)).astype(np.float32).tobytes())
        os.fsync(file.fileno())


def make_query(number: int, d: int) -> NDArray[np.float32]:
    """Make a query of mean 1: the larger an atom's mean, the better it is."""
    return np.float32(1.0) + np.random.default_rng([1, number]).standard_normal(d, dtype=np.float32)


def write_zarr(path: Path, source: Path, n: int, d: int) -> None:
    """Copy the atoms into chunks of a few rows and a few thousand coordinates, each of about half a megabyte."""
    import zarr

    if path.exists():
        return
    shape = (max(n // 125, 1), min(4096, d))
    array = zarr.create_array(path, shape=(n, d), dtype="f4", chunks=shape, compressors=None)
    store: Any = bm.open_atoms(source, memory_limit=1 << 26)
    for first in range(0, n, shape[0]):
        rows = np.arange(first, min(first + shape[0], n))
        for start in range(0, d, 64 * shape[1]):
            columns = np.arange(start, min(start + 64 * shape[1], d))
            values = np.empty((rows.size, columns.size), dtype=np.float32)
            store.gather(rows, columns, values)
            array[first : rows[-1] + 1, start : columns[-1] + 1] = values
    os.sync()


def make_sparse(n: int, d: int, seed: int = 0) -> tuple[Any, NDArray[np.float64]]:
    """Make a matrix like TF-IDF of short texts, and a dense query."""
    import scipy.sparse

    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d, (n, ENTRIES_PER_ROW), dtype=np.int32), axis=1)
    edges = np.arange(0, n * ENTRIES_PER_ROW + 1, ENTRIES_PER_ROW, dtype=np.int32)
    matrix = scipy.sparse.csr_array((rng.gamma(1.0, size=columns.size), columns.ravel(), edges), shape=(n, d))
    matrix.sum_duplicates()
    return matrix, rng.normal(size=d)


# --- what is measured, each in a process of its own -------------------------------------------------------------------


def drop_from_cache(path: Path) -> None:
    """Make the system forget the pages of a file, or of all files in a folder."""
    for file in [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]:
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def most_resident() -> int:
    """Return the most memory that this process has held."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not say VmHWM")


def bytes_from_disk() -> int:
    """Return what this process has made the disk read, as the system counts it."""
    for line in Path("/proc/self/io").read_text(encoding="ascii").splitlines():
        if line.startswith("read_bytes"):
            return int(line.split()[1])
    return 0


def _scanned(path: Path, n: int, d: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    step = max(1, _PIECE // (4 * d))
    with open(path, "rb", buffering=0) as file:
        file.seek(128)
        for first in range(0, n, step):
            block = np.empty((min(step, n - first), d), dtype=np.float32)
            view = memoryview(block.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            while view:
                view = view[file.readinto(view) :]
            yield first, block


def _scanned_zarr(path: Path, n: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    import zarr

    array: Any = zarr.open_array(path, mode="r")
    for first in range(0, n, array.chunks[0]):
        yield first, array[first : first + array.chunks[0]]


def scan_once(path: Path, size: Size, queries: NDArray[np.float32] | None) -> list[NDArray[np.float32]]:
    """Read all atoms with NumPy or with Zarr alone, and multiply them with one query or several, if there are any."""
    blocks = _scanned(path, size.n, size.d) if path.suffix == ".npy" else _scanned_zarr(path, size.n)
    return [block @ queries.T for _, block in blocks if queries is not None]


def scan(path: Path, size: Size) -> dict[str, Any]:
    """Find the best atoms of all queries by scans, and take the time of one, cold and warm."""
    queries = np.stack([make_query(number, size.d) for number in range(size.n_queries)])
    truth = np.concatenate(scan_once(path, size, queries)).argmax(axis=0).tolist()
    seconds = {}
    for name in ("seconds", "warm"):
        if name == "seconds":
            drop_from_cache(path)
        start = time.perf_counter()
        scan_once(path, size, queries[0])
        seconds[name] = [time.perf_counter() - start]
    return {"indices": truth, **seconds, "bytes": [size.n_bytes]}


def search_without_index(path: Path, size: Size) -> dict[str, Any]:
    """Search the file as it is, in turn with scans of it."""
    store = bm.open_atoms(path, memory_limit=size.memory_limit)
    beside = None if path.name.endswith(_PACKED) else size
    return _ask(path, size.d, size.n_slow, lambda query: bm.search(store, query), beside)


def search_with_index(path: Path, size: Size) -> dict[str, Any]:
    """Fit an index first and save it; the time and memory of the fit are part of the row, beside reading once."""
    store = bm.open_atoms(path, memory_limit=size.memory_limit)
    read = {}
    if not path.name.endswith(_PACKED):
        drop_from_cache(path)
        start = time.perf_counter()
        scan_once(path, size, None)
        read["read_seconds"] = time.perf_counter() - start
    drop_from_cache(path)
    start = time.perf_counter()
    index = bm.BanditMIPS(n_jobs=N_JOBS).fit(store).set_params(n_jobs=1)
    fit_seconds = time.perf_counter() - start
    found = _ask(path, size.d, size.n_queries, index.search)
    resident = most_resident()  # before what is saved passes through memory
    index.save(index_path(path))
    return {**found, **read, "resident": resident, "fit_seconds": fit_seconds, "kept": index.extra_bytes}


def search_saved(path: Path, size: Size) -> dict[str, Any]:
    """Open the index that was saved, and search with it at once."""
    drop_from_cache(index_path(path))
    start = time.perf_counter()
    index = bm.load(index_path(path), verify="never")
    open_seconds = time.perf_counter() - start
    return {**_ask(path, size.d, size.n_queries, index.search), "open_seconds": open_seconds, "kept": 0}


def index_path(path: Path) -> Path:
    """Where the index of a file is saved."""
    return path.with_name(f"{path.name}.bm")


def _ask(path: Path, d: int, n_queries: int, search: Any, scanned: Size | None = None) -> dict[str, Any]:
    """Ask each query cold and warm; in turn with scans of the file, if its size is given."""
    names = ("indices", "seconds", "warm", "bytes", "from_disk", "multiplies")
    found: dict[str, list[Any]] = {name: [] for name in names}
    for number in range(n_queries):
        query = make_query(number, d)
        drop_from_cache(path)
        before, start = bytes_from_disk(), time.perf_counter()
        result = search(query)
        found["seconds"].append(time.perf_counter() - start)
        found["from_disk"].append(bytes_from_disk() - before)
        start = time.perf_counter()
        search(query)
        found["warm"].append(time.perf_counter() - start)
        found["indices"].append(int(result.indices[0]))
        found["bytes"].append(int(result.bytes_read))
        found["multiplies"].append(int(result.n_multiplies))
        if scanned is not None:
            for name in ("scan_seconds", "scan_warm"):
                if name == "scan_seconds":
                    drop_from_cache(path)
                start = time.perf_counter()
                scan_once(path, scanned, query)
                found.setdefault(name, []).append(time.perf_counter() - start)
    return found


def pack(path: Path, size: Size) -> dict[str, Any]:
    """Pack the file, from a cold cache to a synced disk."""
    drop_from_cache(path)
    start = time.perf_counter()
    report = bm.pack(path, packed_path(path), memory_limit=8 * size.memory_limit, overwrite=True)
    os.sync()
    written = sum(file.stat().st_size for file in packed_path(path).rglob("*") if file.is_file())
    return {"seconds": [time.perf_counter() - start], "written": written, "n_blocks": report.n_blocks}


def packed_path(path: Path) -> Path:
    """Where the atoms of a file are packed to."""
    return path.with_suffix(_PACKED)


def search_one_round(path: Path, size: Size) -> dict[str, Any]:
    """Read no more than the first round does, without an index."""
    store = bm.open_atoms(path, memory_limit=size.memory_limit)
    found = bm.search(store, make_query(0, size.d), budget=16 * size.n, minimise="multiplies", rescore=False)
    if found.n_rounds != 1:
        raise RuntimeError(f"the search took {found.n_rounds} rounds, not one")
    return {"bytes": [int(found.bytes_read)]}


def search_sparse(unused: Path, size: Size) -> dict[str, Any]:
    """Search a sparse matrix, beside the product of the whole."""
    matrix, query = make_sparse(size.n_sparse, size.d_sparse)
    matrix_bytes = matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes
    truth = int((matrix @ query).argmax())
    bm.search(matrix[:100], query)  # loads what is loaded at first use
    tracemalloc.start()
    result = bm.search(matrix, query, trace=True)
    _, extra = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    seconds, product_seconds = [], []
    for _ in range(5):
        start = time.perf_counter()
        bm.search(matrix, query)
        seconds.append(time.perf_counter() - start)
        start = time.perf_counter()
        (matrix @ query).argmax()
        product_seconds.append(time.perf_counter() - start)
    return {
        "right": int(result.indices[0]) == truth,
        "multiplies": [int(result.n_multiplies)],
        "n_stored": int(matrix.nnz),
        "memory": 1.0 + extra / matrix_bytes,
        "seconds": seconds,
        "product_seconds": product_seconds,
        "plan": result.trace.plan,
    }


_WAYS = {
    "scan": scan,
    "search": search_without_index,
    "index": search_with_index,
    "saved": search_saved,
    "pack": pack,
    "one round": search_one_round,
    "sparse": search_sparse,
}


def _in_own_process(way: str, path: Path, size: Size) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.scale", "--way", way, "--path", str(path), "--size"]
    done = subprocess.run([*command, json.dumps(asdict(size))], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{way} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# --- the report -------------------------------------------------------------------------------------------------------


def _row(name: str, found: dict[str, Any], scanned: dict[str, Any], truth: list[int], size: Size) -> str:
    """A line of the table: times are held against a scan of the same kind of file, `fit` against reading once.

    Scans that took turns with a search say more about its time than one from before it.
    """
    cold, warm = (
        f"{1e3 * (seconds := float(np.median(found[way]))):9.1f} ms, "
        f"{float(np.median(found.get(f'scan_{way}', scanned[way]))) / seconds:6.2f}x"
        for way in ("seconds", "warm")
    )
    right = np.mean(np.array(found["indices"]) == np.array(truth[: len(found["indices"])]))
    share, disk = np.max(found["bytes"]) / size.n_bytes, np.max(found.get("from_disk", [np.nan])) / size.n_bytes
    told = ""
    if "fit_seconds" in found:
        once = found.get("read_seconds", scanned["seconds"][0])
        told = f"; fit {found['fit_seconds']:.1f} s, {found['fit_seconds'] / once:.1f} times reading once"
        told += f", keeps {found['kept'] / 1e6:.0f} MB"
    if "open_seconds" in found:
        told = f"; opened in {1e3 * found['open_seconds']:.0f} ms"
    resident = found["resident"] / 1e6
    return (
        f"{name:<17} right {right:4.0%}  read {share:7.3%} (disk {disk:7.3%})  resident {resident:5.0f} MB"
        f"  cold {cold} a scan, warm {warm}{told}"
    )


def _row_of_packing(found: dict[str, Any], size: Size) -> str:
    seconds, written = found["seconds"][0], found["written"] / size.n_bytes
    return (
        f"{'packing':<17} {found['n_blocks']} blocks, written {written:.1%} of the file's bytes, "
        f"resident {found['resident'] / 1e6:.0f} MB, {seconds:.1f} s, {size.n_bytes / 1e6 / seconds:.0f} MB/s"
    )


def _judge(results: dict[str, dict[str, Any]], size: Size) -> list[str]:
    """Return what does not reach its goal; counts only."""
    missed = []
    truth = results["npy, scan"]["indices"]
    for name in ("npy, index", "npy, saved index"):
        n_rows = max(results[name]["bytes"]) / (4 * size.d)
        if n_rows > 1.1 * MOST_ROWS:  # with parts of pages at both ends
            missed.append(f"{name} read {n_rows:.1f} rows of the file, more than {MOST_ROWS}")
    for name, found in results.items():
        if name in ("npy, index", "zarr, index") and found["resident"] - found["kept"] > size.most_resident:
            beyond = (found["resident"] - found["kept"]) / 1e6
            text = f"{beyond:.0f} MB beyond what it keeps, more than {size.most_resident / 1e6:.0f} MB"
            missed.append(f"{name} held {text}")
        if name.endswith("no index") and max(found["bytes"]) > MOST_WITHOUT_INDEX * size.n_bytes:
            missed.append(f"{name} read {max(found['bytes']) / size.n_bytes:.2f} times the file")
        if "indices" in found and found["indices"] != truth[: len(found["indices"])]:
            missed.append(f"{name} found {found['indices']}, not {truth}")
    first = max(results.get("packed, one round", {"bytes": [0]})["bytes"])
    if first > MOST_READ_IN_ROUND_ONE * size.n_bytes:
        share = f"{first / size.n_bytes:.2%} of the packed file, more than {MOST_READ_IN_ROUND_ONE:.1%}"
        missed.append(f"round one read {share}")
    sparse = results["sparse"]
    if not sparse["right"] or sparse["memory"] > MOST_SPARSE_MEMORY:
        missed.append(f"sparse: right {sparse['right']}, memory {sparse['memory']:.2f} times the matrix")
    return missed


_ROWS = {
    "npy": (("no index", "search"), ("index", "index"), ("saved index", "saved")),
    "zarr": (("no index", "search"), ("index", "index"), ("saved index", "saved")),
    "packed": (("no index", "search"), ("index", "index")),
}
"""What is asked of each file, after a scan."""


def run(directory: Path, size: Size, out: Path | None, kinds: tuple[str, ...]) -> int:
    """Write the files, measure, print a row for each way; 1 if a goal is missed."""
    facts = describe_machine(1)
    print(load_warning(facts) or f"load average {facts['load_average'][0]}")
    directory.mkdir(parents=True, exist_ok=True)
    atoms = directory / f"atoms-{size.n}x{size.d}.npy"
    paths = {"npy": atoms, "zarr": atoms.with_suffix(".zarr"), "packed": packed_path(atoms)}
    print(f"writing {size.n_bytes / 1e9:.1f} GB of atoms, {size.n:,} x {size.d:,}, to {directory}", flush=True)
    write_atoms(atoms, size.n, size.d)
    results: dict[str, dict[str, Any]] = {}
    scanned = truth = None
    for kind in kinds:
        path = paths[kind]
        if kind == "zarr":
            write_zarr(path, atoms, size.n, size.d)
        if kind == "packed":
            results["pack"] = _in_own_process("pack", atoms, size)
            print(_row_of_packing(results["pack"], size), flush=True)
        else:
            scanned = results[f"{kind}, scan"] = _in_own_process("scan", path, size)
            truth = truth or scanned["indices"]
            print(_row(f"{kind}, scan", scanned | {"from_disk": [size.n_bytes]}, scanned, truth, size), flush=True)
        for name, way in _ROWS[kind]:
            found = results[f"{kind}, {name}"] = _in_own_process(way, path, size)
            # Packed atoms are held against a scan of the plain file that they were made of.
            beside = results["npy, scan"] if kind == "packed" else scanned
            assert beside is not None
            assert truth is not None
            print(_row(f"{kind}, {name}", found, beside, truth, size), flush=True)
    if "packed" in kinds:
        first = results["packed, one round"] = _in_own_process("one round", paths["packed"], size)
        print(f"{'packed, one round':<17} read {max(first['bytes']) / size.n_bytes:7.3%}", flush=True)
    sparse = results["sparse"] = _in_own_process("sparse", atoms, size)
    ours, product = (1e3 * float(np.median(sparse[key])) for key in ("seconds", "product_seconds"))
    print(
        f"{'sparse':<17} right {sparse['right']}, {sparse['multiplies'][0]:,} multiplies of {sparse['n_stored']:,} "
        f"stored, memory {sparse['memory']:.2f} times the matrix, {ours:.1f} ms beside {product:.1f} ms of csr @ q\n"
        f"{'':<17} {sparse['plan']}"
    )
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        (out / "scale.json").write_text(json.dumps({"machine": facts, "size": asdict(size), **results}, indent=1))
    missed = _judge(results, size)
    print("\n".join(f"MISSED: {text}" for text in missed) or "every count reaches its goal")
    return 1 if missed else 0


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark, or one way of it in a process of its own."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description="Search atoms that do not fit.")
    parser.add_argument("--quick", action="store_true", help="512 MB instead of 16 GB")
    parser.add_argument("--gigabytes", type=float, help="of atoms, as many rows fewer or more of the full run")
    parser.add_argument("--npy", action="store_true", help="no Zarr array and no packed one: a third of the disk")
    parser.add_argument("--directory", type=Path, default=Path("results/scale"), help="where the files are written")
    parser.add_argument("--out", type=Path, help="folder for scale.json")
    parser.add_argument("--way", choices=_WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--size", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.way is None:
        size = QUICK if options.quick else FULL
        if options.gigabytes is not None:
            size = replace(size, n=max(1, round(1e9 * options.gigabytes / (4 * size.d))))
        return run(options.directory, size, options.out, ("npy",) if options.npy else tuple(_ROWS))
    found = _WAYS[options.way](options.path, Size(**options.size))
    print(json.dumps({"resident": most_resident(), **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
