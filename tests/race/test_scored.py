"""Plain searches of an index for scores that follow from all products: the answers of the long way."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import banditmips as bm
from banditmips.core.scored import PlainScores
from banditmips.core.scored_batch import ScoresBatch
from banditmips.race.costs import Costs

N, D = 90, 700
OBJECTIVES = ("inner_product", "cosine", "correlation", "neg_sqeuclidean")


def numbers(seed=0, level=0.0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)) + level, rng.normal(size=(6, D)) + level


def scores_of(atoms, query, objective):
    atoms, query = atoms.astype(np.float64), query.astype(np.float64)
    if objective == "neg_sqeuclidean":
        return -np.square(atoms - query).sum(axis=1)
    if objective == "correlation":
        atoms, query = atoms - atoms.mean(axis=1, keepdims=True), query - query.mean()
    products = atoms @ query
    return (
        products if objective == "inner_product" else products / np.linalg.norm(atoms, axis=1) / np.linalg.norm(query)
    )


def kinds_of(index):
    return [kind for kind in index._atom_set.prepared.get("plain", []) if isinstance(kind, PlainScores)]


def alone_and_together(index, queries, k, mask=None):
    """Results of queries alone, the second time round, and those of the same in a batch, which goes another way."""
    for query in queries:
        index.search(query, k=k, mask=mask)
    alone = [index.search(query, k=k, mask=mask) for query in queries]
    return alone, index.search(queries, k=k, mask=mask)


def check(index, atoms, queries, k, objective, absolute=False, mask=None):
    alone, together = alone_and_together(index, queries, k, mask)
    for i, (query, found) in enumerate(zip(queries, alone, strict=True)):
        scores = scores_of(atoms, query, objective)
        ranked = np.abs(scores) if absolute else scores.copy()
        if mask is not None:
            ranked[mask] = -np.inf
        best = np.argsort(-ranked)[:k]
        assert found.indices.tolist() == best.tolist()
        np.testing.assert_allclose(found.scores, scores[best], rtol=1e-9, atol=1e-9)
        # To the bit, and with the same account.
        assert np.array_equal(found.indices, together.indices[i])
        assert np.array_equal(found.scores, together.scores[i])
        assert (found.n_multiplies, found.n_survivors) == (together.n_multiplies[i], together.n_survivors[i])
        assert found.stop_reason == together.stop_reason[i]
        assert found.exact.all()
        assert found.checked


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    ("dtype", "order"), [*product(["f4", "f8", "f2", "i1", "u1"], "CF"), ("f4", "strided"), ("f2", "strided")]
)
def test_scores_are_those_of_a_batch(objective, dtype, order):
    atoms, queries = numbers(1)
    atoms = (20.0 * np.abs(atoms) if dtype == "u1" else 20.0 * atoms if dtype == "i1" else atoms).astype(dtype)
    if order == "strided":
        wide = np.zeros((2 * N, 3 * D), dtype=dtype)
        wide[::2, ::3] = atoms
        atoms = wide[::2, ::3]
    else:
        atoms = np.asarray(atoms, order=order)
    for given in ("f4", "f8"):
        index = bm.BanditMIPS(objective=objective).fit(atoms)
        check(index, atoms, queries.astype(given), 3, objective)
        served_elsewhere = objective == "inner_product" and dtype in ("f4", "f8") and order != "strided"
        assert served_elsewhere or kinds_of(index)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_masks(objective):
    atoms, queries = numbers(2)
    atoms = atoms.astype("f4")
    mask = np.random.default_rng(0).random(N) < 0.3
    for dtype, order, k in product(("f4", "f2"), "CF", (1, 7)):
        taken = np.asarray(atoms.astype(dtype), order=order)
        index = bm.BanditMIPS(objective=objective).fit(taken)
        check(index, taken, queries.astype("f4"), k, objective, mask=mask)
        assert kinds_of(index)


def test_masks_of_another_kind_go_the_long_way():
    atoms, queries = numbers(3)
    index, query = bm.BanditMIPS(objective="cosine").fit(atoms), queries[0]
    index.search(query)
    (kind,) = kinds_of(index)
    best = int(index.search(query).indices[0])
    mask = np.arange(N) == best
    second = int(index.search(query, mask=mask).indices[0])
    assert second != best
    for other in (mask.tolist(), np.repeat(mask, 2)[::2]):
        assert index.search(query, mask=other).indices.tolist() == [second]
    with pytest.raises(ValueError, match="mask"):
        index.search(query, mask=mask[1:])
    with pytest.raises(TypeError, match="mask"):
        index.search(query, mask=mask.astype(np.int64) * 3)
    # Fewer than k are left: the places behind them are empty.
    few = index.search(query, k=3, mask=np.arange(N) > 1)
    assert sorted(few.indices.tolist()) == [-1, 0, 1]
    assert index.search(query, mask=np.ones(N, dtype=bool)).stop_reason == "exhausted"
    assert kind in kinds_of(index)


@pytest.mark.parametrize("objective", ["inner_product", "cosine", "correlation"])
def test_ranked_by_size(objective):
    atoms, queries = numbers(4)
    index = bm.BanditMIPS(objective=objective, absolute=True, epsilon=1e-9).fit(atoms.astype("f4"))
    check(index, atoms.astype("f4"), queries.astype("f4"), 4, objective, absolute=True)
    check(index, atoms.astype("f4"), queries.astype("f4"), 4, objective, absolute=True, mask=np.arange(N) % 2 == 0)
    assert kinds_of(index)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_far_from_zero(objective, dtype, order):
    atoms, queries = numbers(5, level=30.0)
    atoms = np.asarray(atoms.astype(dtype), order=order)
    check(bm.BanditMIPS(objective=objective).fit(atoms), atoms, queries.astype(dtype), 2, objective)


def test_differences_that_products_cannot_tell_are_left_to_others_for_good():
    atoms, queries = numbers(6, level=1e4)
    atoms, queries = atoms.astype("f4"), queries.astype("f4")
    index = bm.BanditMIPS(objective="neg_sqeuclidean").fit(atoms)
    check(index, atoms, queries, 2, "neg_sqeuclidean")
    assert not kinds_of(index)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("scale", [1e-150, 1e-25, 1e25, 1e150])
def test_lengths_that_squares_cannot_hold(objective, scale):
    atoms, queries = numbers(7)
    index = bm.BanditMIPS(objective=objective).fit(scale * atoms)
    alone, together = alone_and_together(index, scale * queries, 2)
    for i, (query, found) in enumerate(zip(queries, alone, strict=True)):
        assert found.indices.tolist() == np.argsort(-scores_of(atoms, query, objective))[:2].tolist()
        assert np.array_equal(found.scores, together.scores[i])


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_queries_out_of_the_ordinary(objective):
    atoms, queries = numbers(8)
    index = bm.BanditMIPS(objective=objective, epsilon=1e-9).fit(atoms)
    index.search(queries[0], k=2)
    assert kinds_of(index) or objective == "inner_product"
    with pytest.raises(ValueError, match=r"nan|NaN"):
        index.search(np.where(np.arange(D) == 5, np.nan, queries[0]), k=2)
    with pytest.raises(ValueError, match=r"inf"):
        index.search(np.where(np.arange(D) == 5, np.inf, queries[0]), k=2)
    few = np.zeros(D)
    few[:3] = queries[0, :3]
    for query in (np.zeros(D), few, np.full(D, 3.0)):
        alone, together = index.search(query, k=2), index.search(np.stack([query, queries[0]]), k=2)
        assert np.array_equal(alone.indices, together.indices[0])
        assert np.array_equal(alone.scores, together.scores[0])


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1"])
@pytest.mark.parametrize("by", ["row", "row, bytes", "column", "column, bytes", "exact columns"])
def test_small_batches(objective, dtype, by, monkeypatch):
    """Batches in one compiled call, or by bytes from there: what queries alone give, to the bit."""
    by_bytes, columns = "bytes" in by, 1e-6 if "exact" in by else 1e6
    monkeypatch.setattr("banditmips.race.scored.most_peaked", lambda *_: np.inf if by_bytes else 0.0)
    told = replace(Costs(), columns=columns, near_columns=columns, more_columns=columns, column_facts=1e-6)
    for module in ("full", "together"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: told)
    atoms, queries = numbers(11, level=0.0 if dtype == "i1" else 1.0)
    atoms = np.asarray(20.0 * atoms if dtype == "i1" else atoms, order="C" if "row" in by else "F").astype(dtype)
    mask = np.arange(N) % 5 == 0
    for given, k, taken in product(("f4", "f8"), (1, 4), (None, mask)):
        index = bm.BanditMIPS(objective=objective).fit(atoms)
        rows = queries.astype(given)
        first = index.search(rows, k=k, mask=taken)
        batches = [kind for kind in kinds_of(index) if isinstance(kind, ScoresBatch)]
        served_elsewhere = objective == "inner_product" and dtype == given and taken is None and "row" in by
        assert batches or served_elsewhere
        assert served_elsewhere or batches[0].by_columns == ("exact" in by)
        found = index.search(rows, k=k, mask=taken)
        for name in ("indices", "scores", "n_multiplies", "n_survivors", "n_rounds", "delta_spent", "bytes_read"):
            assert np.array_equal(getattr(found, name), getattr(first, name))
        assert found.stop_reason == first.stop_reason
        for i, row in enumerate(rows):
            alone = index.search(row, k=k, mask=taken)
            assert np.array_equal(alone.indices, found.indices[i])
            assert np.array_equal(alone.scores, found.scores[i])
            assert by_bytes or alone.n_multiplies == found.n_multiplies[i]


def test_batches_with_queries_out_of_the_ordinary():
    atoms, queries = numbers(12)
    index = bm.BanditMIPS(objective="cosine").fit(atoms)
    expected = index.search(queries, k=2)
    odd = queries.copy()
    odd[3], odd[4, 5:] = 0.0, 0.0
    found = index.search(odd, k=2)
    assert np.array_equal(found.indices[[0, 1, 2, 5]], expected.indices[[0, 1, 2, 5]])
    assert (found.scores[3] == 0.0).all()
    odd[2, 7] = np.nan
    with pytest.raises(ValueError, match="row 2"):
        index.search(odd, k=2)
    # Fewer than k are left, and a mask for each query.
    few = index.search(queries, k=3, mask=np.arange(N) > 1)
    assert (np.sort(few.indices, axis=1) == [-1, 0, 1]).all()
    masks = np.zeros((6, N), dtype=bool)
    masks[np.arange(6), expected.indices[:, 0]] = True
    assert np.array_equal(index.search(queries, mask=masks).indices[:, 0], expected.indices[:, 1])
    assert np.array_equal(index.search(queries, k=2).indices, expected.indices)


def test_many_kinds_at_once_and_threads_of_their_own():
    """What is remembered for one k, type or option is not taken for another."""
    atoms, queries = numbers(9)
    index = bm.BanditMIPS(objective="cosine").fit(atoms.astype("f4"))
    for k, dtype, absolute in [*product(range(1, 30), ("f4", "f8"), (False, True))] * 2:
        found = index.search(queries[0].astype(dtype), k=k, absolute=absolute)
        scores = scores_of(atoms.astype("f4"), queries[0].astype(dtype), "cosine")
        assert found.indices.tolist() == np.argsort(-(np.abs(scores) if absolute else scores))[:k].tolist()


@pytest.mark.parametrize("objective", ["cosine", "correlation", "neg_sqeuclidean"])
def test_after_a_race_in_vain(objective, monkeypatch):
    """A query whose race is given up is answered by the same compiled call, and what the race took is counted."""
    rng = np.random.default_rng(10)
    atoms, query = rng.normal(size=(600, 4_000)).astype("f4"), rng.normal(size=4_000).astype("f4")
    index = bm.BanditMIPS(objective=objective).fit(atoms)
    long = index.search(query, k=5, progress=True)
    monkeypatch.setattr("banditmips._index.run_queries", None)
    found = index.search(query, k=5)
    assert found.indices.tolist() == np.argsort(-scores_of(atoms, query, objective))[:5].tolist()
    assert np.array_equal(found.scores, long.scores)
    assert (found.n_multiplies, found.n_rounds, found.n_survivors) == (
        long.n_multiplies,
        long.n_rounds,
        long.n_survivors,
    )
    assert found.stop_reason == long.stop_reason


def test_inner_products_of_atoms_in_fortran_order():
    atoms, queries = numbers(13)
    atoms = np.asfortranarray(atoms.astype("f4"))
    index = bm.BanditMIPS().fit(atoms)
    index.search(queries[0].astype("f4"), k=2)
    assert kinds_of(index)
    check(index, atoms, queries.astype("f4"), 2, "inner_product")
    check(index, atoms, queries, 2, "inner_product")


def test_batches_whose_differences_products_cannot_tell_are_multiplied_once(monkeypatch):
    atoms, queries = numbers(14, level=1e4)
    index = bm.BanditMIPS(objective="neg_sqeuclidean").fit(atoms.astype("f4"))
    expected = index.search(queries.astype("f4"), k=2)
    monkeypatch.setattr("banditmips._kinds.prepare_scores", None)
    assert np.array_equal(index.search(queries.astype("f4"), k=2).scores, expected.scores)


@pytest.mark.parametrize("objective", ["inner_product", "cosine"])
def test_products_of_bytes_are_tried_first_until_they_pay_and_not_asked_where_they_never_do(objective, monkeypatch):
    """Trying takes a good part of a small batch, and so do products that tell nothing."""
    monkeypatch.setattr("banditmips.race.scored.most_peaked", lambda *_: 0.0)
    atoms, queries = (rows.astype(np.float32) for rows in numbers(12))
    index = bm.BanditMIPS(objective=objective).fit(atoms)
    first = index.search(queries, k=3)
    (kind,) = index._atom_set.prepared["plain"]
    tried, answers = [], []

    def close(atoms, queries, norms, mask, tries):
        tried.append(tries)
        return answers.pop(0)

    def search():
        found = index.search(queries, k=3)
        for name in ("indices", "scores"):
            assert np.array_equal(getattr(found, name), getattr(first, name))
        return found

    kind.bytes_first.most_peaked, kind.bytes_first.close = np.inf, close
    everybody = np.tile(np.arange(N), len(queries)), N * np.arange(len(queries) + 1)
    answers[:] = [None, everybody, everybody, None, None, None]
    spent = [search().delta_spent.max() for _ in range(8)]
    # The first in vain, two that pay, one in vain that nobody expected, and two more.
    assert tried == [True, True, False, False, True, True]
    assert spent == [0.0, 1e-3, 1e-3, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_queries_that_products_of_bytes_leave_have_other_products(objective, monkeypatch):
    monkeypatch.setattr("banditmips.race.scored.most_peaked", lambda *_: 0.0)
    atoms, queries = (rows.astype(np.float32) for rows in numbers(13))
    index = bm.BanditMIPS(objective=objective).fit(atoms)
    first = index.search(queries, k=3)
    (kind,) = index._atom_set.prepared["plain"]
    kind.bytes_first.most_peaked = np.inf
    for without in ([0], [2, 5], [0, 1, 2, 3, 4], list(range(len(queries)))):
        counts = np.where(np.isin(np.arange(len(queries)), without), 0, N)
        close = np.tile(np.arange(N), np.count_nonzero(counts)), np.concatenate(([0], np.cumsum(counts)))
        kind.bytes_first.close = lambda *_, close=close: close
        found = index.search(queries, k=3)
        assert np.array_equal(found.indices, first.indices)
        assert np.array_equal(found.scores, first.scores)
        np.testing.assert_array_equal(found.delta_spent, np.where(counts > 0, 1e-3, 0.0))
        np.testing.assert_array_equal(found.n_multiplies, first.n_multiplies * (1 + (counts > 0)))
        assert (found.n_survivors == N).all()
