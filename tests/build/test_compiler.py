"""Which C compiler a build takes."""

import os
import stat
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(not (ROOT / "build_tools").is_dir(), reason="needs the checkout's build_tools"),
    pytest.mark.skipif(sys.platform == "win32", reason="on Windows setuptools looks for Microsoft's compiler by itself"),
]


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch, tmp_path):
    """The build's own modules, on a machine whose PATH is one empty folder."""
    monkeypatch.syspath_prepend(str(ROOT / "build_tools"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("CC", "LDSHARED"):
        monkeypatch.setenv(name, "")  # so that what a test leaves there is taken back
        monkeypatch.delenv(name)
    monkeypatch.setattr("sysconfig.get_config_var", {"CC": "gcc -pthread"}.get)


def add_program(folder: Path, name: str) -> None:
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_build_without_a_compiler_asks_for_ziglang_and_says_so(kind, capsys, monkeypatch):
    import backend

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(f"setuptools.build_meta.get_requires_for_build_{kind}", lambda settings: ["from setuptools"])
    assert getattr(backend, f"get_requires_for_build_{kind}")() == ["from setuptools", "ziglang"]
    assert "No C compiler" in capsys.readouterr().err


def test_a_build_with_a_compiler_asks_for_nothing_more(monkeypatch, tmp_path, capsys):
    import backend

    add_program(tmp_path, "clang")
    monkeypatch.setattr("setuptools.build_meta.get_requires_for_build_wheel", lambda settings: [])
    assert backend.get_requires_for_build_wheel() == []
    assert capsys.readouterr().err == ""


def test_the_compiler_is_what_cc_says_then_pythons_own_then_any(monkeypatch, tmp_path):
    import c_compiler

    assert c_compiler.own() is None
    add_program(tmp_path, "clang")
    assert c_compiler.own() == "clang"
    add_program(tmp_path, "gcc")
    assert c_compiler.own() == "gcc -pthread"
    add_program(tmp_path, "tcc")
    monkeypatch.setenv("CC", "tcc -b")
    assert c_compiler.own() == "tcc -b"


def test_ziglang_compiles_for_every_processor(monkeypatch):
    import c_compiler

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    c_compiler.choose()
    assert "-m ziglang cc" in os.environ["CC"]
    assert "-mcpu=baseline" in os.environ["CC"]


def test_neither_compiler_nor_ziglang_is_an_error_that_names_both(monkeypatch):
    import c_compiler

    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"C compiler.*cc, gcc, clang.*ziglang"):
        c_compiler.choose()
