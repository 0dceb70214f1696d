"""``banditmips reproduce`` and ``banditmips data``, in miniature and from a server of our own."""

from __future__ import annotations

import hashlib
import json
import threading
import types
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from typer.testing import CliRunner

from banditmips.cli import app
from banditmips.datasets import _sources
from banditmips.experiments import beyond_clock, figure1, figure9, runner
from banditmips.experiments.rows import read_rows


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def reports(monkeypatch):
    """Put a report in place of the real one that only notes what it was asked for."""
    written = []

    def write_report(rows_path, out, docs):
        assert docs is None
        written.append((rows_path, out, len(read_rows(rows_path))))
        return out / "index.html"

    report = types.ModuleType("banditmips.experiments.report")
    report.write_report = write_report
    monkeypatch.setitem(__import__("sys").modules, report.__name__, report)
    return written


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setitem(figure9.SIZES, "quick", figure9.Sizes((40, 60), n=5, n_trials=2))
    clock = beyond_clock.Sizes({"SymmetricNormal": (50,)}, n=5, n_trials=1, n_queries=2)
    monkeypatch.setitem(beyond_clock.SIZES, "quick", clock)


def test_a_figure_is_run_reported_and_not_run_again(tmp_path, reports, tiny):
    out = tmp_path / "made" / "here"
    first = invoke("reproduce", "9", "beyond_clock", "--quick", "--out", out, "--jobs", 1)
    assert first.exit_code == 0, first.output
    assert first.stdout.strip() == str(out / "index.html")
    rows = read_rows(out / "rows.jsonl")
    assert {row.figure for row in rows} == {"figure9", "beyond_clock"}
    assert len(rows) == 12 + 3
    record = json.loads((out / "run.json").read_text())
    assert record["figures"] == ["figure9", "beyond_clock"]
    assert record["runs"][0]["jobs"] == 1
    assert record["runs"][0]["finished"]

    again = invoke("reproduce", "figure9", "--quick", "--out", out)
    assert again.exit_code == 0
    assert f"12 of 12 rows are in {out / 'rows.jsonl'} already" in again.stderr
    assert len(read_rows(out / "rows.jsonl")) == 15
    assert reports == [(out / "rows.jsonl", out, 15)] * 2


def test_data_that_arrive_later_are_run_and_told(tmp_path, reports, monkeypatch):
    monkeypatch.setenv("BANDITMIPS_DATA", str(tmp_path / "data"))
    monkeypatch.setitem(figure1.SIZES, "quick", figure1.Sizes({"MovieLens": (4, 8)}, n=5, n_trials=2, n_queries=1))
    out = tmp_path / "out"
    assert invoke("reproduce", "1", "--quick", "--out", out, "--jobs", 1).exit_code == 0
    before = read_rows(out / "rows.jsonl")
    assert {row.origin for row in before} == {"surrogate"}
    ratings = tmp_path / "data" / "ml-1m" / "ratings.dat"
    ratings.parent.mkdir(parents=True)
    ratings.write_text("".join(f"{u}::{m}::{1 + u * m % 5}::0\n" for u in range(1, 11) for m in range(1, 9)))
    again = invoke("reproduce", "1", "--quick", "--out", out, "--jobs", 1)
    assert again.exit_code == 0, again.output
    assert "MovieLens comes from ml-1m/ratings.dat, " in again.stderr
    assert (
        f"{len(before)} rows of a surrogate stay in the file, are left out of the report, and are run again"
        in again.stderr
    )
    assert "are in" not in again.stderr.partition("run again")[2]
    rows = read_rows(out / "rows.jsonl")
    assert len(rows) == 2 * len(before)
    assert all(row.origin.startswith("ml-1m/ratings.dat, ") for row in rows[len(before) :])
    assert json.loads((out / "run.json").read_text())["origins"]["MovieLens"] == rows[-1].origin


def test_failed_tasks_are_named_and_the_exit_code_tells(tmp_path, reports, tiny, monkeypatch):
    def failing(tasks, rows_path, *, jobs, on_progress):
        return [runner.Failure("figure9", "SymmetricNormal", "BanditMIPS", "ValueError: no")] * 2

    monkeypatch.setattr(runner, "run", failing)
    result = invoke("reproduce", "9", "--quick", "--out", tmp_path)
    assert result.exit_code == 1
    assert "2 of the tasks failed; the same command tries them again:" in result.stderr
    assert "  figure9, SymmetricNormal, BanditMIPS: ValueError: no (2 times)" in result.stderr
    assert len(reports) == 1
    assert len(json.loads((tmp_path / "run.json").read_text())["runs"][0]["failures"]) == 2


def test_ctrl_c_says_how_to_go_on(tmp_path, reports, tiny, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    result = invoke("reproduce", "9", "--quick", "--out", tmp_path)
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.stderr
    (this_run,) = json.loads((tmp_path / "run.json").read_text())["runs"]
    assert this_run["interrupted"]
    assert this_run["finished"] is None
    assert reports == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["12"], "error: there is no figure '12'"),
        (["9", "--jobs", "0"], "error: Invalid value for '--jobs'"),
    ],
)
def test_mistakes_are_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = invoke("reproduce", *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serve an archive like MovieLens 100K, and make it the source of that dataset."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("BANDITMIPS_DATA", str(tmp_path / "data"))
    served = tmp_path / "served"
    served.mkdir()
    archive = served / "ml-100k.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("ml-100k/u.data", "1\t1\t5\t881250949\n")
        packed.writestr("ml-100k/README", "about")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=served)) as running:
        source = replace(
            _sources.SOURCES["movielens_100k"],
            url=f"http://127.0.0.1:{running.server_port}/ml-100k.zip",
            sha256=hashlib.sha256(archive.read_bytes()).hexdigest(),
            size=archive.stat().st_size,
        )
        monkeypatch.setitem(_sources.SOURCES, "movielens_100k", source)
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield archive
        running.shutdown()
        thread.join()


def test_data_is_fetched_and_listed(tmp_path, server):
    before = invoke("data", "list")
    assert (
        "movielens_100k: not there. Run 'banditmips data fetch movielens_100k'. By hand: Get it from" in before.stdout
    )
    result = invoke("data", "fetch", "movielens_100k")
    assert result.exit_code == 0, result.output
    place = tmp_path / "data" / "ml-100k" / "u.data"
    assert result.stdout.strip() == str(place)
    assert place.read_text() == "1\t1\t5\t881250949\n"
    assert f"movielens_100k: {place}" in invoke("data", "list").stdout


def test_data_goes_to_another_folder_if_asked(tmp_path, server):
    other = tmp_path / "other"
    result = invoke("data", "fetch", "movielens_100k", "--directory", other)
    assert result.stdout.strip() == str(other / "ml-100k" / "u.data")
    assert f"set BANDITMIPS_DATA={other} to have it found there" in result.stderr


def test_a_wrong_checksum_is_told_with_what_to_do(tmp_path, server):
    server.write_bytes(server.read_bytes()[::-1])
    result = invoke("data", "fetch", "movielens_100k")
    assert result.exit_code == 1
    assert "expected the SHA-256 checksum" in result.stderr
    assert f"put it at {tmp_path / 'data' / 'ml-100k' / 'u.data'}" in result.stderr


def test_data_behind_a_login_says_where_to_get_it_and_where_to_put_it(tmp_path):
    result = invoke("data", "fetch", "netflix", "--directory", tmp_path)
    assert result.exit_code == 1
    assert "cannot be downloaded without a login" in result.stderr
    assert "https://www.kaggle.com" in result.stderr
    assert f"put it at {tmp_path / 'netflix' / 'combined_data_*.txt'}" in result.stderr


def test_without_a_network_it_says_where_to_get_the_file(tmp_path, monkeypatch):
    source = replace(_sources.SOURCES["movielens_1m"], url="http://127.0.0.1:9/ml-1m.zip")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setitem(_sources.SOURCES, "movielens_1m", source)
    result = invoke("data", "fetch", "movielens_1m", "--directory", tmp_path)
    assert result.exit_code == 1
    assert "Get it from https://grouplens.org/datasets/movielens/1m/, and put it at" in result.stderr


def test_an_unknown_dataset_is_a_mistake():
    result = invoke("data", "fetch", "imagenet")
    assert result.exit_code == 2
    assert "movielens_100k" in result.stderr
