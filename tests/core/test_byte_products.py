"""Products of atoms and queries rounded to bytes: how far they are off, beside what docs/guarantees.md says."""

import numpy as np
import pytest
from scipy.stats import binom

from banditmips.core.byte_products import BLOCK, OF_SQUARES, ByteProducts, can_round, reaching_best
from banditmips.core.rows import Rows
from banditmips.core.rule import deviations_of_ends


def _spikes(rng, shape):
    return np.where(rng.random(shape) < 0.003, 1e3, 1e-3) * rng.normal(size=shape)


KINDS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "level": lambda rng, shape: 5.0 + rng.normal(size=shape),
    "constant": lambda rng, shape: np.full(shape, 0.3),
    "spikes": _spikes,
    "pareto": lambda rng, shape: rng.pareto(1.1, size=shape) * rng.choice([-1, 1], size=shape),
    "one_hot": lambda rng, shape: np.eye(shape[1])[rng.integers(0, shape[1], shape[0])],
    "counts": lambda rng, shape: rng.poisson(0.1, size=shape),
    "huge": lambda rng, shape: 1e30 * rng.normal(size=shape),
    "tiny": lambda rng, shape: 1e-35 * rng.normal(size=shape),
    "mixed": lambda rng, shape: rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape),
    "zeros": lambda rng, shape: np.zeros(shape),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def filled(atoms, queries, seed):
    found = ByteProducts(Rows([atoms]), list(queries), seed)
    found.fill(np.arange(found.n_blocks))
    return found


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_every_interval_holds_as_often_as_promised(kind, order, dtype):
    """Errors beyond z deviations, in either direction, have a probability of 2 exp(-z^2/2) at most."""
    rng = np.random.default_rng(0)
    n, d, m, n_seeds = 3, 1_100, 3, 250
    atoms = np.asarray(kind(rng, (n, d)), dtype=dtype, order=order)
    queries = kind(rng, (m, d)).astype(dtype)
    truth = queries.astype(np.float64) @ atoms.astype(np.float64).T
    z = np.array([1.0, 1.5, 2.0, 2.5, 3.0])
    allowed = np.minimum(2 * np.exp(-(z**2) / 2), 1.0)
    missed, errors = np.zeros((z.size, m, n)), []
    for seed in range(n_seeds):
        found = filled(atoms, queries, seed)
        reach = np.array(found.radii(z))[:, np.newaxis, np.newaxis] * found.deviations()
        missed += np.abs(found.products - truth) > reach
        errors.append((found.products - truth) / found.deviations())
    # Of 45 rates in 44 cases none may be so far out by chance.
    most = binom.ppf(1 - 1e-7, n_seeds, allowed)
    assert (missed <= most[:, np.newaxis, np.newaxis]).all()
    assert (np.std(errors, axis=0) <= 1.0 + 5 / np.sqrt(2 * n_seeds)).all()
    assert (np.abs(np.mean(errors, axis=0)) <= 5 / np.sqrt(n_seeds)).all()


def test_normal_numbers_are_off_by_as_much_as_the_theorem_says():
    """Were the deviations far larger than the errors, intervals would be true and of no use."""
    rng = np.random.default_rng(1)
    atoms, queries = (rng.normal(size=(size, 4_000)).astype(np.float32) for size in (500, 20))
    found = filled(atoms, queries, 7)
    errors = (found.products - queries.astype(np.float64) @ atoms.T.astype(np.float64)) / found.deviations()
    assert 0.9 < np.std(errors) < 1.0


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("n", "d", "m"), [(1, 1, 1), (5, 3, 2), (49, 1_025, 17), (100, 3_000, 64), (97, 20_000, 33)])
def test_odd_sizes(order, n, d, m):
    rng = np.random.default_rng(n)
    atoms = np.asarray(rng.normal(size=(n, d)).astype(np.float32), order=order)
    queries = rng.normal(size=(m, d))
    found = filled(atoms, queries, 0)
    assert found.n_blocks == -(-n // BLOCK)
    error = np.abs(found.products - queries @ atoms.T.astype(np.float64))
    assert (error <= found.radii([6.5])[0] * found.deviations()).all()


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u2", "i8"])
def test_blocks_come_in_any_order_and_both_memory_orders_give_the_same(dtype):
    rng = np.random.default_rng(2)
    atoms, queries = rng.normal(size=(130, 2_500)), rng.normal(size=(5, 2_500)).astype(np.float32)
    atoms = (20.0 * (np.abs(atoms) if dtype[0] == "u" else atoms)).astype(dtype)
    whole = filled(atoms, queries, 3)
    parts = ByteProducts(Rows([atoms]), list(queries), 3)
    for block in (2, 0, 1):
        parts.fill(np.array([block]))
    np.testing.assert_array_equal(parts.products, whole.products)
    by_column = filled(np.asfortranarray(atoms), queries, 3)
    np.testing.assert_allclose(by_column.products, whole.products, rtol=1e-12)
    np.testing.assert_allclose(by_column.deviations(), whole.deviations(), rtol=1e-5)
    np.testing.assert_allclose(by_column.squares, whole.squares, rtol=2e-5)
    # Each query has the same bytes in whatever company it comes.
    alone = filled(atoms, queries[3:4], 3)
    np.testing.assert_allclose(alone.products[0], whole.products[3], rtol=1e-12)
    assert np.abs(filled(atoms, queries, 4).products - whole.products).min() > 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_what_has_no_byte_is_left_to_others(bad):
    atoms, queries = np.ones((60, 2_000)), np.ones((2, 2_000))
    queries[1, 1_500] = bad
    with np.errstate(all="ignore"):
        found = filled(atoms, queries, 0)
        rows, begins, unknown = reaching_best(found.products, found.deviations(), (5.0, 4.0), 1, False)
    np.testing.assert_array_equal(rows, np.arange(60))
    np.testing.assert_array_equal(begins, [0, 60, 60])
    np.testing.assert_array_equal(unknown, [False, True])


def test_who_reaches_the_best():
    products, deviations = np.array([[5.0, -9.0, 4.0, 1.0]] * 3), np.array([[1.0, 1.0, 2.0, 1.0]] * 3)
    for k, absolute, wanted in ((1, False, [0, 2]), (2, False, [0, 2]), (1, True, [1]), (4, False, [0, 1, 2, 3])):
        rows, begins, unknown = reaching_best(products, deviations, (1.0, 0.5), k, absolute)
        np.testing.assert_array_equal(rows, 3 * wanted)
        np.testing.assert_array_equal(begins, len(wanted) * np.arange(4))
        assert not unknown.any()
    with pytest.raises(ValueError, match="deviations"):
        reaching_best(products, deviations[:2], (1.0, 0.5), 1, False)
    with pytest.raises(ValueError, match="k = 5"):
        reaching_best(products, deviations, (1.0, 0.5), 5, False)


def test_who_reaches_the_best_by_factors_and_offsets():
    """Ends are those of products, times factors, and everything that may be wrong besides makes them wider."""
    products, deviations = np.array([[4.0, 3.0, 1.0]] * 2), np.array([[1.0, 1.0, 1.0]] * 2)
    factors, offsets, none = np.array([1.0, 2.0, 0.0]), np.array([0.0, 1.0, -4.0]), np.zeros(2)

    def found(centres, part, besides):
        scores = (factors, offsets, np.array(centres), part, np.array(besides))
        rows, begins, _ = reaching_best(products, deviations, (0.5, 0.5), 1, False, scores)
        return [some.tolist() for some in np.split(rows, begins[1:-1])]

    # Scores of 4, 6 and 0 without offsets, of 4, 5 and 4 with them; half the intervals are 0.5, 1 and 0.
    assert found([0.0, 1.0], 0.0, none) == [[1], [0, 1, 2]]
    assert found([0.0, 0.9], 0.0, none) == [[1], [0, 1]]
    assert found([0.0, 0.9], 0.05, none) == [[0, 1], [0, 1, 2]]
    assert found([0.0, 0.9], 0.0, [2.6, 0.0]) == [[0, 1, 2], [0, 1]]
    with pytest.raises(ValueError, match="factors"):
        reaching_best(products, deviations, (0.5, 0.5), 1, False, (factors[:2], offsets, none, 0.0, none))


@pytest.mark.parametrize("own", [False, True])
def test_those_that_take_no_part_neither_reach_the_best_nor_are_it(own):
    products, deviations = np.array([[5.0, 9.0, 4.0, 1.0]] * 3), np.full((3, 4), 0.1)
    excluded = np.array([[False, True, False, False], [True, True, True, False], [False] * 4])
    wanted = [[0], [3], [1]] if own else [[0]] * 3
    rows, begins, unknown = reaching_best(
        products, deviations, (1.0, 1.0), 1, False, None, excluded if own else excluded[0]
    )
    assert [some.tolist() for some in np.split(rows, begins[1:-1])] == wanted
    assert not unknown.any()
    # A query with fewer candidates than k has none: somebody else counts them.
    rows, begins, unknown = reaching_best(products, deviations, (1.0, 1.0), 2, False, None, excluded)
    assert unknown.tolist() == [False, True, False]
    assert [some.tolist() for some in np.split(rows, begins[1:-1])] == [[0, 2], [], [0, 1]]


@pytest.mark.parametrize("order", ["C", "F"])
def test_squares_of_atoms(kind, order):
    atoms = np.asarray(kind(np.random.default_rng(5), (50, 2_500)), dtype=np.float32, order=order)
    squares = filled(atoms, atoms[:1], 0).squares
    np.testing.assert_allclose(squares, np.square(atoms.astype(np.float64)).sum(axis=1), rtol=OF_SQUARES / 2)


def test_what_can_be_rounded():
    assert can_round(Rows([np.ones((3, 4))]))
    assert can_round(Rows([np.ones((3, 4), np.float32, order="F")]))
    assert can_round(Rows([np.ones((3, 4), np.float16)]))
    assert can_round(Rows([np.ones((3, 4), np.float16, order="F")]))
    assert not can_round(Rows([np.ones((6, 4), np.float16, order="F")[::2]]))
    assert not can_round(Rows([np.ones((3, 8))[:, ::2]]))
    assert not can_round(Rows([np.ones((3, 4)), np.ones((3, 4))]))
    with pytest.raises(ValueError, match="queries"):
        ByteProducts(Rows([np.ones((3, 4))]), [np.ones(5)], 0)
    with pytest.raises(IndexError, match="block 1"):
        ByteProducts(Rows([np.ones((3, 4))]), [np.ones(4)], 0).fill(np.array([1]))


def test_ends_share_delta():
    """Half of it for the lower ends of all, half for the upper ends of the best."""
    below, above = deviations_of_ends(0.01, 1_000, 10, False)
    assert 1_000 * np.exp(-(below**2) / 2) + 10 * np.exp(-(above**2) / 2) == pytest.approx(0.01)
    below, above = deviations_of_ends(0.01, 1_000, 10, True)
    assert 2_000 * np.exp(-(below**2) / 2) + 20 * np.exp(-(above**2) / 2) == pytest.approx(0.01)
