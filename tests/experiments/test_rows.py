"""The rows file: whole lines or nothing, whatever happens to the process that writes it."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from banditmips.experiments.rows import Row, append_row, read_rows, row_key

ROW = Row(
    figure="figure3",
    dataset="Netflix",
    origin="surrogate",
    algorithm="LSH-MIPS",
    settings="paper",
    n=100,
    d=1000,
    k=5,
    delta=None,
    epsilon=None,
    trial=3,
    seed=3,
    multiplies=1234.5,
    accuracy=0.8,
    naive=1e5,
    seconds=1e-4,
    parameters={"n_tables": 3, "n_functions": 2},
    extra={"note": "ä\n"},
)


def test_a_row_survives_the_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    other = replace(ROW, trial=4, delta=1e-10)
    append_row(path, ROW)
    append_row(path, other)
    assert path.read_text().count("\n") == 2
    assert read_rows(path) == [ROW, other]


def test_no_file_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "none") == []


@pytest.mark.parametrize("lost", [1, 2, 50, 5000])
def test_a_line_cut_off_is_dropped_and_then_removed(tmp_path, lost):
    path = tmp_path / "rows.jsonl"
    long_row = replace(ROW, trial=1, extra={"text": "x" * 10_000})
    append_row(path, ROW)
    append_row(path, long_row)
    path.write_bytes(path.read_bytes()[:-lost])
    assert read_rows(path) == [ROW]
    append_row(path, replace(ROW, trial=2))
    assert [row.trial for row in read_rows(path)] == [3, 2]


def test_the_first_line_cut_off(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(ROW.to_json()[:-1])
    assert read_rows(path) == []
    append_row(path, ROW)
    assert read_rows(path) == [ROW]


def test_a_broken_line_within_the_file_is_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    append_row(path, ROW)
    path.write_bytes(path.read_bytes() + b'{"figure": 1}\n')
    with pytest.raises(ValueError, match=r"rows.jsonl, line 2: not a row"):
        read_rows(path)


def test_of_two_rows_with_the_same_key_the_first_counts(tmp_path):
    path = tmp_path / "rows.jsonl"
    for multiplies in (1.0, 2.0):
        append_row(path, replace(ROW, multiplies=multiplies))
    assert [row.multiplies for row in read_rows(path)] == [1.0]


def test_the_key_is_all_but_what_was_measured():
    same = [
        replace(ROW, seed=9),
        replace(ROW, multiplies=1.0, accuracy=0.0, seconds=2.0, naive=1.0, extra={}),
        replace(ROW, parameters={"n_functions": 2, "n_tables": 3}),
    ]
    assert {row_key(row) for row in same} == {row_key(ROW)}
    changes = {
        "figure": "figure5",
        "dataset": "MovieLens",
        "origin": "netflix/ (4 files), 0123456789ab",
        "algorithm": "PCA-MIPS",
        "settings": "ours",
        "n": 1,
        "d": 1,
        "k": 1,
        "delta": 0.1,
        "epsilon": 0.1,
        "parameters": {},
        "trial": 0,
    }
    keys = {row_key(replace(ROW, **{name: value})) for name, value in changes.items()}
    assert len(keys) == len(changes)
    assert row_key(ROW) not in keys


def test_bad_rows_are_refused():
    with pytest.raises(ValueError, match="figure must be one of"):
        replace(ROW, figure="figure10")
    with pytest.raises(ValueError, match="settings must be"):
        replace(ROW, settings="theirs")
    with pytest.raises(ValueError, match="JSON compliant"):
        replace(ROW, seconds=float("nan")).to_json()


def test_a_fifo_is_neither_read_nor_written(tmp_path):
    """Opening one would wait for somebody at its other end."""
    path = tmp_path / "rows.jsonl"
    os.mkfifo(path)
    with pytest.raises(FileExistsError, match="is a FIFO"):
        append_row(path, ROW)
    with pytest.raises(ValueError, match="it is a FIFO"):
        read_rows(path)
    assert path.is_fifo()
