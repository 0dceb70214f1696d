"""Faults of the machine: no room on the disk, no memory. A right answer or an error, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import banditmips as bm

resource = pytest.importorskip("resource")

ATOMS = np.random.default_rng(0).integers(-9, 10, size=(300, 5_000)).astype(np.float32)


def run(program, *arguments):
    """Run a program in a process of its own, and return what it printed."""
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture
def source(tmp_path):
    np.save(tmp_path / "atoms.npy", ATOMS)
    return tmp_path / "atoms.npy"


NO_ROOM = """
    import os, resource, signal, sys
    import numpy as np
    import banditmips as bm

    source, target, how = sys.argv[1:]
    atoms = np.load(source)
    index = bm.BanditMIPS().fit(atoms)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    try:
        index.save(target) if how == "save" else bm.pack(source, target)
    except OSError as error:
        print(os.path.basename(error.filename), "|", error.strerror)
"""


def test_a_disk_without_room_for_a_saved_index(source, tmp_path):
    target = tmp_path / "atoms.bm"
    bm.BanditMIPS().fit(ATOMS[:5]).save(target)
    said = run(NO_ROOM, source, target, "save")
    assert said.startswith("atoms.bm | File too large (while writing the block ")
    assert sorted(os.listdir(tmp_path)) == ["atoms.bm", "atoms.npy"]
    assert bm.load(target).n_atoms == 5


def test_a_disk_without_room_for_packed_atoms(source, tmp_path):
    target = tmp_path / "packed.zarr"
    said = run(NO_ROOM, source, target, "pack")
    assert said.startswith("packed.zarr | ")
    assert "pack again to go on from there" in said
    bm.pack(source, target)
    assert bm.BanditMIPS().fit(target).search(ATOMS[7]).indices[0] == 7


NO_MEMORY = """
    import resource, sys
    import numpy as np
    import banditmips as bm

    source, saved, how, room = sys.argv[1:]
    atoms = np.load(source, mmap_mode="r")
    bm.BanditMIPS().fit(atoms[:50]).search(atoms[3])  # whatever has to be imported or compiled is there
    bm.load(saved).search(atoms[3])
    with open("/proc/self/statm") as file:
        taken = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + int(room), resource.RLIM_INFINITY))
    try:
        index = bm.load(saved) if how == "load" else bm.BanditMIPS(layout="full").fit(atoms)
        print(int(index.search(atoms[7]).indices[0]))
    except (MemoryError, OSError) as error:
        print("error")
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
@pytest.mark.parametrize("room", [2_000_000, 1_000_000_000])
@pytest.mark.parametrize("how", ["load", "fit"])
def test_a_machine_without_memory(source, tmp_path, how, room):
    """A right answer or an error of the system; with enough of it, the answer."""
    bm.BanditMIPS().fit(ATOMS).save(tmp_path / "atoms.bm")
    said = run(NO_MEMORY, source, tmp_path / "atoms.bm", how, room)
    assert said in (["7"] if room == 1_000_000_000 else ["7", "error"])
