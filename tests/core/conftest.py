"""The C kernels as a library of their own, called through ctypes."""

import ctypes
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

SOURCES = Path(__file__).parents[2] / "src" / "banditmips" / "core" / "c"
COMPILED = Path(__file__).parents[2] / "build" / "kernels"
"""What was compiled, by what it was made of: for all processes of a test run, and for later runs of the same."""
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fno-math-errno", "-fno-signed-zeros", "-fno-trapping-math"]
FLAGS += ["-fassociative-math"]
TARGETS = ["portable", "avx2", "avx512", "plain"]  # plain: portable without vectors, as compilers other than GCC get it

INT, INT64, FLOAT, DOUBLE, POINTER = ctypes.c_int, ctypes.c_int64, ctypes.c_float, ctypes.c_double, ctypes.c_void_p


class Dither(ctypes.Structure):
    """`struct bm_dither`."""

    _fields_ = [("own", POINTER), ("levels_of_others", POINTER)]


class Rest(ctypes.Structure):
    """`struct bm_rest`."""

    _fields_ = [("centre", POINTER), ("signs", POINTER), ("x", POINTER), ("product", DOUBLE), ("square", DOUBLE)]


class Certain(ctypes.Structure):
    """`struct bm_certain`."""

    _fields_ = [("means", POINTER), ("norms", POINTER), ("spreads", POINTER), ("along", POINTER), ("n", INT64)]


class CertainQuery(ctypes.Structure):
    """`struct bm_certain_query`."""

    _fields_ = [("total", DOUBLE), ("reach", DOUBLE), ("slack", DOUBLE), ("along", DOUBLE * 8), ("n_axes", INT)]


class CodeRound(ctypes.Structure):
    """`struct bm_code_round`."""

    _fields_ = [
        *((name, POINTER) for name in ("scales", "errors", "scales_of_signs", "errors_of_signs", "along")),
        *((name, INT64) for name in ("weight", "total", "n_cells")),
        *((name, DOUBLE) for name in ("step", "unit", "part", "on_centre", "norm", "width", "quantile", "slack")),
    ]


class Fetched(ctypes.Structure):
    """`struct bm_fetched`."""

    _fields_ = [("first", POINTER), ("stride_bytes", INT64), ("size", INT64), ("n_rows", INT64)]


class Ranked(ctypes.Structure):
    """`struct bm_ranked`."""

    _fields_ = [
        ("factors", POINTER),
        ("offsets", POINTER),
        *((name, DOUBLE) for name in ("centre", "part", "besides", "below", "above")),
        ("absolute", INT),
    ]


class Panel(ctypes.Structure):
    """`struct bm_panel`."""

    _fields_ = [
        *((name, POINTER) for name in ("rows", "panel", "next_rows")),
        *((name, INT64) for name in ("row_stride", "stride", "size", "sums_stride")),
        ("adds", INT),
    ]


class ByteQueries(ctypes.Structure):
    """`struct bm_byte_queries`."""

    _fields_ = [("bytes", POINTER), ("steps", POINTER), ("shifts", POINTER), ("n_fours", INT64), ("n_groups", INT)]


def _both_precisions(name: str, result: Any, *arguments: Any) -> list[tuple[str, Any]]:
    return [(f"{name}_{precision}", ctypes.CFUNCTYPE(result, *arguments)) for precision in ("f32", "f64")]


def _every_sparse(name: str, *arguments: Any) -> list[tuple[str, Any]]:
    kinds = ("f32_i32", "f64_i32", "f32_i64", "f64_i64")
    return [(f"{name}_{kind}", ctypes.CFUNCTYPE(INT64, *arguments)) for kind in kinds]


class Kernels(ctypes.Structure):
    """`struct bm_kernels`, field by field as in kernels.h."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        *_both_precisions("moments", None, POINTER, INT64, POINTER, POINTER),
        *_both_precisions("dot", DOUBLE, POINTER, POINTER, INT64),
        *_both_precisions("products", None, POINTER, INT64, INT64, POINTER, INT64, POINTER, POINTER),
        ("largest_f32", ctypes.CFUNCTYPE(FLOAT, POINTER, INT64, INT)),
        ("largest_f64", ctypes.CFUNCTYPE(DOUBLE, POINTER, INT64, INT)),
        *_both_precisions("group_maxima", None, POINTER, INT64, INT, INT64, POINTER),
        *_both_precisions("those_reaching", INT64, POINTER, INT64, INT, DOUBLE, POINTER),
        *_both_precisions("places_reaching", INT64, POINTER, INT64, INT, DOUBLE, POINTER),
        *_both_precisions("dot_exact", DOUBLE, POINTER, POINTER, INT64),
        *_both_precisions("sums_exact", None, INT, POINTER, INT, POINTER, INT64, POINTER),
        *_both_precisions("add_part", None, INT, POINTER, POINTER, INT, INT64, POINTER),
        ("add_part_of_floats", ctypes.CFUNCTYPE(None, INT, POINTER, POINTER, INT, INT64, POINTER)),
        ("end_stretch", ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER)),
        ("columns_exact", ctypes.CFUNCTYPE(None, POINTER, INT, POINTER, INT, POINTER, POINTER)),
        ("columns_rough", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT, POINTER, POINTER, POINTER)),
        *_both_precisions("columns_moments", None, POINTER, INT64, INT64, INT64, POINTER, POINTER),
        *_both_precisions("look", None, POINTER, INT64, DOUBLE, POINTER, POINTER, POINTER),
        *_both_precisions("rough_sums", None, INT, INT, POINTER, POINTER, INT64, POINTER),
        *_both_precisions("rough_tiles", None, INT, POINTER, POINTER, INT64, INT64, INT64, POINTER, INT64),
        *_both_precisions("panel_products", None, POINTER, INT64, INT, POINTER),
        *((name, INT) for name in ("panel_lanes_f32", "panel_lanes_f64", "panel_rows")),
        *_both_precisions("scaled_rest", DOUBLE, POINTER, POINTER, DOUBLE, POINTER, INT64, POINTER),
        ("largest_size", ctypes.CFUNCTYPE(DOUBLE, POINTER, INT64)),
        ("largest_lower", ctypes.CFUNCTYPE(DOUBLE, POINTER, POINTER, INT64, INT)),
        ("reaching", ctypes.CFUNCTYPE(INT64, POINTER, POINTER, INT64, INT, DOUBLE, POINTER)),
        *_both_precisions("to", None, INT, POINTER, INT64, INT64, POINTER),
        *_both_precisions("turn", None, POINTER, INT64, INT64, INT64, POINTER, INT64),
        *_both_precisions("turn_some", None, POINTER, INT64, INT64, POINTER, INT64, INT64),
        ("gather", ctypes.CFUNCTYPE(None, INT, POINTER, INT64, POINTER, INT64, POINTER)),
        *_every_sparse("sparse_dot", POINTER, POINTER, INT64, POINTER, INT, POINTER),
        *_every_sparse("sparse_add", POINTER, POINTER, INT64, POINTER, POINTER),
        *_every_sparse("sparse_dots", POINTER, INT64, POINTER, POINTER),
        ("flip_signs", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64)),
        ("hadamard", ctypes.CFUNCTYPE(None, POINTER, INT64, FLOAT, POINTER)),
        ("exchange_halves", ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER)),
        ("pack_signs", ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER)),
        (
            "quantise",
            ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64, FLOAT, INT, POINTER, INT64, POINTER, INT, POINTER),
        ),
        ("pack_grid", ctypes.CFUNCTYPE(None, POINTER, INT64, FLOAT, INT, POINTER, INT64, POINTER)),
        ("prefix_sizes", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT, POINTER)),
        (
            "bit_sums",
            ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER, INT64, POINTER, INT64, INT, INT64, POINTER),
        ),
        ("certain_intervals", ctypes.CFUNCTYPE(None, POINTER, POINTER, POINTER, INT64, INT64, POINTER, POINTER)),
        ("code_estimates", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64, POINTER, POINTER)),
        ("code_radii", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64, POINTER)),
        ("give_up_overflowed", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64)),
        ("lower_ends", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64, INT, POINTER)),
        ("mark_beaten", ctypes.CFUNCTYPE(INT64, POINTER, POINTER, INT64, INT, DOUBLE, DOUBLE, POINTER)),
        ("root_sums", ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER, INT64, INT64, POINTER)),
        ("score_ends", ctypes.CFUNCTYPE(None, POINTER, POINTER, INT64, POINTER, POINTER, POINTER)),
        *_both_precisions("cell_terms", None, POINTER, POINTER, INT64, INT, DOUBLE, POINTER),
        *_both_precisions("cell_scatter", DOUBLE, POINTER, POINTER, INT64, DOUBLE),
        ("cell_spread", ctypes.CFUNCTYPE(DOUBLE, POINTER, POINTER, DOUBLE, DOUBLE, POINTER)),
        ("row_bytes", ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER, POINTER, POINTER, POINTER)),
        *_both_precisions("copy_columns", None, POINTER, INT64, INT64, INT64, POINTER),
        ("column_bytes", ctypes.CFUNCTYPE(None, POINTER, INT64, POINTER, POINTER, INT64, POINTER, POINTER)),
        ("byte_products", ctypes.CFUNCTYPE(None, POINTER, POINTER, POINTER, POINTER, POINTER, POINTER)),
    ]


@pytest.fixture(scope="session")
def compile_kernels() -> Callable[..., Path]:
    """Compile the kernels, and what is given besides, with the project's flags and warnings as errors."""
    found = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not found:
        pytest.skip("no C compiler on this machine")
    compiler = shlex.split(found)

    version = subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout

    def compile_(name: str, *extra: str) -> Path:
        sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
        command = [*compiler, *FLAGS, f"-I{SOURCES}", *sources, *extra, "-lm", "-o"]
        texts = [path.read_text() for path in [*sorted(SOURCES.iterdir()), *map(Path, extra)] if path.is_file()]
        made_of = hashlib.sha256("\0".join([version, *command, *texts]).encode()).hexdigest()[:16]
        output = COMPILED / made_of / name
        output.parent.mkdir(parents=True, exist_ok=True)
        with open(output.parent / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not output.exists():
                unfinished = output.with_suffix(".unfinished")
                done = subprocess.run([*command, str(unfinished)], capture_output=True, text=True)
                assert done.returncode == 0, done.stderr
                unfinished.rename(output)
        return output

    return compile_


@pytest.fixture(scope="session")
def library_path(compile_kernels: Callable[..., Path]) -> Path:
    """The kernels as a shared library."""
    return compile_kernels("libkernels.so", "-O3", "-shared", "-fPIC")


@pytest.fixture(scope="session")
def plain_library_path(compile_kernels: Callable[..., Path]) -> Path:
    """The kernels without vectors as a shared library."""
    return compile_kernels("libplainkernels.so", "-O1", "-shared", "-fPIC", "-DBM_NO_VECTORS")


@pytest.fixture(params=TARGETS)
def kernels(request: pytest.FixtureRequest) -> SimpleNamespace:
    """The kernels of one target, taking arrays where C takes pointers."""
    plain = request.param == "plain"
    library = ctypes.CDLL(str(request.getfixturevalue("plain_library_path" if plain else "library_path")))
    library.bm_kernels_named.restype = ctypes.POINTER(Kernels)
    found = library.bm_kernels_named(b"portable" if plain else request.param.encode())
    if not found:
        pytest.skip(f"this machine has no {request.param}")
    functions = {name: _taking_arrays(getattr(found.contents, name)) for name, _ in Kernels._fields_[1:]}
    structs = (Dither, Rest, Fetched, ByteQueries, Panel, Ranked, Certain, CertainQuery, CodeRound)
    return SimpleNamespace(**functions, **{struct.__name__: struct for struct in structs})


def _taking_arrays(function: Any) -> Any:
    if not callable(function):  # a number
        return function

    def call(*arguments: Any) -> Any:
        return function(*(a.ctypes.data if isinstance(a, np.ndarray) else a for a in arguments))

    return call
