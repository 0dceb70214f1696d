"""Products of rows with vectors that lie beside each other, and the k best of some numbers, beside NumPy's."""

import numpy as np
import pytest

PRECISIONS = {"f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_vectors", [1, 2])
@pytest.mark.parametrize("size", [1, 5, 31, 32, 33, 64, 100, 512])
def test_products_of_any_number_of_rows(kernels, precision, n_vectors, size):
    rng, dtype = np.random.default_rng(size), PRECISIONS[precision]
    width = n_vectors * getattr(kernels, f"panel_lanes_{precision}")
    for n_rows in (*range(1, 15), 2 * kernels.panel_rows + 3):
        rows, panel = rng.normal(size=(n_rows, size + 3)).astype(dtype), rng.normal(size=(size, width)).astype(dtype)
        expected = rows[:, :size].astype(np.float64) @ panel.astype(np.float64)
        limit = 4.0 * np.finfo(dtype).eps * np.outer(np.linalg.norm(rows, axis=1), np.linalg.norm(panel, axis=0))
        sums = np.full((n_rows + 1, width + 2), -7.0, dtype=dtype)
        of = kernels.Panel(rows.ctypes.data, panel.ctypes.data, None, size + 3, width, size, width + 2, 0)
        for turns in (1, 2, 3):  # what is there is added to, from the second on
            getattr(kernels, f"panel_products_{precision}")(_pointer(of), n_rows, n_vectors, sums)
            assert (np.abs(sums[:n_rows, :width] - turns * expected) <= turns * limit).all()
            of.adds, of.next_rows = 1, rows.ctypes.data
        assert (sums[n_rows:] == -7.0).all()
        assert (sums[:, width:] == -7.0).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("absolute", [0, 1])
def test_maxima_of_groups_and_those_that_reach_a_bar(kernels, precision, absolute):
    rng, dtype, lanes = np.random.default_rng(0), PRECISIONS[precision], getattr(kernels, f"panel_lanes_{precision}")
    for n in (1, 3, 16, 17, 64, 100, 333):
        numbers = rng.normal(size=n).astype(dtype)
        ranked = np.abs(numbers) if absolute else numbers
        for bar in (-np.inf, np.median(ranked), ranked.max()):
            found = np.full(n, np.nan)
            count = getattr(kernels, f"those_reaching_{precision}")(numbers, n, absolute, float(bar), found)
            np.testing.assert_array_equal(np.sort(found[:count]), np.sort(ranked[ranked >= bar]))
            # One that misses a bar by less than a float can tell may be among them; whoever reaches it is.
            for between in (float(bar), float(bar) * (1.0 + 1e-9), float(bar) * (1.0 - 1e-9)):
                places = np.full(n, -1, dtype=np.int64)
                count = getattr(kernels, f"places_reaching_{precision}")(numbers, n, absolute, between, places)
                assert set(np.flatnonzero(ranked.astype(np.float64) >= between)) <= set(places[:count].tolist())
                assert set(places[:count].tolist()) <= set(
                    np.flatnonzero(ranked >= np.nextafter(dtype(bar), dtype(-np.inf)))
                )
                assert (np.diff(places[:count]) > 0).all()
        for n_groups in (lanes, 3 * lanes):
            whole = n // lanes * lanes  # as far as whole vectors go
            maxima = np.full(n_groups + 1, np.nan)
            getattr(kernels, f"group_maxima_{precision}")(numbers, n, absolute, n_groups, maxima)
            expected = [max(ranked[g:whole:n_groups], default=-np.inf) for g in range(n_groups)]
            np.testing.assert_array_equal(maxima[:n_groups], expected)
            assert np.isnan(maxima[n_groups])


def _pointer(struct):
    return np.frombuffer(struct, dtype=np.uint8)
