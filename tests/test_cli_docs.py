"""Every command of docs/shell.md, run in bash, prints what the page says."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "shell.md"


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


def test_commands_are_found_with_what_they_print():
    page = "text\n```console\n$ cat <<END\n> a\n> END\na\n$ true\n```\nmore\n```sh\n$ not this\n```\n"
    assert commands(page) == [["cat <<END\na\nEND", "a\n"], ["true", ""]]
