"""Rows of a matrix by column, and sums of parts of stretches, in C: for every target of this machine."""

import numpy as np
import pytest

PRECISIONS = {"f32": np.float32, "f64": np.float64}
STRETCH, SUMS, NEIGHBOURS = 2048, 16, 16


def addresses(rows):
    return np.array([0 if row is None else row.ctypes.data for row in rows], dtype=np.uintp)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n_columns", [1, 15, 16, 17, 40])
@pytest.mark.parametrize("wanted", [range(0, 39), [0, 38], [3, 4, 5, 6, 7, 8, 9, 20], [37], range(16, 32)])
def test_some_rows_of_columns(kernels, precision, n_columns, wanted):
    dtype = PRECISIONS[precision]
    matrix = np.asfortranarray(np.random.default_rng(0).normal(size=(39, n_columns)).astype(dtype))
    rows = [np.full(n_columns + 3, -7.0, dtype=dtype) if row in wanted else None for row in range(39)]
    groups = []
    for first in range(0, 39, NEIGHBOURS):
        own = rows[first : first + NEIGHBOURS]
        places = addresses(own + [None] * (NEIGHBOURS - len(own)))
        if places.any():
            head = np.array([first, len(own), np.count_nonzero(places)], dtype=np.uintp)
            groups.append(np.concatenate([head, places]))
    turn = getattr(kernels, f"turn_some_{precision}")
    turn(matrix, matrix.strides[1], n_columns, np.concatenate(groups), len(groups), 2)
    for number, row in enumerate(rows):
        if row is not None:
            np.testing.assert_array_equal(row, [-7.0, -7.0, *matrix[number], -7.0])


@pytest.mark.parametrize("precision", [*PRECISIONS, "of_floats"])
@pytest.mark.parametrize("objective", [0, 1, 2])
@pytest.mark.parametrize("n_queries", [1, 2, 4])
@pytest.mark.parametrize("d", [1, 16, 40, 64, 1_000, 2_048, 3_000])
def test_parts_add_up_to_the_bits_of_whole_rows(request, kernels, precision, objective, n_queries, d):
    rng, own = np.random.default_rng(d), PRECISIONS.get(precision, np.float32)
    row, queries = rng.normal(size=d).astype(own), rng.normal(size=(4, d))
    if precision == "of_floats":
        queries = queries.astype(np.float32)
    part = STRETCH if request.node.callspec.params["kernels"] == "plain" else 64  # without vectors there are no parts
    lanes, sums, expected = np.zeros((n_queries, SUMS)), np.zeros(n_queries), np.empty((n_queries, 4))
    for first in range(0, d, part):
        some, count = addresses([query[first:] for query in queries]), min(part, d - first)
        getattr(kernels, f"add_part_{precision}")(objective, row[first:], some, n_queries, count, lanes)
        if (first + count) % STRETCH == 0 or first + count == d:
            kernels.end_stretch(lanes, n_queries, sums)
            assert not lanes.any()
    for query, found in zip(queries, expected, strict=False):
        alone = kernels.sums_exact_f64 if own == np.float64 else kernels.sums_exact_f32
        alone(objective, addresses([row] * 4), 1, query.astype(np.float64), d, found)
    np.testing.assert_array_equal(sums, expected[:, 0])
