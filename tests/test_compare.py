"""Every method on one's own data: the numbers, the processes, what happens to methods that fail, and the command."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from typer.testing import CliRunner

import banditmips as bm
from banditmips.baselines import REGISTRY
from banditmips.cli import app
from banditmips.compare import METHODS, Comparison, Measurement, Method, _mapped, compare, plan_methods

HEADER = [
    "method",
    "parameters",
    "accuracy",
    "n_multiplies",
    "share",
    "fit_seconds",
    "query_seconds",
    "problem",
]
N, D, M, K = 60, 200, 4, 3
POSIX = pytest.mark.skipif(os.name != "posix", reason="needs signals and process groups")

OWN_METHODS = """
import os, signal, subprocess, sys, time
from pathlib import Path
from types import SimpleNamespace
import numpy as np

class Exact:
    def fit(self, atoms):
        assert not atoms.flags.writeable
        assert os.environ["OMP_NUM_THREADS"] == os.environ["OPENBLAS_NUM_THREADS"] == "1"
        self.atoms = atoms
    def search(self, query, k):
        return self.answer(np.argsort(-(self.atoms @ query), kind="stable")[:k])
    def answer(self, indices):
        return SimpleNamespace(indices=indices, n_multiplies=self.atoms.size)

class First(Exact):
    def __init__(self, start=0):
        self.start = start
    def search(self, query, k):
        return self.answer(np.arange(self.start, self.start + k))

class Repeats(Exact):
    def search(self, query, k):
        return self.answer(np.repeat(super().search(query, 1).indices, k))

class FindsNothing(Exact):
    def search(self, query, k):
        return self.answer(np.full(k, -1))

class Fortran(Exact):
    def fit(self, atoms):
        assert atoms.flags.f_contiguous and not atoms.flags.c_contiguous
        super().fit(atoms)

class Noisy(Exact):
    def search(self, query, k):
        print("out"), print("err", file=sys.stderr)
        return super().search(query, k)

class OutOfRange(First):
    def __init__(self):
        super().__init__(start=10_000)

class Broken(Exact):
    def search(self, query, k):
        raise ValueError("no luck\\n  at all")

class Crashes(Exact):
    def fit(self, atoms):
        os.kill(os.getpid(), signal.SIGSEGV)

class Quits(Exact):
    def fit(self, atoms):
        print("the last words", file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)

class Hangs(Exact):
    def fit(self, atoms):
        Path("hangs.pid").write_text(str(os.getpid()))
        time.sleep(300)

class HangsWithChild(Hangs):
    def fit(self, atoms):
        for name in ("SIGTERM", "SIGINT"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        Path("child.pid").write_text(str(subprocess.Popen(["sleep", "300"]).pid))
        super().fit(atoms)
"""


@pytest.fixture(scope="module")
def atoms():
    """Return atoms without structure: nothing but the exact products finds the best."""
    return np.random.default_rng(0).normal(size=(N, D)).astype(np.float32)


@pytest.fixture(scope="module")
def queries():
    return np.random.default_rng(1).normal(size=(M, D)).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch, atoms, queries):
    """Work in a folder with data and methods of one's own."""
    monkeypatch.chdir(tmp_path)
    np.save("atoms.npy", atoms)
    np.save("queries.npy", queries)
    Path("own.py").write_text(OWN_METHODS)
    return tmp_path


def run(*arguments):
    """Run the command in this process."""
    return CliRunner().invoke(app, ["compare", *(str(argument) for argument in arguments)])


def rows_of(text):
    """Parse CSV into dicts by method, and check its header."""
    reader = csv.DictReader(io.StringIO(text))
    rows = {row["method"]: row for row in reader}
    assert reader.fieldnames == HEADER
    return rows


def best(atoms, queries, k=K):
    return np.argsort(-(queries.astype(np.float64) @ atoms.T), axis=1, kind="stable")[:, :k]


def is_running(pid):
    """Tell whether a process runs; a dead one that nobody has asked for yet does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_until(condition):
    """Wait for something that another process does, for five minutes at most."""
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "it did not happen within five minutes"
        time.sleep(0.02)


# --- numbers --------------------------------------------------------------------------------------------------------


def test_all_methods_are_there():
    assert ("banditmips", "banditmips_search", "banditmips_alpha", *REGISTRY) == METHODS
    assert [method.key for method in plan_methods()] == list(METHODS)


def test_own_methods_are_judged_by_the_exact_answer(folder, atoms, queries):
    truth = best(atoms, queries)
    with Comparison(atoms, queries, K) as comparison:
        for name, accuracy in {
            "own:Exact": 1.0,
            "own:First": np.mean([np.isin(row, np.arange(K)).mean() for row in truth]),
            "own:Repeats": 1 / K,
            "own:FindsNothing": 0.0,
            "own:Noisy": 1.0,
        }.items():
            measured = comparison.measure(Method(name, {}))
            assert measured.problem == "", name
            assert measured.accuracy == pytest.approx(accuracy), name
            assert measured.n_multiplies == N * D
            assert measured.share == 1.0
            assert measured.fit_seconds >= 0.0
            assert measured.query_seconds > 0.0


def test_methods_give_what_they_give_alone(atoms, queries):
    parameters = {"greedy": {"budget": 20}, "banditmips": {"delta": 0.1, "rescore": False}, "banditmips_alpha": {}}
    alone = {
        "naive": REGISTRY["naive"]().fit(atoms),
        "greedy": REGISTRY["greedy"](budget=20).fit(atoms),
        "banditmips": bm.BanditMIPS(delta=0.1, rescore=False, seed=3).fit(atoms),
        "banditmips_alpha": None,
    }
    measured = compare(atoms, queries, K, methods=alone, parameters=parameters, seed=3)
    assert [row.method.key for row in measured] == list(alone)
    for row, index in zip(measured, alone.values(), strict=True):
        if index is None:
            result = bm.search(atoms, queries, K, sampling="sorted", seed=3)
        else:
            result = index.search(queries, K)
        assert row.problem == ""
        assert row.n_multiplies == result.n_multiplies.mean()
        found = [np.isin(one, other).mean() for one, other in zip(result.indices, best(atoms, queries), strict=True)]
        assert row.accuracy == pytest.approx(np.mean(found))
    assert measured[0].accuracy == 1.0


def test_atoms_that_tie_with_the_kth_are_right(folder):
    equal = np.ones((20, 5))
    (last,) = compare(equal, np.ones(5), 4, methods=["own:First"], parameters={"own:First": {"start": 16}})
    assert last.accuracy == 1.0


def test_fortran_order_is_kept(folder, atoms, queries):
    (fortran,) = compare(np.asfortranarray(atoms), queries, K, methods=["own:Fortran"])
    assert (fortran.problem, fortran.accuracy) == ("", 1.0)


def test_few_sparse_atoms(folder, atoms, queries):
    few = np.where(np.abs(atoms[:2]) > 1.5, atoms[:2], 0)
    (sparse,) = compare(scipy.sparse.csr_array(few), queries, K, methods=["own:Exact"])
    assert (sparse.problem, sparse.accuracy) == ("", 1.0)


def test_mapped_files_are_not_copied(tmp_path, atoms):
    np.save(tmp_path / "atoms.npy", atoms)
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    assert _mapped(mapped, tmp_path / "copy.npy") is mapped
    assert not (tmp_path / "copy.npy").exists()
    for part in (mapped[5:], mapped.T, atoms):
        copy = _mapped(part, tmp_path / "copy.npy")
        assert Path(copy.filename).name == "copy.npy"
        np.testing.assert_array_equal(copy, part)


def test_nothing_is_left_behind(folder, monkeypatch, atoms, queries):
    Path("temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "temporary"))
    compare(atoms, queries, K, methods=["own:Broken"])
    spoilt = atoms.copy()
    spoilt[1, 2] = np.nan
    with pytest.raises(ValueError, match="atoms has nan at row 1, column 2"):
        compare(spoilt, queries, K, methods=["own:Exact"])
    assert list(Path("temporary").iterdir()) == []


# --- methods that fail ----------------------------------------------------------------------------------------------


@POSIX
def test_failures_are_reported_and_the_rest_goes_on(folder, atoms, queries):
    problems = {
        "own:Broken": "^ValueError: no luck at all$",
        "own:Crashes": "^killed by SIGSEGV$",
        "own:Quits": "^ended with code 3 and without an answer the last words$",
        "own:OutOfRange": "^returned an index outside of -1 \\(none\\) to 59$",
        "nowhere:Exact": "^ModuleNotFoundError: .*nowhere",
        "own:Exact": "^$",
    }
    measured = compare(atoms, queries, K, methods=problems)
    for row, problem in zip(measured, problems.values(), strict=True):
        assert re.search(problem, row.problem), (row.method.key, row.problem)
        assert np.isnan(row.accuracy) == np.isnan(row.query_seconds) == bool(row.problem)
    assert measured[-1].accuracy == 1.0


def test_missing_extra_is_named(tmp_path, monkeypatch, atoms, queries):
    (tmp_path / "faiss.py").write_text("raise ImportError('not here')")
    monkeypatch.syspath_prepend(tmp_path)
    (measured,) = compare(atoms, queries, K, methods=["hnsw"])
    assert measured.problem.endswith("needs faiss, which is not installed: pip install 'banditmips[baselines]'")


@POSIX
def test_timeout_stops_a_method_with_all_it_started(folder, monkeypatch):
    wait = subprocess.Popen.wait
    pid_file = Path("hangs.pid")

    def until_it_hangs(process, timeout=None):
        """Let the time be over when the method hangs, however long the machine takes to get there."""
        if timeout is None:
            return wait(process)
        assert timeout == 5
        wait_until(
            lambda: process.poll() is not None or (pid_file.exists() and pid_file.read_text() == f"{process.pid}")
        )
        return wait(process, 0)

    monkeypatch.setattr(subprocess.Popen, "wait", until_it_hangs)
    done = run("atoms.npy", "queries.npy", "-k", K, "--methods", "own:HangsWithChild,own:Exact", "--timeout", 5)
    assert done.exit_code == 0
    rows = rows_of(done.stdout)
    assert rows["own:HangsWithChild"]["problem"] == "stopped: it had not ended after 5 s"
    assert rows["own:HangsWithChild"]["accuracy"] == "nan"
    assert rows["own:Exact"]["accuracy"] == "1.0"
    assert done.stderr.splitlines() == ["own:HangsWithChild: stopped: it had not ended after 5 s"]
    for name in ("hangs.pid", "child.pid"):
        pid = int(Path(name).read_text())
        wait_until(lambda pid=pid: not is_running(pid))


@POSIX
@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_no_method_outlives_the_command(folder, how):
    command = [sys.executable, "-P", "-m", "banditmips.cli", "compare", "atoms.npy", "queries.npy"]
    # What is killed cannot clean up after itself.
    place = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(
        [*command, "--methods", "own:Hangs"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=place,
        # Tests in a shell's background were told to ignore it, and so would be whatever they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    pid_file = Path("hangs.pid")
    wait_until(lambda: pid_file.exists() and pid_file.read_text())
    process.send_signal(getattr(signal, how))
    shown, said = process.communicate(timeout=300)
    assert shown == ""
    if how == "SIGINT":
        assert (process.returncode, said) == (130, "interrupted\n")
    wait_until(lambda: not is_running(int(pid_file.read_text())))


# --- the command ----------------------------------------------------------------------------------------------------


def test_command_prints_csv_into_a_pipe(folder):
    arguments = ["--methods", "own:First, naive", "--param", "own:First:start=1", "--seed", 7]
    done = run("atoms.npy", "queries.npy", "-k", K, *arguments)
    assert done.exit_code == 0, done.stderr
    rows = rows_of(done.stdout)
    assert list(rows) == ["own:First", "naive"]
    assert json.loads(rows["own:First"]["parameters"]) == {"start": 1}
    assert json.loads(rows["naive"]["parameters"]) == {"seed": 7}
    assert (rows["naive"]["accuracy"], rows["naive"]["n_multiplies"]) == ("1.0", f"{float(N * D)}")
    assert done.stderr == ""


def test_command_shows_a_bar_and_a_table_on_a_terminal(folder):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-P", "-m", "banditmips.cli", "compare", "atoms.npy", "queries.npy", "-k", str(K)]
    process = subprocess.Popen(
        [*command, "--methods", "own:Exact,own:Broken"],
        stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    assert process.wait(timeout=300) == 0
    os.close(ours)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.decode())
    assert "the exact answer" in text
    assert "2/3" in text
    assert "own:Broken: ValueError: no luck at all" in text
    row = re.search(r"own:Exact +│ +1\.000 │ +12,000 │ +100 % │ .*m?s │ .*m?s", text)
    assert row, text
    assert re.search(r"own:Broken +│ +failed │ +- │", text)


def pretend(monkeypatch, *measured):
    """Let the command run no process, and take these measurements for those of any methods."""
    monkeypatch.setattr("banditmips.cli.compare._run", lambda comparison, methods: list(measured))


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_output_files(folder, monkeypatch, suffix):
    good = Measurement(Method("greedy", {"budget": 2}), 0.5, 1000.0, 0.25, 0.1, 0.01)
    pretend(monkeypatch, good, Measurement(Method("lsh", {}), problem="bad"))
    done = run("atoms.npy", "queries.npy", "-o", f"out.{suffix}")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"written to out.{suffix}\n")
    if suffix == "csv":
        rows = list(rows_of(Path("out.csv").read_text()).values())
        assert [row["n_multiplies"] for row in rows] == ["1000.0", "nan"]
    elif suffix == "json":
        rows = json.loads(Path("out.json").read_text())
        assert [row["n_multiplies"] for row in rows] == [1000.0, None]
    else:
        rows = pq.read_table("out.parquet").to_pylist()
        assert rows[0]["n_multiplies"] == 1000.0
        assert np.isnan(rows[1]["n_multiplies"])
    assert list(rows[0]) == HEADER
    assert [json.loads(row["parameters"]) for row in rows] == [{"budget": 2}, {}]
    assert [row["problem"] for row in rows] == ["", "bad"]


def test_exit_code_tells_if_nothing_worked(folder, monkeypatch):
    pretend(monkeypatch, Measurement(Method("lsh", {}), problem="bad"))
    assert run("atoms.npy", "queries.npy").exit_code == 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("False", False),
        ("None", None),
        ("null", None),
        ("[0, 5]", [0, 5]),
        ("(0, 5)", (0, 5)),
        ("simple", "simple"),
        ("'3'", "3"),
        ("a=b", "a=b"),
    ],
)
def test_values_of_parameters(folder, monkeypatch, text, value):
    seen = []
    monkeypatch.setattr("banditmips.cli.compare._run", lambda comparison, methods: seen.extend(methods) or [])
    run("atoms.npy", "queries.npy", "--methods", "own:Exact", "--param", f"own:Exact:name={text}")
    assert seen[0].parameters == {"name": value}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.npy", "queries.npy"], "nowhere.npy: No such file"),
        (["atoms.npy", "narrow.npy"], "narrow.npy has 100 columns, but atoms.npy has 200$"),
        (["spoilt.npy", "queries.npy"], "^error: spoilt.npy has nan at row 3, column 7$"),
        (["atoms.npy", "spoilt.npy"], "^error: spoilt.npy has nan at row 3, column 7$"),
        (["atoms.npy", "empty.npy"], "^error: empty.npy is empty: shape"),
        (["atoms.npy", "queries.npy", "-k", "0"], "'-k'"),
        (["atoms.npy", "queries.npy", "--timeout", "0"], "'--timeout'"),
        (["atoms.npy", "queries.npy", "-o", "out.xls"], "out.xls: cannot write a file with suffix '.xls'"),
        (["atoms.npy", "queries.npy", "-o", "atoms.npy"], "atoms.npy: cannot write"),
        (["atoms.npy", "queries.npy", "--methods", "greddy"], "there is no method 'greddy'; did you mean 'greedy'"),
        (["atoms.npy", "queries.npy", "--methods", "zzz"], "there is no method 'zzz'; known are banditmips, .*Class"),
        (["atoms.npy", "queries.npy", "--methods", ","], "methods must name at least one"),
        (["atoms.npy", "queries.npy", "--param", "budget=3"], "--param must be METHOD:NAME=VALUE, got 'budget=3'"),
        (["atoms.npy", "queries.npy", "--param", "greedy:budgt=3"], "greedy: .* 'budgt'; did you mean 'budget'"),
        (["atoms.npy", "queries.npy", "--param", "greedy:budget=0"], "greedy: budget must be at least 1"),
        (["atoms.npy", "queries.npy", "--param", "greedy:budget=few"], "greedy: budget must be an integer"),
        (["atoms.npy", "queries.npy", "--param", "banditmips:dleta=0"], "banditmips: .*did you mean 'delta'"),
        (["atoms.npy", "queries.npy", "--param", "banditmips_search:layout=full"], "banditmips_search: .*'layout'"),
        (["atoms.npy", "queries.npy", "--param", "banditmips_alpha:delta=2"], "banditmips_alpha: delta must be in"),
        (["atoms.npy", "queries.npy", "--methods", "lsh", "--param", "pca:depth=3"], "'pca', which is not among"),
        (["atoms.npy", "queries.npy", "--methods", "own:Exact", "--param", "own:Exact:x=NaN"], "must be finite"),
    ],
)
def test_mistakes_get_one_line_and_code_2(folder, atoms, queries, arguments, message):
    spoilt = atoms.copy()
    spoilt[3, 7] = np.nan
    np.save("spoilt.npy", spoilt)
    np.save("narrow.npy", queries[:, :100])
    np.save("empty.npy", queries[:0])
    done = run(*arguments)
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert re.search(message, line), line


def test_bad_timeout_of_the_library(atoms, queries):
    with pytest.raises(ValueError, match="timeout must be above 0"):
        compare(atoms, queries, timeout=0, methods=["naive"])
