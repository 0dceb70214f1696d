import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest

import banditmips
from banditmips.datasets import Dataset, load, names

FROM_FILES = ["crypto_pairs", "movielens_100k", "movielens_1m", "netflix", "sift_1m"]
ONE_QUERY = ["correlated_normal_custom", "heavy_tailed"]
SMALL = {"n": 30, "d": 200, "seed": 3}


def small(name, **params):
    extra = {"surrogate": True} if name in FROM_FILES else {}
    return load(name, **{**SMALL, **extra, **params})


def test_names_are_sorted_and_complete():
    assert names() == sorted(names())
    assert set(FROM_FILES + ONE_QUERY) < set(names())


@pytest.mark.parametrize("name", names())
def test_every_dataset_has_the_shape_asked_for(name):
    n_queries = 1 if name in ONE_QUERY else 4
    dataset = small(name, n_queries=n_queries)
    assert isinstance(dataset, Dataset)
    assert dataset.name == name
    assert dataset.atoms.shape == (30, 200) == (dataset.n, dataset.d)
    assert dataset.queries.shape == (n_queries, 200)
    assert dataset.atoms.dtype == dataset.queries.dtype == np.float32
    assert dataset.atoms.flags.c_contiguous
    assert np.isfinite(dataset.atoms).all()
    assert np.isfinite(dataset.queries).all()
    assert dataset.description.endswith(".")
    assert {
        "n": 30,
        "d": 200,
        "n_queries": n_queries,
        "seed": 3,
        "dtype": "float32",
    }.items() <= dataset.params.items()


@pytest.mark.parametrize("name", names())
def test_the_seed_decides(name):
    first, again, other = small(name), small(name), small(name, seed=4)
    np.testing.assert_array_equal(first.atoms, again.atoms)
    np.testing.assert_array_equal(first.queries, again.queries)
    assert (first.atoms != other.atoms).any()
    assert (first.queries != other.queries).any()


@pytest.mark.parametrize("name", names())
def test_float64_holds_the_same_data(name):
    single, double = small(name), small(name, dtype="float64")
    assert double.atoms.dtype == double.queries.dtype == np.float64
    np.testing.assert_allclose(double.atoms, single.atoms, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(double.queries, single.queries, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"n": 0}, ValueError),
        ({"d": -1}, ValueError),
        ({"n_queries": 0}, ValueError),
        ({"seed": -1}, ValueError),
        ({"n": 2.5}, TypeError),
        ({"d": True}, TypeError),
        ({"dtype": "int16"}, ValueError),
    ],
)
def test_bad_parameters_are_named(name, params, error):
    with pytest.raises(error, match=next(iter(params))):
        small(name, **params)


@pytest.mark.parametrize("name", FROM_FILES)
def test_surrogates_are_labelled(name):
    dataset = small(name)
    assert dataset.surrogate
    assert "surrogate" in dataset.description.lower()
    assert small(name, surrogate="if_missing").surrogate


@pytest.mark.parametrize("name", FROM_FILES)
def test_missing_files_are_explained(name, empty_data_folder):
    with pytest.raises(FileNotFoundError) as caught:
        load(name)
    message = str(caught.value)
    assert "https://" in message or "http://" in message
    assert str(empty_data_folder) in message
    assert "BANDITMIPS_DATA" in message


@pytest.mark.parametrize("name", FROM_FILES)
def test_other_values_of_surrogate_are_refused(name):
    with pytest.raises(ValueError, match="surrogate"):
        small(name, surrogate="yes")


def test_without_the_variable_the_users_cache_is_looked_at(monkeypatch, tmp_path):
    monkeypatch.delenv("BANDITMIPS_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=str(tmp_path / ".cache" / "banditmips")):
        load("movielens_100k")


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("normal_costum", "normal_custom"),
        ("NORMAL_CUSTOM", "normal_custom"),
        ("movielens100k", "movielens_100k"),
    ],
)
def test_unknown_names_suggest_the_nearest(wrong, right):
    with pytest.raises(ValueError, match=f"{wrong}.*did you mean '{right}'"):
        load(wrong)


def test_names_unlike_any_other_list_all():
    with pytest.raises(ValueError, match="pixels"):
        load("xyz")


def test_unknown_parameters_suggest_the_nearest():
    with pytest.raises(TypeError, match=r"normal_custom.*n_query.*did you mean 'n_queries'"):
        load("normal_custom", n_query=3)


def test_datasets_are_frozen_and_can_be_sent_to_other_processes():
    dataset = small("normal_custom")
    with pytest.raises(dataclasses.FrozenInstanceError):
        dataset.name = "other"
    copy = pickle.loads(pickle.dumps(dataset))
    np.testing.assert_array_equal(copy.atoms, dataset.atoms)
    assert copy.params == dataset.params


def test_importing_the_datasets_imports_nothing_heavy():
    # The bare package object stands for banditmips, so that only what the datasets themselves import counts.
    program = f"""
import sys, types
package = types.ModuleType("banditmips")
package.__path__ = [{next(iter(banditmips.__path__))!r}]
sys.modules["banditmips"] = package
import banditmips.datasets
heavy = ("pandas", "sklearn", "scipy", "matplotlib", "urllib.request")
loaded = [m for m in heavy if m in sys.modules]
families = [m for m in sys.modules if m.startswith("banditmips.datasets.") and "._" not in m]
print(loaded, families)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
