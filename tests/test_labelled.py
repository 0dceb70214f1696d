"""Tables that name their rows: which column holds the ids, what is left for the matrix, and what is refused."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import banditmips as bm
from banditmips._labelled import check_ids, read_labelled

MATRIX = [[1.0, 2.5], [3.0, 40.0]]


def write(path, text):
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "ids", "column", "skipped"),
    [
        ("title,u,v\nHeat,1,2.5\nAlien,3,4e1\n", ["Heat", "Alien"], "title", ()),
        ("u,v,title\n1,2.5,Heat\n3,4e1,Alien\n", ["Heat", "Alien"], "title", ()),
        ("Heat,1,2.5\nAlien,3,4e1\n", ["Heat", "Alien"], "0", ()),
        ("id,u,v\n7,1,2.5\n9,3,4e1\n", [7, 9], "id", ()),
        ("ID;u;v\n007;1;2.5\n9;3;4e1\n", ["007", "9"], "ID", ()),
        (",u,v\n0,1,2.5\n1,3,4e1\n", [0, 1], "without a name", ()),
        (",0,1\n0,1,2.5\n1,3,4e1\n", [0, 1], "without a name", ()),
        ("id,title,u,v\n7,Heat,1,2.5\n9,Alien,3,4e1\n", [7, 9], "id", ("title",)),
        (
            'title,u,v\n"Heat, the ""film""",1,2.5\n"Two\nlines",3,4e1\n',
            ['Heat, the "film"', "Two\nlines"],
            "title",
            (),
        ),
        ("title,u,v\nC# minor,1,2.5\n# sharp,3,4e1\n", ["C# minor", "# sharp"], "title", ()),
        ("# made by hand\n\ntitle,u,v\n\nHeat,1,2.5\n\nAlien,3,4e1\n\n", ["Heat", "Alien"], "title", ()),
        ("\ufefftitle\tu\tv\r\nHeat\t1\t2.5\r\nAlien\t3\t4e1\r\n", ["Heat", "Alien"], "title", ()),
        ("the  1 2.5\n, 3 4e1\n", ["the", ","], "0", ()),
    ],
)
def test_ids_are_found_in_text(tmp_path, text, ids, column, skipped):
    read = read_labelled(write(tmp_path / "atoms.csv", text))
    assert read.matrix.tolist() == MATRIX
    assert read.ids.tolist() == ids
    assert (read.id_column, read.skipped) == (column, skipped)


def test_numbers_alone_have_no_ids(tmp_path):
    read = read_labelled(write(tmp_path / "atoms.csv", "u,v\n1,2.5\n3,4e1\n"))
    assert (read.matrix.tolist(), read.ids) == (MATRIX, None)


def test_the_column_can_be_named_or_numbered(tmp_path):
    path = write(tmp_path / "atoms.csv", "genre,title,u,v\ncrime,Heat,1,2.5\nhorror,Alien,3,4e1\n")
    for wanted in ("title", "1"):
        read = read_labelled(path, id_column=wanted)
        assert (read.matrix.tolist(), read.ids.tolist(), read.skipped) == (MATRIX, ["Heat", "Alien"], ("genre",))
    numbered = read_labelled(write(tmp_path / "b.csv", "5,1,2.5\n6,3,4e1\n"), id_column="0")
    assert (numbered.matrix.tolist(), numbered.ids.tolist()) == (MATRIX, [5, 6])


@pytest.mark.parametrize(
    ("text", "options", "problem"),
    [
        ("a,b,u\nx,y,1\n", {}, r"which column holds the ids, a, b\? Say --id-column NAME"),
        ("a,u\nx,1\n", {"id_column": "c"}, "has no column 'c' of ids; it holds a, u"),
        ("a,u\nx,1\n", {"id_column": "2"}, "has no column '2' of ids"),
        ("a,u\nx,1\ny\n", {}, "line 3: expected 2 fields, got 1"),
        ("a,u\nx,1\ny,2,3\n", {}, "line 3: expected 2 fields, got 3"),
        ("a,u\nx,1,2\n", {}, "line 2: expected 2 fields, got 3"),
        ("a,u\nx,1\n,2\n", {}, "line 3, field 1: expected an id, got nothing"),
        ("a,u,v\nx,1,2\ny,2,z\n", {}, "line 3, field 3: expected a number, got 'z'"),
        ("a,u,v\nx,1,2\ny,,3\n", {}, "line 3, field 2: expected a number, got ''"),
        ("a\nx\n", {}, "has no columns of numbers beside a"),
        ("country,1960,1961,1962\nPeru,1,2,3\n", {}, r"line 1 counts 1960, 1961, \.\.\.: names or numbers"),
        ("name,0,1\nx,3,4\n", {}, "line 1 counts 0, 1, .*--header or --no-header"),
    ],
)
def test_problems_are_named_by_line(tmp_path, text, options, problem):
    with pytest.raises(ValueError, match=rf"atoms.csv: {problem}"):
        read_labelled(write(tmp_path / "atoms.csv", text), **options)


def test_years_as_names(tmp_path):
    path = write(tmp_path / "atoms.csv", "country,1960,1961,1962\nPeru,1,2,3\n")
    assert read_labelled(path, header=True).ids.tolist() == ["Peru"]
    assert read_labelled(path, header=False).ids.tolist() == ["country", "Peru"]


def test_another_encoding_is_refused(tmp_path):
    path = tmp_path / "atoms.csv"
    path.write_bytes(b"a,u\nx,1\n" * 1 + b"caf\xe9,2\n")
    with pytest.raises(ValueError, match=r"atoms.csv: is no text in UTF-8"):
        read_labelled(path)


def test_ids_must_differ():
    check_ids(np.array(["a", "b"]), "column 'x'")
    with pytest.raises(ValueError, match=r"column 'x' must hold an id only once, got 'a' in rows 1 and 3"):
        check_ids(np.array(["b", "a", "c", "a"]), "column 'x'")


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
@pytest.mark.parametrize("memory_limit", [None, 1_000_000])
@pytest.mark.parametrize(
    ("columns", "ids", "skipped"),
    [
        ({"title": ["Heat", "Alien"], "u": [1.0, 3.0], "v": [2.5, 40.0]}, ["Heat", "Alien"], ()),
        ({"u": [1.0, 3.0], "v": [2.5, 40.0], "id": [7, 9]}, [7, 9], ()),
        ({"id": [7, 9], "title": ["Heat", "Alien"], "vector": MATRIX}, [7, 9], ("title",)),
        ({"u": [1.0, 3.0], "v": [2.5, 40.0], "__index_level_0__": [4, 5]}, [4, 5], ()),
    ],
)
def test_ids_are_found_in_columns(tmp_path, suffix, memory_limit, columns, ids, skipped):
    path = tmp_path / f"atoms{suffix}"
    (pq.write_table if suffix == ".parquet" else feather.write_feather)(pa.table(columns), path)
    read = read_labelled(path, memory_limit=memory_limit)
    matrix = read.matrix if memory_limit is None else read.matrix.array
    assert matrix.tolist() == MATRIX
    assert (read.ids.tolist(), read.skipped) == (ids, skipped)


@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        ({"id": ["x", None], "u": [1.0, 2.0]}, {}, "column 'id' has no id in row 1"),
        ({"a": [0.5, 1.5], "u": [1.0, 2.0]}, {"id_column": "a"}, "column 'a' must hold integers or strings to be ids"),
        ({"a": ["x"], "b": ["y"], "u": [1.0]}, {}, r"which column holds the ids, a, b\?"),
    ],
)
def test_problems_in_columns(tmp_path, columns, options, problem):
    pq.write_table(pa.table(columns), tmp_path / "atoms.parquet")
    with pytest.raises(ValueError, match=rf"atoms.parquet: {problem}"):
        read_labelled(tmp_path / "atoms.parquet", **options)


def test_ids_in_an_archive(tmp_path):
    path = tmp_path / "atoms.npz"
    np.savez(path, atoms=np.array(MATRIX), ids=np.array(["Heat", "Alien"]))
    read = read_labelled(path)
    assert (read.matrix.tolist(), read.ids.tolist()) == (MATRIX, ["Heat", "Alien"])
    np.savez(path, atoms=np.array(MATRIX), queries=np.array(MATRIX), names=np.array([4, 5]))
    assert read_labelled(path, "atoms", id_column="names").ids.tolist() == [4, 5]
    with pytest.raises(ValueError, match="has no array 'name' of ids; it holds atoms, queries, names"):
        read_labelled(path, "atoms", id_column="name")
    np.savez(path, atoms=np.array(MATRIX), ids=np.arange(3))
    with pytest.raises(ValueError, match="has 3 ids in 'ids', but 2 rows"):
        read_labelled(path)


def test_files_of_numbers_have_no_column_of_ids(tmp_path):
    np.save(tmp_path / "atoms.npy", MATRIX)
    with pytest.raises(ValueError, match=r"atoms.npy: holds numbers only, so there is no column 'x' of ids"):
        read_labelled(tmp_path / "atoms.npy", id_column="x")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
@pytest.mark.parametrize("suffix", [".csv", ".npz", ".parquet", ".arrow"])
def test_a_fifo_is_refused_at_once(suffix, tmp_path):
    path = tmp_path / f"films{suffix}"
    os.mkfifo(path)
    with pytest.raises(bm.CorruptFileError, match="it is a FIFO, and only regular files can be read"):
        read_labelled(path)


def test_ids_that_lie_about_their_size_are_refused_before_memory_is_taken(tmp_path):
    path = tmp_path / "films.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (1 << 50,)})
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", header.getvalue())
        with archive.open("atoms.npy", "w") as member:
            np.save(member, np.eye(3))
    with pytest.raises(ValueError, match=r"films\.npz: cannot be read as \.npz: its 'ids' takes 128 bytes"):
        read_labelled(path)


@pytest.mark.parametrize("damage", [b"\xff" * 8, b"\x00" * 8, b"\x7f" * 8], ids=["ones", "zeros", "large"])
def test_ids_of_a_damaged_arrow_file_are_an_error_or_ids_and_not_a_crash(damage, tmp_path):
    """In another process, since the question is whether it survives."""
    path = tmp_path / "films.arrow"
    table = pa.table({"id": [f"film {i}" for i in range(8)], "a": np.arange(8.0), "b": np.arange(8.0)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    whole = path.read_bytes()
    offsets = np.arange(0, 9 * 6, 6, dtype=np.int32).tobytes()
    at = whole.index(offsets)
    path.write_bytes(whole[: at + 12] + damage + whole[at + 12 + len(damage) :])
    program = f"from banditmips._labelled import read_labelled; read_labelled({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    assert f"ValueError: {path}: cannot be read as .arrow" in done.stderr
