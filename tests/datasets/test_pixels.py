import numpy as np
import pytest

from banditmips.datasets import load


@pytest.fixture(scope="module")
def strokes():
    return load("pixels", d=6000, n_queries=2, seed=1)


def test_default_shape_is_that_of_the_pixels_of_small_images(strokes):
    assert strokes.atoms.shape == (667, 6000)
    assert strokes.surrogate


def test_mostly_dark_and_never_beyond_a_byte(strokes):
    atoms = strokes.atoms
    assert atoms.min() == 0
    assert atoms.max() == 255
    assert (atoms == np.floor(atoms)).all()
    assert 0.7 < (atoms == 0).mean() < 0.85


def test_rows_are_uneven(strokes):
    density = (strokes.atoms > 0).mean(axis=1)
    assert (density < 0.01).mean() > 0.1
    assert (density > 0.4).mean() > 0.1


def test_neighbours_resemble_each_other_more_than_strangers(strokes):
    bright = (strokes.atoms > 0).mean(axis=1) > 0.3
    for apart, least, most in ((1, 0.6, 1.0), (7, -0.3, 0.3)):
        pairs = np.flatnonzero(bright[:-apart] & bright[apart:])
        correlations = [np.corrcoef(strokes.atoms[[i, i + apart]])[0, 1] for i in pairs]
        assert least < np.median(correlations) < most


def test_queries_are_further_pixels_that_are_seldom_enough_dark(strokes):
    assert ((strokes.queries > 0).mean(axis=1) >= 0.01).all()
    for query in strokes.queries:
        assert not (strokes.atoms == query).all(axis=1).any()


def test_bytes_hold_the_same_values():
    single, byte = (load("pixels", n=90, d=300, dtype=dtype) for dtype in ("float32", "uint8"))
    assert byte.atoms.dtype == byte.queries.dtype == np.uint8
    np.testing.assert_array_equal(byte.atoms, single.atoms)
    np.testing.assert_array_equal(byte.queries, single.queries)


def test_more_images_extend_fewer():
    # One query, and images enough on both sides, so that the same pixels pass the bar for queries.
    few, many = (load("pixels", n=90, d=d, dtype="uint8") for d in (2500, 4500))
    together = np.concatenate([few.atoms, few.queries])
    extended = np.concatenate([many.atoms, many.queries])[:, :2500]
    assert sorted(map(bytes, together)) == sorted(map(bytes, extended))


def test_tiny_requests_work():
    dataset = load("pixels", n=1, d=1, n_queries=3)
    assert dataset.atoms.shape == (1, 1)
    assert dataset.queries.shape == (3, 1)
