"""Sums over rows in C against NumPy in long double, for every target of this machine."""

import ctypes

import numpy as np
import pytest

SIZES = [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 1000, 4097, 20_000]
PRECISIONS = {"f32": np.float32, "f64": np.float64}


@pytest.fixture(params=PRECISIONS)
def precision(request):
    return request.param


def unaligned(array):
    """A copy of the array that begins one byte behind any multiple of four."""
    buffer = np.empty(array.nbytes + 9, np.uint8)
    start = 8 - buffer.ctypes.data % 8 + 1
    copy = buffer[start : start + array.nbytes].view(array.dtype)
    copy[:] = array
    return copy


def pair(d, precision, scale=1.0):
    rng = np.random.default_rng(d)
    dtype = PRECISIONS[precision]
    # A large mean makes sums lose digits if they are added in one float.
    return (scale * (3 + rng.normal(size=d))).astype(dtype), (scale * rng.normal(size=d)).astype(dtype)


def moments(kernels, q):
    out, wide = np.full(5, -1.0), np.full(q.size + 1, 99.0)  # four doubles, and a count of 64 bits
    measure = getattr(kernels, f"moments_f{8 * q.itemsize}")
    measure(q, q.size, wide, out)
    np.testing.assert_array_equal(wide, np.append(q.astype(np.float64), 99.0))
    alone = np.full(5, -1.0)
    measure(q, q.size, None, alone)
    np.testing.assert_array_equal(alone, out)
    assert out.view(np.int64)[4] == np.count_nonzero(q)
    return out[:4]


def true_moments(q):
    wide = q.astype(np.longdouble)
    sums = [wide.sum(), np.abs(wide).sum(), (wide**2).sum(), np.abs(wide).max(initial=0)]
    return np.array(sums).astype(np.float64)


def allowed(terms, precision):
    """The rounding that a sum of these terms may show: a few units of a stretch's largest partial sums."""
    unit = np.finfo(PRECISIONS[precision]).eps
    return 16 * unit * float(np.abs(terms).sum()) + 1e-300


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("place", [np.asarray, unaligned])
def test_moments(kernels, precision, d, place):
    q = place(pair(d, precision)[0])
    np.testing.assert_allclose(moments(kernels, q), true_moments(q), rtol=2e-6 if precision == "f32" else 1e-14)


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-20, 1e-14, 1e14, 1e18, 1e25, 1e37])
def test_moments_of_floats_whose_squares_are_no_floats(kernels, scale):
    q = (scale * np.random.default_rng(0).normal(size=5000)).astype(np.float32)
    q[3000:] *= np.float32(1e-3)
    np.testing.assert_allclose(moments(kernels, q), true_moments(q), rtol=1e-5)


def test_moments_of_a_query_with_stretches_of_all_sizes(kernels):
    q = np.repeat([0.0, 1e-25, 1.0, 1e-30, 0.0], 1024).astype(np.float32)
    np.testing.assert_allclose(moments(kernels, q), true_moments(q), rtol=1e-6)
    q[-1] = 1e30
    np.testing.assert_allclose(moments(kernels, q), true_moments(q), rtol=1e-6)


@pytest.mark.parametrize("d", [1, 17, 1000, 4097])
def test_moments_of_infinities_and_nan(kernels, precision, d):
    for place in {0, d // 2, d - 1}:
        q = pair(d, precision)[0]
        q[place] = -np.inf
        assert moments(kernels, q).tolist() == [-np.inf, np.inf, np.inf, np.inf]
        q[place] = np.nan
        assert np.isnan(moments(kernels, q)).all()
        if d > 1:
            q[place - 1] = np.inf
            assert np.isnan(moments(kernels, q)).all()


EXACT_SUMS = ["dot_exact", "sqeuclidean_exact", "l1_exact"]
SUMS_OVER_PAIRS = [("dot", "f32"), *((name, "f64") for name in ("dot", *EXACT_SUMS))]


def sum_of(kernels, name, precision):
    if name.startswith("dot"):
        return getattr(kernels, f"{name}_{precision}")
    objective = 1 if name.startswith("sqeuclidean") else 2

    def sum_of_differences(a, b, d):
        return sums_exact(kernels, objective, precision, [a], b, d)[0]

    return sum_of_differences


def sums_exact(kernels, objective, precision, rows, b, d):
    """Sums over up to four rows at once."""
    addresses = np.array([rows[min(i, len(rows) - 1)].ctypes.data for i in range(4)], dtype=np.uintp)
    out = np.full(4, -1.0)
    getattr(kernels, f"sums_exact_{precision}")(objective, addresses, len(rows), b, d, out)
    return out[: len(rows)]


def terms_of(name, a, b):
    a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    if name.startswith("dot"):
        return a * b
    return (a - b) ** 2 if name.startswith("sqeuclidean") else np.abs(a - b)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("place", [np.asarray, unaligned])
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e12])
@pytest.mark.parametrize(("name", "precision"), SUMS_OVER_PAIRS)
def test_sums_over_pairs(kernels, name, precision, d, place, scale):
    a, b = map(place, pair(d, precision, scale))
    terms = terms_of(name, a, b)
    got = sum_of(kernels, name, precision)(a, b, d)
    assert abs(got - float(terms.sum())) <= allowed(terms, precision)


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("place", [np.asarray, unaligned])
def test_dot_exact_adds_in_double(kernels, precision, d, place):
    a, b = pair(d, precision)
    a, b = place(a), place(b.astype(np.float64) + 1e-12)
    terms = a.astype(np.longdouble) * b
    got = getattr(kernels, f"dot_exact_{precision}")(a, b, d)
    assert abs(got - float(terms.sum())) <= allowed(terms, "f64")


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("name", EXACT_SUMS)
def test_exact_sums_are_the_same_for_every_type_and_any_number_of_stretches(kernels, name, precision, d):
    a, b = pair(d, precision)
    b = b.astype(np.float64) / 3.0
    got = sum_of(kernels, name, precision)(a, b, d)
    terms = terms_of(name, a, b)
    assert abs(got - float(terms.sum())) <= allowed(terms, "f64")
    total = 0.0
    for start in range(0, d, 2_048):
        stretch = slice(start, min(start + 2_048, d))
        total += sum_of(kernels, name, "f64")(a[stretch].astype(np.float64), b[stretch], stretch.stop - start)
    assert got == total


def test_float_products_that_overflow_are_added_in_double(kernels):
    a = np.full(100, 1e25, np.float32)
    b = np.tile(np.array([1e25, -1e25], np.float32), 50)
    b[0] = 3e25
    true = float((a.astype(np.longdouble) * b).sum())
    assert kernels.dot_f32(a, b, 100) == pytest.approx(true)


@pytest.mark.parametrize(("name", "precision"), SUMS_OVER_PAIRS)
@pytest.mark.parametrize("d", [1, 17, 1000, 4097])
def test_infinities_and_nan_come_through(kernels, name, precision, d):
    kernel = sum_of(kernels, name, precision)
    for place in {0, d // 2, d - 1}:
        a, b = pair(d, precision)
        b[place] = 1
        a[place] = np.inf
        assert kernel(a, b, d) == np.inf
        a[place] = np.nan
        assert np.isnan(kernel(a, b, d))
        b[place] = np.nan
        a[place] = 0
        assert np.isnan(kernel(a, b, d))


@pytest.mark.parametrize("d", SIZES[1:])
@pytest.mark.parametrize("place", [np.asarray, unaligned])
def test_a_look_at_numbers_gives_sums_about_a_pivot_their_range_and_squares_of_columns(kernels, precision, d, place):
    v = place(pair(d, precision)[0])
    squares, seen = np.full(d, 2.0), np.zeros(4)
    getattr(kernels, f"look_{precision}")(v, d, 2.5, squares, seen, None)
    apart = v.astype(np.longdouble) - 2.5
    expected = [apart.sum(), (apart**2).sum(), v.min(), v.max()]
    np.testing.assert_allclose(seen, np.array(expected).astype(np.float64), rtol=1e-12)
    np.testing.assert_allclose(squares, 2.0 + v.astype(np.float64) ** 2, rtol=1e-15)
    getattr(kernels, f"look_{precision}")(v, d, 2.5, None, seen, None)
    np.testing.assert_allclose(seen, np.array(expected).astype(np.float64), rtol=1e-12)


def test_a_look_shows_what_is_not_finite(kernels, precision):
    for bad in (np.nan, np.inf, -np.inf):
        v = np.ones(100, dtype=PRECISIONS[precision])
        v[37] = bad
        seen = np.zeros(4)
        getattr(kernels, f"look_{precision}")(v, 100, 0.0, None, seen, None)
        assert not np.isfinite(seen[:2]).all()


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("place", [np.asarray, unaligned])
def test_what_is_left_of_a_query(kernels, precision, d, place):
    centre, query = pair(d, precision)
    centre, query = place(centre), place(query.astype(np.float64))
    rest = query - 0.7 * centre.astype(np.float64)
    out, scale = np.full(d + 1, 99, np.float32), np.array([2.0**-600, 2.0**598])
    largest = getattr(kernels, f"scaled_rest_{precision}")(query, centre, 0.7, scale, d, out)
    assert largest == pytest.approx(np.abs(rest).max(initial=0.0), rel=1e-12)
    np.testing.assert_allclose(out[:d], 0.25 * rest, rtol=1e-6, atol=1e-6)
    assert out[d] == 99


@pytest.mark.parametrize("d", [1, 17, 1000])
def test_a_nan_is_the_largest_that_is_left(kernels, precision, d):
    for place in {0, d // 2, d - 1}:
        centre, query = pair(d, precision)
        query = query.astype(np.float64)
        out, scale = np.empty(d, np.float32), np.ones(2)
        query[place] = np.nan
        assert np.isnan(getattr(kernels, f"scaled_rest_{precision}")(query, centre, 0.0, scale, d, out))
        query[place] = -np.inf
        assert getattr(kernels, f"scaled_rest_{precision}")(query, centre, 0.0, scale, d, out) == np.inf


@pytest.mark.parametrize("d", SIZES)
def test_the_largest_size(kernels, d):
    x = np.random.default_rng(d).normal(size=d).astype(np.float32)
    assert kernels.largest_size(x, d) == np.abs(x).max(initial=0.0)


@pytest.mark.parametrize("d", SIZES[1:])
@pytest.mark.parametrize("place", [np.asarray, unaligned])
def test_an_atom_less_the_centre(kernels, precision, d, place):
    atom, centre = map(place, pair(d, precision))
    look = getattr(kernels, f"look_{precision}")
    words = np.random.default_rng(d).integers(0, 1 << 32, -(-d // 32), dtype=np.uint32)
    signs = 1 - 2 * np.unpackbits(words.view(np.uint8), bitorder="little")[:d].astype(np.float32)

    def look_at(squares):
        x, seen = np.full(d + 1, 99, np.float32), np.zeros(4)
        rest = kernels.Rest(centre.ctypes.data, words.ctypes.data, x.ctypes.data, 7.0, 5.0)
        look(atom, d, 2.5, squares, seen, ctypes.addressof(rest))
        assert x[d] == 99
        return x[:d], seen, rest

    squares, expected_squares, expected_seen = np.full(d, 2.0), np.full(d, 2.0), np.zeros(4)
    x, seen, rest = look_at(squares)
    exact = atom.astype(np.float64) - centre
    np.testing.assert_array_equal(x, exact.astype(np.float32) * signs)
    # The differences themselves are exact in double precision here, so only the sums round.
    products = exact * centre
    assert rest.product - 7.0 == pytest.approx(products.sum(), abs=1e-13 * np.abs(products).sum() + 1e-14)
    assert rest.square - 5.0 == pytest.approx((exact**2).sum(), rel=1e-13, abs=1e-14)
    look(atom, d, 2.5, expected_squares, expected_seen, None)
    np.testing.assert_array_equal(squares, expected_squares)
    np.testing.assert_allclose(seen, expected_seen, rtol=1e-13)
    np.testing.assert_array_equal(look_at(None)[0], x)
    atom[d // 2] = np.nan
    assert np.isnan(look_at(squares)[2].square)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (1, 100), (100, 1), (16, 16), (31, 33), (47, 70), (64, 17)])
@pytest.mark.parametrize("gap", [0, 5])
def test_columns_are_turned_into_rows(kernels, precision, shape, gap):
    n, d = shape
    columns = unaligned(np.random.default_rng(n).normal(size=d * (n + gap)).astype(PRECISIONS[precision]))
    rows = np.full(n * (d + gap) + 1, 99, columns.dtype)
    getattr(kernels, f"turn_{precision}")(columns, (n + gap) * columns.itemsize, n, d, rows, d + gap)
    found = rows[:-1].reshape(n, d + gap)
    np.testing.assert_array_equal(found[:, :d], columns.reshape(d, n + gap)[:, :n].T)
    assert (found[:, d:] == 99).all()
    assert rows[-1] == 99


@pytest.mark.parametrize("d", SIZES)
@pytest.mark.parametrize("place", [np.asarray, unaligned])
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4])
def test_rows_that_come_together_are_each_summed_as_if_alone(kernels, precision, d, place, n_rows):
    query = place(np.random.default_rng(7).normal(size=d))
    rows = [place(pair(d + i, precision)[0][:d].copy()) for i in range(n_rows)]
    for objective, name in enumerate(EXACT_SUMS):
        out = sums_exact(kernels, objective, precision, rows, query, d)
        np.testing.assert_array_equal(out, [sum_of(kernels, name, precision)(row, query, d) for row in rows])
        expected = [float(terms_of(name, row, query).sum()) for row in rows]
        np.testing.assert_allclose(out, expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("d", [511, 4_096, 4_097, 20_000, 300_000])
def test_products_of_floats_are_off_by_few_units(kernels, d):
    """The full product is trusted up to four units of the product of the norms, where sums only grow as well."""
    rng = np.random.default_rng(d)
    for low in (-1.0, 0.0, 1.0):
        rows = rng.uniform(low, 2.0, size=(40, d)).astype(np.float32)
        query = rng.uniform(low, 2.0, size=d).astype(np.float32)
        exact = rows.astype(np.float64) @ query.astype(np.float64)
        unit = np.finfo(np.float32).eps * np.linalg.norm(query) * np.linalg.norm(rows, axis=1)
        alone = np.array([kernels.dot_f32(row, query, d) for row in rows])
        together = np.full(40, -1.0, dtype=np.float32)
        kernels.products_f32(rows, rows.strides[0], 40, query, d, together, None)
        for found in (alone, together):
            assert np.max(np.abs(found - exact) / unit) < 2.0


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("n", SIZES)
def test_ends_of_intervals(kernels, n, absolute):
    rng = np.random.default_rng(n)
    middle, radius = unaligned(rng.normal(size=n)), unaligned(rng.exponential(size=n))
    odd = rng.integers(n, size=n // 50) if n else []
    middle[odd[::2]], radius[odd[1::2]] = np.nan, np.inf
    ranked = np.abs(middle) if absolute else middle
    largest = kernels.largest_lower(middle, radius, n, absolute)
    assert largest == np.nanmax(ranked - radius, initial=-np.inf)
    for bar in (-np.inf, 0.0, 2.5, largest, 50.0, np.inf):
        places = np.full(n, -1)
        count = kernels.reaching(middle, radius, n, absolute, bar, places)
        np.testing.assert_array_equal(places[:count], np.flatnonzero(~(ranked + radius < bar)))
