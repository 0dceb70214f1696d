"""Plain searches of bare arrays by scores that follow from all products: one compiled call, to the bit an index's."""

import gc
import weakref
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import banditmips as bm
from banditmips import _direct
from banditmips.core.factors import rough_factors
from banditmips.core.passes import look_at_some
from banditmips.core.rows import Rows
from banditmips.core.scored import PlainScores
from banditmips.core.scored_batch import ScoresBatch
from banditmips.race.costs import Costs

OBJECTIVES = ["inner_product", "cosine", "correlation", "neg_sqeuclidean"]
N, D = 90, 1_300
KINDS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "far from 0": lambda rng, n, d: 50.0 + rng.normal(size=(n, d)),
    "nearly constant": lambda rng, n, d: 1.0 + 10.0 ** rng.uniform(-6, 0, size=(n, 1)) * rng.normal(size=(n, d)),
    "heavy tails": lambda rng, n, d: rng.pareto(1.1, size=(n, d)),
    "one direction": lambda rng, n, d: rng.normal(size=(1, d)) + 1e-3 * rng.normal(size=(n, d)),
    "mixed lengths": lambda rng, n, d: 10.0 ** rng.uniform(-5, 5, size=(n, 1)) * rng.normal(size=(n, d)),
    "near-duplicates": lambda rng, n, d: (
        np.repeat(rng.normal(size=(n // 10 + 1, d)), 10, axis=0)[:n] + 1e-7 * rng.normal(size=(n, d))
    ),
    "zeros": lambda rng, n, d: rng.normal(size=(n, d)) * (rng.random((n, 1)) < 0.5),
}


@pytest.fixture(autouse=True)
def no_kinds(monkeypatch):
    monkeypatch.setattr(_direct, "_other_ways", set())
    before = _direct.plain_kinds[:]
    _direct.plain_kinds.clear()
    yield
    _direct.plain_kinds[:] = before


def numbers(seed, dtype="f4", order="C", kind="normal"):
    rng = np.random.default_rng(seed)
    atoms, queries = KINDS[kind](rng, N, D), KINDS[kind](rng, 9, D)
    if dtype in ("i1", "u1"):
        atoms = 100.0 * atoms / np.abs(atoms).max()
    atoms = np.abs(atoms) if dtype == "u1" else np.clip(atoms, -6e4, 6e4)
    return np.asarray(atoms.astype(dtype), order=order), queries


def elsewhere(monkeypatch):
    """Nobody but compiled calls answers from now on."""

    def fail(*_args, **_kwargs):
        pytest.fail("a search went another way")

    monkeypatch.setattr("banditmips._search.run_queries", fail)
    monkeypatch.setattr("banditmips._search.bare_directly", fail)


def same(found, expected):
    for name in ("indices", "scores", "lower", "upper", "exact", "n_multiplies", "n_survivors", "n_rounds"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in ("stop_reason", "checked", "seed", "atoms_shape", "trace"):
        assert getattr(found, name) == getattr(expected, name), name
    np.testing.assert_array_equal(found.delta_spent, expected.delta_spent)
    np.testing.assert_array_equal(found.bytes_read, expected.bytes_read)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("dtype", "order"), [*product(["f4", "f8", "f2", "i1", "u1", "i2", "i4"], "CF")])
def test_one_query_is_one_call_with_the_same_result(objective, dtype, order, monkeypatch):
    atoms, queries = numbers(0, dtype, order)
    mask = np.arange(N) % 3 == 0
    asked = [
        {"k": k, "objective": objective, "absolute": absolute, "mask": out}
        for k, absolute, out in product((1, 7), (False, True), (None, mask))
        if not (absolute and objective == "neg_sqeuclidean")
    ]
    for options, given in product(asked, ("f4", "f8")):
        query = queries[0].astype(given)
        with monkeypatch.context() as other:
            other.setattr(_direct, "has_scores", lambda *_: False)
            expected = bm.search(atoms, query, **options)
        _direct._other_ways.clear()
        bm.search(atoms, query, **options)
        if objective == "inner_product" and dtype == given and order == "C":
            continue  # those have a shorter way
        if not (objective == "inner_product" and dtype in ("f4", "f8") and order == "C"):
            assert any(type(kind) is PlainScores for kind in _direct.plain_kinds)
            with monkeypatch.context() as other:
                elsewhere(other)
                same(bm.search(atoms, query, **options), expected)
                same(bm.search(atoms.copy(order="K"), query, **options), expected)  # whatever array it is


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1"])
@pytest.mark.parametrize(("order", "columns"), [("C", 1.0), ("F", 1e-6), ("F", 1e6)])
def test_a_small_batch_is_one_call_with_the_answers_of_each_query(objective, dtype, order, columns, monkeypatch):
    told = replace(Costs(), columns=columns, near_columns=columns, more_columns=columns, column_facts=1e-6)
    for module in ("full", "together"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: told)
    atoms, queries = numbers(1, dtype, order)
    mask = np.arange(N) % 3 == 0
    for k, given, out in product((1, 7), ("f4", "f8"), (None, mask)):
        batch = queries.astype(given)
        alone = [bm.search(atoms, query, k=k, objective=objective, mask=out) for query in batch]
        bm.search(atoms, batch, k=k, objective=objective, mask=out)
        assert any(isinstance(kind, ScoresBatch) for kind in _direct.plain_kinds) or (
            objective == "inner_product" and dtype == given and out is None and order == "C"
        )
        with monkeypatch.context() as other:
            elsewhere(other)
            found = bm.search(atoms, batch, k=k, objective=objective, mask=out)
        for i, one in enumerate(alone):
            np.testing.assert_array_equal(found.indices[i], one.indices)
            np.testing.assert_array_equal(found.scores[i], one.scores)
            assert found.checked == one.checked


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_nobody_is_left_out_by_rough_norms(kind, objective, order):
    """The best are found, to the bit those of an index, also where products in single precision say little."""
    for seed, dtype in product(range(3), ("f4", "f2", "f8")):
        atoms, queries = numbers(seed, dtype, order, kind)
        given = np.concatenate([queries[:3], np.clip(atoms[:3], -6e4, 6e4)]).astype("f8" if dtype == "f8" else "f4")
        index = bm.BanditMIPS(objective=objective).fit(atoms)
        for query in given:
            expected = index.search(query, k=3)
            for _ in range(2):
                found = bm.search(atoms, query, k=3, objective=objective)
                np.testing.assert_array_equal(found.indices, expected.indices)
                np.testing.assert_array_equal(found.scores, expected.scores)


@pytest.mark.parametrize("objective", ["cosine", "correlation"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_an_atom_that_is_not_finite_is_named(objective, order, bad):
    atoms, queries = numbers(2, "f4", order)
    query = queries[0].astype("f4")
    bm.search(atoms, query, objective=objective)
    atoms[17, 23] = bad
    for given in (query, queries.astype("f4")):
        with pytest.raises(ValueError, match=r"17.*23"):
            bm.search(atoms, given, objective=objective)


def test_queries_that_are_not_plain_go_another_way():
    atoms, queries = numbers(3, "i1")
    few = np.zeros(D, dtype="f4")
    few[3] = 2.0
    bm.search(atoms, queries[0].astype("f4"))
    found = bm.search(atoms, few)
    assert found.indices[0] == np.argmax(atoms[:, 3])
    with pytest.raises(ValueError, match="nan"):
        bm.search(atoms, np.where(np.arange(D) == 5, np.nan, queries[0]).astype("f4"), objective="cosine")


def test_other_arrays_are_of_another_kind():
    """Strided ones, those of foreign byte order and maps, and those of another shape, type or order."""
    atoms, queries = numbers(4)
    query = queries[0].astype("f4")
    expected = bm.search(atoms, query, objective="cosine")
    wide = np.zeros((2 * N, 3 * D), dtype="f4")
    wide[::2, ::3] = atoms
    for other in (wide[::2, ::3], atoms.astype(">f4"), np.asfortranarray(atoms), atoms.astype("f8")):
        for _ in range(2):
            assert bm.search(other, query, objective="cosine").indices == expected.indices


def test_huge_and_tiny_norms_are_answered():
    atoms, queries = numbers(5, "f8")
    for scale in (1e-200, 1e200):
        index = bm.BanditMIPS(objective="cosine").fit(scale * atoms)
        for _ in range(2):
            found = bm.search(scale * atoms, queries[0], k=3, objective="cosine")
            np.testing.assert_array_equal(found.scores, index.search(queries[0], k=3).scores)


def test_differences_that_products_cannot_tell_are_not_multiplied_twice_each_time(monkeypatch):
    rng = np.random.default_rng(7)
    atoms, queries = ((1e4 + rng.normal(size=(rows, D))).astype("f4") for rows in (N, 5))
    index = bm.BanditMIPS(objective="neg_sqeuclidean").fit(atoms)
    for given in (queries[0], queries):
        expected = index.search(given, k=2)
        found = bm.search(atoms, given, k=2, objective="neg_sqeuclidean")
        with monkeypatch.context() as other:
            other.setattr("banditmips._kinds.prepare_scores", None)
            again = bm.search(atoms, given, k=2, objective="neg_sqeuclidean")
        for one in (found, again):
            np.testing.assert_array_equal(one.indices, expected.indices)
            np.testing.assert_array_equal(one.scores, expected.scores)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_arrays_are_not_kept_alive(objective):
    atoms, queries = numbers(6, "f2")
    for given in (queries[0], queries):
        bm.search(atoms, given.astype("f4"), objective=objective)
    assert len(_direct.plain_kinds) == 2
    watched = weakref.ref(atoms)
    del atoms
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u2"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("level", [0.0, 1e3])
def test_some_rows_are_looked_at_as_fit_looks_at_all(dtype, order, level):
    rng = np.random.default_rng(0)
    atoms = np.asarray((level if dtype[0] == "f" else 0.0) + 20.0 * rng.normal(size=(30, 5_000)))
    atoms = np.asarray((np.abs(atoms) if dtype == "u2" else atoms).astype(dtype), order=order)
    facts, chosen = bm.BanditMIPS().fit(atoms)._atom_set.facts, np.array([29, 3, 3, 0])
    squares, means, scatters, low, high = look_at_some(Rows([atoms]), chosen)
    np.testing.assert_array_equal(squares, facts.squared_norms[chosen])
    np.testing.assert_array_equal(means, facts.means[chosen])
    np.testing.assert_array_equal(scatters, facts.scatter[chosen])
    assert (low, high) == (atoms[chosen].min(), atoms[chosen].max())


def test_rows_that_cannot_be_looked_at_are_refused():
    atoms = np.ones((3, 4))
    with pytest.raises(IndexError):
        look_at_some(Rows([atoms]), np.array([3]))
    for rows in (Rows([atoms, atoms]), Rows([atoms.astype(np.int64)])):
        with pytest.raises(ValueError, match="one matrix"):
            look_at_some(rows, np.array([0]))


def test_factors_by_rough_sums():
    squares, totals = np.array([4.0, 0.0, 9.0]), np.array([2.0, 0.0, 6.0])
    fine = (1e-10, 1e10)
    factors, offsets, scaled, relative = rough_factors("cosine", None, squares, 4, 1e-5, fine, True)
    np.testing.assert_allclose(factors, [0.5, 0.0, 1 / 3])
    assert offsets is None
    np.testing.assert_allclose(scaled, [1.0, np.inf, 1.0])
    np.testing.assert_array_equal(relative, np.full(3, 1e-5))
    assert rough_factors("cosine", None, squares, 4, 1e-5, fine, False)[2][1] == 0.0
    factors, offsets, scaled, relative = rough_factors("correlation", totals, squares, 4, 1e-5, fine, True)
    np.testing.assert_allclose(factors, [1 / np.sqrt(3.0), 0.0, 0.0])  # of the last nothing is left
    np.testing.assert_allclose(offsets, totals * factors)
    np.testing.assert_allclose(scaled, [4 / 3, np.inf, np.inf])
    np.testing.assert_allclose(relative, [5e-5 * 4 / 3, 0.0, 0.0])
    factors, offsets, scaled, relative = rough_factors("neg_sqeuclidean", None, squares, 4, 1e-5, fine, True)
    assert factors is None
    assert relative is None
    np.testing.assert_array_equal(offsets, squares / 2)
    np.testing.assert_array_equal(scaled, squares)
    for bad in (np.nan, np.inf, 1e30, 1e-30):
        assert rough_factors("cosine", None, np.array([1.0, bad]), 4, 1e-5, fine, True) is None
    with pytest.raises(ValueError, match="sums"):
        rough_factors("correlation", np.zeros(2), squares, 4, 1e-5, fine, True)
