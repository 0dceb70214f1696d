"""Our algorithm for ann-benchmarks: the calls of that project's runner, on a small file in its format.

With the environment variable ``ANN_BENCHMARKS`` (the folder of a checkout) the project's own runner makes them as well.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import h5py
import numpy as np
import pytest
import yaml
from numpy.typing import NDArray

OURS = Path(__file__).parents[1] / "benchmarks" / "ann_benchmarks" / "banditmips"
N, D, M, COUNT = 300, 2_000, 6, 5


class BaseANN:
    """What the runner needs of the project's base class."""

    res: list[Any]

    def done(self) -> None:
        pass

    def get_batch_results(self) -> list[Any]:
        return self.res


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Our module, imported as the project imports it, with a base class in the place of its own."""
    names = ["ann_benchmarks", "ann_benchmarks.algorithms", "ann_benchmarks.algorithms.base"]
    for name in [*names, f"{names[-1]}.module"]:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[f"{names[-1]}.module"].BaseANN = BaseANN  # type: ignore[attr-defined]
    spec = importlib.util.spec_from_file_location("ann_benchmarks.algorithms.banditmips.module", OURS / "module.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def distances(metric: str, train: NDArray[Any], test: NDArray[Any]) -> NDArray[np.float64]:
    """All distances as the project defines them."""
    train, test = train.astype(np.float64), test.astype(np.float64)
    if metric == "angular":
        return 1 - (test @ train.T) / np.outer(np.linalg.norm(test, axis=1), np.linalg.norm(train, axis=1))
    return np.array([np.linalg.norm(train - query, axis=1) for query in test])


def write_dataset(path: Path, metric: str) -> NDArray[np.float64]:
    """A dataset in the project's format. Returns the true distances, nearest first."""
    rng = np.random.default_rng(0)
    train = rng.normal(size=(N, D)).astype(np.float32) * rng.uniform(0.5, 2, size=(N, 1)).astype(np.float32)
    test = train[rng.choice(N, M, replace=False)] + rng.normal(size=(M, D)).astype(np.float32)
    every = distances(metric, train, test)
    order = np.argsort(every, axis=1)[:, :100]
    true = np.take_along_axis(every, order, axis=1)
    with h5py.File(path, "w") as file:
        file.attrs.update({"type": "dense", "distance": metric, "dimension": D, "point_type": "float"})
        for name, values in {"train": train, "test": test, "neighbors": order, "distances": true}.items():
            file.create_dataset(name, data=values)
    return true


def definitions(metric: str) -> list[tuple[dict[str, Any], list[Any], list[list[Any]]]]:
    """Entry, arguments and groups of query arguments of every run, expanded from config.yml as the project does."""
    runs = []
    for entry in yaml.safe_load((OURS / "config.yml").read_text(encoding="utf-8"))["float"]["any"]:
        base = [metric if value == "@metric" else value for value in entry["base_args"]]
        for group in entry["run_groups"].values():
            queries = [list(values) for values in product(*group["query_args"])]
            runs += [(entry, [*base, *values], queries) for values in product(*group["args"])]
    return runs


@pytest.mark.parametrize("metric", ["angular", "euclidean"])
def test_the_runner_s_calls_find_the_nearest(module: ModuleType, tmp_path: Path, metric: str) -> None:
    true = write_dataset(tmp_path / "small.hdf5", metric)
    with h5py.File(tmp_path / "small.hdf5") as file:
        train, test = np.array(file["train"]), np.array(file["test"])
    runs = definitions(metric)
    assert runs
    for entry, arguments, query_groups in runs:
        assert entry["module"] == "ann_benchmarks.algorithms.banditmips"
        algorithm = getattr(module, entry["constructor"])(*arguments)
        algorithm.fit(train)
        names = set()
        for query_arguments in query_groups:
            algorithm.set_query_arguments(*query_arguments)
            single = [algorithm.query(query, COUNT) for query in test]
            algorithm.batch_query(test, COUNT)
            np.testing.assert_array_equal(single, algorithm.get_batch_results())
            for found in single:
                assert len(found) == len(set(found)) == COUNT
            if query_arguments[0] <= 1e-3:
                every = distances(metric, train, test)
                np.testing.assert_allclose(
                    np.take_along_axis(every, np.array(single), axis=1).max(axis=1), true[:, COUNT - 1]
                )
            # All products, and before them codes read in vain, at most their signs and then all of their bits: a
            # coordinate of a code, which has a multiple of 64 of them, counts as a multiply.
            in_vain = 2.0 * (-(-train.shape[1] // 64) * 64) / train.shape[1]
            assert 0 < algorithm.get_additional()["share_of_multiplies"] <= 1.0 + in_vain + COUNT / N
            names.add(str(algorithm))
        assert len(names) == len(query_groups)  # results of different runs must not overwrite each other
        algorithm.done()


def test_other_distances_are_refused(module: ModuleType) -> None:
    with pytest.raises(NotImplementedError, match="angular, euclidean, got 'hamming'"):
        module.BanditMIPS("hamming")


@pytest.mark.skipif("ANN_BENCHMARKS" not in os.environ, reason="ANN_BENCHMARKS names no checkout of ann-benchmarks")
@pytest.mark.parametrize("metric", ["angular", "euclidean"])
@pytest.mark.parametrize("batch", [False, True])
def test_the_project_s_own_runner(tmp_path: Path, metric: str, batch: bool) -> None:
    checkout = tmp_path / "checkout"
    shutil.copytree(Path(os.environ["ANN_BENCHMARKS"]) / "ann_benchmarks", checkout / "ann_benchmarks")
    shutil.copytree(OURS, checkout / "ann_benchmarks" / "algorithms" / "banditmips", dirs_exist_ok=True)
    (checkout / "data").mkdir()
    true = write_dataset(checkout / "data" / "small.hdf5", metric)
    program = f"""
from ann_benchmarks.definitions import get_definitions
from ann_benchmarks.runner import run
for definition in get_definitions({D}, "float", {metric!r}, {COUNT}):
    if definition.algorithm == "banditmips":
        run(definition, "small", {COUNT}, 1, {batch})
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=checkout, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    stored = list((checkout / "results").rglob("*.hdf5"))
    assert len(stored) == sum(len(groups) for _, _, groups in definitions(metric))
    for path in stored:
        with h5py.File(path) as file:
            if "delta=0.001" in file.attrs["name"] or "delta=1e-06" in file.attrs["name"]:
                np.testing.assert_allclose(np.array(file["distances"]).max(axis=1), true[:, COUNT - 1], rtol=1e-4)
