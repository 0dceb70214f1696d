"""The benchmark's real data in miniature, where what it is built from can be had."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

sys.path.append(str(Path(__file__).parents[1]))

from benchmarks.real import SETS, SourceMissingError, cache, load, sources


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Debian packages are: those that this machine has unpacked before, or a new folder."""
    kept = sources.cache_folder() / "debian"
    return kept if kept.is_dir() else tmp_path_factory.mktemp("debian")


@pytest.fixture
def own_cache(tmp_path: Path, packages: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, so that sets are built, but not without the packages that are there."""
    monkeypatch.setenv("BANDITMIPS_BENCH_CACHE", str(tmp_path))
    (tmp_path / "debian").symlink_to(packages)
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


def test_a_package_that_cannot_be_fetched_is_named(own_cache, monkeypatch):
    monkeypatch.setattr(sources.shutil, "which", lambda name: None)
    with pytest.raises(SourceMissingError, match=r"apt-get.*no-such-package"):
        sources.debian_package("no-such-package")


def test_a_module_that_is_not_installed_is_named():
    with pytest.raises(SourceMissingError, match=r"no_such_module.*banditmips\[real\]"):
        sources.require("no_such_module")


def test_unknown_sets_are_refused():
    with pytest.raises(ValueError, match=r"expected one of genotypes.*'weather'"):
        cache.load("weather")
