"""Calls of the library and of the shell: every option with every other, sane or not."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import scipy.sparse

DTYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "bool", ">f8")
FORMS = (
    *("C", "F", "every second", "backwards", "every second row", "columns backwards", "unaligned", "read-only", "list"),
    *("csr", "csc", "coo", "lil", "bsr", "dok", "roomy csr"),
)
VALUES = (
    *("normal", "zeros", "integers", "one outlier", "constant", "twins", "huge", "tiny", "level", "far apart"),
    *("needle", "nan", "inf", "enormous"),
)
SIZES = (1e-300, 1e-160, 1e-38, 1.0, 1.0, 1e19, 1e38, 1e150)
"""What rows that lie far apart are multiplied by."""


def random_call(random: Random) -> dict[str, Any]:
    """Describe a search: data, options, and how the library is asked."""
    options: dict[str, Any] = {"delta": random.choice([1e-12, 1e-12, 0.0, 1e-300])}
    for name, values in _OPTIONS.items():
        if random.random() < 0.12:
            options[name] = random.choice(values)
    if random.random() < 0.9:  # else whatever does not go together is tried, too
        _make_fit(options)
    return {
        "what": "call",
        "shape": [_size(random), _size(random)],
        "dtype": random.choice(DTYPES),
        "form": random.choice(FORMS),
        "values": random.choice([*VALUES[:10], *VALUES]),
        "query_dtype": random.choice(["float64", "float64", "float32", "int8", "bool"]),
        "n_queries": random.choice([None, None, 0, 1, 3]),
        "k": random.choice([1, 1, 1, 2, 5, 60]) if random.random() < 0.95 else random.choice([0, -1, 2**40]),
        "mask": random.choice([None, None, None, "some", "all", "all but one"]),
        "data_seed": random.randrange(2**32),
        "options": options,
        "index": random.choice([None, {}, {"validate": False}, {"layout": "full"}, {"layout": "none"}, "more"]),
        "bucket_size": random.choice([None, None, None, 1, 5, 30]),
    }


_OPTIONS: dict[str, list[Any]] = {
    "objective": ["inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1"],
    "sampling": ["auto", "weighted", "optimal", "uniform", "sorted"],
    "beta": [0.0, 0.5, 3.0, 50.0],
    "bound": ["paired", "hoeffding", "hoeffding_serfling", "bernstein"],
    "value_range": [[-1e4, 1e4], [0.0, 0.0]],
    "sigma": [1.0, 1e6, "estimate"],
    "replacement": [True],
    "absolute": [True],
    "ends": ["smallest", "both"],
    "epsilon": [0.5, 1e9],
    "budget": [1, 100, 10**18, 10**30],
    "rescore": [False],
    "seed": [1, 7, 2**62, 2**63 - 1, 2**63, -1, 2**70],
    "n_jobs": [2, -1, 10**9],
    "trace": [True],
}


def _make_fit(options: dict[str, Any]) -> None:
    """Take away what the others do not allow."""
    if options.get("bound", "paired") == "paired":
        options.pop("value_range", None)
    if not options.get("bound", "paired").startswith("hoeffding"):
        options.pop("sigma", None)
    if options.get("objective", "").startswith("neg_"):
        options.pop("sampling", None)
        options.pop("absolute", None)
        options.pop("ends", None)
    if options.get("absolute"):
        options.pop("ends", None)


def _size(random: Random) -> int:
    return random.choice(
        [random.randrange(4), 1, 2, 3, 50, random.randrange(51), random.randrange(51), random.randrange(51)]
    )


def make_data(case: dict[str, Any]) -> tuple[Any, Any, np.ndarray[Any, Any] | None]:
    """Return the atoms, the queries and the mask of a call."""
    (n, d), rng = case["shape"], np.random.default_rng(case["data_seed"])
    values = rng.normal(size=(n, d)) * 10
    kind = case["values"]
    if kind == "zeros":
        values[:] = 0
    elif kind == "integers":
        values = np.round(values)
    elif kind == "constant":
        values[:] = 3
    elif kind == "twins":
        values[:] = values[:1]
    elif kind in ("huge", "tiny", "enormous"):
        values *= {"huge": 1e150, "tiny": 1e-160, "enormous": 1e200}[kind]
    elif kind == "level":
        values += 1e7
    elif kind == "far apart":
        values *= rng.choice(SIZES, size=(n, 1))
    elif kind in ("one outlier", "nan", "inf", "needle") and values.size:
        value = {"one outlier": 100.0, "nan": np.nan, "inf": -np.inf, "needle": 30.0}[kind]
        values *= 0.0 if kind == "needle" else 1.0
        values[rng.integers(n), rng.integers(d)] = value
    with np.errstate(all="ignore"):
        atoms = np.asarray(values).astype(case["dtype"])
        shape = (d,) if case["n_queries"] is None else (case["n_queries"], d)
        queries = (rng.normal(size=shape) * 3).astype(case["query_dtype"])
    if rng.random() < 0.1:
        queries[...] = 0
    mask = None
    if case["mask"] is not None:
        mask = {"some": rng.random(n) < 0.5, "all": np.ones(n, bool), "all but one": np.arange(n) > 0}[case["mask"]]
    return _formed(atoms, case["form"]), queries, mask


def _formed(atoms: np.ndarray[Any, Any], form: str) -> Any:
    if form in ("csr", "csc", "coo", "lil", "bsr", "dok", "roomy csr"):
        return _sparse(atoms, form)
    if form == "F":
        return np.asfortranarray(atoms)
    if form == "every second":
        return np.repeat(atoms, 2, axis=1)[:, ::2]
    if form == "backwards":
        return np.ascontiguousarray(atoms[::-1])[::-1]
    if form == "every second row":
        return np.repeat(atoms, 2, axis=0)[::2]
    if form == "columns backwards":
        return np.ascontiguousarray(atoms[:, ::-1])[:, ::-1]
    if form == "unaligned":
        room = np.empty(atoms.nbytes + 1, dtype=np.uint8)[1:].view(atoms.dtype).reshape(atoms.shape)
        room[...] = atoms
        return room
    if form == "list":
        return atoms.tolist()
    if form == "read-only":
        atoms.setflags(write=False)
    return atoms


def _sparse(atoms: np.ndarray[Any, Any], form: str) -> Any:
    """Make a sparse matrix of any dtype; SciPy can only be given some of them ready-made."""
    plain = np.float32 if atoms.dtype == np.float16 else atoms.dtype.newbyteorder("=")
    matrix = scipy.sparse.csr_array(atoms.astype(plain))
    if form == "roomy csr":
        matrix.data, matrix.indices = np.tile(matrix.data, 3), np.tile(matrix.indices, 3)
        return matrix
    if form == "csr":
        return scipy.sparse.csr_array((matrix.data.astype(atoms.dtype), matrix.indices, matrix.indptr), matrix.shape)
    return matrix.asformat(form)


def all_scores(objective: str, atoms: np.ndarray[Any, Any], query: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The scores of all atoms, without cleverness."""
    with np.errstate(all="ignore"):
        if objective == "neg_sqeuclidean":
            return -np.square(atoms - query).sum(axis=1)
        if objective == "neg_l1":
            return -np.abs(atoms - query).sum(axis=1)
        if objective == "correlation":
            atoms, query = atoms - atoms.mean(axis=1, keepdims=True), query - query.mean()
        if objective in ("cosine", "correlation"):  # of vectors whose squares are not lost
            sizes = np.abs(atoms).max(axis=1, keepdims=True)
            atoms, query = atoms / np.where(sizes > 0, sizes, 1), query / (np.abs(query).max() or 1.0)
            norms = np.linalg.norm(atoms, axis=1) * np.linalg.norm(query)
            return np.where(norms > 0, atoms @ query / np.where(norms > 0, norms, 1), 0.0)
        return np.asarray(atoms @ query)


def rounding(objective: str, atoms: np.ndarray[Any, Any], query: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """By how much the score of each atom, taken for exact, may be another than the true one."""
    if objective in ("cosine", "correlation"):
        return np.full(len(atoms), 1e-4)
    with np.errstate(over="ignore"):
        if objective == "neg_sqeuclidean":
            sizes = np.square(atoms).sum(axis=1) + np.square(query).sum()
        elif objective == "neg_l1":
            sizes = np.abs(atoms).sum(axis=1) + np.abs(query).sum()
        else:
            sizes = np.abs(atoms) @ np.abs(query)
        return np.asarray(1e-9 * sizes + 1e-300)


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("search", "ATOMS", "QUERIES"),
    ("explain", "ATOMS", "QUERIES"),
    ("pack", "ATOMS", "DEST"),
    ("data", "list"),
    ("data",),
    (),
    ("--version",),
)
FILES = (
    "atoms.npy",
    "atoms.csv",
    "atoms.npz",
    "atoms.parquet",
    "empty.npy",
    "nothing.npy",
    "text.npy",
    "fifo.npy",
    ".",
)
NUMBERS = (
    "0",
    "1",
    "3",
    "-1",
    "0.5",
    "1e-3",
    "nan",
    "inf",
    "-0",
    "99999999999999999999",
    "1e400",
    "",
    "x",
    "²",
    "0x10",
)
OPTIONS = (
    *("-k", "--delta", "--seed", "--jobs", "--epsilon", "--budget", "--beta", "--sigma", "--memory-limit"),
    *(
        "--n-coordinates",
        "--objective",
        "--sampling",
        "--ends",
        "--bound",
        "--key",
        "--query-key",
        "-o",
        "--value-range",
    ),
)
FLAGS = (
    "--fit",
    "--no-fit",
    "--absolute",
    "--no-rescore",
    "--replacement",
    "--header",
    "--overwrite",
    "--help",
    "--odd",
)
WORDS = (
    "inner_product",
    "cosine",
    "neg_l1",
    "weighted",
    "both",
    "sorted",
    "hoeffding",
    "bernstein",
    "out.csv",
    "out.json",
    "\0",
)


def random_command(random: Random) -> dict[str, Any]:
    """Describe a command line."""
    arguments: list[str] = []
    for word in random.choice([*COMMANDS[:1] * 6, *COMMANDS[1:3] * 2, *COMMANDS[3:]]):
        if word in ("ATOMS", "QUERIES", "DEST"):
            word = (
                random.choice([*FILES[:4], *FILES])
                if word != "DEST"
                else random.choice(["new.zarr", "atoms.npy", "fifo"])
            )
        arguments.append(word)
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        option = random.choice(OPTIONS)
        arguments += [option, random.choice([*NUMBERS, *NUMBERS, *WORDS])]
        if option == "--value-range":
            arguments.append(random.choice(NUMBERS))
    arguments += [flag for flag in FLAGS if random.random() < 0.05]
    return {"what": "command", "arguments": arguments}
