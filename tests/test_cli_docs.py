"""Every command of docs/shell.md, run in bash, prints what the page says."""

from __future__ import annotations

import csv
import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from banditmips.cli import main

README = Path(__file__).parents[1] / "README.md"
PAGE = README.parent / "docs" / "shell.md"


def commands(text):
    """Return the commands of a page with what they print: lines after ``$``, that go on after ``>``."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append([line[2:], ""])
            elif line.startswith("> "):
                found[-1][0] += "\n" + line[2:]
            else:
                found[-1][1] += line + "\n"
    return found


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_the_page_is_true(tmp_path):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("banditmips", "-P -m banditmips.cli"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    steps = commands(PAGE.read_text())
    assert len(steps) > 10
    for command, expected in steps:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(expected, done.stdout, flags), (command, done.stdout, done.stderr)
        assert done.returncode == 0, (command, done.stderr)


def test_the_readme_leads_to_an_answer_in_the_shell_and_in_scikit_learn(tmp_path, monkeypatch, capsys):
    """From a CSV of one's own: its second command, and its six lines of Python."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    rng = np.random.default_rng(0)
    atoms, queries = rng.normal(size=(20, 300)), rng.normal(size=(2, 300))
    monkeypatch.chdir(tmp_path)
    for name, rows in (("atoms.csv", atoms), ("queries.csv", queries)):
        np.savetxt(name, rows, delimiter=",", header=",".join(f"x{j}" for j in range(300)), comments="")
    best = np.argsort(-queries @ atoms.T, axis=1)[:, :3]
    readme = README.read_text()
    command = re.search(r"^banditmips (search atoms.csv queries.csv .*?) +#", readme, re.M)
    monkeypatch.setattr(sys, "argv", ["banditmips", *command[1].split()])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [int(row["index"]) for row in rows] == best.ravel().tolist()
    code = re.search(r"^```python\n(.*?)^```$", readme, re.M | re.S)[1]
    assert len([line for line in code.splitlines() if line]) <= 6
    names = {}
    exec(code, names)
    np.testing.assert_array_equal(names["indices"], best)


def test_commands_are_found_with_what_they_print():
    page = "text\n```console\n$ cat <<END\n> a\n> END\na\n$ true\n```\nmore\n```sh\n$ not this\n```\n"
    assert commands(page) == [["cat <<END\na\nEND", "a\n"], ["true", ""]]
