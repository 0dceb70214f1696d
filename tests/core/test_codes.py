"""Codes against their definition, in NumPy and double precision; how they are kept, joined and restored."""

import pickle

import numpy as np
import pytest

from banditmips.core.answer import Times
from banditmips.core.certain import ScoreMap
from banditmips.core.code_source import CodeSource, make_dither
from banditmips.core.codes import MAX_BITS, Codes, bytes_for_atom, prefix_ends
from banditmips.core.rotation import Rotation
from banditmips.core.survivors import Survivors

GRID_STEPS = {2: 0.9957, 3: 0.586, 4: 0.3352}


def coded(atoms, n_bits=1, n_cells=None, centre=None, seed=3):
    n, d = atoms.shape
    rotation = Rotation(d, seed)
    codes = Codes(rotation, np.zeros(d) if centre is None else centre, n, n_cells or rotation.width, n_bits)
    codes.encode(0, np.ascontiguousarray(atoms))
    return codes


def unpacked(words, n_cells):
    """Bits of each row, cell by cell."""
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")[:, :n_cells]


def signs_of(codes):
    return 2.0 * unpacked(np.concatenate([codes.first, codes.rest], axis=1), codes.n_cells) - 1.0


def grid_of(codes):
    """The codes of several bits: odd integers, the sum over planes of 2^p times +-1."""
    n_planes = codes.n_bits - 1
    planes = codes.finer.reshape(codes.n, n_planes, -1)
    lower = sum(2**p * (2.0 * unpacked(planes[:, p], codes.n_cells) - 1.0) for p in range(n_planes))
    return 2**n_planes * signs_of(codes) + lower


def scale_and_error(code, r, width):
    """Scale |r|^2 / <x, r> and error |r| sqrt(|x|^2 |r|^2 / <x, r>^2 - 1) / sqrt(D - 1), row by row."""
    square, product = (r**2).sum(axis=1), (code * r[:, : code.shape[1]]).sum(axis=1)
    size = (code**2).sum(axis=1)
    error = np.sqrt(square * np.maximum(size * square / product**2 - 1.0, 0.0) / (width - 1.0))
    return square / product, error


def test_rounds_may_end_with_powers_of_two_and_with_everything():
    np.testing.assert_array_equal(prefix_ends(64), [64])
    np.testing.assert_array_equal(prefix_ends(128), [64, 128])
    np.testing.assert_array_equal(prefix_ends(5_056), [64, 128, 256, 512, 1_024, 2_048, 4_096, 5_056])


@pytest.mark.parametrize("n_bits", [1, 2, 3, 4])
@pytest.mark.parametrize("d", [1, 5, 64, 200, 3_000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("centred", [False, True])
def test_scale_and_error_of_every_prefix_are_their_definition(d, n_bits, dtype, centred):
    rng = np.random.default_rng(d)
    atoms = (0.5 + rng.normal(size=(6, d))).astype(dtype)
    centre = rng.normal(size=d).astype(dtype) if centred else np.zeros(d)
    codes = coded(atoms, n_bits, centre=centre)
    exact = atoms.astype(np.float64) - centre
    r = codes.rotation.rotated(exact).astype(np.float64)
    signs, width = signs_of(codes), codes.rotation.width
    # Where a rotated coordinate is as large as its rounding, its sign is anybody's guess.
    clear = np.abs(r) > codes.rotation.rounding * np.linalg.norm(r, axis=1, keepdims=True)
    np.testing.assert_array_equal(signs[clear], np.sign(r)[clear])
    np.testing.assert_allclose(codes.along, exact @ centre, rtol=1e-5, atol=1e-5)
    assert codes.scales.dtype == codes.errors.dtype == np.float32
    for rung, end in enumerate(codes.ends):
        scale, error = scale_and_error(signs[:, :end], r, width)
        np.testing.assert_allclose(codes.scales[rung], scale, rtol=2e-5)
        np.testing.assert_allclose(codes.errors[rung], error, rtol=2e-4, atol=2e-3 * scale.max() / np.sqrt(width))
    if n_bits > 1:
        grid = grid_of(codes)
        assert set(np.unique(grid)) <= set(range(1 - 2**n_bits, 2**n_bits, 2))
        np.testing.assert_array_equal(np.sign(grid), signs)
        step = GRID_STEPS[n_bits] * np.linalg.norm(r, axis=1, keepdims=True) / np.sqrt(width)
        nearest = np.clip(2.0 * np.floor(r / step) + 1.0, 1 - 2**n_bits, 2**n_bits - 1)
        assert np.mean(grid == nearest) > 0.99  # but for what lies on a border
        scale, error = scale_and_error(grid, r, width)
        np.testing.assert_allclose(codes.scales[-1], scale, rtol=2e-5)
        np.testing.assert_allclose(codes.errors[-1], error, rtol=2e-4, atol=2e-3 * scale.max() / np.sqrt(width))
    else:
        assert codes.finer.shape == (6, 0)


def test_fewer_signs_are_a_prefix_of_more():
    atoms = np.random.default_rng(0).normal(size=(4, 5_000)).astype(np.float32)
    whole, part = coded(atoms), coded(atoms, n_cells=2_560)
    np.testing.assert_array_equal(signs_of(part), signs_of(whole)[:, :2_560])
    shared = part.ends.size - 1  # all but the last end
    np.testing.assert_array_equal(part.scales[:shared], whole.scales[:shared])
    np.testing.assert_array_equal(part.errors[:shared], whole.errors[:shared])
    scale, error = scale_and_error(signs_of(part), part.rotation.rotated(atoms).astype(np.float64), 5_056)
    np.testing.assert_allclose(part.scales[-1], scale, rtol=2e-5)
    np.testing.assert_allclose(part.errors[-1], error, rtol=2e-4)


def test_more_bits_are_more_exact():
    atoms = np.random.default_rng(0).normal(size=(5, 2_000))
    errors = np.array([coded(atoms, n_bits).errors[-1] for n_bits in range(1, MAX_BITS + 1)])
    assert (errors[1:] < 0.7 * errors[:-1]).all()


@pytest.mark.parametrize("n_bits", [1, 3])
def test_codes_of_rows_are_the_same_however_they_come(n_bits):
    atoms = np.random.default_rng(1).normal(size=(9, 700)).astype(np.float32)
    centre = atoms[:4].mean(axis=0)
    whole = coded(atoms, n_bits, centre=centre)
    pieces = Codes(whole.rotation, centre, 9, whole.n_cells, n_bits)
    for start, stop in ((5, 9), (0, 2), (2, 5), (5, 5)):
        pieces.encode(start, atoms[start:stop])
    head = Codes(whole.rotation, centre, 4, whole.n_cells, n_bits)
    head.encode(0, atoms[:4])
    tail = head.like(5)
    tail.encode(0, atoms[4:])
    joined = head.joined(tail)
    restored = Codes.from_arrays(whole.rotation, whole.n_cells, n_bits, whole.arrays())
    pickled = pickle.loads(pickle.dumps(whole))
    for other in (pieces, joined, restored, pickled):
        assert (other.n, other.n_cells, other.n_bits, other.n_first) == (9, whole.n_cells, n_bits, whole.n_first)
        assert other.arrays().keys() == whole.arrays().keys()
        for name, array in whole.arrays().items():
            np.testing.assert_array_equal(other.arrays()[name], array, err_msg=name)
        np.testing.assert_array_equal(other.rotation.rotated(atoms[0]), whole.rotation.rotated(atoms[0]))
    query = np.random.default_rng(2).normal(size=700)
    expected = estimates(whole, query)
    for other in (pieces, joined, restored, pickled):
        np.testing.assert_array_equal(estimates(other, query), expected)


def estimates(codes, query, size=None):
    alive = Survivors(None, codes.n, 1, False)
    source = CodeSource(alive, codes, query, make_dither(codes), ScoreMap(), Times())
    source.advance(codes.n_cells * codes.n_bits if size is None else size)
    source.fill_radius(1.0, 1.0)
    return np.array([alive.estimate_array, alive.radius_array])


def test_memory_is_what_was_said():
    for d, n_bits in ((64, 1), (784, 4), (5_000, 2)):
        codes = coded(np.ones((50, d), dtype=np.float32), n_bits)
        of_atoms = sum(codes.arrays()[name].nbytes for name in ("along", "scales", "errors", "first", "rest", "finer"))
        assert of_atoms == 50 * bytes_for_atom(codes.n_cells, n_bits)
        assert codes.nbytes == of_atoms + codes.centre.nbytes + codes.rotation.nbytes


def test_codes_that_cannot_be_are_refused():
    rotation = Rotation(100, 0)
    for n_cells, n_bits, words in (
        (100, 1, "n_cells must be a multiple of 64 up to 128"),
        (192, 1, "n_cells must be a multiple of 64 up to 128"),
        (0, 1, "n_cells must be a multiple of 64 up to 128"),
        (64, 2, "n_bits must be 1 to 4, and 1 where not all signs are kept"),
        (128, 5, "n_bits must be 1 to 4"),
        (128, 0, "n_bits must be 1 to 4"),
    ):
        with pytest.raises(ValueError, match=words):
            Codes(rotation, np.zeros(100), 3, n_cells, n_bits)
    codes = Codes(rotation, np.zeros(100), 3, 128)
    for first, shape in ((1, (3, 100)), (-1, (1, 100)), (0, (3, 99))):
        with pytest.raises(ValueError, match="cannot be encoded"):
            codes.encode(first, np.zeros(shape))
    arrays = codes.arrays()
    for name in arrays:
        for bad in (arrays[name].astype(np.float16), arrays[name][..., :-1]):
            if bad.shape != arrays[name].shape or bad.dtype != arrays[name].dtype:
                with pytest.raises(ValueError, match=f"codes: {name} has shape|codes: "):
                    Codes.from_arrays(rotation, 128, 1, {**arrays, name: bad})


# --- numbers of any size ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_bits", [1, 2, 4])
@pytest.mark.parametrize("exponent", [-30, -20, -8, 8, 20, 30])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_scale_of_the_atoms_is_that_of_the_codes(exponent, dtype, n_bits):
    """A power of two changes no bit, in any precision: estimates scale with the atoms."""
    factor = 2.0 ** (3 * exponent)
    atoms = np.random.default_rng(0).normal(size=(5, 300)).astype(np.float32)
    query = np.random.default_rng(1).normal(size=300)
    plain, scaled = coded(atoms, n_bits), coded((atoms * factor).astype(dtype), n_bits)
    np.testing.assert_allclose(scaled.scales, plain.scales * np.float32(factor), rtol=1e-6)
    np.testing.assert_allclose(scaled.errors, plain.errors * np.float32(factor), rtol=1e-5)
    np.testing.assert_allclose(estimates(scaled, query), factor * estimates(plain, query), rtol=1e-5)


@pytest.mark.parametrize("n_bits", [1, 4])
@pytest.mark.parametrize("exponent", [-300, -200, -60, -45, -39, 38, 45, 100, 160, 300])
def test_of_atoms_too_large_or_small_for_single_precision_nothing_is_claimed(exponent, n_bits):
    atoms = 10.0**exponent * np.random.default_rng(0).normal(size=(5, 300))
    codes = coded(atoms, n_bits)
    lost = np.isinf(codes.errors)
    assert lost.any()
    assert np.isfinite(codes.scales).all()
    assert (codes.scales[lost] == 0.0).all()
    query = np.random.default_rng(1).normal(size=300)
    for size in {64, codes.n_cells, codes.n_cells * n_bits}:
        middle, radius = estimates(codes, query, size)
        assert np.isfinite(middle).all()
        assert (np.abs(middle - atoms @ query) <= 6.0 * radius).all()


@pytest.mark.parametrize("n_bits", [1, 4])
@pytest.mark.parametrize("exponent", [-300, -200, -160, -150, -100, 100, 150, 200, 290])
def test_the_scale_of_the_query_is_that_of_the_estimates(exponent, n_bits):
    atoms = np.random.default_rng(0).normal(size=(5, 300))
    codes = coded(atoms, n_bits, centre=atoms[:2].mean(axis=0))
    query = np.random.default_rng(1).normal(size=300)
    factor = 2.0 ** int(exponent / np.log10(2.0))
    for size in {64, 128, codes.n_cells, codes.n_cells * n_bits}:
        expected = factor * estimates(codes, query, size)
        np.testing.assert_allclose(estimates(codes, factor * query, size), expected, rtol=1e-9)


@pytest.mark.parametrize("n_bits", [1, 4])
@pytest.mark.parametrize("exponent", [-250, -170, 170, 250])
def test_a_centre_of_any_size_leaves_estimates_honest(exponent, n_bits):
    """Its square is nothing, or too large: then so much the less may be claimed."""
    rng = np.random.default_rng(0)
    atoms = 10.0**exponent * (1.0 + rng.normal(size=(20, 300)))
    query = 10.0**-exponent * (1.0 + rng.normal(size=300))
    codes = coded(atoms, n_bits, centre=atoms.mean(axis=0))
    middle, radius = estimates(codes, query)
    assert not (np.abs(middle - atoms @ query) > 6.0 * radius).any()


def test_single_precision_about_a_centre_in_double_precision():
    """The centre that is taken off is the one that is told, whatever the precision of the atoms."""
    rng = np.random.default_rng(0)
    centre = 1e6 * (1.0 + 0.1 * rng.normal(size=2_000))
    atoms = (centre + rng.normal(size=(5, 2_000))).astype(np.float32)
    exact = atoms.astype(np.float64) - centre
    single, double = coded(atoms, 4, centre=centre), coded(atoms.astype(np.float64), 4, centre=centre)
    for name in ("scales", "errors", "along", "first", "finer"):
        np.testing.assert_array_equal(single.arrays()[name], double.arrays()[name], err_msg=name)
    np.testing.assert_allclose(single.along, exact @ centre, rtol=1e-6)


@pytest.mark.parametrize("n_bits", [1, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_atom_that_is_the_centre_is_known_exactly(dtype, n_bits):
    atoms = np.random.default_rng(0).normal(size=(3, 200)).astype(dtype)
    query = np.random.default_rng(1).normal(size=200)
    codes = coded(atoms, n_bits, centre=atoms[1].astype(np.float64))
    np.testing.assert_array_equal(codes.scales[:, 1], 0.0)
    np.testing.assert_array_equal(codes.errors[:, 1], 0.0)
    middle, radius = estimates(codes, query)
    assert middle[1] == pytest.approx(atoms[1].astype(np.float64) @ query, rel=1e-12)
    assert radius[1] == 0.0
    zeros = coded(np.zeros((2, 200), dtype=dtype), n_bits)
    np.testing.assert_array_equal(estimates(zeros, query), 0.0)


@pytest.mark.parametrize("n_bits", [1, 2, 4])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [(dtype, value) for dtype in (np.float32, np.float64) for value in (np.nan, np.inf, -np.inf)]
    + [(np.float64, 1.7e308)],
)
def test_of_what_is_not_finite_nothing_is_claimed(dtype, value, n_bits):
    atoms = np.random.default_rng(0).normal(size=(6, 200)).astype(dtype)
    good = coded(atoms, n_bits, centre=atoms[0].astype(np.float64))
    atoms[2, 17] = value
    atoms[4] = value
    codes = coded(atoms, n_bits, centre=atoms[0].astype(np.float64))
    for row in (2, 4):
        np.testing.assert_array_equal(codes.errors[:, row], np.inf)
        np.testing.assert_array_equal(codes.scales[:, row], 0.0)
    others = [0, 1, 3, 5]
    for name in ("scales", "errors"):
        np.testing.assert_array_equal(codes.arrays()[name][:, others], good.arrays()[name][:, others])
    query = np.random.default_rng(1).normal(size=200)
    for size in {64, codes.n_cells, codes.n_cells * n_bits}:
        middle, radius = estimates(codes, query, size)
        np.testing.assert_array_equal(radius[[2, 4]], np.inf)
        assert np.isfinite(middle).all()
        np.testing.assert_array_equal(middle[others], estimates(good, query, size)[0][others])
