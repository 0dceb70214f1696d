"""Who waits for kernels to be compiled is told, where that was asked for."""

import os
import subprocess
import sys

import numba
import numpy as np
import pytest

import banditmips as bm
from banditmips._compiling import telling_of_compilation

TEXT = "compiling the kernels, once ..."


def compile_one_of_ours(number):
    """Compile something new that looks like a kernel of this package."""

    def kernel(x):
        return x + number

    kernel.__module__ = "banditmips.race.kernels"
    numba.njit(kernel)(1)


def test_it_is_told_once_for_all_kernels():
    told = []
    with telling_of_compilation(told.append):
        numba.njit(lambda x: x)(1)  # somebody else's
        assert told == []
        compile_one_of_ours(1)
        compile_one_of_ours(2)
    compile_one_of_ours(3)
    assert told == [TEXT]


def test_functions_without_a_module_are_somebody_elses():
    """Such as exec makes them."""

    def double(x):
        return 2 * x

    double.__module__ = None
    told = []
    with telling_of_compilation(told.append):
        assert numba.njit(double)(2) == 4
    assert told == []


def test_one_line_is_enough():
    outer, inner = [], []
    with telling_of_compilation(outer.append), telling_of_compilation(inner.append):
        compile_one_of_ours(4)
    assert (outer, inner) == ([TEXT], [])


@pytest.mark.parametrize("progress", [False, True])
def test_progress_shows_it(progress, monkeypatch, capsys):
    """Stand-ins for what fit and search compile on a fresh machine."""
    atoms = np.random.default_rng(0).normal(size=(20, 50))
    number = iter(range(10 * progress, 100))

    def compiling(function):
        def run(*arguments):
            compile_one_of_ours(next(number))
            return function(*arguments)

        return run

    monkeypatch.setattr(bm.BanditMIPS, "_prepare", compiling(bm.BanditMIPS._prepare))
    monkeypatch.setattr("banditmips._search._run_queries", compiling(bm._search._run_queries))
    index = bm.BanditMIPS(progress=progress).fit(atoms)
    assert capsys.readouterr().err == (TEXT + "\n") * progress
    index.search(atoms[0])
    captured = capsys.readouterr()
    assert captured.err == (TEXT + "\n") * progress
    assert captured.out == ""


def test_a_fresh_machine_compiles_and_the_next_process_does_not(tmp_path):
    program = """
import logging, numpy as np, banditmips as bm
logging.basicConfig(level=logging.INFO, format="%(name)s: %(message)s")
print(bm.search(np.eye(4, 9), np.arange(9.0), rescore=False, bound="hoeffding", sigma=9.0).indices)
"""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    first, second = (run_python(program, environment) for _ in range(2))
    assert [line for line in first.stderr.splitlines() if "banditmips" in line] == [f"banditmips: {TEXT}"]
    assert "compiling" not in second.stderr
    assert first.stdout == second.stdout == "[3]\n"


def run_python(program, environment):
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
