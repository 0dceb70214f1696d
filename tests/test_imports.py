"""Who imports whom: the diagrams of `core` and `race` are true, and nobody imports against the arrows."""

import ast
import re
from pathlib import Path

import pytest

import banditmips
import banditmips.core
import banditmips.race

ROOT = Path(banditmips.__file__).parent
DIAGRAM_LINE = re.compile(r"^    (\w+)(?:\s+<- (.+))?$", re.MULTILINE)
CYTHON_IMPORT = re.compile(
    r"^\s*(?:from\s+(banditmips[\w.]*)\s+c?import\s+(\(?[\w, ]*)|c?import\s+(banditmips[\w.]*))", re.M
)
PUBLIC = {
    "_search",
    "_search_options",
    "_index",
    "_result",
    "_validate",
    "_options",
    "_labelled",
    "_result_files",
    "_tables",
    "_display",
}
LATE = {("core/records.py", "_display")}
"""Imports at the time of a call that are allowed: how a result is shown is nothing that a search needs."""


def diagram(package):
    """The modules of a package's diagram, in order, with what each is said to import."""
    found = DIAGRAM_LINE.findall(package.__doc__)
    return {name: set(others.split(", ")) if others else set() for name, others in found}


def python_imports(path):
    """Everything of this package that a Python file imports at run time, at once or later."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            yield from _named(str(node.module), [alias.name for alias in node.names])


def cython_imports(path):
    for module, names, plain in CYTHON_IMPORT.findall(path.read_text(encoding="utf-8")):
        yield from [plain] if plain else _named(module, re.findall(r"\w+", names))


def _named(module, names):
    """A module, or the modules that are taken from a package."""
    folder = ROOT.joinpath(*module.split(".")[1:])
    inside = [name for name in names if any(folder.glob(f"{name}.p*")) or (folder / name).is_dir()]
    return [f"{module}.{name}" for name in inside] or [module]


def imports_of(path):
    """What a file imports of this package, without the package's own name."""
    find = python_imports if path.suffix == ".py" else cython_imports
    return {name.removeprefix("banditmips.") for name in find(path) if name.startswith("banditmips")}


def files_of(package):
    folder = ROOT / package
    return [path for path in sorted(folder.rglob("*")) if path.suffix in (".py", ".pyx", ".pxd")]


@pytest.mark.parametrize("package", [banditmips.core, banditmips.race], ids=["core", "race"])
def test_the_diagram_is_what_the_files_import(package):
    name = package.__name__.removeprefix("banditmips.")
    real = {}
    for path in files_of(name):
        if path.stem != "__init__":
            inside = {other.split(".")[1] for other in imports_of(path) if other.startswith(f"{name}.")}
            real[path.stem] = real.get(path.stem, set()) | inside - {path.stem}
    assert diagram(package) == real


@pytest.mark.parametrize("package", [banditmips.core, banditmips.race], ids=["core", "race"])
def test_nobody_imports_from_below(package):
    above = set()
    for name, others in diagram(package).items():
        assert others <= above, f"{name} imports {sorted(others - above)} from below"
        above.add(name)
    assert len(above) > 10


def allowed_from_outside(package):
    if package == "core":
        return ("core", "_threads")
    if package == "race":
        return ("core", "race", "atoms", "_threads", "_version")
    return None


@pytest.mark.parametrize("package", ["core", "race"])
def test_what_comes_from_outside(package):
    for path in files_of(package):
        where = path.relative_to(ROOT).as_posix()
        for other in imports_of(path):
            allowed = other.split(".")[0] in allowed_from_outside(package) or (where, other) in LATE
            assert allowed, f"{where} imports {other}"


def test_atoms_take_nothing_from_the_race_or_from_the_upper_half_of_the_core():
    lower = {"maps", "reads", "numbers", "entries", "rotation", "codes", "rows", "sparse_products", "statistics"}
    for path in files_of("atoms"):
        for other in imports_of(path):
            first, *rest = other.split(".")
            where = f"{path.name} imports {other}"
            assert first != "race", where
            assert first not in PUBLIC, where
            assert first != "core" or rest[0] in lower, where


def test_imports_are_found(tmp_path):
    """What the tests above rely on: no form of an import escapes them."""
    given = """
from typing import TYPE_CHECKING
import banditmips.race.query
from banditmips import _search
from banditmips.core import numbers, rows
from banditmips.core.loop import race
if TYPE_CHECKING:
    from banditmips._options import Options
def later():
    from banditmips._index import BanditMIPS
"""
    (tmp_path / "a.py").write_text(given)
    found = {"race.query", "_search", "core.numbers", "core.rows", "core.loop", "_index"}
    assert imports_of(tmp_path / "a.py") == found
    compiled = """
from banditmips.core.loop cimport Source
from banditmips.core import numbers
from banditmips import _search
cimport banditmips.core.rule
"""
    (tmp_path / "b.pyx").write_text(compiled)
    assert imports_of(tmp_path / "b.pyx") == {"core.loop", "core.numbers", "_search", "core.rule"}
