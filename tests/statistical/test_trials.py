"""The judges judged: what counts as wrong, what as sampled, and that every kind of data can be judged at all."""

from __future__ import annotations

import numpy as np
import pytest
from kinds import KINDS, N_QUERIES
from trials import Count, Size, assert_rate_at_most, dataset, decided_by_sampling, is_wrong, judged, one_query, truth

import banditmips as bm

SCORES = np.array([1.0, 5.0, 3.0, 5.0, 4.0])
EXACTLY = np.zeros(5)


@pytest.mark.parametrize(
    ("found", "wrong"),
    [([1], False), ([3], False), ([4], True), ([1, 3], False), ([3, 1, 4], False), ([1, 4], True), ([1, 1], True)],
)
def test_of_ties_any_is_right(found, wrong):
    assert is_wrong(np.array(found), SCORES, EXACTLY) is wrong


def test_padding_is_wrong_and_rounding_is_not():
    assert is_wrong(np.array([1, -1]), SCORES, EXACTLY)
    assert not is_wrong(np.array([4]), SCORES, np.full(5, 1.0))


def test_a_rate_above_delta_is_caught_and_one_at_delta_is_not():
    assert_rate_at_most(0.1, 10, 48, "")
    assert_rate_at_most(0.001, 5, 1_320, "")
    with pytest.raises(AssertionError, match=r"word counts: 17 of 48 at delta = 0.1"):
        assert_rate_at_most(0.1, 17, 48, "word counts")
    with pytest.raises(AssertionError):
        assert_rate_at_most(0.001, 11, 1_320, "")


def answer(indices, scores, radius=0.0, **fields):
    """Make a result by hand, of one query."""
    scores = np.array(scores, dtype=np.float64)
    described = {"n_multiplies": 100, "n_rounds": 2, "n_survivors": 3, "stop_reason": "separated", "delta_spent": 0.01}
    exact = np.full(scores.shape, radius == 0.0)
    return bm.SearchResult(np.array(indices), scores, scores - radius, scores + radius, exact, **described | fields)


@pytest.mark.parametrize(
    ("fields", "sampled"),
    [
        ({}, True),
        ({"stop_reason": "finished_exactly"}, True),
        ({"stop_reason": "exhausted"}, False),
        ({"delta_spent": 0.0}, False),
        ({"n_survivors": 50}, False),
        ({"n_survivors": 26}, False),
        ({"n_survivors": 25}, True),
    ],
)
def test_sampling_decided_if_it_dropped_half_of_the_atoms(fields, sampled):
    assert decided_by_sampling(answer([0], [1.0], **fields), n=50) is sampled


WHERE = ("nothing_stands_out", 10, 64, 0)


def test_right_and_wrong_answers_and_intervals_are_told_apart():
    scores = truth(*WHERE, "inner_product")[0][2]
    best, worst = int(scores.argmax()), int(scores.argmin())
    right = answer([best], [scores[best] + 0.5], radius=1.0)
    assert judged(right, WHERE, 2, "inner_product") == Count(1, False, False, True, True)
    missed = answer([best], [scores[best] + 2.0], radius=1.0)
    assert judged(missed, WHERE, 2, "inner_product") == Count(1, False, True, True, True)
    wrong = answer([worst], [scores[worst]])
    assert judged(wrong, WHERE, 2, "inner_product") == Count(1, True, False, True, False)
    with pytest.raises(AssertionError, match="exact scores"):
        judged(answer([best], [scores[best] * 1.001]), WHERE, 2, "inner_product")


def test_a_batch_is_judged_query_by_query():
    atoms, queries = dataset(*WHERE)
    batch = bm.search(atoms, queries, 3, delta=0.0)
    for row, query in enumerate(queries):
        assert one_query(batch, row).indices.tolist() == bm.search(atoms, query, 3, delta=0.0).indices.tolist()


def test_every_search_has_its_own_seed():
    searches = list(Size(n=10, d=10, n_datasets=2, n_seeds=3).searches())
    assert len(set(searches)) == len(searches) == 2 * 3 * N_QUERIES
    assert len({(number, seed) for number, _, seed in searches}) == len(searches)


@pytest.mark.parametrize("d", [784, 1_000])
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_data_has_answers_that_rounding_does_not_hide(name, d):
    atoms, queries = dataset(name, 40, d, 0)
    assert (atoms.shape, queries.shape) == ((40, d), (N_QUERIES, d))
    assert np.isfinite(atoms.astype(np.float64)).all()
    assert queries.astype(np.float64).any(axis=1).all()
    scores, rounding = truth(name, 40, d, 0, "inner_product")
    assert (np.ptp(scores, axis=1) > 10.0 * rounding.max(axis=1)).all()
    again = KINDS[name].make(np.random.default_rng([sum(map(ord, name)), 0]), 40, d)
    assert (again[0] == atoms).all()


def test_kinds_are_many_and_of_many_types():
    assert len(KINDS) >= 35
    types = {dataset(name, 40, 784, 0)[0].dtype.name for name in KINDS}
    assert {"float16", "float32", "float64", "int8", "uint8", "bool"} <= types
