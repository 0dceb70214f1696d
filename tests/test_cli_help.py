"""Help and completion: quick, whole at any width, and the same names as the library's, in the shells themselves."""

from __future__ import annotations

import itertools
import os
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from banditmips import _result_files, compare, datasets
from banditmips.cli import _names, app
from banditmips.datasets import _sources

COMMANDS = [
    [], ["search"], ["demo"], ["explain"], ["compare"], ["pack"], ["pursue"], ["reproduce"], ["completion"], ["data"],
    ["index"], ["index", "build"], ["index", "info"], ["index", "verify"], ["index", "search"],
    ["data", "fetch"], ["data", "list"],
]  # fmt: skip


def test_names_are_the_librarys():
    assert _names.METHODS == compare.METHODS
    assert ("table", *_result_files.FORMATS) == _names.FORMATS
    assert tuple(_sources.SOURCES) == _names.PUBLISHED
    assert sorted(_names.DATASETS) == datasets.names()


def test_help_imports_nothing_slow():
    program = """
import sys
import banditmips
before = set(sys.modules)
from banditmips.cli import main
sys.argv = ["banditmips", "search", "--help"]
try:
    main()
except SystemExit as done:
    assert not done.code
slow = {"numpy", "scipy", "pandas", "pyarrow", "matplotlib", "multiprocessing", "urllib.request"}
for name in set(sys.modules) - before:
    if name in slow or name.startswith("banditmips."):
        print(name, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    ours = {"cli"} | {path.stem for path in Path(_names.__file__).parent.glob("*.py")} - {"_inputs", "_results"}
    assert {name.removeprefix("banditmips.").removeprefix("cli.") for name in done.stderr.split()} <= ours - {
        "_demonstration"
    }


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("width", [60, 100, 140])
def test_help_is_broken_into_full_lines(command, width):
    done = CliRunner(env={"COLUMNS": str(width)}).invoke(app, [*command, "--help"])
    assert done.exit_code == 0
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= width
    text = [line.strip() for line in lines[: next(i for i, line in enumerate(lines) if line.startswith("╭"))]]
    for line, following in itertools.pairwise(text):
        if line and following:  # a paragraph goes on, so the next word cannot have had a place
            assert len(line) + 1 + len(following.split()[0]) > width - 2, line


@pytest.mark.parametrize("group", ["data", "index"])
def test_a_group_alone_prints_its_help(group):
    done = CliRunner().invoke(app, [group])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.split() == CliRunner().invoke(app, [group, "--help"]).stdout.split()


# --- completion -----------------------------------------------------------------------------------------------------


@pytest.fixture
def shell_folder(tmp_path, monkeypatch):
    """Work in a folder with a file, and with our command among the programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "banditmips"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m banditmips.cli "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("movies.csv").touch()
    return tmp_path


def need(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")


CASES = [
    ("se", {"search"}),
    ("search --obj", {"--objective"}),
    ("search --objective n", {"neg_sqeuclidean", "neg_l1"}),
    ("search a.csv q.csv --format js", {"json", "jsonl"}),
    ("search mov", {"movielens_100k", "movielens_1m", "movies.csv"}),
    ("data fetch net", {"netflix"}),
    ("compare a b --methods naive,h", {"naive,h2_alsh", "naive,hnsw"}),
]


def test_bash_completes(shell_folder):
    need("bash")
    words = "\n".join(f"try {' '.join(['banditmips', case])}" for case, _ in CASES)
    script = f"""eval "$(banditmips completion bash)"
[ "$(complete -p banditmips)" = "complete -o default -F _banditmips_completion banditmips" ] || exit 1
try() {{
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    _banditmips_completion banditmips
    echo "${{COMPREPLY[*]}}"
}}
{words}
"""
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True, check=True)
    assert [set(line.split()) for line in done.stdout.splitlines()] == [expected for _, expected in CASES]


def test_fish_completes(shell_folder):
    need("fish")
    lines = "; ".join(f"complete -C 'banditmips {case}'; echo =====" for case, _ in CASES)
    script = f"banditmips completion fish | source; {lines}"
    done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, check=True)
    offered = [{line.split("\t")[0] for line in part.split("\n") if line} for part in done.stdout.split("=====\n")[:-1]]
    assert offered == [expected for _, expected in CASES]


def test_zsh_completes(shell_folder):
    need("zsh")
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "PS1": "> "}
    with subprocess.Popen(["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as zsh:
        os.close(theirs)
        try:
            setup = 'autoload -Uz compinit; compinit -u -D; eval "$(banditmips completion zsh)"; print rea""dy\n'
            type_until(ours, setup, "ready")
            # Only one name begins so, which the shell then types itself.
            for typed, completed in (("banditmips sear", "search"), ("--objecti", "--objective"), ("neg_l", "neg_l1")):
                type_until(ours, f"{typed}\t", f"{completed} ")
            type_until(ours, "movie\t", "movielens_100k")
        finally:
            zsh.kill()
            os.close(ours)


def type_until(terminal, keys, expected):
    """Type into a terminal, and wait for something to be shown."""
    os.write(terminal, keys.encode())
    shown, deadline = "", time.monotonic() + 300
    while expected not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{expected!r} was not shown after {keys!r}, but {shown!r}"
        shown += re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x08", "", os.read(terminal, 4096).decode())


def test_the_shell_is_taken_from_the_environment(monkeypatch):
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert CliRunner().invoke(app, ["completion"]).stdout == CliRunner().invoke(app, ["completion", "fish"]).stdout
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    done = CliRunner().invoke(app, ["completion"])
    assert (done.exit_code, done.stderr) == (2, "error: the shell must be one of bash, zsh, fish, got 'tcsh'\n")
