"""What `import banditmips` gives, and what it does not drag along."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import banditmips as bm

HEAVY = ("matplotlib", "pandas", "pyarrow", "typer", "rich", "sklearn", "faiss", "dask", "distributed")
# What the ways to search do not share: arguments of the call, and what belongs to an index.
OF_A_CALL = {"atoms", "queries", "k", "mask"}
OF_AN_INDEX = {"layout", "max_extra_memory", "bucket_size", "validate"}


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_all_names_everything_public_and_nothing_else():
    for name in bm.__all__:
        getattr(bm, name)  # names come when they are asked for
    public = {
        name for name, value in vars(bm).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public | {"__version__"} == {name for name in bm.__all__ if not isinstance(getattr(bm, name), ModuleType)}
    assert len(set(bm.__all__)) == len(bm.__all__)
    assert sorted(bm.__all__) == list(bm.__all__)


def test_a_star_import_gives_all():
    names = run("from banditmips import *; print(*dir())")
    assert set(bm.__all__) <= set(names)


@pytest.mark.parametrize("name", ["search", "BanditMIPS", "load", "SearchResult", "StopReason", "Trace", "Round"])
def test_public_names_are_documented(name):
    assert name in bm.__all__
    assert inspect.getdoc(getattr(bm, name))


def test_importing_is_cheap():
    loaded = run(f"import banditmips, sys; print(*(name for name in {HEAVY!r} if name in sys.modules))")
    assert loaded == []


def test_a_search_needs_nothing_heavy():
    program = f"""
import sys
import banditmips as bm
bm.BanditMIPS().fit([[1.0, 2.0], [2.0, 3.0]]).search([1.0, 1.0])
print(*(name for name in {HEAVY!r} if name in sys.modules))
"""
    assert run(program) == []


def test_search_and_index_take_the_same_options_with_the_same_defaults():
    of_search, of_index = (inspect.signature(call).parameters for call in (bm.search, bm.BanditMIPS))
    assert set(of_search) - OF_A_CALL == set(of_index) - OF_AN_INDEX
    for name in set(of_search) & set(of_index):
        assert of_search[name].default == of_index[name].default
        assert of_search[name].kind is of_index[name].kind is inspect.Parameter.KEYWORD_ONLY


def test_stop_reasons_are_the_documented_words():
    assert [str(reason) for reason in bm.StopReason] == [
        "separated",
        "exhausted",
        "finished_exactly",
        "epsilon",
        "budget",
    ]


def test_the_version_has_one_source():
    from importlib.metadata import version

    assert bm.__version__ == version("banditmips")
