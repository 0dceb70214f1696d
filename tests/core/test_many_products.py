"""Products of all atoms with many queries by our own loop, and what rounding leaves of products of every kind."""

import numpy as np
import pytest

from banditmips.core.many_products import products_with_many
from banditmips.core.near_best import close_to_each, rounding_units
from banditmips.core.passes import products_of_columns
from banditmips.core.rows import Rows

KINDS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "positive": lambda rng, shape: rng.random(shape),
    "equal": lambda _, shape: np.full(shape, 0.1),  # rounding always goes the same way
}


def errors(products, atoms, queries):
    """In units of the last place of the product of the norms."""
    wide, others = atoms.astype(np.float64), queries.astype(np.float64)
    norms = np.outer(np.linalg.norm(others, axis=1), np.linalg.norm(wide, axis=1))
    return np.abs(products - others @ wide.T) / norms / np.finfo(products.dtype).eps


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u1", "i2", "i4"])
@pytest.mark.parametrize(
    ("n", "d", "m"),
    [(1, 1, 1), (5, 3, 2), (13, 100, 17), (30, 513, 64), (1_030, 40, 70), (12, 9_000, 33), (140, 30, 300)],
)
def test_products_are_those_of_numpy(dtype, n, d, m, order):
    rng = np.random.default_rng(n)
    atoms = np.asarray(20 * rng.random((n, d)), order=order).astype(dtype)
    queries = rng.normal(size=(m, d)).astype(np.float64 if dtype in ("f8", "i4") else np.float32)
    found = products_with_many(Rows([atoms]), queries)
    assert found.shape == (m, n)
    assert found.dtype == queries.dtype
    assert (errors(found, atoms, queries) <= 4.0).all()


def test_rows_of_several_arrays_and_with_gaps_between_them():
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(50, 705)).astype(np.float32)
    queries = rng.normal(size=(20, 700)).astype(np.float32)
    some = rng.integers(-9, 9, size=(7, 700)).astype(np.int8)
    rows = Rows([whole[:31, 2:702], some, whole[::-2, :700]])
    atoms = np.concatenate([whole[:31, 2:702], some, whole[::-2, :700]])
    assert (errors(products_with_many(rows, queries), atoms, queries) <= 4.0).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1"])
def test_some_columns_of_a_matrix(dtype):
    """Of which there are others between them, behind them, or before."""
    rng = np.random.default_rng(0)
    whole = np.asfortranarray(rng.integers(-9, 9, size=(200, 900))).astype(dtype)
    queries = rng.normal(size=(20, 300)).astype("f8" if dtype == "f8" else "f4")
    for atoms in (whole[3:170, 5:305], whole[::2, ::3], whole[::-1, 899:599:-1], whole[-1:, :300]):
        rows = Rows([atoms])
        assert rows.are_columns
        assert (errors(products_with_many(rows, queries), atoms, queries) <= 4.0).all()


def test_nothing_to_multiply_and_what_does_not_fit():
    rows = Rows([np.ones((3, 5), dtype=np.float32)])
    assert products_with_many(rows, np.ones((0, 5), dtype=np.float32)).shape == (0, 3)
    with pytest.raises(ValueError, match="5 entries of type float32"):
        products_with_many(rows, np.ones((2, 4), dtype=np.float32))
    columns = np.ones((5, 3), dtype=np.float32).T
    with pytest.raises(ValueError, match="contiguous"):
        products_with_many(Rows([columns, columns]), np.ones((2, 5), dtype=np.float32))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("d", [100, 384, 1_000, 5_000, 50_000])
def test_rounding_stays_within_what_is_taken_for_it(kind, d):
    rng = np.random.default_rng(d)
    atoms = KINDS[kind](rng, (60, d)).astype(np.float32)
    queries, rows = KINDS[kind](rng, (20, d)).astype(np.float32), Rows([atoms])
    limit = rounding_units(True, d)
    assert errors(products_with_many(rows, queries), atoms, queries).max() <= 4.0
    turned = Rows([np.asfortranarray(atoms)])
    assert errors(products_with_many(turned, queries), atoms, queries).max() <= 4.0
    by_columns = products_of_columns(turned, queries)
    alone = np.stack([rows.rough_products(query, 0, 60) for query in queries])
    for products in (by_columns, alone, queries @ atoms.T, (atoms @ queries.T).T):
        assert errors(products, atoms, queries).max() <= limit / 1.25


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("absolute", [False, True])
def test_who_is_close_is_whoever_reaches_the_kth_best(dtype, absolute):
    rng = np.random.default_rng(0)
    for n in (1, 2, 15, 64, 65, 300, 2_000):
        products = np.round(rng.normal(size=(5, n)) * 40).astype(dtype)  # with many equals
        rows = Rows([np.zeros((n, 1), dtype=dtype)])
        for k in {1, min(2, n), min(10, n), n // 3 + 1, n}:
            close, begins = close_to_each(products, np.zeros(n, dtype=dtype), rows, np.zeros(5), (k, absolute))
            for place, own in enumerate(np.abs(products) if absolute else products):
                bar = np.sort(own)[n - k]
                np.testing.assert_array_equal(close[begins[place] : begins[place + 1]], np.flatnonzero(own >= bar))
