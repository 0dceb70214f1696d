"""Table files: what users have is read or refused with a reason, and what is written is whole."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse

import banditmips as bm
from banditmips import _result_files
from banditmips._opening import open_atoms
from banditmips._result_files import check_output, replacing, result_columns, write_columns
from banditmips._tables import read_matrix

MATRIX = np.array([[1.0, 2.5, -3.0], [0.1, 1e-7, 4e20]])
COLUMNS = {
    "query": np.array([0, 0]),
    "score": np.array([0.1, -np.inf]),
    "exact": np.array([True, False]),
    "stop_reason": np.array(["separated", "budget"]),
}


def write_text(path: Path, text: str) -> Path:
    """Write a text file as it stands, line ends included."""
    path.write_bytes(text.encode())
    return path


# --- .npy and .npz --------------------------------------------------------------------------------------------------


def test_npy_is_mapped_not_read(tmp_path):
    path = tmp_path / "atoms.npy"
    np.save(path, MATRIX.astype(np.float32))
    matrix = read_matrix(path)
    assert isinstance(matrix, np.memmap)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, MATRIX.astype(np.float32))


def test_suffix_may_be_written_large(tmp_path):
    path = tmp_path / "atoms.csv"
    np.savetxt(path, MATRIX, delimiter=",")
    path = path.rename(tmp_path / "ATOMS.CSV")
    np.testing.assert_array_equal(read_matrix(path), MATRIX)


def test_vector_is_one_row_where_that_makes_sense(tmp_path):
    path = tmp_path / "query.npy"
    np.save(path, MATRIX[0])
    assert read_matrix(path, allow_vector=True).shape == (1, 3)
    with pytest.raises(ValueError, match=r"query.npy: expected a matrix .* got shape \(3,\)"):
        read_matrix(path)


@pytest.mark.parametrize("shape", [(), (2, 2, 2)])
def test_other_dimensions_are_refused(tmp_path, shape):
    path = tmp_path / "atoms.npy"
    np.save(path, np.zeros(shape))
    with pytest.raises(ValueError, match="expected a matrix"):
        read_matrix(path, allow_vector=True)


@pytest.mark.parametrize("array", [np.array([["a", "b"]]), np.array([[1j]]), np.array([(1, 2.0)], dtype="i4,f8")])
def test_what_is_no_real_number_is_refused(tmp_path, array):
    path = tmp_path / "atoms.npy"
    np.save(path, array)
    with pytest.raises(ValueError, match="expected real numbers, got dtype"):
        read_matrix(path)


@pytest.mark.parametrize("content", [b"", b"hello", b"\x93NUMPY\x01\x00"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_damaged_file_is_refused(tmp_path, suffix, content):
    path = tmp_path / f"atoms{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"atoms{suffix}: cannot be read as {suffix}"):
        read_matrix(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".parquet"])
def test_truncated_file_is_refused(tmp_path, suffix):
    path = tmp_path / f"atoms{suffix}"
    values = np.arange(5000.0).reshape(100, 50)
    if suffix == ".npy":
        np.save(path, values)
    elif suffix == ".npz":
        np.savez(path, values)
    else:
        pq.write_table(pa.table({str(j): values[:, j] for j in range(50)}), path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(ValueError, match=rf"cannot be read as {suffix}"):
        read_matrix(path)


def test_pickled_objects_are_not_loaded(tmp_path):
    path = tmp_path / "atoms.npy"
    np.save(path, np.array([[1, None]]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"cannot be read as .npy"):
        read_matrix(path)
    np.savez(tmp_path / "atoms.npz", np.array([[1, None]]))
    with pytest.raises(ValueError, match=r"cannot be read as .npz"):
        read_matrix(tmp_path / "atoms.npz")


def test_npz_of_one_array_needs_no_key(tmp_path):
    path = tmp_path / "data.npz"
    np.savez_compressed(path, whatever=MATRIX)
    np.testing.assert_array_equal(read_matrix(path), MATRIX)


def test_npz_of_several_arrays_needs_a_key(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, atoms=MATRIX, queries=MATRIX + 1)
    np.testing.assert_array_equal(read_matrix(path, "queries"), MATRIX + 1)
    with pytest.raises(ValueError, match=r"data.npz: name one of its arrays; it holds atoms, queries"):
        read_matrix(path)
    with pytest.raises(ValueError, match=r"data.npz: has no array 'atom'; it holds atoms, queries"):
        read_matrix(path, "atom")


def test_npz_that_is_an_npy_is_refused(tmp_path):
    np.save(tmp_path / "atoms.npy", MATRIX)
    path = (tmp_path / "atoms.npy").rename(tmp_path / "atoms.npz")
    with pytest.raises(ValueError, match=r"cannot be read as .npz: File is not a zip file"):
        read_matrix(path)


def test_npz_of_something_else_is_refused(tmp_path):
    path = tmp_path / "atoms.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("notes.txt", "hello")
    with pytest.raises(ValueError, match=r"cannot be read as .npz: its 'notes.txt' is no array"):
        read_matrix(path)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_sparse_npz(tmp_path, kind):
    path = tmp_path / "atoms.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(MATRIX).asformat(kind))
    matrix = read_matrix(path)
    assert scipy.sparse.issparse(matrix)
    np.testing.assert_array_equal(matrix[:1].toarray(), MATRIX[:1])


@pytest.mark.parametrize("suffix", [".npy", ".csv"])
def test_key_is_refused_where_there_is_no_choice(tmp_path, suffix):
    with pytest.raises(ValueError, match="holds one table only, so there is no 'x' to choose"):
        read_matrix(tmp_path / f"atoms{suffix}", "x")


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet"])
def test_missing_file_and_folder_are_the_systems_errors(tmp_path, suffix):
    with pytest.raises(FileNotFoundError):
        read_matrix(tmp_path / f"atoms{suffix}")
    (tmp_path / f"folder{suffix}").mkdir()
    with pytest.raises(OSError, match="folder") as caught:
        read_matrix(tmp_path / f"folder{suffix}")
    assert isinstance(caught.value, (IsADirectoryError, PermissionError))


@pytest.mark.parametrize("name", ["atoms.xls", "atoms", "atoms.npy.gz"])
def test_unknown_suffix_lists_the_known(tmp_path, name):
    with pytest.raises(ValueError, match=r"cannot read a file with suffix '.*'; known are .npy, .npz, .csv, .parquet"):
        read_matrix(tmp_path / name)


# --- .csv -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "1,2.5\n3,4e1\n",
        "1,2.5\n3,4e1",
        "a,b\n1,2.5\n3,4e1\n",
        '"a, b",c\n1,2.5\n3,4e1\n',
        ",b\n1,2.5\n3,4e1\n",
        "\ufeffa,b\n1,2.5\n3,4e1\n",
        "\ufeff1,2.5\n3,4e1\n",
        "a,b\r\n1,2.5\r\n3,4e1\r\n",
        "# made by hand\n\na,b\n1,2.5\n\n3,4e1\n\n",
        '"1","2.5"\n"3","4e1"\n',
        "a;b\n1;2.5\n3;4e1\n",
        "1\t2.5\n3\t4e1\n",
        "1 2.5\n3 4e1\n",
        "  1   2.5 \n  3   4e1\n",
        "a b\n1 2.5\n3 4e1\n",
        " 1 , 2.5 \n 3 , 4e1 \n",
    ],
)
def test_csv_with_or_without_names(tmp_path, text):
    path = write_text(tmp_path / "atoms.csv", text)
    np.testing.assert_array_equal(read_matrix(path), [[1, 2.5], [3, 40]])


@pytest.mark.parametrize("name", ["atoms.tsv", "atoms.txt"])
def test_text_with_tabs_or_spaces(tmp_path, name):
    values = np.random.default_rng(0).normal(size=(4, 3))
    np.savetxt(tmp_path / name, values, delimiter="\t" if name.endswith("tsv") else " ", fmt="%.17g")
    np.testing.assert_array_equal(read_matrix(tmp_path / name), values)
    found = bm.search(tmp_path / name, values[0], k=4)
    np.testing.assert_array_equal(found.scores, bm.search(values, values[0], k=4).scores)
    np.testing.assert_array_equal(found.indices, np.argsort(-(values @ values[0])))


def test_csv_of_one_column_or_row(tmp_path):
    assert read_matrix(write_text(tmp_path / "column.csv", "x\n1\n2\n")).shape == (2, 1)
    assert read_matrix(write_text(tmp_path / "row.csv", "1,2,3\n")).shape == (1, 3)


def test_csv_keeps_every_bit(tmp_path):
    path = tmp_path / "atoms.csv"
    values = np.random.default_rng(0).normal(size=(20, 30)) * 10.0 ** np.arange(-15, 15)
    np.savetxt(path, values, delimiter=",", fmt="%.17g")
    np.testing.assert_array_equal(read_matrix(path), values)


def test_csv_leaves_nan_to_the_search(tmp_path):
    assert np.isnan(read_matrix(write_text(tmp_path / "atoms.csv", "1,nan\n"))).tolist() == [[False, True]]


def test_csv_whose_names_are_numbers_is_ambiguous(tmp_path):
    path = write_text(tmp_path / "atoms.csv", "0,1,2\n5,6,7\n")
    with pytest.raises(ValueError, match=r"atoms.csv: line 1 counts 0, 1, 2, .*--header or --no-header"):
        read_matrix(path)
    np.testing.assert_array_equal(read_matrix(path, header=True), [[5, 6, 7]])
    np.testing.assert_array_equal(read_matrix(path, header=False), [[0, 1, 2], [5, 6, 7]])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n3,x\n", "line 3, field 2: expected a number, got 'x'"),
        ("1,2\n\n3,\n", "line 3, field 2: expected a number, got ''"),
        ("1,2\n3\n", "line 2: expected 2 fields like the lines before, got 1"),
        ("1,2\n3,4,5\n", "line 2: expected 2 fields like the lines before, got 3"),
        ("name,1,2\nx,3,4\n", "line 1, field 1: expected a number, got 'name'"),
        ("a,b\nc,d\n", "line 2, field 1: expected a number, got 'c'"),
        ("", "has no rows of numbers"),
        ("a,b\n", "has no rows of numbers"),
        ("# nothing\n\n", "has no rows of numbers"),
    ],
)
def test_csv_problem_is_named_by_line_and_field(tmp_path, text, problem):
    path = write_text(tmp_path / "atoms.csv", text)
    with pytest.raises(ValueError, match=rf"atoms.csv: {problem}"):
        read_matrix(path)


@pytest.mark.parametrize("content", [b"\xff\xfe1\x00", b"1,2\n" * 10_000 + b"3,\xe9\n"])
def test_csv_in_another_encoding_is_refused(tmp_path, content):
    path = tmp_path / "atoms.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"atoms.csv: is no text in UTF-8"):
        read_matrix(path)


# --- .parquet -------------------------------------------------------------------------------------------------------


def save_parquet(path, columns, **options):
    """Write columns to a Parquet file and return its path."""
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_parquet_of_numbers(tmp_path):
    path = save_parquet(tmp_path / "atoms.parquet", {"a": MATRIX[:, 0], "b": MATRIX[:, 1], "c": MATRIX[:, 2]})
    np.testing.assert_array_equal(read_matrix(path), MATRIX)


def test_parquet_takes_the_common_type(tmp_path):
    columns = {"a": np.array([1, 2], dtype=np.int8), "b": np.array([0.5, 1.5], dtype=np.float32)}
    matrix = read_matrix(save_parquet(tmp_path / "atoms.parquet", columns))
    assert matrix.dtype == np.float32
    flags = read_matrix(save_parquet(tmp_path / "flags.parquet", {"a": np.array([True, False])}))
    assert flags.tolist() == [[True], [False]]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 3), pa.list_(pa.float32()), pa.large_list(pa.float32())])
def test_parquet_of_lists(tmp_path, kind):
    rows = np.arange(30, dtype=np.float32).reshape(10, 3)
    # Several row groups come back as several pieces.
    path = save_parquet(tmp_path / "a.parquet", {"vector": pa.array(rows.tolist(), type=kind)}, row_group_size=4)
    matrix = read_matrix(path)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, rows)


def test_parquet_list_column_among_others_is_chosen_by_name(tmp_path):
    columns = {"id": ["x", "y"], "vector": MATRIX.tolist()}
    path = save_parquet(tmp_path / "atoms.parquet", columns)
    np.testing.assert_array_equal(read_matrix(path, "vector"), MATRIX)
    with pytest.raises(ValueError, match=r"column 'id' holds string \(a list column among others can be chosen"):
        read_matrix(path)
    with pytest.raises(ValueError, match="has no column 'vectors'; it holds id, vector"):
        read_matrix(path, "vectors")


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"a": [1.0, None]}, "has no value in row 1 of column 'a'"),
        ({"v": [[1.0, 2.0], None]}, "column 'v' has no value in row 1"),
        ({"v": [[1.0, 2.0], [3.0, None]]}, "column 'v' has no value in row 1, entry 1"),
        ({"v": [[1.0, 2.0], [3.0]]}, "column 'v' must hold lists of one length, got 2 entries in row 0 and 1 in row 1"),
        ({"v": [["x"]]}, "column 'v' must hold lists of numbers"),
    ],
)
def test_parquet_problem_is_named_by_row(tmp_path, columns, problem):
    path = save_parquet(tmp_path / "atoms.parquet", columns)
    with pytest.raises(ValueError, match=rf"atoms.parquet: {problem}"):
        read_matrix(path)


def test_parquet_without_the_extra(tmp_path, monkeypatch):
    path = save_parquet(tmp_path / "atoms.parquet", {"a": [1.0]})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"atoms.parquet needs pyarrow.*pip install 'banditmips\[tables\]'"):
        read_matrix(path)
    with pytest.raises(ImportError, match=r"out.parquet needs pyarrow.*pip install 'banditmips\[tables\]'"):
        check_output(tmp_path / "out.parquet")


# --- writing --------------------------------------------------------------------------------------------------------


def test_csv_output(tmp_path):
    path = tmp_path / "out.csv"
    write_columns(path, COLUMNS)
    assert path.read_bytes() == b"query,score,exact,stop_reason\n0,0.1,true,separated\n0,-inf,false,budget\n"


@pytest.mark.parametrize("suffix", [".json", ".jsonl"])
def test_json_output_is_strict(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    write_columns(path, COLUMNS)
    text = path.read_text()
    if suffix == ".json":
        rows = json.loads(text, parse_constant=pytest.fail)
    else:
        rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert rows == [
        {"query": 0, "score": 0.1, "exact": True, "stop_reason": "separated"},
        {"query": 0, "score": None, "exact": False, "stop_reason": "budget"},
    ]


def test_json_of_no_rows_is_an_empty_array(tmp_path):
    write_columns(tmp_path / "out.json", {name: column[:0] for name, column in COLUMNS.items()})
    assert json.loads((tmp_path / "out.json").read_text()) == []


def test_tsv_output(tmp_path):
    write_columns(tmp_path / "out.tsv", COLUMNS)
    assert (tmp_path / "out.tsv").read_text().splitlines()[1] == "0\t0.1\ttrue\tseparated"


def test_the_format_comes_before_the_suffix(tmp_path):
    write_columns(tmp_path / "out.txt", COLUMNS, "jsonl")
    assert json.loads((tmp_path / "out.txt").read_text().splitlines()[0])["score"] == 0.1


def test_npz_and_parquet_output(tmp_path):
    write_columns(tmp_path / "out.npz", COLUMNS)
    write_columns(tmp_path / "out.parquet", COLUMNS)
    table = pq.read_table(tmp_path / "out.parquet")
    with np.load(tmp_path / "out.npz") as archive:
        for name, column in COLUMNS.items():
            np.testing.assert_array_equal(archive[name], column)
            assert table.column(name).to_pylist() == column.tolist()


def test_columns_agree_with_the_frame():
    rng = np.random.default_rng(0)
    result = bm.search(rng.normal(size=(5, 40)), rng.normal(size=(3, 40)), k=7)
    frame = result.to_frame()
    columns = result_columns(result)
    assert list(frame.columns) == list(columns)
    for name, column in columns.items():
        assert frame[name].tolist() == column.tolist()


def test_no_queries_make_no_rows(tmp_path):
    result = bm.search(np.ones((2, 3)), np.empty((0, 3)))
    write_columns(tmp_path / "out.csv", result_columns(result))
    assert (tmp_path / "out.csv").read_text().count("\n") == 1


def test_output_is_checked_before_the_work(tmp_path):
    check_output(tmp_path / "out.csv")
    with pytest.raises(ValueError, match=r"cannot write a file with suffix '.xls'; known are .csv, .parquet, .npz"):
        check_output(tmp_path / "out.xls")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        check_output(tmp_path / "nowhere" / "out.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(IsADirectoryError, match="is a folder"):
        check_output(tmp_path / "folder.csv")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_closed_folder_is_seen_before_the_work(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(PermissionError, match="may not be written to"):
        check_output(tmp_path / "closed" / "out.csv")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".json"])
def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_text("old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(_result_files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write_columns(path, COLUMNS)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits on the size of files")
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".json"])
def test_a_write_that_fails_midway_leaves_the_old_file(tmp_path, suffix):
    path = tmp_path / f"out{suffix}"
    path.write_text("old")
    program = f"""
import resource, signal
import numpy as np
from banditmips._result_files import write_columns
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    write_columns({str(path)!r}, {{"x": np.random.default_rng(0).normal(size=50_000)}})
except OSError as error:
    print(error.errno, error.filename)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(errno.EFBIG), str(path)]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_interrupted_write_leaves_nothing(tmp_path):
    def begin_and_stop():
        with replacing(tmp_path / "out.csv") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        begin_and_stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="needs modes and symbolic links")
def test_replaced_file_keeps_its_mode_and_place(tmp_path):
    target = tmp_path / "target.csv"
    target.write_text("old")
    target.chmod(0o640)
    link = tmp_path / "link.csv"
    link.symlink_to(target)
    write_columns(link, COLUMNS)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o640
    assert target.read_text().startswith("query,")


# --- what is not what it says -----------------------------------------------------------------------------------------


def npy(header, data=b""):
    """The bytes of an .npy file with this header."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


HEADERS = {
    "no expression": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4",
    "no token": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4)\x00, }",
    "no dictionary": "[1, 2]",
    "another type": "{'descr': 7, 'fortran_order': False, 'shape': (3, 4), }",
    "unknown type": "{'descr': '<q9', 'fortran_order': False, 'shape': (3, 4), }",
    "odd order": "{'descr': '<f8', 'fortran_order': 'F', 'shape': (3, 4), }",
    "missing key": "{'descr': '<f8', 'shape': (3, 4), }",
    "negative": "{'descr': '<f8', 'fortran_order': False, 'shape': (-3, 4), }",
    "boolean": "{'descr': '<f8', 'fortran_order': False, 'shape': (True, 4), }",
    "huge": "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999999, 4), }",
    "huge product": "{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
    "deep": "{'descr': '<f8', 'fortran_order': False, 'shape': " + "(" * 3000 + ")" * 3000 + ", }",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (3, 4), }",
    "a record": "{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3, 4), }",
    "a program": "__import__('os').system('touch was_here')",
    "a program within": "{'descr': exit(), 'fortran_order': False, 'shape': (3, 4), }",
    "very long": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }" + " " * 60_000,
    "many signs": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "-" * 30_000 + "3, 4), }",
    "many digits": "{'descr': '<f8', 'fortran_order': False, 'shape': (" + "9" * 5_000 + ", 4), }",
    "no numbers": "{'descr': '<f8', 'fortran_order': False, 'shape': ('3', 4.0), }",
    "longer than the file": "{'descr': '<f8', 'fortran_order': False, 'shape': (3, 5), }",
}


@pytest.mark.parametrize("case", HEADERS)
def test_damaged_npy_headers_are_named(case, tmp_path):
    path = tmp_path / "atoms.npy"
    path.write_bytes(npy(HEADERS[case], bytes(96)))
    for read in (read_matrix, open_atoms):
        with pytest.raises(ValueError, match=r"atoms\.npy: (cannot be read as \.npy|file: |expected real numbers)"):
            read(path)
    with zipfile.ZipFile(tmp_path / "atoms.npz", "w") as archive:
        archive.writestr("atoms.npy", npy(HEADERS[case], bytes(96)))
    with pytest.raises(ValueError, match=r"atoms\.npz: (cannot be read as \.npz|expected real numbers)"):
        read_matrix(tmp_path / "atoms.npz")


@pytest.mark.parametrize("version", [(0, 0), (1, 1), (4, 0), (255, 255)])
def test_npy_of_a_version_that_nobody_knows(version, tmp_path):
    path = tmp_path / "atoms.npy"
    sound = npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }", bytes(96))
    path.write_bytes(sound)
    assert open_atoms(path).shape == (3, 4)
    path.write_bytes(sound[:6] + bytes(version) + sound[8:])
    for read in (read_matrix, open_atoms):
        with pytest.raises(ValueError, match=rf"atoms\.npy: cannot be read as \.npy: .*version.*{version[0]}"):
            read(path)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize(
    ("part", "place", "value"),
    [("indices", 2, 10**9), ("indices", 2, -1), ("indptr", 1, -1), ("indptr", 1, 10**9), ("indptr", -1, 10**9)],
)
def test_a_sparse_npz_with_places_outside_it_is_refused(form, part, place, value, tmp_path):
    path = tmp_path / "atoms.npz"
    matrix = scipy.sparse.csr_array(np.eye(6)).asformat(form)
    scipy.sparse.save_npz(path, matrix)
    with np.load(path) as archive:
        parts = dict(archive)
    parts[part][place] = value
    np.savez(path, **parts)
    with pytest.raises(ValueError, match=r"atoms\.npz"):
        read_matrix(path)


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [10**15, 6]},
        {"shape": [6]},
        {"shape": [6, -6]},
        {"shape": 3},
        {"format": "odd"},
        {"format": 7},
        {"indices": None},
        {"data": "text"},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_a_sparse_npz_with_odd_parts_is_refused(form, change, tmp_path):
    path = tmp_path / "atoms.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.eye(6)).asformat(form))
    with np.load(path) as archive:
        parts = {**archive, **{name: np.array(value) for name, value in change.items() if value is not None}}
    for name, value in change.items():
        if value is None:
            del parts[name]
    np.savez(path, **parts)
    with pytest.raises(ValueError, match=r"atoms\.npz"):
        read_matrix(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".arrow", ".h5"])
def test_a_fifo_is_refused_at_once(suffix, tmp_path):
    path = tmp_path / f"atoms{suffix}"
    os.mkfifo(path)
    for read in (read_matrix, open_atoms):
        with pytest.raises(ValueError, match="it is a FIFO, and only regular files can be read"):
            read(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz", ".json"])
def test_a_fifo_is_not_replaced(suffix, tmp_path):
    path = tmp_path / f"result{suffix}"
    os.mkfifo(path)
    for write in (check_output, lambda path: write_columns(path, {"index": np.arange(3)})):
        with pytest.raises(FileExistsError, match="is a FIFO, and only regular files are replaced"):
            write(path)
    assert os.listdir(tmp_path) == [path.name]


def test_a_device_is_not_replaced(tmp_path):
    link = tmp_path / "result.csv"
    link.symlink_to(os.devnull)
    with pytest.raises(FileExistsError, match="is a device"):
        write_columns(link, {"index": np.arange(3)})
