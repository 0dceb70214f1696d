"""What the shell reads and writes: ids, standard input, datasets by name, formats, and what it says of mistakes."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips import datasets
from banditmips.cli import app

COMMAND = [sys.executable, "-P", "-m", "banditmips.cli"]
TITLES = [f'Film #{i}, "the sequel"' for i in range(12)]


@pytest.fixture(scope="module")
def atoms():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(12, 1)) + rng.normal(size=(12, 40))).round(3)


@pytest.fixture(scope="module")
def queries():
    return (2 + np.random.default_rng(1).normal(size=(3, 40))).round(3)


@pytest.fixture
def folder(tmp_path, monkeypatch, atoms, queries):
    """Work in a folder with films that have titles, and viewers that have names."""
    monkeypatch.chdir(tmp_path)
    write_table("films.csv", "title", TITLES, atoms)
    write_table("viewers.csv", "name", ["ann", "bob", "cleo"], queries)
    np.save("atoms.npy", atoms)
    np.save("queries.npy", queries)
    return tmp_path


def write_table(path, column, ids, matrix, delimiter=","):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow([column, *(f"c{j}" for j in range(matrix.shape[1]))])
        writer.writerows([name, *row] for name, row in zip(ids, matrix.tolist(), strict=True))


def run(*arguments, given=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


def rows_of(done):
    assert done.exit_code == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def best(atoms, queries, k=1):
    return np.argsort(-(queries @ atoms.T), axis=1)[:, :k]


def check_error(done, message):
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"error: {message}"


# --- ids ------------------------------------------------------------------------------------------------------------


def test_ids_of_atoms_and_queries_stand_beside_their_indices(folder, atoms, queries):
    done = run("search", "films.csv", "viewers.csv", "-k", 2)
    rows = rows_of(done)
    assert list(rows[0])[:5] == ["query", "query_id", "rank", "index", "id"]
    expected = best(atoms, queries, 2).ravel().tolist()
    assert [int(row["index"]) for row in rows] == expected
    assert [row["id"] for row in rows] == [TITLES[index] for index in expected]
    assert [row["query_id"] for row in rows] == ["ann", "ann", "bob", "bob", "cleo", "cleo"]
    assert "films.csv: ids are taken from column 'title'" in done.stderr


def test_the_column_of_ids_can_be_named(folder, atoms, queries):
    lines = Path("films.csv").read_text().splitlines()
    numbers = ["number", *range(100, 112)]
    Path("films.csv").write_text("\n".join(f"{line},{number}" for line, number in zip(lines, numbers, strict=True)))
    done = run("search", "films.csv", "queries.npy", "-k", 1, "--id-column", "number")
    assert [int(row["id"]) for row in rows_of(done)] == (100 + best(atoms, queries).ravel()).tolist()
    assert "films.csv: no coordinates, and left out: 'title'" in done.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet", "json", "jsonl", "npz"])
def test_ids_are_written_in_every_format(folder, atoms, queries, suffix):
    done = run("search", "films.csv", "viewers.csv", "-k", 2, "-o", f"out.{suffix}")
    assert done.exit_code == 0, done.stderr
    expected = [TITLES[index] for index in best(atoms, queries, 2).ravel()]
    path = Path(f"out.{suffix}")
    if suffix == "npz":
        with np.load(path) as arrays:
            assert arrays["ids"].shape == (3, 2)
            assert arrays["ids"].ravel().tolist() == expected
            assert arrays["query_ids"].tolist() == ["ann", "bob", "cleo"]
        return
    if suffix == "parquet":
        found = pq.read_table(path).column("id").to_pylist()
    elif suffix == "csv":
        found = [row["id"] for row in csv.DictReader(io.StringIO(path.read_text()))]
    elif suffix == "json":
        found = [row["id"] for row in json.loads(path.read_text())]
    else:
        found = [json.loads(line)["id"] for line in path.read_text().splitlines()]
    assert found == expected


@pytest.mark.parametrize(("ids", "no_id"), [(TITLES[:2], ""), ([7, 9], "-1")])
def test_ranks_left_over_have_no_id(folder, atoms, ids, no_id):
    write_table("two.csv", "id", ids, atoms[:2])
    rows = rows_of(run("search", "two.csv", "queries.npy", "-k", 3))
    assert [row["id"] for row in rows][2::3] == [no_id] * 3


def test_default_k_is_no_larger_than_the_number_of_atoms(folder, atoms):
    np.save("four.npy", atoms[:4])
    assert len(rows_of(run("search", "four.npy", "queries.npy"))) == 3 * 4
    assert len(rows_of(run("search", "atoms.npy", "queries.npy"))) == 3 * 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["twice.csv"], "twice.csv: column 'id' must hold an id only once, got 5 in rows 0 and 2"),
        (["ragged.csv"], "ragged.csv: line 3: expected 3 fields, got 2"),
        (["films.csv", "--id-column", "c99"], "films.csv: has no column 'c99' of ids; it holds title, c0, c1, c2, c3, "
         "c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18, ... (41 in all)"),
        (["atoms.npy", "--id-column", "x"], "atoms.npy: holds numbers only, so there is no column 'x' of ids"),
        (["films.csv", "--id-column", "x", "--no-ids"], "--id-column and --no-ids contradict each other"),
    ],
)  # fmt: skip
def test_bad_ids(folder, arguments, message):
    Path("twice.csv").write_text("id,u\n5,1\n6,1\n5,2\n")
    Path("ragged.csv").write_text("name,u,v\nx,1,2\ny,1\n")
    done = run("search", arguments[0], "queries.npy", *arguments[1:], "-o", "out.csv")
    check_error(done, message)
    assert not Path("out.csv").exists()


@pytest.mark.parametrize("command", ["compare", "explain"])
def test_other_commands_leave_ids_out_as_well(folder, command):
    only = ["--methods", "naive"] if command == "compare" else []
    done = run(command, "films.csv", "viewers.csv", *only)
    assert done.exit_code == 0, done.stderr
    assert ("naive" if only else "atoms: 12 x 40") in done.stdout


# --- standard input -------------------------------------------------------------------------------------------------


def test_atoms_or_queries_come_on_standard_input(folder, atoms, queries):
    expected = rows_of(run("search", "films.csv", "viewers.csv", "-k", 1))
    assert rows_of(run("search", "-", "viewers.csv", "-k", 1, given=Path("films.csv").read_bytes())) == expected
    assert rows_of(run("search", "films.csv", "-", "-k", 1, given=Path("viewers.csv").read_bytes())) == expected


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet", ".tsv", ".txt"])
def test_standard_input_is_recognised(folder, atoms, queries, suffix):
    path = Path(f"piped{suffix}")
    if suffix == ".npy":
        np.save(path, atoms)
    elif suffix == ".npz":
        np.savez(path, atoms)
    elif suffix == ".parquet":
        bm._result_files.write_columns(path, {f"c{j}": column for j, column in enumerate(atoms.T)})
    else:
        np.savetxt(path, atoms, delimiter="\t" if suffix == ".tsv" else " ")
    rows = rows_of(run("search", "-", "queries.npy", "-k", 1, given=path.read_bytes()))
    assert [int(row["index"]) for row in rows] == best(atoms, queries).ravel().tolist()


@pytest.mark.parametrize(
    ("places", "given", "message"),
    [
        (["-", "-"], b"", "standard input can hold atoms or queries, not both: name a file for one of them"),
        (["-", "queries.npy"], b"", "standard input: has no rows of numbers"),
        (["-", "queries.npy"], b"1,2\n3\n", "standard input: line 2: expected 2 fields like the lines before, got 1"),
        (["-", "queries.npy"], b"1,2\n3,4\n", "queries.npy has 40 columns, but standard input has 2"),
        (["atoms.npy", "-"], b"nan" + b",1" * 39, "standard input has nan at row 0, column 0"),
        (["atoms.npy"], b"", "missing argument 'QUERIES': a file with a query in each row, or - for standard input"),
    ],
)
def test_mistakes_on_standard_input(folder, places, given, message):
    check_error(run("search", *places, given=given), message)


# --- datasets -------------------------------------------------------------------------------------------------------


def test_datasets_are_searched_by_name(folder):
    data = datasets.load("ratings", n=50, d=60, n_queries=2, seed=3)
    done = run("search", "ratings:n=50,d=60,n_queries=2,seed=3", "-k", 1)
    assert [int(row["index"]) for row in rows_of(done)] == best(data.atoms, data.queries).ravel().tolist()
    np.save("one.npy", data.atoms[7])
    done = run("search", "ratings:n=50,d=60,n_queries=2,seed=3", "one.npy", "-k", 1)
    assert [int(row["index"]) for row in rows_of(done)] == best(data.atoms, data.atoms[7:8]).ravel().tolist()


def test_movielens_is_searched_and_compared_by_name(folder, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setenv("BANDITMIPS_DATA", str(folder))
    Path("ml-100k").mkdir()
    pairs = [(user, movie) for user in range(1, 21) for movie in range(1, 31)]
    lines = [f"{user}\t{movie}\t{rng.integers(1, 6)}\t881250949" for user, movie in pairs]
    Path("ml-100k/u.data").write_text("\n".join(lines) + "\n")
    place = "movielens_100k:n=20,n_queries=4,n_factors=3"
    data = datasets.load("movielens_100k", n=20, n_queries=4, n_factors=3)
    done = run("search", place, "-k", 2)
    assert [int(row["index"]) for row in rows_of(done)] == best(data.atoms, data.queries, 2).ravel().tolist()
    assert "MovieLens 100K ratings, imputed with 3 factors" in done.stderr
    compared = rows_of(run("compare", place, "-k", 2, "--methods", "naive"))
    assert [(row["method"], row["accuracy"]) for row in compared] == [("naive", "1.0")]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("ratings:n", "ratings:n: a dataset's settings are NAME=VALUE with commas between, got 'n'"),
        ("ratings:size=3", "dataset 'ratings' has no parameter 'size'; known are d, dtype, n, n_queries, seed"),
    ],
)
def test_mistakes_in_the_settings_of_a_dataset(folder, place, message):
    check_error(run("search", place), message)


def test_a_dataset_that_is_not_there_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setenv("BANDITMIPS_DATA", str(folder))
    done = run("search", "movielens_100k")
    assert done.exit_code == 2
    assert "Run 'banditmips data fetch movielens_100k'" in done.stderr


# --- formats --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl", "npz", "parquet"])
def test_formats_on_standard_output_and_in_files_are_the_same(folder, name):
    shown = run("search", "atoms.npy", "queries.npy", "-k", 2, "--format", name)
    assert shown.exit_code == 0, shown.stderr
    for path in ("out", f"out.{name}"):
        written = run("search", "atoms.npy", "queries.npy", "-k", 2, "--format", name, "-o", path)
        assert (written.exit_code, written.stdout) == (0, ""), written.stderr
        assert Path(path).stat().st_size == len(shown.stdout_bytes)
        if name != "npz":  # whose members have a time
            assert Path(path).read_bytes() == shown.stdout_bytes


def test_table_can_be_asked_for(folder):
    arguments = ["search", "films.csv", "queries.npy", "-k", "1", "--format", "table"]
    done = CliRunner(env={"COLUMNS": "120"}).invoke(app, arguments)
    assert "give or take" in done.stdout
    assert 'the sequel"' in done.stdout


def test_dash_is_standard_output(folder):
    assert len(rows_of(run("search", "atoms.npy", "queries.npy", "-k", 1, "-o", "-"))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "xml"], "--format must be one of table, csv, parquet, npz, json, jsonl, tsv, got 'xml'"),
        (["--format", "table", "-o", "a.csv"], "--format table is for the terminal; a.csv can be csv, parquet, npz, "
         "json, jsonl, tsv"),
        (["-o", "queries.npy", "--format", "csv"], "queries.npy is read by this command: choose another file for its "
         "results"),
        (["-o", "somewhere.csv"], "somewhere.csv: is a folder"),
        (["--memory-limit", "lots"], "--memory-limit must be a number of bytes as in 512MB or 2GB, got 'lots'"),
    ],
)  # fmt: skip
def test_mistakes_in_output(folder, arguments, message):
    Path("somewhere.csv").mkdir()
    before = sorted(folder.iterdir())
    check_error(run("search", "atoms.npy", "queries.npy", *arguments), message)
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_pipe_that_closes_is_no_traceback(folder, atoms):
    np.save("many.npy", np.tile(atoms[:1], (20_000, 1)))
    command = f'"{sys.executable}" -P -m banditmips.cli search atoms.npy many.npy | head -1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.startswith("query,rank,index,score")
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
