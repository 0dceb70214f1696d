"""The benchmark's real data in miniature, where what it is built from can be had."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.real import SETS, SourceMissingError, cache, load, sources
from benchmarks.real.__main__ import separation


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, so that sets are built, from packages that this machine has fetched before."""

    def refuse(name: str, target: Path) -> None:
        raise SourceMissingError(
            f"Debian's {name} is not in the cache, and tests fetch nothing: python -m benchmarks.real"
        )

    packages = sources.cache_folder() / "debian"
    monkeypatch.setenv("BANDITMIPS_BENCH_CACHE", str(tmp_path))
    if packages.is_dir():
        (tmp_path / "debian").symlink_to(packages)
    monkeypatch.setattr(sources, "_fetch", refuse)
    return tmp_path


def load_or_skip(name: str) -> tuple:
    try:
        return load(name, tiny=True)
    except SourceMissingError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_built_in_miniature_and_kept(name, own_cache, monkeypatch):
    atoms, queries = load_or_skip(name)
    module = importlib.import_module(f"benchmarks.real.{name}")
    assert (atoms.shape[0], queries.shape[0]) == (module.TINY["n"], module.TINY["n_queries"])
    assert atoms.shape[1] == queries.shape[1]
    assert atoms.dtype == queries.dtype == np.float32
    for part in (atoms, queries):
        entries = part.data if scipy.sparse.issparse(part) else part
        assert np.isfinite(entries).all()
        assert entries.any()
    assert len(np.unique(scipy.sparse.csr_array(atoms).toarray(), axis=0)) > 0.9 * atoms.shape[0]
    monkeypatch.setattr(module, "build", None)  # the second time it is read
    again, _ = load(name, tiny=True)
    assert (again != atoms).sum() == 0


@pytest.mark.parametrize("name", SETS)
def test_a_set_says_where_it_comes_from_and_what_is_asked(name):
    text = importlib.import_module(f"benchmarks.real.{name}").__doc__
    assert "Source:" in text
    assert "Query:" in text
    assert " x " in text


def test_children_are_nearest_to_their_parents(own_cache):
    atoms, queries = load_or_skip("genotypes")
    best = np.sort(queries @ atoms.T / atoms.shape[1], axis=1)[:, -1]
    assert (best > 0.3).sum() >= len(queries) // 3


def test_gradients_are_those_of_the_loss():
    """Against differences of the loss, entry by entry."""
    pytest.importorskip("sklearn")
    from benchmarks.real import gradients

    rng = np.random.default_rng(0)
    inputs, targets = rng.random((3, 6)), np.eye(10)[[1, 4, 4]]
    weights = gradients._initial(rng, 6, 5)

    def losses(changed):
        hidden = np.maximum(inputs @ changed[0] + changed[1], 0.0)
        logits = hidden @ changed[2] + changed[3]
        return np.log(np.exp(logits).sum(axis=1)) - (logits * targets).sum(axis=1)

    found = gradients._gradients(weights, inputs, targets)
    for part in range(4):
        for place in np.ndindex(weights[part].shape):
            sides = []
            for step in (1e-5, -1e-5):
                changed = [w.astype(np.float64) for w in weights]
                changed[part][place] += step
                sides.append(losses(changed))
            np.testing.assert_allclose(found[part][(slice(None), *place)], (sides[0] - sides[1]) / 2e-5, atol=1e-6)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_a_package_is_fetched_and_unpacked_once(tmp_path, monkeypatch):
    """A package made here, and an apt-get that copies it."""
    made = tmp_path / "made"
    (made / "DEBIAN").mkdir(parents=True)
    (made / "DEBIAN" / "control").write_text(
        "Package: sounds\nVersion: 1\nArchitecture: all\nMaintainer: nobody\nDescription: none\n"
    )
    (made / "bell.txt").write_text("ding")
    subprocess.run(["dpkg-deb", "-b", made, tmp_path / "sounds_1_all.deb"], check=True, capture_output=True)
    copies = tmp_path / "bin" / "apt-get"
    copies.parent.mkdir()
    copies.write_text(f'#!/bin/sh\ntest "$2" = sounds && cp {tmp_path}/sounds_1_all.deb .\n')
    copies.chmod(0o755)
    monkeypatch.setenv("PATH", f"{copies.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("BANDITMIPS_BENCH_CACHE", str(tmp_path / "cache"))
    assert (sources.debian_package("sounds") / "bell.txt").read_text() == "ding"
    copies.unlink()
    assert (sources.debian_package("sounds") / "bell.txt").is_file()
    copies.write_text("#!/bin/sh\necho no such package >&2; exit 100\n")
    copies.chmod(0o755)
    with pytest.raises(SourceMissingError, match="apt-get download other failed: no such package"):
        sources.debian_package("other")


def test_a_package_that_cannot_be_fetched_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("BANDITMIPS_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr(sources.shutil, "which", lambda name: None)
    with pytest.raises(SourceMissingError, match=r"apt-get.*no-such-package"):
        sources.debian_package("no-such-package")


def test_a_module_that_is_not_installed_is_named():
    with pytest.raises(SourceMissingError, match=r"no_such_module.*banditmips\[real\]"):
        sources.require("no_such_module")


def test_leads_are_measured_over_the_norms():
    atoms = np.vstack([np.eye(12) * 2.0, np.zeros((1, 12))])
    queries = np.array([[4.0, 2.0, *np.zeros(10)], [0.0, 0.0, 3.0, *np.zeros(9)]])
    expected = np.median([(8.0 - 4.0) / (2.0 * 20.0**0.5), 1.0]), np.median([8.0 / (2.0 * 20.0**0.5), 1.0])
    for form in (np.asarray, scipy.sparse.csr_array):
        np.testing.assert_allclose(separation(form(atoms), form(queries)), expected)


def test_unknown_sets_are_refused():
    with pytest.raises(ValueError, match=r"expected one of genotypes.*'weather'"):
        cache.load("weather")
