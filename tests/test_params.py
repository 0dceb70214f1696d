"""`BanditMIPS` among scikit-learn's estimators: parameters, clones and pipelines."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import banditmips as bm

RNG = np.random.default_rng(0)
ATOMS = 3 * RNG.normal(size=(60, 1)) + RNG.normal(size=(60, 2_000))
QUERY = 1 + RNG.normal(size=2_000)


def test_parameters_are_those_of_the_constructor_as_they_were_given():
    names = set(inspect.signature(bm.BanditMIPS).parameters)
    limits = [-9, 9]
    index = bm.BanditMIPS(seed=None, n_jobs=None, bound="bernstein", value_range=limits, delta=np.float32(0.125))
    params = index.get_params()
    assert set(params) == names == set(index.get_params(deep=False))
    assert params["seed"] is params["n_jobs"] is None
    assert params["value_range"] is limits
    assert bm.BanditMIPS().get_params()["bound"] == "auto"


def test_options_of_a_search_change_a_fitted_index():
    index = bm.BanditMIPS(seed=None).fit(ATOMS)
    seed = index.seed
    assert index.set_params(delta=0.0, trace=True) is index
    result = index.search(QUERY)
    assert result.delta_spent == 0.0
    assert result.trace is not None
    assert index.seed == seed
    assert index.get_params()["seed"] is None


@pytest.mark.parametrize("change", [{"seed": 3}, {"layout": "none"}, {"validate": False}, {"bucket_size": 30}], ids=str)
def test_what_fit_prepares_by_needs_another_fit(change):
    index = bm.BanditMIPS().fit(ATOMS, ids=range(60)).set_params(**change)
    assert not index.is_fitted
    assert index.ids is None
    with pytest.raises(ValueError, match="call fit"):
        index.search(QUERY)
    assert index.fit(ATOMS).search(QUERY).indices[0] == (ATOMS @ QUERY).argmax()


def test_bad_parameters_change_nothing():
    index = bm.BanditMIPS(delta=0.1).fit(ATOMS)
    with pytest.raises(TypeError, match="did you mean 'delta'"):
        index.set_params(detla=0.2)
    with pytest.raises(ValueError, match="delta must be"):
        index.set_params(delta=2.0)
    assert index.get_params()["delta"] == 0.1
    assert index.search(QUERY).indices[0] == (ATOMS @ QUERY).argmax()


def test_clones_and_pipelines():
    base = pytest.importorskip("sklearn.base", reason="scikit-learn is not installed")
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    index = bm.BanditMIPS(seed=None, value_range=(-99, 99), bound="bernstein", layout="none").fit(ATOMS)
    again = base.clone(index)
    assert again.get_params() == index.get_params()
    assert not again.is_fitted
    assert again.seed != index.seed
    pipeline = make_pipeline(StandardScaler(), bm.BanditMIPS()).fit(ATOMS)
    scaled = pipeline[0].transform(ATOMS)
    assert pipeline[-1].search(QUERY).indices[0] == (scaled @ QUERY).argmax()
    assert not base.clone(pipeline)[-1].is_fitted
