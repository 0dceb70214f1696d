"""What a search returns: fields that are filled in when they are asked for are like the others."""

import copy
import pickle
from dataclasses import asdict, fields, replace

import numpy as np
import pytest

import banditmips as bm
from banditmips import SearchResult


@pytest.fixture
def result():
    atoms = np.random.default_rng(0).normal(size=(50, 2_000))
    return bm.BanditMIPS().fit(atoms).search(atoms[7], k=3)


@pytest.mark.parametrize("name", ["lower", "upper", "exact"])
def test_what_follows_from_exact_scores_is_an_array_of_its_own(result, name):
    value = getattr(result, name)
    assert value is getattr(result, name)
    assert value.flags.writeable
    assert not np.shares_memory(value, result.scores)
    assert value.dtype == (np.bool_ if name == "exact" else np.float64)
    assert (value == (True if name == "exact" else result.scores)).all()


def test_every_field_is_there_however_it_is_asked_for(result):
    names = [field.name for field in fields(SearchResult)]
    assert list(asdict(result)) == names
    for other in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result), replace(result)):
        for name in names:
            assert np.array_equal(getattr(other, name), getattr(result, name)), name


def test_a_changed_result_keeps_what_it_was_given(result):
    changed = replace(result, lower=result.scores - 1.0, exact=np.zeros(3, dtype=np.bool_))
    assert (changed.lower == result.scores - 1.0).all()
    assert not changed.exact.any()
    assert (changed.upper == result.scores).all()


def test_estimates_have_intervals():
    atoms = np.random.default_rng(0).normal(size=(50, 1)) + np.random.default_rng(1).normal(size=(50, 40_000))
    result = (
        bm.BanditMIPS(layout="coordinates", minimise="multiplies", rescore=False)
        .fit(atoms)
        .search(np.ones(40_000) + atoms[0])
    )
    assert not result.exact.any()
    assert (result.lower < result.scores).all()
    assert (result.scores < result.upper).all()


def test_the_class_has_no_fields():
    with pytest.raises(AttributeError, match="field of a result"):
        _ = SearchResult.lower
