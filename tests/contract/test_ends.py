"""The smallest scores, alone or beside the largest, however the atoms are searched."""

from __future__ import annotations

import numpy as np
import pytest

import banditmips as bm

FIELDS = ("indices", "scores", "lower", "upper", "exact", "n_multiplies", "n_rounds", "n_survivors", "stop_reason")


def make(seed=0, n=40, d=1_500):
    rng = np.random.default_rng(seed)
    atoms = rng.normal(size=(n, 1)) + rng.normal(size=(n, d))
    return atoms, 1 + rng.normal(size=(3, d))


def smallest(scores, k):
    return np.argsort(scores, kind="stable")[:k]


def test_the_smallest_come_smallest_first(find):
    for seed in range(3):
        atoms, queries = make(seed)
        found = find(atoms, queries, 4, ends="smallest")
        assert found.smallest is None
        for query, indices, scores in zip(queries, *found, strict=True):
            truth = atoms @ query
            np.testing.assert_array_equal(indices, smallest(truth, 4))
            np.testing.assert_allclose(scores, truth[indices])


@pytest.mark.parametrize("objective", ["cosine", "correlation"])
def test_smallest_of_other_objectives(find_flat, objective):
    atoms, queries = make()
    level = objective == "correlation"
    rows, row = atoms - level * atoms.mean(axis=1, keepdims=True), queries[0] - level * queries[0].mean()
    truth = rows @ row / np.linalg.norm(rows, axis=1) / np.linalg.norm(row)
    found = find_flat(atoms, queries[0], 3, ends="smallest", objective=objective)
    np.testing.assert_array_equal(found.indices, smallest(truth, 3))
    np.testing.assert_allclose(found.scores, truth[found.indices])


@pytest.mark.parametrize("options", [{}, {"rescore": False}, {"budget": 9_000, "rescore": False}])
def test_smallest_is_the_search_for_the_negative_query(find_flat, options):
    atoms, queries = make()
    found = find_flat(atoms, queries, 4, ends="smallest", **options)
    negative = find_flat(atoms, -queries, 4, **options)
    for name in ("indices", "exact", "n_multiplies", "n_rounds", "n_survivors", "delta_spent", "bytes_read"):
        np.testing.assert_array_equal(getattr(found, name), getattr(negative, name))
    assert found.stop_reason == negative.stop_reason
    for name, other in {"scores": "scores", "lower": "upper", "upper": "lower"}.items():
        np.testing.assert_array_equal(getattr(found, name), -getattr(negative, other))
    assert (found.lower <= found.scores).all()
    assert (found.scores <= found.upper).all()


@pytest.mark.parametrize("single", [True, False])
def test_both_ends_are_what_two_searches_find(find, single):
    atoms, queries = make()
    asked = queries[1] if single else queries
    mask = np.arange(len(atoms)) % 5 == 0
    both = find(atoms, asked, 4, ends="both", mask=mask)
    for found, end in ((both, "largest"), (both.smallest, "smallest")):
        alone = find(atoms, asked, 4, ends=end, mask=mask)
        for name in FIELDS:
            np.testing.assert_array_equal(getattr(found, name), getattr(alone, name))
        assert (found.seed, found.atoms_shape, found.checked) == (alone.seed, alone.atoms_shape, alone.checked)
    assert not mask[both.smallest.indices].any()


def test_each_query_has_its_own_mask_at_both_ends():
    atoms, queries = make()
    mask = np.random.default_rng(0).random((3, 40)) < 0.5
    both = bm.search(atoms, queries, 2, ends="both", mask=mask)
    for i, query in enumerate(queries):
        truth = np.where(mask[i], np.inf, atoms @ query)
        np.testing.assert_array_equal(both.smallest.indices[i], smallest(truth, 2))
        np.testing.assert_array_equal(both[i].smallest.indices, both.smallest.indices[i])
    with pytest.raises(ValueError, match=r"mask must have shape \(40,\), got \(2, 40\)"):
        bm.search(atoms, queries[0], ends="both", mask=mask[:2])


def test_queries_of_unsigned_integers_have_negatives():
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(30, 50)), rng.integers(0, 255, size=50).astype(np.uint8)
    both = bm.search(atoms, query, 3, ends="both")
    np.testing.assert_array_equal(both.smallest.indices, smallest(atoms @ query, 3))
    np.testing.assert_array_equal(both.indices, smallest(-(atoms @ query), 3))


def test_padding_is_as_small_as_nobody():
    atoms = np.array([[1.0, 0.0], [0.0, 0.0]])
    found = bm.search(atoms, np.array([2.0, 1.0]), 3, ends="smallest")
    assert found.indices.tolist() == [1, 0, -1]
    assert found.scores.tolist() == [0.0, 2.0, np.inf]
    assert not np.signbit(found.scores[0])
    assert bm.search(atoms, np.empty((0, 2)), 3, ends="both").smallest.indices.shape == (0, 3)


def test_ids_traces_and_frames_of_both_ends():
    atoms, queries = make()
    names = np.array([f"atom {i}" for i in range(len(atoms))])
    index = bm.BanditMIPS(ends="both", minimise="multiplies", trace=True).fit(atoms, ids=names)
    both = index.search(queries[0], 2)
    worst = smallest(atoms @ queries[0], 2)
    assert both.smallest.ids.tolist() == names[worst].tolist()
    last = both.smallest.trace.rounds[-1]
    assert last.leader in worst
    assert (last.scores[:2] < 0).all()
    assert (last.lower <= last.scores).all()
    assert (last.scores <= last.upper).all()
    frame = both.to_frame()
    assert frame["end"].tolist() == ["largest"] * 2 + ["smallest"] * 2
    assert frame["id"].tolist() == [*both.ids, *both.smallest.ids]
    assert ".smallest" in repr(both)


def test_an_index_keeps_its_ends_in_a_file(tmp_path):
    atoms, queries = make()
    bm.BanditMIPS(ends="smallest").fit(atoms).save(tmp_path / "atoms.bm")
    found = bm.load(tmp_path / "atoms.bm").search(queries[0])
    assert found.indices[0] == (atoms @ queries[0]).argmin()


def test_a_query_that_is_not_finite_is_named_as_it_was_given():
    atoms, queries = make()
    queries[2, 7] = np.inf
    with pytest.raises(ValueError, match="queries has inf at row 2, column 7"):
        bm.search(atoms, queries, ends="smallest")
    with pytest.raises(ValueError, match="queries has inf at column 7"):
        bm.search(atoms, queries[2], ends="both")


def test_names_that_others_use():
    with pytest.raises(TypeError, match="has no option 'smallest'; it is called 'ends' here"):
        bm.search(*make(), smallest=True)
