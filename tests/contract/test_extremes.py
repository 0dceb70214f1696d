"""Numbers at the edge: right answers or an error that names what is wrong, with and without an index.

Truth comes from exact fractions, because float64 itself overflows and underflows here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import banditmips as bm

OPTIONS = {"by the clock": {}, "by multiplies": {"minimise": "multiplies"}, "estimates": {"rescore": False}}
SURE = 1e-9
"""A delta at which no right engine fails once in all tests of this file."""
LARGEST, SMALLEST = float(np.finfo(np.float64).max), float(np.finfo(np.float64).smallest_subnormal)

SCALES = {
    np.float64: [1e-300, 1e-200, 1e-160, 1e-150, 1.0, 1e150, 1e153, 1e160, 1e300],
    np.float32: [1e-38, 1e-25, 1e-18, 1.0, 1e18, 1e25, 1e36],
}
# Every scale with itself, with its opposite and with 1, on either side.
TYPES_AND_SCALES = [
    (dtype, a, q)
    for dtype, scales in SCALES.items()
    for i, a in enumerate(scales)
    for j, q in enumerate(scales)
    if 1.0 in (a, q) or i in (j, len(scales) - 1 - j)
]


@pytest.fixture(params=OPTIONS.values(), ids=OPTIONS.keys())
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    return {"delta": SURE, **request.param}


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request: pytest.FixtureRequest) -> type:
    return request.param


def fractions(array: NDArray[Any]) -> list[Fraction]:
    return [Fraction(float(entry)) for entry in array]


def products(atoms: NDArray[Any], query: NDArray[Any]) -> tuple[list[Fraction], list[Fraction]]:
    """Inner products, and the sums of the sizes of their terms, which rounding is a small part of."""
    q, scores, sizes = fractions(query), [], []
    for atom in atoms:
        terms = [x * y for x, y in zip(fractions(atom), q, strict=True)]
        scores.append(sum(terms, Fraction()))
        sizes.append(sum(map(abs, terms), Fraction()))
    return scores, sizes


def cosines(atoms: NDArray[Any], query: NDArray[Any]) -> tuple[list[Fraction], list[Fraction]]:
    """Cosines up to the rounding of a float64's square root; 0 for vectors of zeros."""
    scores, sizes = products(atoms, query)
    q_square = sum((x * x for x in fractions(query)), Fraction())
    signed = []
    for score, atom in zip(scores, atoms, strict=True):
        square = q_square * sum((x * x for x in fractions(atom)), Fraction())
        root = Fraction(float(score * score / square) ** 0.5) if square else Fraction()
        signed.append(root if score >= 0 else -root)
    return signed, [Fraction(1)] * len(sizes)


def assert_right(result: bm.SearchResult, truth: tuple[list[Fraction], list[Fraction]], eps: float) -> None:
    """Check that the atoms found have the best scores, and that intervals hold them, up to rounding and underflow."""
    scores, sizes = truth
    found = [int(i) for i in result.indices]
    assert len(set(found)) == len(found)
    assert min(found) >= 0
    slack = [Fraction(64 * eps) * size + 1000 * Fraction(SMALLEST) for size in sizes]
    best = sorted(range(len(scores)), key=lambda i: -scores[i])[: len(found)]
    for i, j in zip(best, sorted(found, key=lambda i: -scores[i]), strict=True):
        assert scores[i] - scores[j] <= max(slack[i], slack[j])
    for i, low, high in zip(found, result.lower, result.upper, strict=True):
        assert float(low) == -np.inf or Fraction(float(low)) - slack[i] <= scores[i]
        assert float(high) == np.inf or scores[i] <= Fraction(float(high)) + slack[i]


def eps_of(*arrays: NDArray[Any]) -> float:
    return max(float(np.finfo(array.dtype).eps) for array in arrays)


def some_atoms(dtype: type, n: int, d: int, seed: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, 1)) + rng.normal(size=(n, d))).astype(dtype), rng.normal(1.0, 1.0, size=d).astype(dtype)


def assert_right_or_overflow(find, atoms, query, k, objective, options, may_overflow) -> None:
    """Check an answer, which only numbers whose squares or products leave float64 may refuse, by name."""
    truth = (cosines if objective == "cosine" else products)(atoms, query)
    if not may_overflow:
        assert_right(find(atoms, query, k, objective=objective, **options), truth, eps_of(atoms, query))
        return
    try:
        result = find(atoms, query, k, objective=objective, **options)
    except ValueError as error:
        message = str(error)
    else:
        assert_right(result, truth, eps_of(atoms, query))
        return
    assert "overflow" in message
    assert "atoms" in message or "queries" in message


# --- lengths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "atom_scale", "query_scale"), TYPES_AND_SCALES)
def test_vectors_of_any_length(find, dtype, atom_scale, query_scale, options):
    atoms, query = some_atoms(dtype, 12, 150)
    atoms, query = atoms / dtype(150) * dtype(atom_scale), query / dtype(150) * dtype(query_scale)
    _, sizes = products(atoms, query)
    assert_right_or_overflow(find, atoms, query, 2, "inner_product", options, float_or_inf(max(sizes)) > LARGEST / 1e4)


def float_or_inf(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return np.inf


@pytest.mark.parametrize("query_scale", [1e-300, 1e-160, 1.0, 1e153, 1e300])
def test_lengths_of_all_sizes_in_one_matrix(find, query_scale, options):
    atoms, query = some_atoms(np.float64, 25, 60)
    atoms = atoms / 60.0 * np.geomspace(1e-300, 1e300, 25)[np.random.default_rng(1).permutation(25), np.newaxis]
    query = query / 60.0 * query_scale
    _, sizes = products(atoms, query)
    assert_right_or_overflow(find, atoms, query, 3, "inner_product", options, float_or_inf(max(sizes)) > LARGEST / 1e4)


@pytest.mark.parametrize(("dtype", "atom_scale", "query_scale"), TYPES_AND_SCALES)
def test_cosines_do_not_depend_on_lengths(find_flat, dtype, atom_scale, query_scale, options):
    atoms, query = some_atoms(dtype, 12, 150)
    atoms, query = atoms / dtype(150) * dtype(atom_scale), query / dtype(150) * dtype(query_scale)
    assert_right_or_overflow(
        find_flat, atoms, query, 2, "cosine", options, max(atom_scale, query_scale) > LARGEST**0.5 / 100
    )


# --- shapes -----------------------------------------------------------------------------------------------------------


WIDTHS = {"narrow": range(1, 71), "beside powers of two": [127, 129, 1000, 1023, 1025, 4097]}


@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS.keys())
def test_every_width(find_flat, dtype, widths, options):
    for d in widths:
        atoms, query = some_atoms(dtype, 8, d, seed=d)
        assert_right(find_flat(atoms, query, 3, **options), products(atoms, query), eps_of(atoms))


@pytest.mark.parametrize("d", [1, 3, 500, 5_000])
def test_one_atom(find, dtype, d, options):
    atoms, query = some_atoms(dtype, 1, d)
    result = find(atoms, query, 2, **options)
    assert result.indices.tolist() == [0, -1]
    assert result.scores[1] == -np.inf
    assert_right(find(atoms, query, 1, **options), products(atoms, query), eps_of(atoms))


# --- zeros and equals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [5, 3_000])
def test_atoms_of_zeros(find, dtype, d, options):
    result = find(np.zeros((6, d), dtype=dtype), some_atoms(dtype, 1, d)[1], 2, **options)
    assert len(set(result.indices.tolist())) == 2
    assert (result.lower <= 0.0).all()
    assert (result.upper >= 0.0).all()


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_some_atoms_of_zeros(find, dtype, sign, options):
    """The zeros win where every other product is negative."""
    atoms = np.full((8, 2_000), -sign, dtype=dtype)
    atoms[3] = 0.0
    query = np.full(2_000, sign, dtype=dtype)
    assert find(atoms, query, **options).indices[0] == 3


def test_queries_of_zeros(find, dtype, options):
    atoms, query = some_atoms(dtype, 8, 2_000)
    result = find(atoms, np.stack([np.zeros_like(query), query, np.zeros_like(query)]), 2, **options)
    assert (result.scores[[0, 2]] == 0.0).all()
    assert (result.indices >= 0).all()
    alone = find(atoms, query, 2, **options)
    assert result.indices[1].tolist() == alone.indices.tolist()


def test_constant_atoms(find, dtype, options):
    levels = np.random.default_rng(3).permutation(20).astype(dtype)
    atoms = np.repeat(levels[:, np.newaxis], 3_000, axis=1)
    query = some_atoms(dtype, 1, 3_000)[1]
    assert levels[find(atoms, query, 3, **options).indices].tolist() == [19.0, 18.0, 17.0]


@pytest.mark.parametrize("d", [7, 3_000])
def test_atoms_that_are_all_equal(find, dtype, d, options):
    atom, query = some_atoms(dtype, 1, d)
    result = find(np.repeat(atom, 9, axis=0), query, 4, **options)
    assert result.indices.tolist() == [0, 1, 2, 3]


def test_atoms_that_are_equal_but_for_one_entry(find, dtype, options):
    """The difference is in one of 3,000 places, which an index has seen and a full reading would see."""
    atom, query = some_atoms(dtype, 1, 3_000)
    atoms = np.repeat(atom, 9, axis=0)
    atoms[6, 1234] += 3.0 * np.sign(query[1234])
    assert find(atoms, query, **options).indices[0] == 6


# --- not finite -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("row", "column"), [(0, 0), (7, 4_099), (3, 2_048)])
def test_fit_and_add_name_what_is_not_finite(dtype, value, row, column):
    atoms, _ = some_atoms(dtype, 8, 4_100)
    good = atoms.copy()
    atoms[row, column] = value
    for act in (bm.BanditMIPS().fit, bm.BanditMIPS().fit(good).add):
        with pytest.raises(ValueError, match=f"atoms.*{value} at row {row}, column {column}"):
            act(atoms)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_full_product_names_what_is_not_finite(find, dtype, value):
    atoms, query = some_atoms(dtype, 8, 300)
    atoms[5, 299] = value
    with pytest.raises(ValueError, match=f"atoms.*{value} at row 5, column 299"):
        find(atoms, query, delta=0.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_queries_that_are_not_finite_are_named(find, dtype, value, options):
    atoms, query = some_atoms(dtype, 8, 4_100)
    query[4_099] = value
    with pytest.raises(ValueError, match=f"queries.*{value} at column 4099"):
        find(atoms, query, **options)
