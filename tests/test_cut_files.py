"""Files that become shorter while a search reads their maps: an error, where the system would end the process."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a file that is mapped cannot be cut there")

FILES = ("atoms.npy", "atoms.bm", "many.npy", "data.npy", "indices.npy", "indptr.npy")
PREPARED = """
import os, sys
import numpy as np
import scipy.sparse
import banditmips as bm
from banditmips._saved import SavedFile

rng = np.random.default_rng(0)
atoms = rng.normal(size=(300, 4_000))
np.save("atoms.npy", atoms)
np.save("many.npy", rng.normal(size=(300, 4_000)))
query = rng.normal(size=4_000)
bm.BanditMIPS().fit(atoms).save("atoms.bm")
sparse = scipy.sparse.random_array((300, 4_000), density=0.1, rng=rng, format="csr")
for name in ("data", "indices", "indptr"):
    np.save(f"{name}.npy", getattr(sparse, name))


def mapped_sparse():
    matrix = scipy.sparse.csr_array(sparse.shape)
    for name in ("data", "indices", "indptr"):
        setattr(matrix, name, np.load(f"{name}.npy", mmap_mode="r"))
    return matrix


def cut_after_the_look(path):
    # What another process may do as soon as a search has begun.
    check = SavedFile.check

    def checked(file, names=None):
        check(file, names)
        os.truncate(path, os.path.getsize(path) // 10)

    SavedFile.check = checked


def told(function):
    try:
        print(function())
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
"""


def run(script: str, folder: object) -> subprocess.CompletedProcess[str]:
    code = PREPARED + textwrap.dedent(script)
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=300)


SCRIPTS = {
    "a search of a saved index": """
        index = bm.load("atoms.bm", verify="never")
        cut_after_the_look("atoms.bm")
        told(lambda: index.search(query, delta=0.0))
    """,
    "a race on a saved index": """
        index = bm.load("atoms.bm", verify="never")
        cut_after_the_look("atoms.bm")
        told(lambda: index.search(query, minimise="multiplies"))
    """,
    "a batch in threads": """
        index = bm.load("atoms.bm", verify="never")
        cut_after_the_look("atoms.bm")
        told(lambda: index.search(rng.normal(size=(8, 4_000)), n_jobs=4, delta=0.0))
    """,
    "saving a saved index": """
        index = bm.load("atoms.bm", verify="never")
        cut_after_the_look("atoms.bm")
        told(lambda: index.save("other.bm"))
        assert not os.path.exists("other.bm")
    """,
    "adding to a saved index": """
        index = bm.load("atoms.bm", verify="never")
        cut_after_the_look("atoms.bm")
        told(lambda: index.add(atoms).search(query, delta=0.0))
    """,
    "a search of a mapped array": """
        mapped = np.load("atoms.npy", mmap_mode="r")
        os.truncate("atoms.npy", 100_000)
        told(lambda: bm.search(mapped, query, delta=0.0))
    """,
    "a search of a view of a mapped array": """
        mapped = np.asarray(np.load("atoms.npy", mmap_mode="r"))[::2]
        os.truncate("atoms.npy", 100_000)
        told(lambda: bm.search(mapped, query))
    """,
    "a fit of a mapped array": """
        mapped = np.load("atoms.npy", mmap_mode="r")
        os.truncate("atoms.npy", 100_000)
        told(lambda: bm.BanditMIPS().fit(mapped))
    """,
    **{
        f"a {what} of a sparse matrix whose {name} are cut": f"""
        matrix = mapped_sparse()
        os.truncate("{name}.npy", 200)
        told(lambda: {call})
    """
        for name in ("data", "indices")
        for what, call in {
            "search": "bm.search(matrix, query)",
            "batch": "bm.search(matrix, rng.normal(size=(8, 4_000)))",
            "race": "bm.search(matrix, query, minimise='multiplies')",
            "fit": "bm.BanditMIPS(layout='full').fit(matrix)",
        }.items()
    },
    "a search by mapped queries": """
        queries = np.load("many.npy", mmap_mode="r")
        os.truncate("many.npy", 100_000)
        told(lambda: bm.search(atoms, queries, delta=0.0))
    """,
    "a search of an index by a mapped query": """
        index = bm.BanditMIPS().fit(atoms)
        queries = np.load("many.npy", mmap_mode="r")
        os.truncate("many.npy", 100_000)
        told(lambda: index.search(queries[290]))
    """,
    "a search after a fit of a mapped array": """
        index = bm.BanditMIPS().fit(np.load("atoms.npy", mmap_mode="r"))
        os.truncate("atoms.npy", 100_000)
        told(lambda: index.search(query, delta=0.0))
    """,
}


def test_a_file_that_is_cut_while_it_is_read_is_named(tmp_path):
    """All in one process, which any of them would end."""
    parts = [
        f"""
shutil.copytree("sound", "{number}")
os.chdir("{number}")
{textwrap.dedent(script)}
SavedFile.check = look
os.chdir("..")
"""
        for number, script in enumerate(SCRIPTS.values())
    ]
    begin = 'import shutil\nlook = SavedFile.check\nos.mkdir("sound")\n'
    moves = "".join(f'os.rename("{name}", "sound/{name}")\n' for name in FILES)
    done = run(begin + moves + "".join(parts), tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    lines = done.stdout.splitlines()
    for (what, script), line in zip(SCRIPTS.items(), lines, strict=True):
        assert line.startswith("CorruptFileError: "), (what, line)
        cut = re.search(r'(?:truncate|look)\("(.*?)"', script)[1]
        assert cut in line
        assert "changed since it was opened" in line or "could not be read" in line


def test_files_that_stay_whole_are_answered_as_arrays_are(tmp_path):
    script = """
        mapped = np.load("atoms.npy", mmap_mode="r")
        best = (atoms @ query).argmax()
        for index in (bm.BanditMIPS().fit(mapped), bm.load("atoms.bm")):
            print(index.search(query).indices[0] == best)
        print(bm.search(mapped, query).indices[0] == best)
    """
    assert run(script, tmp_path).stdout.split() == ["True"] * 3


@pytest.mark.parametrize("before", ["", "import faulthandler; faulthandler.enable()"])
def test_the_maps_of_others_end_as_they_did(before, tmp_path):
    script = f"""
        {before}
        index = bm.load("atoms.bm")
        mapped = np.load("atoms.npy", mmap_mode="r")
        os.truncate("atoms.npy", 100_000)
        print(mapped.sum())
    """
    done = run(script, tmp_path)
    assert done.returncode == -signal.SIGBUS
    assert ("Bus error" in done.stderr) == bool(before)


def test_a_signal_that_was_sent_ends_the_process(tmp_path):
    done = run('index = bm.load("atoms.bm"); import signal; os.kill(os.getpid(), signal.SIGBUS)', tmp_path)
    assert done.returncode == -signal.SIGBUS
