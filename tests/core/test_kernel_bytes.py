"""Numbers rounded to bytes and their products in C against NumPy's integers, for every target of this machine."""

import ctypes

import numpy as np
import pytest

BYTES = np.dtype([("step", "f8"), ("norm", "f8"), ("squares", "f8"), ("total", "i4"), ("levelled", "i4")])
BLOCK, ABREAST, QUERIES = 48, 6, 64
SIZES = [1, 3, 4, 63, 64, 65, 1000, 1024]


def pointer(structure):
    return ctypes.addressof(structure)


def dither_of(d, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 1 << 16, d).astype(np.int32), rng.integers(0, 256, d).astype(np.uint8)


def rounded(kernels, v, own, levels):
    bytes_, known = np.full((v.size + 63) // 64 * 64 + 1, 77, np.int8), np.zeros(1, BYTES)
    dither = kernels.Dither(own.ctypes.data, levels.ctypes.data)
    kernels.row_bytes(v, v.size, pointer(dither), v, bytes_, known)
    assert bytes_[-1] == 77
    assert not bytes_[v.size : -1].any()
    return bytes_[: v.size], known[0]


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("scale", [1.0, 1e30, 1e-30, 1e-44, 0.0])
def test_a_row_becomes_bytes(kernels, d, scale):
    v = (scale * np.random.default_rng(d).normal(size=d)).astype(np.float32)
    own, levels = dither_of(d)
    bytes_, known = rounded(kernels, v, own, levels)
    with np.errstate(divide="ignore", over="ignore"):
        factor = min(np.float32(126.5 * 65536) / np.abs(v).max(), np.float32(2.0**126))
    whole = np.trunc(v * np.float32(factor)).astype(np.int64)
    np.testing.assert_array_equal(bytes_, (whole + own) >> 16)
    assert known["step"] == 65536 / float(factor)
    assert known["total"] == bytes_.sum(dtype=np.int64)
    assert known["levelled"] == (bytes_.astype(np.int64) * levels).sum()
    guess = known["step"] * (bytes_ + (127.5 - (own >> 8)) / 256)
    for numbers in (v, guess):
        assert np.linalg.norm(numbers.astype(np.float64)) <= known["norm"]
    assert known["norm"] <= 1.001 * np.linalg.norm(v.astype(np.float64)) + 0.52 * known["step"] * np.sqrt(d)
    assert np.abs(guess - v).max() <= (0.5 + 2**-9 + 2**-15) * known["step"]
    np.testing.assert_allclose(known["squares"], np.square(v.astype(np.float64)).sum(), rtol=5e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_no_step(kernels, bad):
    v = np.ones(100, np.float32)
    v[70] = bad
    bytes_, known = rounded(kernels, v, *dither_of(100))
    assert known["step"] == known["norm"] == np.inf
    assert not bytes_.any()


@pytest.mark.parametrize("precision", ["f4", "f8"])
@pytest.mark.parametrize(("d", "n"), [(1, 48), (65, 5), (1000, 47), (1024, 48)])
def test_columns_become_the_bytes_of_rows(kernels, precision, d, n):
    rng = np.random.default_rng(d)
    atoms = np.asfortranarray(rng.normal(size=(n + 3, d)) * 10.0 ** rng.integers(-20, 20, (n + 3, 1)), precision)
    if d > 1:
        atoms[2, 1] = np.nan
    own, levels = dither_of(d)
    room = np.full(d * BLOCK, 7, np.float32)
    getattr(kernels, f"copy_columns_f{8 * atoms.itemsize}")(atoms[1:], atoms.strides[1], n, d, room)
    np.testing.assert_array_equal(room.reshape(d, BLOCK)[:, :n].T, atoms[1 : n + 1].astype(np.float32))
    fours, known = np.zeros((-(-d // 4), BLOCK), np.int32), np.zeros(BLOCK, BYTES)
    dither = kernels.Dither(own.ctypes.data, levels.ctypes.data)
    kernels.column_bytes(room, d, pointer(dither), atoms, atoms.strides[1], fours, known)
    of_atoms = fours.astype("<i4").T.copy().view(np.int8)
    for i in range(n):
        bytes_, expected = rounded(kernels, atoms[i + 1].astype(np.float32), own, levels)
        np.testing.assert_array_equal(of_atoms[i, :d], bytes_)
        assert not of_atoms[i, d:].any()
        for name in ("norm", "squares"):
            np.testing.assert_allclose(known[i][name], expected[name], rtol=2e-5)
        for name in ("step", "total", "levelled"):
            assert known[i][name] == expected[name]


@pytest.mark.parametrize("n_groups", [1, 2, 3, 4])
@pytest.mark.parametrize("n_fours", [1, 2, 17, 256])
@pytest.mark.parametrize("by_row", [True, False])
def test_products_of_bytes(kernels, n_groups, n_fours, by_row):
    rng = np.random.default_rng(n_fours)
    m = 16 * n_groups
    atoms = rng.integers(-128, 128, (ABREAST, 4 * n_fours)).astype(np.int8)
    queries = rng.integers(0, 256, (m, 4 * n_fours)).astype(np.uint8)
    packed = queries.reshape(m, n_fours, 4).transpose(1, 0, 2).copy()
    known = np.zeros(ABREAST, BYTES)
    known["step"] = rng.random(ABREAST)
    known["total"], known["levelled"] = rng.integers(-9999, 9999, (2, ABREAST))
    steps, shifts = rng.random(m), rng.random(m)
    if by_row:
        memory, layout = atoms, np.array([atoms.strides[0], 4])
    else:
        memory, layout = atoms.reshape(ABREAST, n_fours, 4).transpose(1, 0, 2).copy(), np.array([4, 4 * ABREAST])
    batch = kernels.ByteQueries(packed.ctypes.data, steps.ctypes.data, shifts.ctypes.data, n_fours, n_groups)
    products = np.ones((ABREAST, QUERIES))
    following = np.zeros((ABREAST, 1000), np.int8)
    next_rows = kernels.Fetched(following.ctypes.data, 1000, 1000, n_groups)  # changes nothing but the time
    kernels.byte_products(memory, layout, known, pointer(batch), pointer(next_rows), products)
    sums = atoms.astype(np.int64) @ queries.astype(np.int64).T
    shift = (127.5 / 256 - 128) * known["total"] - known["levelled"] / 256
    expected = 1 + known["step"][:, np.newaxis] * (steps * (sums + shift[:, np.newaxis]) + shifts)
    np.testing.assert_allclose(products[:, :m], expected, rtol=1e-12, atol=1e-9)
    assert (products[:, m:] == 1).all()
