"""Atoms in memory, read as they are: exact sums and single entries, of any type, order and stride."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.core.rows import Rows, is_readable
from banditmips.core.statistics import NEG_ABSOLUTE_DIFFERENCE, NEG_SQUARED_DIFFERENCE, PRODUCT

OBJECTIVES = {
    PRODUCT: lambda q, v: q * v,
    NEG_SQUARED_DIFFERENCE: lambda q, v: -((q - v) ** 2),
    NEG_ABSOLUTE_DIFFERENCE: lambda q, v: -np.abs(q - v),
}
DTYPES = ["f2", "f4", "f8", "?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
every_size = pytest.mark.parametrize("size", [1, 7, 8, 15, 33, 1_023, 1_025, 2_100])
LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "every other": lambda a: np.repeat(np.repeat(a, 2, axis=0), 3, axis=1)[::2, ::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
}


def made(dtype, shape, seed=0):
    values = 10 * np.random.default_rng(seed).normal(size=shape)
    return (np.abs(values) if np.dtype(dtype).kind in "ub" else values).astype(dtype)


@every_objective
@every_size
@pytest.mark.parametrize("layout", LAYOUTS)
def test_exact_scores(size, objective, layout):
    for dtype in ("f4", "f8"):
        atoms = LAYOUTS[layout](made(dtype, (20, size)))
        query = np.random.default_rng(1).normal(size=size)
        terms = OBJECTIVES[objective](query, atoms.astype(np.float64))
        every, read = np.arange(20), Rows([atoms])
        for rows in (every, every[[7]], every[[19, 0, 4, 4]], every[:0]):
            found = read.scores(rows, None, query, objective)
            np.testing.assert_allclose(found, terms.sum(axis=1)[rows], rtol=1e-12, atol=1e-11)
        columns = np.unique([0, size // 2, size - 1])
        found = read.scores(every, columns, query[columns], objective)
        np.testing.assert_allclose(found, terms[:, columns].sum(axis=1), rtol=1e-12, atol=1e-11)


@every_objective
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_read_as_it_is(dtype, objective):
    atoms = made(dtype, (9, 1_300))
    assert is_readable(atoms.dtype)
    assert not is_readable(atoms.dtype.newbyteorder()) or atoms.dtype.itemsize == 1
    query = np.random.default_rng(1).normal(size=1_300)
    expected = OBJECTIVES[objective](query, atoms.astype(np.float64)).sum(axis=1)
    found = Rows([atoms]).scores(np.arange(9), None, query, objective)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 10, 17, 2_048, 5_000])
def test_rows_four_at_a_time_have_the_scores_of_each_alone(dtype, size):
    rows = Rows([made(dtype, (7, size)), made(dtype, (4, size), seed=1)])
    query = np.random.default_rng(2).normal(size=size)
    alone = [rows.scores(np.array([row]), None, query, PRODUCT)[0] for row in range(11)]
    np.testing.assert_array_equal(rows.scores(np.arange(11), None, query, PRODUCT), alone)


def test_several_matrices_are_one_after_another():
    parts = [made("f4", (3, 50)), made("f8", (1, 50)), np.asfortranarray(made("i1", (4, 50)))]
    whole = np.concatenate([part.astype(np.float64) for part in parts])
    read, query = Rows(parts), np.random.default_rng(1).normal(size=50)
    assert (read.n, read.d) == (8, 50)
    rows = np.array([7, 0, 3, 2, 4])
    np.testing.assert_allclose(read.scores(rows, None, query, PRODUCT), whole[rows] @ query, rtol=1e-12)
    out = np.empty((5, 2))
    read.gather(rows, np.array([49, 3]), out)
    np.testing.assert_array_equal(out, whole[np.ix_(rows, [49, 3])])


def unaligned(atoms):
    """The same numbers at places that are no multiples of their size."""
    table = np.zeros(atoms.shape, dtype=[("before", "u1"), ("value", atoms.dtype)])
    table["value"] = atoms
    return table["value"]


@pytest.mark.parametrize("layout", [*LAYOUTS, "unaligned"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "f2"])
@pytest.mark.parametrize("size", [1, 7, 2_047, 2_049, 6_000])
@every_objective
def test_sums_of_pairs_are_those_of_rows_one_by_one(layout, dtype, size, objective):
    """To the bit: a query gives in a batch what it gives alone, and in every order of the atoms."""
    rng = np.random.default_rng(size)
    plain = made(dtype, (600, size))
    atoms = (LAYOUTS | {"unaligned": unaligned})[layout](plain)
    queries = rng.normal(size=(5, size))
    rows, begins = rng.integers(600, size=700), np.array([0, 200, 200, 201, 607, 700])
    places = np.repeat(np.arange(5), np.diff(begins))
    one_by_one = Rows([np.ascontiguousarray(atoms)])
    # In any order, and in that of the rows of each query
    for some in (rows, rows[np.lexsort((rows, places))]):
        found = Rows([atoms]).pair_sums(some, begins, queries, objective)
        expected = [one_by_one.scores(some[[t]], None, queries[places[t]], objective)[0] for t in range(some.size)]
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(
        Rows([atoms]).scores(rows[::-1].copy(), None, queries[0], objective),
        one_by_one.scores(rows[::-1].copy(), None, queries[0], objective),
    )


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "f2"])
@pytest.mark.parametrize("size", [1, 33, 2_049])
def test_products_by_column_are_those_of_rows_one_by_one(dtype, size):
    """To the bit, whichever rows are asked for: those that fill their cache lines are read column by column."""
    plain, query = made(dtype, (600, size)), np.random.default_rng(1).normal(size=size)
    by_row, by_column = Rows([plain]), Rows([np.asfortranarray(plain)])
    expected = by_row.scores(np.arange(600), None, query, PRODUCT)
    if size > 1:
        np.testing.assert_array_equal(by_column.column_products(query, 7, 590), expected[7:590])
        assert by_column.column_products(query, 9, 9).size == 0
    for rows in (np.arange(600), np.arange(599, -1, -3), np.array([5, 3, 5]), np.array([0, 599])):
        np.testing.assert_array_equal(by_column.scores(rows, None, query, PRODUCT), expected[rows])


def test_products_by_column_of_something_else_are_refused():
    for arrays in ([np.ones((3, 4))], [np.ones((3, 4), order="F")] * 2):
        with pytest.raises(ValueError, match="one matrix by column"):
            Rows(arrays).column_products(np.ones(4), 0, 3)
    read = Rows([np.ones((3, 4), order="F")])
    for wrong, start, stop in ((np.ones(4), 0, 4), (np.ones(4), -1, 2), (np.ones(3), 0, 3)):
        with pytest.raises(IndexError, match=r"of 3, and . entries for 4 columns"):
            read.column_products(wrong, start, stop)


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u2", "i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_of_pairs_of_more_rows_than_are_at_hand_at_a_time(dtype, order):
    """Rows from all over and next to each other, also the last ones of a matrix by column, in single precision too."""
    plain = made(dtype, (2_611, 150))
    queries = np.random.default_rng(1).normal(size=(3, 150)).astype(np.float32)
    close = [np.arange(2_611), np.arange(0, 2_611, 37), np.array([5, 6, 7, 1_024, 2_600, 2_609, 2_610])]
    begins = np.cumsum([0, *map(len, close)])
    found = Rows([np.asarray(plain, order=order)]).pair_sums(np.concatenate(close), begins, queries, PRODUCT)
    by_row = Rows([plain])
    expected = [
        by_row.scores(rows, None, query.astype(np.float64), PRODUCT) for rows, query in zip(close, queries, strict=True)
    ]
    np.testing.assert_array_equal(found, np.concatenate(expected))


def test_pairs_of_what_is_not_there_are_refused():
    read, none = Rows([np.ones((20, 4))]), np.array([], dtype=np.int64)
    with pytest.raises(IndexError, match="row 20 is not one of the 20 atoms"):
        read.pair_sums(np.array([20]), np.array([0, 1]), np.ones((1, 4)), PRODUCT)
    for begins in ([0, 2], [1, 1], [0, 0, 1], [0]):
        with pytest.raises(ValueError, match="1 rows are to be those of 1 queries"):
            read.pair_sums(np.array([0]), np.array(begins), np.ones((1, 4)), PRODUCT)
    with pytest.raises(ValueError, match="queries must have 4 entries, got 3"):
        read.pair_sums(np.array([0]), np.array([0, 1]), np.ones((1, 3)), PRODUCT)
    assert read.pair_sums(none, np.zeros(2, dtype=np.int64), np.ones((1, 4)), PRODUCT).size == 0


@pytest.mark.parametrize("layout", ["C", "Fortran"])
@pytest.mark.parametrize("n", [1, 7, 8, 15])
def test_equal_atoms_have_equal_scores_to_the_last_bit(layout, n):
    rng = np.random.default_rng(0)
    atoms, query = LAYOUTS[layout](np.repeat(rng.normal(size=(1, 101)), n, axis=0)), rng.normal(size=101)
    assert np.unique(Rows([atoms]).scores(np.arange(n), None, query, PRODUCT)).size == 1


@pytest.mark.parametrize("layout", ["C", "Fortran"])
@every_size
def test_not_a_number_and_infinity_keep_their_meaning(size, layout):
    atoms = np.ones((3, size))
    atoms[0, -1], atoms[1, -1] = np.nan, np.inf
    found = Rows([LAYOUTS[layout](atoms)]).scores(np.arange(3), None, np.ones(size), PRODUCT)
    np.testing.assert_array_equal(found, [np.nan, np.inf, size])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 7, 8, 15, 33])
def test_gather(dtype, size):
    atoms = made(dtype, (20, 40))
    rows, columns = np.arange(19, 19 - size, -1) % 20, np.arange(size) * 5 % 40
    out = np.full((size, size + 2), np.nan)
    Rows([atoms]).gather(rows, columns, out[:, :size])
    np.testing.assert_array_equal(out[:, :size], atoms[np.ix_(rows, columns)].astype(np.float64))
    assert np.isnan(out[:, size:]).all()


@pytest.mark.parametrize("row", [-1, 20])
def test_a_row_that_is_not_there_is_refused(row):
    read = Rows([np.ones((20, 4))])
    with pytest.raises(IndexError, match=f"row {row} is not one of the 20 atoms"):
        read.scores(np.array([0, row]), None, np.ones(4), PRODUCT)
    with pytest.raises(IndexError, match=f"row {row} is not one of the 20 atoms"):
        read.gather(np.array([row]), np.array([0]), np.empty((1, 1)))


@pytest.mark.parametrize("size", [1, 7, 33, 2_100, 9_001])
def test_rough_products_are_as_good_as_those_of_blas(size):
    """Short rows come one by one, long ones by four, of which the last may be fewer."""
    wide = made("f4", (11, size + 3))
    atoms, query = wide[:, :size], made("f4", size, seed=1)  # rows with a gap between them
    exact = atoms.astype(np.float64) @ query.astype(np.float64)
    slack = 4.0 * np.finfo("f4").eps * np.linalg.norm(query) * np.linalg.norm(atoms.astype(np.float64), axis=1)
    for start, stop in ((0, 11), (3, 8), (10, 11), (5, 5)):
        for lying in (atoms, np.asfortranarray(atoms)):
            found = Rows([lying]).rough_products(query, start, stop)
            assert found.dtype == np.float32
            assert (np.abs(found - exact[start:stop]) <= slack[start:stop]).all()


def test_rough_products_that_overflow_say_so():
    atoms = np.full((5, 9_000), 1e30, dtype=np.float32)
    found = Rows([atoms]).rough_products(np.full(9_000, 1e30, dtype=np.float32), 0, 5)
    assert np.isinf(found).all()


def test_rough_products_of_something_else_are_refused():
    query = np.ones(4, dtype=np.float32)
    for atoms in (np.ones((3, 4)), np.ones((6, 4), dtype=np.float32, order="F")[::2]):
        with pytest.raises(ValueError, match="one matrix of float32 in C or Fortran order"):
            Rows([atoms]).rough_products(query, 0, 3)
    with pytest.raises(ValueError, match="one matrix of float64 in C order"):
        Rows([np.ones((3, 4), order="F")]).rough_products(np.ones(4), 0, 3)
    read = Rows([np.ones((3, 4), dtype=np.float32)])
    for wrong, start, stop in ((query, 0, 4), (query, -1, 2), (query[:3].copy(), 0, 3)):
        with pytest.raises(IndexError, match=r"of 3, and . entries for 4 columns"):
            read.rough_products(wrong, start, stop)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5])
def test_one_column_is_contiguous_whatever_lies_between_it_and_the_next(dtype, n):
    """As NumPy says in `flags`, by which others choose their way."""
    numbers = np.arange(1.0, n + 1.0).astype(dtype)
    for atoms in (numbers[:, np.newaxis], np.repeat(numbers[:, np.newaxis], 2, axis=1)[:, ::2]):
        rows = Rows([atoms])
        assert rows.are_contiguous
        np.testing.assert_array_equal(rows.rough_products(np.full(1, 2.0, dtype=dtype), 0, n), 2.0 * numbers)
        for options in ({}, {"objective": "correlation"}, {"objective": "neg_l1"}, {"minimise": "multiplies"}):
            assert bm.search(atoms, np.ones((2, 1)), 1, **options).indices.shape == (2, 1)
        assert bm.BanditMIPS().fit(atoms).search(np.ones(1)).indices.tolist() == [n - 1]
