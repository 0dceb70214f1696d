"""Names, values and types of options: what is accepted, what is drawn, and what a type checker sees."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import typing
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import banditmips as bm
from banditmips import _options
from banditmips._validate import Options

RNG = np.random.default_rng(0)
ATOMS = RNG.normal(size=(1, 8)).T + RNG.normal(size=(8, 3_000))
QUERY = 1 + RNG.normal(size=3_000)
PUBLIC = [bm.search, bm.BanditMIPS, bm.BanditMIPS.search, bm.matching_pursuit, bm.MatchingPursuit]


@pytest.mark.parametrize("call", PUBLIC, ids=lambda call: call.__qualname__)
def test_no_public_signature_takes_anything(call):
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            assert parameter.annotation == "Unpack[CallOptions]"


def test_a_call_of_an_index_takes_the_options_of_a_search_but_the_seed():
    names = {field.name for field in fields(Options)}
    assert set(typing.get_type_hints(_options.CallOptions)) == names - {"seed"}
    assert set(typing.get_type_hints(_options.ClusterOptions)) == names - {"n_jobs", "trace"}


def test_no_number_of_threads_is_one():
    for n_jobs in (None, 1):
        index = bm.BanditMIPS(n_jobs=n_jobs).fit(ATOMS)
        for result in (bm.search(ATOMS, QUERY, n_jobs=n_jobs), index.search(QUERY), index.search(QUERY, n_jobs=n_jobs)):
            assert result.indices[0] == (ATOMS @ QUERY).argmax()


def test_no_seed_is_a_fresh_one_that_the_result_names():
    first, second = (bm.search(ATOMS, QUERY, seed=None, minimise="multiplies", rescore=False) for _ in range(2))
    assert first.seed != second.seed
    again = bm.search(ATOMS, QUERY, seed=first.seed, minimise="multiplies", rescore=False)
    assert (again.n_multiplies, again.scores[0]) == (first.n_multiplies, first.scores[0])
    assert bm.search(ATOMS, QUERY, seed=7).seed == 7


def test_an_index_draws_its_seed_once():
    first, second = (bm.BanditMIPS(seed=None).fit(ATOMS) for _ in range(2))
    assert first.seed != second.seed
    assert first.search(QUERY).seed == first.search(np.stack([QUERY, -QUERY])).seed == first.seed
    result = first.search(QUERY, minimise="multiplies", rescore=False)
    again = bm.BanditMIPS(seed=first.seed).fit(ATOMS).search(QUERY, minimise="multiplies", rescore=False)
    assert (again.n_multiplies, again.scores[0]) == (result.n_multiplies, result.scores[0])
    assert bm.BanditMIPS(seed=3).seed == 3


def test_a_pursuit_without_a_seed():
    assert bm.matching_pursuit(ATOMS, ATOMS[3], n_nonzero=1, seed=None).indices.tolist() == [3]
    assert bm.MatchingPursuit(1, seed=None).fit(ATOMS).decompose(ATOMS[3]).indices.tolist() == [3]


@pytest.mark.parametrize("bound", typing.get_args(_options.BoundName))
@pytest.mark.parametrize("minimise", typing.get_args(_options.Minimise))
def test_every_bound_and_aim_finds_the_best(bound, minimise):
    index = bm.BanditMIPS(bound=bound, minimise=minimise).fit(ATOMS)
    assert index.search(QUERY).indices[0] == (ATOMS @ QUERY).argmax()


@pytest.mark.parametrize("layout", typing.get_args(_options.Layout))
def test_every_layout_finds_the_best(layout):
    assert bm.BanditMIPS(layout=layout).fit(ATOMS).search(QUERY).indices[0] == (ATOMS @ QUERY).argmax()


# --- type checkers ----------------------------------------------------------------------------------------------------

CALLS = Path(__file__).parent / "data" / "typed_calls.py"


def test_a_type_checker_finds_every_wrong_call_and_no_right_one():
    """Lines of typed_calls.py that end in ``# wrong`` must have an error, and no other line may."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    root = CALLS.parents[2]
    # With the settings and paths of the project, mypy need not find out again what it knows about the library.
    sources = os.path.relpath(Path(bm.__file__).parents[1], root)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(CALLS.relative_to(root))],
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": sources},
        cwd=root,
        check=False,
    )
    wrong = {
        number for number, line in enumerate(CALLS.read_text().splitlines(), start=1) if line.endswith("  # wrong")
    }
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line}
    assert len(wrong) > 15
    assert found == wrong, done.stdout + done.stderr
