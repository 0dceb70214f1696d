"""Numbers of any dtype and stride as float and double, against NumPy's own conversion."""

import numpy as np
import pytest

DTYPES = ["f4", "f8", "f2", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]  # in the order of enum bm_dtype
SIZES = [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 1000, 4097]


@pytest.fixture(params=DTYPES)
def dtype(request):
    return np.dtype(request.param)


def numbers(dtype, shape, seed=0):
    """Random bits of the dtype: all exponents, infinities and NaN among them."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), dtype=np.uint8).view(dtype)


def convert(kernels, source, target):
    out = np.full(source.size, 7, target)
    kernel = kernels.to_f32 if target == np.float32 else kernels.to_f64
    kernel(DTYPES.index(source.dtype.str[1:]), source, source.strides[0], source.size, out)
    return out


def check(kernels, source):
    for target in (np.float32, np.float64):
        with np.errstate(over="ignore", invalid="ignore"):
            expected = source.astype(target)
        np.testing.assert_array_equal(convert(kernels, source, target), expected)


@pytest.mark.parametrize("size", SIZES)
def test_contiguous(kernels, dtype, size):
    check(kernels, numbers(dtype, (size,)))


@pytest.mark.parametrize("size", SIZES)
def test_any_stride(kernels, dtype, size):
    table = numbers(dtype, (size, 3))
    check(kernels, table[:, 1])
    check(kernels, table[::-1, 2])
    check(kernels, np.broadcast_to(table[:1, 0], size) if size else table[:, 0])


def test_unaligned_and_packed_in_records(kernels, dtype):
    records = np.zeros(100, np.dtype([("flag", "u1"), ("value", dtype)]))
    records["value"] = numbers(dtype, (100,))
    check(kernels, records["value"])
    check(kernels, np.frombuffer(b"\0" + records["value"].tobytes(), np.uint8)[1:].view(dtype))


def test_every_float16(kernels):
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    check(kernels, every)
    check(kernels, every[::-1])


def test_bool_is_uint8(kernels):
    flags = np.random.default_rng(0).random(100) < 0.5
    np.testing.assert_array_equal(convert(kernels, flags.view(np.uint8), np.float32), flags)


@pytest.mark.parametrize("order", ["C", "F"])
def test_gather(kernels, dtype, order):
    table = np.asarray(numbers(dtype, (5, 300)), order=order)
    coordinates = np.random.default_rng(1).integers(0, 300, 1000)
    for row in (table[3], table[3, ::-1]):
        out = np.full(1000, 7.0)
        kernels.gather(DTYPES.index(dtype.str[1:]), row, row.strides[0], coordinates, coordinates.size, out)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(out, row[coordinates].astype(np.float64))
