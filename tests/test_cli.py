"""The command line: answers, exit codes, one-line errors, and manners on terminals and in pipes."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import select
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import banditmips as bm
from banditmips import _result_files, datasets
from banditmips.cli import _demonstration, app, main
from banditmips.cli._console import duration

HEADER = ["query", "rank", "index", "score", "lower", "upper", "exact", "n_multiplies", "bytes_read", "stop_reason"]
COMMAND = [sys.executable, "-P", "-m", "banditmips.cli"]
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@pytest.fixture(scope="module")
def atoms():
    """Return atoms of which some are clearly better than others, large enough for a race to pay."""
    rng = np.random.default_rng(0)
    return (rng.normal(size=(100, 1)) + rng.normal(size=(100, 3000))).astype(np.float32)


@pytest.fixture(scope="module")
def queries():
    """Return queries that like atoms of large mean."""
    return (2 + np.random.default_rng(1).normal(size=(3, 3000))).astype(np.float32)


@pytest.fixture(scope="module")
def files(tmp_path_factory, atoms, queries):
    """Return a folder with good and bad files, which no test may change."""
    files = tmp_path_factory.mktemp("files")
    np.save(files / "atoms.npy", atoms)
    np.save(files / "queries.npy", queries)
    np.save(files / "narrow.npy", queries[:, :300])
    np.save(files / "vector.npy", atoms[0])
    np.save(files / "cube.npy", atoms.reshape(100, 50, 60))
    np.save(files / "empty.npy", atoms[:0])
    np.savez(files / "both.npz", atoms=atoms, queries=queries)
    bad_atoms, bad_queries = atoms.copy(), queries.copy()
    bad_atoms[3, 7] = np.nan
    bad_queries[1, 2] = np.inf
    np.save(files / "bad_atoms.npy", bad_atoms)
    np.save(files / "bad_queries.npy", bad_queries)
    (files / "damaged.npy").write_bytes(b"hello")
    (files / "words.csv").write_text("a,b\n1,x\n")
    return files


@pytest.fixture
def folder(tmp_path, monkeypatch, files):
    """Work in a folder of one's own that has the files."""
    for path in files.iterdir():
        os.link(path, tmp_path / path.name)
    (tmp_path / "folder.npy").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def rows_of(text, header=HEADER):
    """Parse CSV into dicts, and check its header."""
    reader = csv.DictReader(io.StringIO(text))
    rows = list(reader)
    assert reader.fieldnames == header
    return rows


def indices_of(text, k):
    """Return the indices in CSV, a row for each query."""
    return np.array([int(row["index"]) for row in rows_of(text)]).reshape(-1, k)


# --- search ---------------------------------------------------------------------------------------------------------


def test_search_prints_the_librarys_answer(folder, atoms, queries):
    done = run("search", "atoms.npy", "queries.npy", "-k", 2)
    assert done.exit_code == 0
    expected = bm.search(atoms, queries, k=2)
    rows = rows_of(done.stdout)
    assert indices_of(done.stdout, k=2).tolist() == expected.indices.tolist()
    assert [float(row["score"]) for row in rows] == expected.scores.ravel().tolist()
    assert [(row["query"], row["rank"]) for row in rows] == [(str(i), str(r)) for i in range(3) for r in (1, 2)]
    assert [int(row["n_multiplies"]) for row in rows[::2]] == expected.n_multiplies.tolist()
    assert {row["exact"] for row in rows} == {"true"}


def test_summary_counts_the_work(folder, atoms, queries):
    done = run("search", "atoms.npy", "queries.npy", "-k", 2)
    expected = int(bm.search(atoms, queries, k=2).n_multiplies.sum())
    assert "100 x 3,000 atoms, 3 queries: searched in " in done.stderr
    share = 100 * expected / (3 * 100 * 3000)
    assert f"{expected:,} multiplies, {share:.3g} % of m*n*d; stopped: 3 " in done.stderr


@pytest.mark.parametrize("name", ["atoms.csv", "atoms.npz", "atoms.parquet"])
def test_search_reads_every_kind_of_file(folder, atoms, queries, name):
    columns = {f"c{j}": column for j, column in enumerate(atoms.T)}
    if name.endswith(".csv"):
        np.savetxt(name, atoms, delimiter=",", header=",".join(columns), comments="", fmt="%.9g")
    elif name.endswith(".npz"):
        np.savez(name, atoms)
    else:
        _result_files.write_columns(name, columns)
    done = run("search", name, "queries.npy", "-k", 2)
    assert done.exit_code == 0, done.stderr
    assert indices_of(done.stdout, k=2).tolist() == bm.search(atoms, queries, k=2).indices.tolist()


def test_arrays_of_one_archive_are_chosen_by_name(folder, atoms, queries):
    done = run("search", "both.npz", "both.npz", "--key", "atoms", "--query-key", "queries", "-k", 1)
    assert indices_of(done.stdout, k=1).ravel().tolist() == (queries @ atoms.T).argmax(axis=1).tolist()


def test_single_query_in_a_vector(folder, atoms):
    done = run("search", "atoms.npy", "vector.npy", "-k", 1)
    assert indices_of(done.stdout, k=1).tolist() == [[int((atoms @ atoms[0]).argmax())]]


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (["--delta", "0"], {"delta": 0.0}),
        (["--epsilon", "1000"], {"epsilon": 1000.0}),
        (["--objective", "cosine"], {"objective": "cosine"}),
        (["--absolute"], {"absolute": True}),
        (["--ends", "smallest"], {"ends": "smallest"}),
        (["--budget", "5000", "--no-rescore"], {"budget": 5000, "rescore": False}),
        (["--sampling", "sorted"], {"sampling": "sorted"}),
        (["--sampling", "weighted", "--beta", "0.7"], {"sampling": "weighted", "beta": 0.7}),
        (["--bound", "hoeffding", "--sigma", "3"], {"bound": "hoeffding", "sigma": 3.0}),
        (["--bound", "hoeffding", "--sigma", "estimate"], {"bound": "hoeffding", "sigma": "estimate"}),
        (["--bound", "bernstein", "--value-range", "-9", "9"], {"bound": "bernstein", "value_range": (-9.0, 9.0)}),
        (["--replacement", "--no-rescore"], {"replacement": True, "rescore": False}),
        (["--seed", "5", "--no-rescore"], {"seed": 5, "rescore": False}),
    ],
)
def test_options_reach_the_search(folder, atoms, queries, arguments, options):
    done = run("search", "atoms.npy", "queries.npy", "-k", 2, "--no-fit", *arguments)
    assert done.exit_code == 0, done.stderr
    expected = bm.search(atoms, queries, k=2, **options)
    rows = rows_of(done.stdout)
    assert indices_of(done.stdout, k=2).tolist() == expected.indices.tolist()
    assert [float(row["lower"]) for row in rows] == expected.lower.ravel().tolist()
    assert [int(row["n_multiplies"]) for row in rows[::2]] == expected.n_multiplies.tolist()


def test_both_ends_are_written_one_after_the_other(folder, atoms, queries):
    both = bm.search(atoms, queries, k=2, ends="both")
    asked = ("search", "atoms.npy", "queries.npy", "-k", 2, "--ends", "both")
    rows = rows_of(run(*asked).stdout, [HEADER[0], "end", *HEADER[1:]])
    assert [row["end"] for row in rows] == ["largest"] * 6 + ["smallest"] * 6
    assert [int(row["index"]) for row in rows] == [*both.indices.ravel(), *both.smallest.indices.ravel()]
    assert run(*asked, "--format", "table").stdout.count("smallest") == 1
    assert run(*asked, "-o", "both.npz").exit_code == 0
    with np.load("both.npz") as written:
        np.testing.assert_array_equal(written["indices"], both.indices)
        np.testing.assert_array_equal(written["smallest_scores"], both.smallest.scores)


def test_jobs_do_not_change_the_answer(folder):
    one, two = (run("search", "atoms.npy", "queries.npy", "--jobs", jobs).stdout for jobs in (1, 2))
    assert rows_of(one) == rows_of(two)


def test_fit_uses_an_index(folder, atoms, queries):
    done = run("search", "atoms.npy", "queries.npy", "-k", 1, "--fit", "--sampling", "optimal", "--no-rescore")
    index = bm.BanditMIPS(sampling="optimal", rescore=False).fit(atoms)
    assert done.exit_code == 0, done.stderr
    assert [int(row["n_multiplies"]) for row in rows_of(done.stdout)] == index.search(queries).n_multiplies.tolist()
    assert "index fitted" in done.stderr


def test_many_queries_are_worth_an_index(folder, queries):
    np.save("many.npy", np.tile(queries, (44, 1)))
    assert "index fitted" in run("search", "atoms.npy", "many.npy", "-k", 1).stderr
    assert "index fitted" not in run("search", "atoms.npy", "many.npy", "-k", 1, "--no-fit").stderr
    assert "index fitted" not in run("search", "atoms.npy", "queries.npy", "-k", 1).stderr


def test_fewer_atoms_than_k_are_padded(folder, atoms):
    np.save("two.npy", atoms[:2])
    done = run("search", "two.npy", "vector.npy", "-k", 3)
    assert [row["index"] for row in rows_of(done.stdout)][2] == "-1"
    assert [row["score"] for row in rows_of(done.stdout)][2] == "-inf"


def test_no_queries_give_a_header_alone(folder, queries):
    np.save("none.npy", queries[:0])
    done = run("search", "atoms.npy", "none.npy")
    assert (done.exit_code, rows_of(done.stdout)) == (0, [])


def check_arrays(path, shown):
    """Check that an .npz file holds a row for each of three queries, with what was printed."""
    with np.load(path) as archive:
        arrays = dict(archive)
    fields = ["indices", "scores", "lower", "upper", "exact", "n_multiplies", "bytes_read", "stop_reason"]
    assert list(arrays) == fields
    assert [array.shape for array in arrays.values()] == [(3, 2)] * 5 + [(3,)] * 3
    assert arrays["indices"].ravel().tolist() == [int(row["index"]) for row in shown]
    assert arrays["scores"].ravel().tolist() == [float(row["score"]) for row in shown]
    assert arrays["stop_reason"].tolist() == [row["stop_reason"] for row in shown[::2]]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npz", "json", "jsonl"])
def test_output_files_hold_what_stdout_would(folder, suffix):
    shown = rows_of(run("search", "atoms.npy", "queries.npy", "-k", 2).stdout)
    done = run("search", "atoms.npy", "queries.npy", "-k", 2, "-o", f"out.{suffix}")
    assert (done.exit_code, done.stdout) == (0, "")
    assert f"written to out.{suffix}" in done.stderr
    path = Path(f"out.{suffix}")
    if suffix == "csv":
        assert rows_of(path.read_text()) == shown
        return
    if suffix == "tsv":
        assert list(csv.DictReader(io.StringIO(path.read_text()), delimiter="\t")) == shown
        return
    if suffix == "parquet":
        columns = pq.read_table(path).to_pydict()
    elif suffix == "npz":
        check_arrays(path, shown)
        return
    else:
        text = path.read_text()
        lines = json.loads(text) if suffix == "json" else [json.loads(line) for line in text.splitlines()]
        columns = {name: [line[name] for line in lines] for name in lines[0]}
    assert list(columns) == HEADER
    assert columns["index"] == [int(row["index"]) for row in shown]
    assert columns["score"] == [float(row["score"]) for row in shown]
    assert columns["stop_reason"] == [row["stop_reason"] for row in shown]


# --- errors ---------------------------------------------------------------------------------------------------------


def check_error(done, code, message):
    """Check that a command failed with this code, one line on stderr and nothing on stdout."""
    assert done.exit_code == code
    assert done.stdout == ""
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert re.search(message, last), last
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.npy", "queries.npy"], "nowhere.npy: No such file"),
        (["atoms.npy", "nowhere.csv"], "nowhere.csv: No such file"),
        (["folder.npy", "queries.npy"], "folder.npy: (Is a directory|Permission denied)"),
        (["damaged.npy", "queries.npy"], "damaged.npy: cannot be read as .npy"),
        (["words.csv", "queries.npy", "--no-ids"], "words.csv: line 2, field 2: expected a number, got 'x'"),
        (["vector.npy", "queries.npy"], r"vector.npy: expected a matrix .*, got shape \(3000,\)"),
        (["cube.npy", "queries.npy"], r"cube.npy: expected a matrix .*, got shape \(100, 50, 60\)"),
        (["empty.npy", "queries.npy"], "empty.npy is empty"),
        (["both.npz", "queries.npy"], "both.npz: name one of its arrays; it holds atoms, queries"),
        (["atoms.npy", "narrow.npy"], "^error: narrow.npy has 300 columns, but atoms.npy has 3000$"),
        (["bad_atoms.npy", "queries.npy", "--fit"], "^error: bad_atoms.npy has nan at row 3, column 7$"),
        (["atoms.npy", "bad_queries.npy"], "^error: bad_queries.npy has inf at row 1, column 2$"),
        (["atoms.xls", "queries.npy"], "atoms.xls: cannot read a file with suffix '.xls'; known are .npy"),
        (["atoms.npy", "queries.npy", "-o", "out.xls"], "out.xls: cannot write a file with suffix '.xls'"),
        (["atoms.npy", "queries.npy", "-o", "nowhere/out.csv"], "nowhere/out.csv: there is no folder nowhere"),
        (["both.npz", "both.npz", "--key", "atoms", "--query-key", "queries", "-o", "both.npz"], "choose another file"),
        (["atoms.npy", "queries.npy", "-k", "0"], "'-k'"),
        (["atoms.npy", "queries.npy", "-k", "two"], "'-k'"),
        (["atoms.npy", "queries.npy", "--delta", "2"], r"^error: --delta must be in \[0, 1\), got 2.0$"),
        (["atoms.npy", "queries.npy", "--epsilon", "-1"], "--epsilon must be at least 0"),
        (["atoms.npy", "queries.npy", "--jobs", "0"], "--jobs must be a number of threads"),
        (["atoms.npy", "queries.npy", "--bound", "pared"], "--bound must be one of .*did you mean 'paired'"),
        (["atoms.npy", "queries.npy", "--sigma", "big", "--bound", "hoeffding"], "--sigma must be .*'big'"),
        (["atoms.npy", "queries.npy", "--value-range", "5", "1", "--bound", "bernstein"], "--value-range must be"),
        (["atoms.npy", "queries.npy", "--value-range", "5"], "--value-range"),
        (["atoms.npy", "queries.npy", "--budget", "5"], "--budget must allow at least one multiply"),
        (["atoms.npy", "queries.npy", "--bound", "hoeffding"], "needs to know the range"),
        (["atoms.npy", "queries.npy", "--frobnicate"], "--frobnicate"),
        (["atoms.npy", "queries.npy", "--smallest"], "--smallest; it is called --ends here"),
        (["atoms.npy", "queries.npy", "--top-k", "3"], "--top-k; it is called -k here"),
        (["atoms.npy", "queries.npy", "--threads", "2"], "--threads.*; it is called --jobs here"),
        (["atoms.npy"], "(?i)missing argument 'queries'"),
    ],
)
def test_mistakes_get_one_line_and_code_2(folder, arguments, message):
    before = sorted(folder.iterdir())
    check_error(run("search", *arguments), 2, message)
    assert sorted(folder.iterdir()) == before


def test_mistakes_in_options_do_not_wait_for_the_files(folder):
    check_error(run("search", "nowhere.npy", "queries.npy", "--delta", "2"), 2, "--delta")
    check_error(run("search", "nowhere.npy", "queries.npy", "-o", "out.xls"), 2, "out.xls")


def test_unknown_commands_and_options(folder):
    check_error(run("serch"), 2, "serch")
    check_error(run("--frobnicate"), 2, "--frobnicate")


def test_missing_extra_is_the_environments_fault(folder, monkeypatch):
    Path("atoms.parquet").touch()
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    message = r"needs pyarrow, which is not installed: pip install 'banditmips\[tables\]'"
    check_error(run("search", "atoms.parquet", "queries.npy"), 1, message)
    check_error(run("search", "atoms.npy", "queries.npy", "-o", "out.parquet"), 1, message)


def test_full_disk_is_the_environments_fault(folder, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_result_files.os, "fsync", full)
    done = run("search", "atoms.npy", "queries.npy", "-o", "out.csv")
    check_error(done, 1, "^error: out.csv: No space left on device$")
    assert not list(folder.glob("out*")) + list(folder.glob(".banditmips*"))


def test_lack_of_memory_is_the_environments_fault(folder, monkeypatch):
    def exhausted(*arguments, **options):
        raise MemoryError

    monkeypatch.setattr("banditmips._labelled.open_atoms", exhausted)
    check_error(run("search", "atoms.npy", "queries.npy"), 1, "^error: there is not enough memory$")


def test_debug_shows_where_an_error_came_from(folder, monkeypatch):
    monkeypatch.setenv("BANDITMIPS_DEBUG", "1")
    done = run("search", "nowhere.npy", "queries.npy")
    assert done.exit_code == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1] == "error: nowhere.npy: No such file or directory"


@pytest.mark.parametrize("kind", [ZeroDivisionError, TypeError])
def test_errors_nobody_foresaw_are_not_hidden(folder, monkeypatch, kind):
    def broken(*arguments, **options):
        raise kind("a mistake of ours")

    monkeypatch.setattr("banditmips._search.search", broken)
    assert isinstance(run("search", "atoms.npy", "queries.npy").exception, kind)


def test_ctrl_c_gives_130(folder, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("banditmips._labelled.open_atoms", interrupted)
    done = run("search", "atoms.npy", "queries.npy")
    assert (done.exit_code, done.stderr) == (130, "interrupted\n")


@pytest.mark.parametrize("name", ["typer", "numpy"])
def test_ctrl_c_during_the_imports(name, tmp_path):
    """Most of the first second goes there; a module of the name stands for Ctrl-C in the midst of it."""
    (tmp_path / f"{name}.py").write_text("raise KeyboardInterrupt")
    set_up = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['banditmips', 'demo']"
    program = f"{set_up}; from banditmips.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_ctrl_c_while_the_commands_are_put_together(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("typer.main.get_command", interrupted)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize("value", ["99999999999999999999", str(2**31)])
def test_more_atoms_than_there_can_be(value, folder):
    done = run("search", "atoms.npy", "queries.npy", "-k", value)
    assert done.exit_code == 2
    assert f"k must be at most 2147483647, got {value}" in done.stderr


def test_version_and_help():
    assert run("--version").stdout == f"banditmips {bm.__version__}\n"
    for arguments in ([], ["--help"], ["search", "-h"], ["demo", "--help"]):
        done = run(*arguments)
        assert done.exit_code == 0
        assert "Usage" in done.stdout


# --- real processes -------------------------------------------------------------------------------------------------


def start(*arguments, **options):
    """Run a command in a process of its own."""
    command = [*COMMAND, *(str(argument) for argument in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


def on_terminal(*arguments, until=None):
    """Run a command on a pseudo-terminal; press Ctrl-C once `until` is shown. Returns (exit code, what was shown)."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    command = [*COMMAND, *(str(argument) for argument in arguments)]
    # A session of its own, with the terminal as its controlling one: only so does Ctrl-C send a signal. Where tests run
    # in the background, a shell has told them to take no notice of it.
    process = subprocess.Popen(
        [sys.executable, "-c", "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGINT, signal.SIG_DFL); "
         "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])", *command],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while select.select([ours], [], [], 300)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
            if until is not None and until in shown:
                os.write(ours, b"\x03")
                until = None
        return process.wait(timeout=300), shown.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_pipe_gets_csv_and_no_progress(folder):
    done = start("search", "atoms.npy", "queries.npy", "-k", 1)
    assert done.returncode == 0
    assert len(rows_of(done.stdout)) == 3
    assert "\x1b" not in done.stdout + done.stderr
    assert "searching" not in done.stderr


def test_terminal_gets_a_table_and_progress(folder):
    code, shown = on_terminal("search", "atoms.npy", "queries.npy", "-k", 1, "--no-rescore")
    assert code == 0
    assert "searching" in shown
    assert "100%" in shown
    assert "give or take" in shown
    assert "query,rank" not in shown


def test_ctrl_c_on_a_terminal(folder, atoms):
    np.save("short.npy", atoms[:, :50].astype(np.int8))
    np.save("endless.npy", np.ones((300_000, 50), dtype=np.int8))
    arguments = ("search", "short.npy", "endless.npy", "--no-fit", "-o", "out.csv")
    code, shown = on_terminal(*arguments, until=b"searching")
    assert code == 130
    assert shown.rstrip().endswith("interrupted")
    assert "Traceback" not in shown
    assert not list(folder.glob("out*")) + list(folder.glob(".banditmips*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_behind_stdout(folder):
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "search", "atoms.npy", "queries.npy"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: standard output: No space left on device"


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX pipes")
def test_reader_that_goes_away(folder):
    reading, writing = os.pipe()
    os.close(reading)
    command = [*COMMAND, "search", "atoms.npy", "queries.npy"]
    with os.fdopen(writing, "w") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_import_stays_light():
    program = "import sys, banditmips; print([m for m in ('matplotlib', 'typer', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# --- demo -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def one_thread(monkeypatch, tmp_path):
    """Work in an empty folder, with the settings that let the demo run in this process."""
    monkeypatch.chdir(tmp_path)
    for name in ONE_THREAD:
        monkeypatch.setenv(name, "1")
    return tmp_path


def table_of(text):
    """Return the demo's table: method -> (multiplies, share in percent, recall)."""
    lines = re.findall(r"^ *(BLAS, [a-z ]+?|search, [a-z ]+?)  .* ([\d,]+) +([\d.]+) % +([\d.]+) *$", text, re.M)
    return {name: (int(count.replace(",", "")), float(share), float(recall)) for name, count, share, recall in lines}


def test_demo_shows_answer_cost_and_recall(one_thread):
    done = run("demo", "--n", 300, "--d", 1000, "--queries", 4, "-k", 2, "--delta", 0.01, "--seed", 3)
    assert done.exit_code == 0, done.stderr
    data = datasets.load("ratings", n=300, d=1000, n_queries=4, seed=3)
    best = np.argsort(-(data.atoms @ data.queries[0]))[:2]
    assert re.findall(r"movie (\d+), score", done.stdout) == [str(index) for index in best]
    table = table_of(done.stdout)
    assert table["BLAS, all products"] == (300_000, 100.0, 1.0)
    index = bm.BanditMIPS(delta=0.01, seed=3).fit(data.atoms)
    expected = {
        "search, no index": bm.search(data.atoms, data.queries, k=2, delta=0.01, seed=3),
        "search, fitted index": index.search(data.queries, k=2),
    }
    for method, result in expected.items():
        count, share, recall = table[method]
        assert count == pytest.approx(result.n_multiplies.mean(), abs=1)
        assert share == pytest.approx(count / 3000, rel=0.01)
        assert recall == 1.0


def test_demo_draws_a_race(one_thread):
    done = run("demo", "--n", 100, "--d", 300, "--queries", 1)
    assert done.exit_code == 0, done.stderr
    assert re.search(r"for few multiplies \([\d.]+ %\), is drawn in banditmips-race.png", done.stdout)
    assert Path("banditmips-race.png").read_bytes().startswith(b"\x89PNG")
    assert run("demo", "--n", 100, "--d", 300, "--queries", 1, "--picture", "race.svg").exit_code == 0
    assert "<svg" in Path("race.svg").read_text()


def test_there_is_a_race_to_be_drawn_in_the_demo(one_thread, monkeypatch):
    """Not a blank picture: what is drawn was not settled by bounds, nor by the full product."""
    raced = []
    monkeypatch.setattr(_demonstration, "_draw", lambda result, *others: raced.append(result))
    assert run("demo", "--n", 1_000, "--d", 3_000, "--queries", 1).exit_code == 0
    assert raced[0].n_rounds > 3
    assert raced[0].trace.rounds


def test_demo_goes_on_without_matplotlib(one_thread, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    done = run("demo", "--n", 100, "--d", 300, "--queries", 1)
    assert done.exit_code == 0
    assert "no picture: " in done.stderr
    assert "pip install 'banditmips[plot]'" in done.stderr
    assert list(one_thread.iterdir()) == []
    assert "BLAS, all products" in table_of(done.stdout)


def test_demo_admits_that_blas_is_faster(capsys):
    blas = _demonstration._Row("BLAS, all products", None, 0.002, 1000.0, 1.0)
    slow = _demonstration._Row("search, no index", None, 0.005, 100.0, 0.75)
    fast = _demonstration._Row("search, fitted index", 0.5, 0.001, 50.0, 1.0)
    _demonstration._print_comparison([blas, slow, fast], 1000)
    shown = capsys.readouterr().out
    assert "search, no index: 10 times fewer multiplies, 2.5 times more time than BLAS" in shown
    assert "search, fitted index: 20 times fewer multiplies, 2 times less time than BLAS" in shown
    assert table_of(shown)["search, no index"] == (100, 10.0, 0.75)


def test_demo_measures_recall_against_the_true_answers():
    queries = np.eye(4, dtype=np.float32)
    truth = [{0, 1}, {1, 2}, {2, 3}, {3, 0}]
    row = _demonstration._measure("m", None, lambda query: (np.array([query.argmax(), 9]), 7), queries, truth)
    assert (row.recall, row.n_multiplies) == (0.5, 7.0)


@pytest.mark.parametrize("k", [1, 3, 100, 200])
def test_demo_finds_the_true_answers(atoms, queries, k):
    order = np.argsort(-(queries.astype(np.float64) @ atoms.astype(np.float64).T), axis=1)
    assert _demonstration._true_answers(atoms, queries, k) == [set(row[:k].tolist()) for row in order]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--delta", "1"], r"--delta must be in \[0, 1\), got 1.0"),
        (["--n", "0"], "'--n'"),
        (["--queries", "0"], "'--queries'"),
        (["-k", "0"], "'-k'"),
        (["--picture", "nowhere/race.png"], "nowhere/race.png: there is no folder nowhere"),
        (["--picture", "."], "^error: .: is a folder$"),
    ],
)
def test_demo_mistakes(one_thread, arguments, message):
    check_error(run("demo", *arguments), 2, message)


def test_demo_sees_to_one_thread_itself(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name not in ONE_THREAD}
    done = start("demo", "--n", 100, "--d", 300, "--queries", 2, "-k", 3, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 more movies as queries, k = 3" in done.stdout
    assert (tmp_path / "banditmips-race.png").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="starts a second process instead")
def test_demo_starts_again_with_the_same_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    started = []

    def execve(path, command, environment):
        started.append((command, environment))
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "execve", execve)
    run("demo", "--n", 7, "--d", 8, "-k", 2, "--delta", 0.5, "--seed", 9, "--queries", 3, "--picture", "a b.png")
    [(command, environment)] = started
    options = ["-k2", "--n=7", "--d=8", "--delta=0.5", "--seed=9", "--queries=3", "--picture=a b.png"]
    assert command == [sys.executable, "-P", "-m", "banditmips.cli", "demo", *options]
    assert {environment[name] for name in ONE_THREAD} == {"1"}


def test_durations_have_three_digits():
    shown = [duration(seconds) for seconds in (1.2345e-5, 0.0999, 0.1, 1.0, 123.4)]
    assert shown == ["0.0123 ms", "99.9 ms", "0.100 s", "1.00 s", "123. s"]
