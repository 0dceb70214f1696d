"""``banditmips index``: built, described, verified and searched; nothing half written."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips.cli import app


@pytest.fixture(scope="module")
def atoms():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(60, 1)) + rng.normal(size=(60, 500))).astype(np.float32)


@pytest.fixture(scope="module")
def queries():
    return (2 + np.random.default_rng(1).normal(size=(3, 500))).astype(np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch, atoms, queries):
    monkeypatch.chdir(tmp_path)
    np.save("atoms.npy", atoms)
    np.save("queries.npy", queries)
    return tmp_path


@pytest.fixture
def built(folder):
    """Return an index that the shell has built."""
    done = run("index", "build", "atoms.npy", "atoms.bm", "--delta", 0.01, "--seed", 5)
    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    return Path("atoms.bm")


def run(*arguments, given=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=given)


def rows_of(done):
    assert done.exit_code == 0, done.stderr
    return list(csv.DictReader(io.StringIO(done.stdout)))


def check_error(done, message):
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith(f"error: {message}")


def test_build_writes_what_the_library_would(built, atoms, queries):
    bm.BanditMIPS(delta=0.01, seed=5).fit(atoms).save("ours.bm")
    assert built.read_bytes() == Path("ours.bm").read_bytes()


def test_build_says_what_it_did(folder):
    done = run("index", "build", "atoms.npy", "atoms.bm")
    assert "60 x 500 atoms fitted in " in done.stderr
    assert f"written to atoms.bm: {Path('atoms.bm').stat().st_size:,} bytes" in done.stderr


def test_search_is_the_librarys(built, atoms, queries):
    rows = rows_of(run("index", "search", built, "queries.npy", "-k", 2))
    expected = bm.load(built).search(queries, 2)
    assert [int(row["index"]) for row in rows] == expected.indices.ravel().tolist()
    assert [float(row["score"]) for row in rows] == expected.scores.ravel().tolist()
    assert [int(row["n_multiplies"]) for row in rows[::2]] == expected.n_multiplies.tolist()


def test_options_of_a_search_reach_it(built, queries):
    options = {"budget": 5_000, "rescore": False, "epsilon": 3.0, "absolute": True, "delta": 0.2}
    given = ["--budget", 5000, "--no-rescore", "--epsilon", 3, "--absolute", "--delta", 0.2]
    rows = rows_of(run("index", "search", built, "queries.npy", "-k", 1, *given))
    expected = bm.load(built).search(queries, 1, **options)
    assert [float(row["lower"]) for row in rows] == expected.lower.ravel().tolist()
    assert [int(row["n_multiplies"]) for row in rows] == expected.n_multiplies.tolist()


def test_search_takes_queries_from_a_pipe_and_writes_any_format(built, queries):
    done = run("index", "search", built, "-", "--format", "json", given=Path("queries.npy").read_bytes())
    assert len(json.loads(done.stdout)) == 3 * 10


def test_default_k_is_no_larger_than_the_number_of_atoms(folder, atoms):
    np.save("few.npy", atoms[:4])
    assert run("index", "build", "few.npy", "few.bm").exit_code == 0
    assert len(rows_of(run("index", "search", "few.bm", "queries.npy"))) == 3 * 4


def test_datasets_and_tables_with_ids_are_built(folder):
    done = run("index", "build", "ratings:n=30,d=50", "ratings.bm", "--layout", "none")
    assert done.exit_code == 0, done.stderr
    assert bm.load("ratings.bm").n_atoms == 30
    Path("films.csv").write_text("title,u,v\nHeat,1,2\nAlien,3,4\n")
    assert run("index", "build", "films.csv", "films.bm").exit_code == 0
    assert bm.load("films.bm").n_coordinates == 2


def test_an_index_keeps_the_ids_of_its_atoms(folder):
    Path("films.csv").write_text("title,u,v\nHeat,1,2\nAlien,3,4\n")
    Path("users.csv").write_text("name,u,v\nAnn,1,1\n")
    assert run("index", "build", "films.csv", "films.bm").exit_code == 0
    assert bm.load("films.bm").ids.tolist() == ["Heat", "Alien"]
    rows = rows_of(run("index", "search", "films.bm", "users.csv"))
    assert [(row["query_id"], row["id"], row["index"]) for row in rows] == [("Ann", "Alien", "1"), ("Ann", "Heat", "0")]
    assert run("index", "build", "films.csv", "films.bm", "--no-ids").exit_code == 2
    Path("bare.csv").write_text("u,v\n1,2\n3,4\n")
    assert run("index", "build", "bare.csv", "bare.bm").exit_code == 0
    assert bm.load("bare.bm").ids is None


def test_info_describes_the_file(built, atoms):
    text = run("index", "info", built).stdout
    assert "60 x 500 atoms, float32, dense" in text
    assert "delta=0.01" in text
    facts = json.loads(run("index", "info", built, "--format", "json").stdout)
    assert (facts["n_atoms"], facts["n_coordinates"], facts["n_removed"]) == (60, 500, 0)
    assert (facts["dtype"], facts["atom_bytes"]) == ("float32", atoms.nbytes)
    assert facts["file_bytes"] == built.stat().st_size
    assert facts["extra_bytes"] == bm.load(built).extra_bytes
    assert (facts["options"]["delta"], facts["options"]["seed"]) == (0.01, 5)


@pytest.fixture
def in_file(folder):
    """Return an index whose atoms stayed in their file."""
    done = run("index", "build", "atoms.npy", "atoms.bm", "--memory-limit", "200kB", "--checkpoint", "begun")
    assert done.exit_code == 0, done.stderr
    assert "; the atoms stay in atoms.npy" in done.stderr
    assert not Path("begun").exists()
    return Path("atoms.bm")


def test_atoms_that_are_many_stay_in_their_file(in_file, atoms, queries):
    assert in_file.stat().st_size < 0.5 * atoms.nbytes
    rows = rows_of(run("index", "search", in_file, "queries.npy", "-k", 1))
    assert [int(row["index"]) for row in rows] == (queries @ atoms.T).argmax(axis=1).tolist()
    assert all(int(row["bytes_read"]) > 0 for row in rows)
    facts = json.loads(run("index", "info", in_file, "--format", "json").stdout)
    assert (facts["stored_as"], facts["dtype"], facts["atom_bytes"]) == ("file", "float32", 0)
    assert facts["atoms_in"] == [str(Path("atoms.npy").absolute())]
    assert not facts["options"]["progress"]
    assert f"the atoms are in {Path('atoms.npy').absolute()}" in run("index", "info", in_file).stdout


def test_atoms_that_were_moved_are_named(in_file, atoms, queries):
    Path("atoms.npy").rename("others.npy")
    check_error(run("index", "search", in_file, "queries.npy"), "atoms.bm: its atoms are gone from ")
    rows = rows_of(run("index", "search", in_file, "queries.npy", "-k", 1, "--atoms", "others.npy"))
    assert [int(row["index"]) for row in rows] == (queries @ atoms.T).argmax(axis=1).tolist()
    assert "60 x 500 atoms" in run("index", "info", in_file, "--atoms", "others.npy").stdout
    assert run("index", "verify", in_file).exit_code == 0  # which needs no atoms
    np.save("others.npy", -atoms)
    others = Path("others.npy").absolute()
    check_error(run("index", "info", in_file, "--atoms", "others.npy"), f"atoms.bm: its atoms: {others}: sample of")


def test_info_counts_removed_atoms(built):
    index = bm.load(built)
    index.remove([3, 4]).save("fewer.bm")
    assert json.loads(run("index", "info", "fewer.bm", "--format", "json").stdout)["n_removed"] == 2


def test_verify_finds_a_damaged_block(built):
    assert run("index", "verify", built).stdout == "atoms.bm: every block matches its checksum\n"
    content = bytearray(built.read_bytes())
    content[len(content) // 2] ^= 1
    Path("bad.bm").write_bytes(content)
    check_error(run("index", "verify", "bad.bm"), "bad.bm: block '")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "atoms.npy", "atoms.npy"], "atoms.npy holds the atoms: choose another file for the index"),
        (["build", "atoms.npy", "."], ".: is a folder"),
        (["build", "atoms.npy", "nowhere/a.bm"], "nowhere/a.bm: there is no folder nowhere"),
        (["build", "nowhere.npy", "a.bm"], "nowhere.npy: No such file"),
        (["build", "atoms.npy", "a.bm", "--layout", "fast"], "--layout must be one of"),
        (["build", "atoms.npy", "a.bm", "--max-extra-memory", "all"], "--max-extra-memory must be a number of bytes"),
        (["build", "atoms.npy", "a.bm", "--memory-limit", "all"], "--memory-limit must be a number of bytes"),
        (["build", "atoms.npy", "a.bm", "--checkpoint", "c"], "--checkpoint is for atoms in a file"),
        (["build", "atoms.npy", "a.bm", "--delta", "2"], "--delta must be in [0, 1), got 2.0"),
        (["build", "nan.npy", "a.bm"], "nan.npy has nan at row 1, column 2"),
        (["info", "atoms.npy"], "atoms.npy: prefix: not a banditmips file"),
        (["info", "atoms.bm", "--format", "xml"], "--format must be one of text, json, got 'xml'"),
        (["verify", "nowhere.bm"], "nowhere.bm: No such file"),
        (["search", "atoms.bm", "narrow.npy"], "narrow.npy has 3 columns, but atoms.bm has 500"),
        (
            ["search", "atoms.bm", "queries.npy", "-o", "atoms.bm", "--format", "csv"],
            "atoms.bm is read by this command",
        ),
        (["search", "atoms.bm", "queries.npy", "--delta", "2"], "--delta must be in [0, 1), got 2.0"),
    ],
)
def test_mistakes_leave_everything_as_it_was(built, folder, atoms, arguments, message):
    np.save("narrow.npy", np.ones((2, 3)))
    bad = atoms.copy()
    bad[1, 2] = np.nan
    np.save("nan.npy", bad)
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    check_error(run("index", *arguments), message)
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_full_disk_leaves_the_old_index(built, monkeypatch):
    old = built.read_bytes()

    def full(descriptor):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    done = run("index", "build", "atoms.npy", "atoms.bm", "--seed", 9)
    assert done.exit_code == 1
    assert "No space left on device" in done.stderr
    assert built.read_bytes() == old
    assert sorted(path.name for path in Path().iterdir()) == ["atoms.bm", "atoms.npy", "queries.npy"]
