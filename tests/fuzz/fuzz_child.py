"""A process that tries cases, one JSON document in each line, and says in one line each what became of them.

It is a process of its own because some cases may end it, or never end; its memory is limited, so that whoever believes
a damaged size is found out.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import resource
import shutil
import sys
import tempfile
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from fuzz_calls import all_scores, make_data, rounding
from fuzz_estimators import try_estimator
from fuzz_files import FOLDERS, MAKERS, query, right_answer, sound, write_atoms_beside

import banditmips as bm
from banditmips import cli
from banditmips._validate import Options
from banditmips.atoms import chunks

MEMORY = 6 << 30
ARGUMENTS = {*(field.name for field in fields(Options)), "memory_limit"}


def try_file(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Open and search a damaged file."""
    kind = case["format"]
    suffix = MAKERS[kind][0]
    path = folder / f"atoms{suffix}"
    if kind in FOLDERS:
        for name, content in sound(kind).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(content)
    if kind == "file_index":
        write_atoms_beside(path)
    changed = path / case["name"] if case["name"] else path
    if case["content"] is None:
        changed.unlink()
    else:
        changed.write_bytes(base64.b64decode(case["content"]))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if suffix == ".bm":
                result = bm.load(path).search(query(), 3)
            else:
                # The first reads everything at once, the second where it lies.
                bm.search(path, query(), 3)
                limit = 2_000 if suffix in (".npy", ".h5", ".zarr") else 1 << 28
                result = bm.search(bm.open_atoms(path, memory_limit=limit), query(), 3)
    except Exception as error:
        text = str(error)
        # By its name, or by the argument: an edited index may hold options that are sound, but not for its atoms.
        named = path.name in text or "atoms.npy" in text or "argument '" in text or text.split(" ")[0] in ARGUMENTS
        fine = isinstance(error, (ValueError, OSError)) and named
        return {"verdict": "error" if fine else "unnamed", "detail": f"{type(error).__name__}: {text[:300]}"}
    is_right = result.indices.tolist() == right_answer(kind)
    return {"verdict": "right" if is_right else "silent" if case["checked"] else "other", "detail": ""}


def try_call(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Ask the library and compare with the full product."""
    atoms, queries, mask = make_data(case)
    options = dict(case["options"])
    if "value_range" in options:
        options["value_range"] = tuple(options["value_range"])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = _ask(case, atoms, queries, mask, options)
    except (ValueError, TypeError) as error:
        return {"verdict": "error", "detail": f"{type(error).__name__}: {error}"}
    except Exception as error:
        return {"verdict": "unnamed", "detail": f"{type(error).__name__}: {error}"}
    problem = _problem(case, atoms, queries, mask, options, result)
    if problem is None and options.get("ends") == "both":
        problem = _problem(case, atoms, queries, mask, {**options, "ends": "smallest"}, result.smallest)
    return {"verdict": "right" if problem is None else "wrong", "detail": problem or ""}


def try_model(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Ask an estimator and compare with the full product."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            problem = try_estimator(case)
    except (ValueError, TypeError) as error:
        return {"verdict": "error", "detail": f"{type(error).__name__}: {error}"}
    except Exception as error:
        return {"verdict": "unnamed", "detail": f"{type(error).__name__}: {error}"}
    return {"verdict": "right" if problem is None else "wrong", "detail": problem or ""}


def _ask(case: dict[str, Any], atoms: Any, queries: Any, mask: Any, options: dict[str, Any]) -> bm.SearchResult:
    k, how = case["k"], case["index"]
    if how is None:
        return bm.search(atoms, queries, k, mask=mask, **options)
    kept = {} if how == "more" else how
    if case["bucket_size"] is not None and options.get("objective", "inner_product") == "inner_product":
        kept = {**kept, "bucket_size": case["bucket_size"]}
    if how != "more" or isinstance(atoms, list) or len(np.shape(atoms)) != 2 or atoms.shape[0] < 2:
        return bm.BanditMIPS(**options, **kept).fit(atoms).search(queries, k, mask=mask)
    if scipy.sparse.issparse(atoms):  # not every format has rows to choose
        atoms = atoms.tocsr()
    half = atoms.shape[0] // 2
    return bm.BanditMIPS(**options, **kept).fit(atoms[:half]).add(atoms[half:]).search(queries, k, mask=mask)


def _problem(
    case: dict[str, Any], atoms: Any, queries: Any, mask: Any, options: dict[str, Any], result: bm.SearchResult
) -> str | None:
    """Compare an answer with all products; None if it is right."""
    n, d = case["shape"]
    if n == 0 or d == 0:
        return "atoms that are empty were searched"
    dense = atoms.astype(np.float64).toarray() if scipy.sparse.issparse(atoms) else np.asarray(atoms)
    dense = dense.astype(np.float64)
    if not np.isfinite(dense).all():
        is_looked_at = isinstance(case["index"], dict) and case["index"].get("validate", True)
        return "atoms that are not finite were fitted" if is_looked_at else None  # else nothing is promised
    m = 1 if case["n_queries"] is None else case["n_queries"]
    rows = np.asarray(queries, dtype=np.float64).reshape(m, d)
    shape = (case["k"],) if case["n_queries"] is None else (m, case["k"])
    if result.indices.shape != shape or result.scores.shape != shape:
        return f"shape {result.indices.shape}, expected {shape}"
    allowed = np.ones(n, bool) if mask is None else ~mask
    has_promise = options.get("sampling") != "sorted" and "sigma" not in options and "budget" not in options
    for i in range(m):
        truth = all_scores(options.get("objective", "inner_product"), dense, rows[i])
        found = result.indices.reshape(m, -1)[i]
        scores, lower, upper = (x.reshape(m, -1)[i] for x in (result.scores, result.lower, result.upper))
        n_found = min(case["k"], int(allowed.sum()))
        is_smallest = options.get("ends") == "smallest"
        if is_smallest:
            truth, scores, lower, upper = -truth, -scores, -upper, -lower
        if (found[n_found:] != -1).any() or not np.isneginf(scores[n_found:]).all():
            return f"padding {found[n_found:][:3]}, {scores[n_found:][:3]}"
        found, scores, lower, upper = found[:n_found], scores[:n_found], lower[:n_found], upper[:n_found]
        if (found < 0).any() or (found >= n).any() or not allowed[found].all() or np.unique(found).size < found.size:
            return f"indices {found}"
        slack = rounding(options.get("objective", "inner_product"), dense, rows[i])
        outside = (truth[found] < lower - slack[found]) | (truth[found] > upper + slack[found])
        if has_promise and outside.any():
            return f"true scores {truth[found]} outside {lower} to {upper}"
        ranked = np.abs(truth) if options.get("absolute") else truth
        best = np.flatnonzero(allowed)[np.argsort(-ranked[allowed])][:n_found]
        found = found[np.argsort(-ranked[found])]
        worst = ranked[best] - options.get("epsilon", 0.0) - slack[best] - slack[found]
        if has_promise and (ranked[found] < worst).any():
            return f"query {i}: found {found} of scores {ranked[found]}, the best are {ranked[best]}"
    return None


def try_command(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run a command line in a folder of sound and unsound files."""
    for kind in ("npy", "csv", "npz", "parquet"):
        (folder / f"atoms{MAKERS[kind][0]}").write_bytes(sound(kind)[""])
    np.save(folder / "empty.npy", np.empty((0, 5)))
    (folder / "text.npy").write_text("some text")
    os.mkfifo(folder / "fifo.npy")
    os.mkfifo(folder / "fifo")
    out, err = io.TextIOWrapper(io.BytesIO()), io.StringIO()  # results go to the bytes below stdout
    sys.argv = ["banditmips", *case["arguments"]]
    code: Any = 0
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as exit_:
        code = exit_.code or 0
    except BaseException as error:
        return {"verdict": "unnamed", "detail": f"{type(error).__name__}: {error}"}
    lines = err.getvalue().splitlines()
    if code not in (0, 1, 2) or (code and not (lines and lines[-1].startswith("error: "))):
        return {"verdict": "unnamed", "detail": f"exit code {code!r}, {lines[-1:]}"}
    return {"verdict": "error" if code else "right", "detail": lines[-1] if code else ""}


TRIES = {"file": try_file, "call": try_call, "estimator": try_model, "command": try_command}


def main() -> None:
    """Answer until there are no more cases."""
    if "ASAN_OPTIONS" not in os.environ:  # the sanitizer's books take terabytes of addresses; it has a limit of its own
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    chunks._FIRST_PAUSE = 1e-4  # a damaged file gets no better by waiting
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever prints something does not get among the answers
    for line in sys.stdin:
        case = json.loads(line)
        folder = Path(tempfile.mkdtemp())
        try:
            answer = TRIES[case["what"]](case, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
