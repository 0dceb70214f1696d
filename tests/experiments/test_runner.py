"""Runs: what is done is not done again, what fails does not stop the rest, what is killed goes on."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path

import pytest

from banditmips._version import __version__
from banditmips.experiments import figure9
from banditmips.experiments.entries import baseline
from banditmips.experiments.record import RunRecord
from banditmips.experiments.rows import append_row, read_rows, row_key
from banditmips.experiments.runner import Failure, run
from banditmips.experiments.trials import Trial

TASKS = figure9.tasks(figure9.Sizes((40, 60), n=5, n_trials=3))
CRASHING = """
import os
from dataclasses import dataclass

@dataclass(frozen=True)
class Crashing:
    figure: str = "figure1"
    dataset: str = "NORMAL_CUSTOM"
    algorithm: str = "BanditMIPS"
    cost: float = 1.0
    alone: bool = True

    def keys(self):
        return ["a key"]

    def run(self, done):
        os._exit(3)
        yield
"""


def keys_of(tasks):
    return set(chain.from_iterable(task.keys() for task in tasks))


def keys_in(path):
    return {row_key(row) for row in read_rows(path)}


def test_a_run_writes_all_rows_tells_of_failures_and_does_only_what_is_missing(tmp_path, monkeypatch):
    (tmp_path / "crashing.py").write_text(CRASHING)
    monkeypatch.syspath_prepend(tmp_path)
    from crashing import Crashing

    wrong = baseline("Greedy-MIPS", {"budget": 0})
    failing = Trial((("figure2", 1),), "NORMAL_CUSTOM", (wrong,), ((5, 10),), trial=0)
    path = tmp_path / "rows.jsonl"
    told = []
    failures = run([failing, *TASKS, Crashing()], path, jobs=2, on_progress=told.append)
    assert keys_in(path) == keys_of(TASKS)
    assert [failure[:3] for failure in failures] == [
        ("figure2", "NORMAL_CUSTOM", "Greedy-MIPS"),
        ("figure1", "NORMAL_CUSTOM", "BanditMIPS"),
    ]
    assert failures[0].error == "ValueError: budget must be at least 1, but came as 0"
    assert failures[1].error == "its process ended with code 3"
    assert [progress.share for progress in told] == sorted(progress.share for progress in told)
    assert told[-1].share == pytest.approx(1.0)
    assert told[-1].n_rows == len(keys_of(TASKS))
    assert told[-1].seconds_left == pytest.approx(0.0, abs=1e-6)

    before = path.read_bytes()
    assert run(TASKS, path) == []
    assert path.read_bytes() == before

    # Two rows are lost, and half of a third.
    path.write_bytes(b"".join(before.splitlines(keepends=True)[:-2])[:-30])
    resumed = []
    assert run(TASKS, path, on_progress=resumed.append) == []
    assert keys_in(path) == keys_of(TASKS)
    assert len(path.read_bytes().splitlines()) == len(keys_of(TASKS))
    n_rows = len(keys_of(TASKS))
    assert [progress.n_rows for progress in resumed] == [n_rows - 2, n_rows - 1, n_rows]


def children_of(pid):
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(child) for child in listed]


def is_running(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def wait_until(condition, seconds=300.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the test looks for processes in /proc")
def test_a_run_killed_in_the_middle_goes_on_where_it_was(tmp_path):
    tasks = figure9.tasks(figure9.Sizes(tuple(range(40, 100, 2)), n=5, n_trials=10))
    (tmp_path / "tasks.pickle").write_bytes(pickle.dumps(tasks))
    path = tmp_path / "rows.jsonl"
    program = (
        "import pickle; from pathlib import Path; from banditmips.experiments.runner import run;"
        f"run(pickle.loads(Path({str(tmp_path / 'tasks.pickle')!r}).read_bytes()), Path({str(path)!r}))"
    )
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        wait_until(lambda: len(read_rows(path)) >= 20)
        children = children_of(process.pid)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert children
    wait_until(lambda: not any(map(is_running, children)))

    n_before = len(read_rows(path))
    assert 20 <= n_before < len(keys_of(tasks))
    assert run(tasks, path) == []
    assert keys_in(path) == keys_of(tasks)
    assert len(path.read_bytes().splitlines()) == len(keys_of(tasks))


def test_the_record_tells_what_was_run_and_with_what(tmp_path):
    record = RunRecord(tmp_path, ["figure9"], quick=True, jobs=2)
    begun = json.loads((tmp_path / "run.json").read_text())
    assert begun["quick"] is True
    assert begun["runs"][0]["finished"] is None
    assert begun["settings"]["sigma"]["Netflix"] == 25
    assert begun["origins"]["Netflix"] == "surrogate"
    assert "MovieLens-100K" not in begun["origins"]
    assert begun["settings"]["sizes"]["figure9"]["n_trials"] == figure9.SIZES["quick"].n_trials
    assert {"banditmips", "python", "numpy", "scipy"} <= begun["versions"].keys()
    assert begun["machine"]["cores"] == os.cpu_count()

    failure = Failure("figure9", "SymmetricNormal", "BanditMIPS", "ValueError: no")
    for row in TASKS[0].run(frozenset()):
        append_row(tmp_path / "rows.jsonl", row)
    n_rows = len(read_rows(tmp_path / "rows.jsonl"))
    assert n_rows > 0
    record.finish(12.34, [failure])
    RunRecord(tmp_path, ["figure1"], quick=True, jobs=1).finish(1.0, [])
    ended = json.loads((tmp_path / "run.json").read_text())
    assert ended["figures"] == ["figure1", "figure9"]
    assert [each["seconds"] for each in ended["runs"]] == [12.3, 1.0]
    assert [each["version"] for each in ended["runs"]] == [__version__] * 2
    assert [each["rows_written"] for each in ended["runs"]] == [n_rows, 0]
    assert all(each["cpu_seconds"] > 0 for each in ended["runs"])
    assert ended["runs"][0]["failures"] == [failure._asdict()]


def test_quick_and_full_rows_are_not_mixed(tmp_path):
    RunRecord(tmp_path, ["figure9"], quick=True, jobs=1)
    RunRecord(tmp_path, ["figure9"], quick=False, jobs=1)  # there is no row yet
    for row in TASKS[0].run(frozenset()):
        (tmp_path / "rows.jsonl").write_text(row.to_json() + "\n")
    with pytest.raises(ValueError, match="holds the rows of a full run; give a quick one another folder with --out"):
        RunRecord(tmp_path, ["figure9"], quick=True, jobs=1)
