"""Searches that one compiled call answers: what they find, and what has to go another way."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

import banditmips as bm
from banditmips import _direct
from banditmips.race.costs import Costs


@pytest.fixture(autouse=True)
def our_own_loop(monkeypatch):
    """Whatever this machine's BLAS is like."""
    monkeypatch.setattr("banditmips.race.direct.costs", Costs)
    _direct._bare.clear()
    _direct.plain_kinds.clear()


def made(n, d, dtype=np.float32):
    rng = np.random.default_rng(n + d)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(3, d)).astype(dtype)


def fields(result):
    return {name: getattr(result, name) for name in bm.SearchResult.__dataclass_fields__}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (5, 40), (300, 7), (1_000, 100), (259, 5_000)])
@pytest.mark.parametrize("absolute", [False, True])
def test_the_best_are_found_with_the_same_bits_as_by_the_long_way(shape, dtype, absolute):
    atoms, queries = made(*shape, dtype)
    for k in {1, min(3, shape[0]), shape[0]}:
        index = bm.BanditMIPS(absolute=absolute).fit(atoms)
        for query in queries:
            exact = atoms.astype(np.float64) @ query.astype(np.float64)
            order = np.argsort(-(np.abs(exact) if absolute else exact), kind="stable")[:k]
            long_way = bm.search(atoms, query.tolist(), k, absolute=absolute)
            for found in (bm.search(atoms, query, k, absolute=absolute), index.search(query, k)):
                np.testing.assert_array_equal(found.indices, order)
                np.testing.assert_array_equal(found.scores, long_way.scores)
                assert found.n_multiplies == long_way.n_multiplies == atoms.size
        assert index._atom_set.prepared["plain"]
    assert len(_direct.plain_kinds) == len({1, min(3, shape[0]), shape[0]})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(5, 40), (300, 7), (1_000, 100), (259, 5_000)])
@pytest.mark.parametrize("absolute", [False, True])
def test_atoms_that_a_mask_takes_out_are_not_found(shape, dtype, absolute, monkeypatch):
    atoms, queries = made(*shape, dtype)
    rng, index = np.random.default_rng(0), bm.BanditMIPS(absolute=absolute).fit(atoms)
    for part, k in ((0.1, 2), (0.5, 1), (0.9, 3), (1.0, 1)):
        mask = rng.random(shape[0]) < part
        n_left = np.count_nonzero(~mask)
        for query in queries:
            exact = np.where(mask, -np.inf, np.abs(atoms.astype(np.float64) @ query) if absolute else atoms @ query)
            order = np.argsort(-exact, kind="stable")[:k]
            long_way = bm.search(atoms, query.tolist(), k, mask=mask, absolute=absolute)
            found = bm.search(atoms, query, k, mask=mask, absolute=absolute)
            for one in (found, index.search(query, k, mask=mask)):
                np.testing.assert_array_equal(one.indices[:n_left], order[: min(k, n_left)])
                assert (one.indices[n_left:] == -1).all()
                np.testing.assert_array_equal(one.scores, long_way.scores)
            assert found.n_multiplies == long_way.n_multiplies == n_left * shape[1]
            assert found.n_survivors == long_way.n_survivors
    assert _direct.plain_kinds  # one compiled call, with other masks as well
    monkeypatch.setattr("banditmips._search.bare_directly", None)  # nobody else is asked
    bm.search(atoms, queries[1], 1, mask=np.arange(shape[0]) == 1, absolute=absolute)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "correlation", "neg_sqeuclidean"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("n", [30, 900])
def test_rows_that_many_queries_want_have_the_scores_of_each_query_alone(n, dtype, objective):
    """To the bit: with 30 atoms each row is read once for about six queries, with 900 query by query."""
    rng = np.random.default_rng(n)
    atoms = (20 * rng.normal(size=(n, 2_500))).astype(dtype)
    queries = rng.normal(size=(40, 2_500)).astype(np.float64 if dtype == np.float64 else np.float32)
    index = bm.BanditMIPS(objective=objective).fit(atoms)
    for _ in range(2):  # the second search of a kind is one compiled call
        for found in (index.search(queries, 5), bm.search(atoms, queries, 5, objective=objective)):
            for t, query in enumerate(queries):
                alone = index.search(query, 5)
                np.testing.assert_array_equal(found.indices[t], alone.indices)
                np.testing.assert_array_equal(found.scores[t], alone.scores)


def test_masks_of_another_kind_go_another_way():
    atoms, queries = made(50, 60)
    mask = np.arange(50) % 3 == 0
    expected = bm.search(atoms, queries[0], 2, mask=mask).indices
    for other in (mask.tolist(), np.repeat(mask, 2)[::2], mask[np.newaxis]):
        found = bm.search(atoms, queries[:1] if np.ndim(other) == 2 else queries[0], 2, mask=other)
        np.testing.assert_array_equal(np.ravel(found.indices), expected)
    with pytest.raises(ValueError, match="mask"):
        bm.search(atoms, queries[0], 2, mask=mask[:-1])
    with pytest.raises((TypeError, ValueError), match="mask"):
        bm.search(atoms, queries[0], 2, mask=mask.astype(np.int64) + 7)


@pytest.mark.parametrize("of_masked", [False, True])
def test_what_is_not_finite_is_named_with_a_mask_as_well(of_masked):
    atoms, queries = made(50, 60)
    mask = np.arange(50) == 7
    bm.search(atoms, queries[0], 2, mask=mask)
    atoms[7 if of_masked else 8, 3] = np.nan
    try:
        bm.search(atoms, queries[0].tolist(), 2, mask=mask)
    except ValueError as error:
        with pytest.raises(ValueError, match=str(error)[:20]):
            bm.search(atoms, queries[0], 2, mask=mask)
    else:
        assert 7 not in bm.search(atoms, queries[0], 2, mask=mask).indices


def test_results_have_every_field_as_those_of_a_batch_have():
    atoms, queries = made(50, 60)
    index = bm.BanditMIPS(seed=5).fit(atoms, ids=np.arange(50) + 100)
    for _ in range(2):
        for found, batch in (
            (bm.search(atoms, queries[0], 2, seed=7), bm.search(atoms, queries, 2, seed=7)),
            (index.search(queries[0], 2), index.search(queries, 2)),
        ):
            for other in (batch[0], pickle.loads(pickle.dumps(found))):
                for name, value in fields(found).items():
                    np.testing.assert_array_equal(value, getattr(other, name), err_msg=name)
            assert repr(found) == repr(batch[0])
        assert (found.ids == found.indices + 100).all()
        assert found.checked
        assert not bm.search(atoms, queries[0]).checked


def test_equal_options_of_other_types_are_still_refused():
    atoms, queries = made(20, 30)
    for _ in range(2):
        bm.search(atoms, queries[0], 1, absolute=True)
        with pytest.raises(TypeError, match="absolute"):
            bm.search(atoms, queries[0], 1, absolute=1)
        for k in (True, 1.0):
            with pytest.raises(TypeError, match="k must be an integer"):
                bm.search(atoms, queries[0], k, absolute=True)


def test_options_that_differ_are_seen():
    atoms, queries = made(40, 30)
    plain = [bm.search(atoms, queries[0]) for _ in range(2)][1]
    for _ in range(2):
        assert bm.search(atoms, queries[0], ends="smallest").scores[0] < plain.scores[0]
        assert bm.search(atoms, queries[0], trace=True).trace is not None
        assert bm.search(atoms, queries[0], seed=3).seed == 3
    assert bm.search(atoms, queries[0], seed=None).seed != bm.search(atoms, queries[0], seed=None).seed
    mask = np.arange(40) == plain.indices[0]
    assert bm.search(atoms, queries[0], mask=mask).indices[0] != plain.indices[0]


@pytest.mark.parametrize("k", [1, 4])
def test_what_is_not_finite_is_named_as_ever(k):
    atoms, queries = made(40, 30)
    for _ in range(2):
        bm.search(atoms, queries[0], k)
    bad = queries[1].copy()
    bad[4] = np.nan
    with pytest.raises(ValueError, match="queries has nan at column 4"):
        bm.search(atoms, bad, k)
    spoilt = atoms.copy()
    spoilt[6, 2] = np.inf
    with pytest.raises(ValueError, match="row 6"):
        bm.search(spoilt, queries[0], k)


def test_arrays_of_another_kind_go_another_way(tmp_path):
    atoms, queries = made(40, 30)
    expected = [bm.search(atoms, queries[0]) for _ in range(2)][1]
    np.save(tmp_path / "atoms.npy", atoms)
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    read_only = atoms.copy()
    read_only.flags.writeable = False
    swapped = atoms.astype(atoms.dtype.newbyteorder())
    for other in (mapped, mapped.view(np.ndarray), read_only, swapped, np.asfortranarray(atoms), atoms.astype(float)):
        for query in (queries[0], queries[0].astype(float), queries[0].tolist()):
            found = bm.search(other, query)
            np.testing.assert_array_equal(found.indices, expected.indices)
            np.testing.assert_array_equal(found.scores, expected.scores)


def test_equal_atoms_come_by_their_index():
    atoms = np.ones((600, 20), dtype=np.float32)
    for _ in range(2):
        np.testing.assert_array_equal(bm.search(atoms, atoms[0], 300).indices, np.arange(300))


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("k", [127, 128, 129, 600, 1_000])
def test_many_equal_scores_come_in_the_order_of_their_atoms(absolute, k):
    """From a certain k on they are sorted at once, all or those that reach the k-th best."""
    rng = np.random.default_rng(k)
    atoms, query = rng.integers(-2, 3, size=(1_000, 6)).astype(np.float32), np.ones(6, dtype=np.float32)
    scores = atoms.sum(axis=1)
    order = np.argsort(-(np.abs(scores) if absolute else scores), kind="stable")[:k]
    for _ in range(3):
        found = bm.search(atoms, query, k, absolute=absolute)
        np.testing.assert_array_equal(found.indices, order)
        np.testing.assert_array_equal(found.scores, scores[order])


def test_threads_share_one_kind():
    atoms, _ = made(500, 64)
    index = bm.BanditMIPS().fit(atoms)
    exact = np.argmax(atoms.astype(np.float64) @ atoms.T.astype(np.float64), axis=0)
    with ThreadPoolExecutor(4) as pool:
        by_index = list(pool.map(lambda query: index.search(query).indices[0], atoms))
        bare = list(pool.map(lambda query: bm.search(atoms, query).indices[0], atoms))
    np.testing.assert_array_equal(by_index, exact)
    np.testing.assert_array_equal(bare, exact)


@pytest.mark.parametrize("fitted", [False, True])
def test_a_kind_of_search_that_others_have_displaced_is_found_again(fitted, monkeypatch):
    """Sixteen kinds are found one after another; whichever comes again takes its place among them again."""
    rng = np.random.default_rng(0)
    atoms, query = rng.normal(size=(9, 30)).astype(np.float32), rng.normal(size=30).astype(np.float32)
    module = "banditmips._index.directly" if fitted else "banditmips._search.bare_directly"
    search = bm.BanditMIPS().fit(atoms).search if fitted else partial(bm.search, atoms)
    search(query)
    for k in (1, 2, 3, 4, 5, 6, 7, 8, 9) if fitted else ():
        for absolute in (False, True):
            search(query, k=k, absolute=absolute)
    for n in range(10, 30) if not fitted else ():
        bm.search(rng.normal(size=(n, 30)).astype(np.float32), query)
    search(query)
    search(query)
    name, found = module.rsplit(".", 1)[1], []
    real = getattr(sys.modules[module.rsplit(".", 1)[0]], name)
    monkeypatch.setattr(module, lambda *given: found.append(1) or real(*given))
    search(query)
    assert not found
