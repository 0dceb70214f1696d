"""Every method on your own data: how often it is right, what it multiplies, how long it takes.

Each method runs in a process of its own, on one thread, reading the same memory-mapped files: none of them can slow
another down, and one that crashes, hangs in native code or wants too much memory takes nothing else with it. A process
is given its task on its standard input, and ends when that is closed, so that none outlives the comparison.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._methods import METHODS, Method, plan_methods
from banditmips._result_files import replacing
from banditmips._validate import as_finite, as_queries, as_store, check_k
from banditmips.baselines._base import check_real, inner_products

__all__ = ["METHODS", "Comparison", "Measurement", "Method", "compare", "plan_methods"]

# What the usual builds of BLAS and OpenMP go by. They look at it when they are loaded.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
_CHILD = """
import json, sys
task = json.loads(sys.stdin.readline())
sys.path[:] = task.pop("path")
from banditmips.compare import _work
_work(**task)
"""
_WARM_UP_ATOMS = 256
_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Measurement:
    """What was measured of one method; NaN all over if it has a problem.

    Attributes
    ----------
    accuracy
        Precision@k: the share of the k atoms returned that belong to the k best, as a mean over the queries. An atom
        that ties with the k-th best belongs to them.
    n_multiplies, share
        Mean over the queries, and the same divided by n*d. Only the work of queries is counted.
    fit_seconds
        Time to fit, after a first fit to a few atoms that loads what has to be loaded.
    query_seconds
        Median over the queries, asked one at a time after a first one that is not counted.
    problem
        Why there are no numbers; empty if there are.
    """

    method: Method
    accuracy: float = np.nan
    n_multiplies: float = np.nan
    share: float = np.nan
    fit_seconds: float = np.nan
    query_seconds: float = np.nan
    problem: str = ""


def compare(
    atoms: Any,
    queries: ArrayLike,
    k: int = 10,
    *,
    methods: Iterable[str] | None = None,
    parameters: Mapping[str, Mapping[str, Any]] | None = None,
    timeout: float | None = None,
    seed: int = 0,
) -> list[Measurement]:
    """Run methods on the same atoms and queries, and measure each.

    Parameters
    ----------
    atoms : array of shape (n, d)
        As in `banditmips.search`. Sparse atoms are made dense.
    queries : array of shape (d,) or (m, d)
        One query, or a batch.
    k : int
        Atoms to find for each query.
    methods : iterable of str, optional
        Which methods to run, by default all of `METHODS`; ``module:Class`` is one of your own (see `Method`).
    parameters : mapping, optional
        Parameters of methods by their key, such as ``{"greedy": {"budget": 50}}``; else the defaults.
    timeout : float, optional
        Seconds that a method may take, with starting Python. One that takes longer is stopped.
    seed : int
        Seed of every method that has none among its parameters; those of your own are left alone.

    Returns
    -------
    list of Measurement
        In the order of `methods`. A method that fails is reported in its `Measurement.problem`.

    Examples
    --------
    >>> import numpy as np
    >>> from banditmips.compare import compare
    >>> atoms = np.random.default_rng(0).normal(size=(50, 20))
    >>> exact, = compare(atoms, atoms[:3], k=5, methods=["naive"])
    >>> exact.accuracy, exact.n_multiplies
    (1.0, 1000.0)
    """
    planned = plan_methods(methods, parameters, seed)
    with Comparison(atoms, queries, k, timeout=timeout) as comparison:
        return [comparison.measure(method) for method in planned]


class Comparison:
    """Atoms and queries laid out for the processes of the methods, with the exact answers. Use it in a ``with``.

    Parameters
    ----------
    atoms, queries, k, timeout
        As in `compare`.
    """

    def __init__(self, atoms: Any, queries: ArrayLike, k: int = 10, *, timeout: float | None = None) -> None:
        store = as_store(atoms)
        n, d = store.shape
        self._atoms = atoms if isinstance(atoms, np.ndarray) else _dense(store)
        self._queries, _ = as_queries(queries, d)
        if len(self._queries) == 0:
            raise ValueError(f"queries is empty: shape {self._queries.shape} (argument 'queries')")
        for row, query in enumerate(self._queries):
            as_finite(query, f"row {row}, ")
        self._k = min(check_k(k), n)
        self._timeout = None if timeout is None else check_real("timeout", timeout, above=0)

    def __enter__(self) -> Self:
        """Write the data where every process can read it, and compute the exact answers."""
        from banditmips.atoms.collecting import collect_facts

        collect_facts(as_store(self._atoms))  # for its check of every entry
        self._folder = tempfile.TemporaryDirectory(prefix="banditmips-", ignore_cleanup_errors=True)
        try:
            self._mapped_atoms = _mapped(self._atoms, Path(self._folder.name, "atoms.npy"))
            self._mapped_queries = _mapped(self._queries, Path(self._folder.name, "queries.npy"))
            self._kth_scores = _kth_scores(self._atoms, self._queries, self._k)
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the files."""
        self._folder.cleanup()

    def measure(self, method: Method) -> Measurement:
        """Run one method in a process of its own."""
        answer = Path(self._folder.name, "answer.npz")
        problem = Path(self._folder.name, "problem.txt")
        for path in (answer, problem):
            path.unlink(missing_ok=True)
        task = {
            "path": [os.path.abspath(entry) for entry in sys.path],
            "key": method.key,
            "parameters": dict(method.parameters),
            "atoms": _description(self._mapped_atoms),
            "queries": _description(self._mapped_queries),
            "k": self._k,
            "answer": str(answer),
            "problem": str(problem),
        }
        ended = self._run(json.dumps(task))
        if problem.exists():
            return Measurement(method, problem=problem.read_text(encoding="utf-8"))
        if not answer.exists():
            return Measurement(method, problem=ended)
        with np.load(answer) as answers:
            return self._judge(method, **answers)

    def _run(self, task: str) -> str:
        """Run a process until it ends or its time is over; return how it ended."""
        errors = Path(self._folder.name, "errors.txt")
        with open(errors, "wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", _CHILD],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, **_ONE_THREAD},
                start_new_session=True,  # a group that can be stopped with all that the method has started
            )
        try:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(task.encode() + b"\n")
                process.stdin.flush()
            code = process.wait(self._timeout)
        except subprocess.TimeoutExpired:
            return f"stopped: it had not ended after {self._timeout:g} s"
        finally:
            _stop(process)
        if code < 0:
            return f"killed by {signal.Signals(-code).name}" + (", perhaps for want of memory" if code == -9 else "")
        last_words = errors.read_text(encoding="utf-8", errors="replace").split("\n")
        return f"ended with code {code} and without an answer {next(filter(None, reversed(last_words)), '')}".rstrip()

    def _judge(
        self,
        method: Method,
        indices: NDArray[np.int64],
        n_multiplies: NDArray[np.int64],
        seconds: NDArray[np.float64],
        fit_seconds: NDArray[np.float64],
    ) -> Measurement:
        """Compute the scores of the returned atoms anew, whatever the method says about them."""
        n, d = self._atoms.shape
        if indices.min() < -1 or indices.max() >= n:
            return Measurement(method, problem=f"returned an index outside of -1 (none) to {n - 1}")
        n_right = 0
        for query, found, kth_score in zip(self._queries, indices, self._kth_scores, strict=True):
            atoms = np.unique(found[found >= 0])
            scores = inner_products(self._atoms, query.astype(np.float64), atoms)
            n_right += int(np.count_nonzero(scores >= kth_score))
        work = float(n_multiplies.mean())
        return Measurement(
            method,
            accuracy=n_right / indices.size,
            n_multiplies=work,
            share=work / (n * d),
            fit_seconds=float(fit_seconds),
            query_seconds=float(np.median(seconds)),
        )


def _dense(store: Any) -> NDArray[Any]:
    array = np.empty(store.shape, dtype=store.dtype)
    for start, block in store.blocks(_BLOCK_ENTRIES):
        array[start : start + len(block)] = block
    return array


def _mapped(array: NDArray[Any], path: Path) -> np.memmap[Any, Any]:
    """Return the array as a map of a whole file: itself if it is one, else of a copy in the given file."""
    base: object = array.base  # a part of a map has the whole map here
    if isinstance(array, np.memmap) and isinstance(base, mmap.mmap) and array.filename is not None:
        return array
    with replacing(path) as file:
        np.save(file, array)
    mapped: np.memmap[Any, Any] = np.load(path, mmap_mode="r")
    return mapped


def _description(mapped: np.memmap[Any, Any]) -> dict[str, Any]:
    """Return what `numpy.memmap` needs to map the same file again."""
    return {
        "filename": str(mapped.filename),
        "dtype": mapped.dtype.str,
        "mode": "r",
        "offset": mapped.offset,
        "shape": mapped.shape,
        "order": "C" if mapped.flags.c_contiguous else "F",
    }


def _kth_scores(atoms: NDArray[Any], queries: NDArray[Any], k: int) -> NDArray[np.float64]:
    """Return the k-th best score of each query, reading the atoms once for all queries."""
    best = np.full((len(queries), k), -np.inf)
    step = max(1, _BLOCK_ENTRIES // atoms.shape[1])
    for start in range(0, atoms.shape[0], step):
        block = np.ascontiguousarray(atoms[start : start + step], dtype=np.float64)
        for row, query in enumerate(queries):
            scores = np.append(best[row], inner_products(block, query.astype(np.float64)))
            best[row] = np.partition(scores, -k)[-k:]
    kth_scores: NDArray[np.float64] = best.min(axis=1)
    return kth_scores


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        if os.name == "posix":
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.wait()
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


# --- in the process of a method -------------------------------------------------------------------------------------


def _work(
    key: str,
    parameters: dict[str, Any],
    atoms: dict[str, Any],
    queries: dict[str, Any],
    k: int,
    answer: str,
    problem: str,
) -> None:
    """Do a task: leave an answer in one file, or a problem in the other."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if ":" in key:
        sys.path.append(os.getcwd())  # where a class of your own may be
    try:
        measured = _measure(Method(key, parameters), _map(atoms), _map(queries), k)
        with replacing(answer) as file:
            np.savez(file, **measured)
    except Exception as error:
        message = f"{type(error).__name__}: {error}".rstrip(": ")
        Path(problem).write_text(" ".join(message.split()), encoding="utf-8")


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


def _map(description: dict[str, Any]) -> NDArray[Any]:
    return np.asarray(np.memmap(**{**description, "shape": tuple(description["shape"])}))


def _measure(method: Method, atoms: NDArray[Any], queries: NDArray[Any], k: int) -> dict[str, Any]:
    index = method.make()
    few = np.array(atoms[:_WARM_UP_ATOMS], order="K")
    with suppress(Exception):  # it may be too few for some methods
        warm = method.make()
        warm.fit(few)
        warm.search(queries[0], min(k, len(few)))
    start = time.perf_counter()
    index.fit(atoms)
    fit_seconds = time.perf_counter() - start
    index.search(queries[0], k)
    indices = np.empty((len(queries), k), dtype=np.int64)
    n_multiplies, seconds = np.empty(len(queries), dtype=np.int64), np.empty(len(queries))
    for row, query in enumerate(queries):
        start = time.perf_counter()
        result = index.search(query, k)
        seconds[row] = time.perf_counter() - start
        indices[row], n_multiplies[row] = result.indices, result.n_multiplies
    return {"indices": indices, "n_multiplies": n_multiplies, "seconds": seconds, "fit_seconds": fit_seconds}
